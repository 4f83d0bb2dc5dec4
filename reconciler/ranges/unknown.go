package ranges

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// unknown returns a sentence for each thing because of which more addresses may be in use, or be assigned, than are
// seen. Pods whose addresses are unread count if a definition of theirs may lead into what is asked about.
func (x *holders) unknown(mayLeadIntoAsked func(*ippool.NAD) bool) (found []string) {
	add := func(text string, names []string) {
		if len(names) > 0 {
			found = append(found, text+facts.AtMost(facts.SortedUnique(names), 5))
		}
	}
	for _, s := range x.j.Observation.UnknownSources() {
		kinds := findings.KindsOf(s.Name)
		if s.Name == facts.SourceReservations || slices.Contains(kinds, findings.Unrecorded) ||
			slices.Contains(kinds, findings.GuestAddressFinding) {
			found = append(found, fmt.Sprintf("%s cannot be read (%s)", s.Name, s.Unknown))
		}
	}
	var unreadable, onNodes []string
	for name, nad := range x.j.Observation.NADs.Or(map[types.NamespacedName]*ippool.NAD{}) {
		switch {
		case nad == nil || nad.Problem == "":
		case nad.IsOnNodes():
			onNodes = append(onNodes, name.String())
		default:
			unreadable = append(unreadable, name.String())
		}
	}
	add("these NetworkAttachmentDefinitions cannot be read, and may assign the same addresses: ", unreadable)
	add("these NetworkAttachmentDefinitions are configured on the nodes, so their ranges are unknown: ", onNodes)
	for _, f := range x.j.Findings {
		switch f.Kind {
		case findings.MalformedFinding, findings.UnreadSandbox, findings.UnsupportedRangeFinding:
			found = append(found, f.Message)
		}
	}
	var silent []string
	for name, state := range x.j.Nodes {
		if state == facts.NodeNoFreshReport {
			silent = append(silent, name)
		}
	}
	if !x.j.WithoutAgents {
		add("these nodes have no fresh SandboxReport, so their sandboxes may carry more: ", silent)
	}
	var pods []string
	for _, u := range x.f.UnreadPods() {
		if u.IsAny || u.NAD == nil || mayLeadIntoAsked(u.NAD) {
			pods = append(pods, u.Pod.String()+" ("+u.Why+")")
		}
	}
	add("the addresses of these pods are unknown: ", pods)
	return append(found, x.unexported()...)
}

// mayLeadIntoAsked reports whether a pod of a definition may carry an address that is asked about: of the proposal, or
// of the pools of today.
func (x *asked) mayLeadIntoAsked(nad *ippool.NAD) bool {
	if x.isReplaced(nad) {
		return true
	}
	var asked []netip.Prefix
	for _, n := range x.p.Networks {
		asked = append(asked, n.Ranges...)
	}
	for _, p := range x.p.Pools {
		asked = append(asked, p.Range.Prefix())
	}
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
		return x.networks[n.Name] && slices.ContainsFunc(n.Ranges, func(r netip.Prefix) bool {
			return slices.ContainsFunc(asked, r.Overlaps)
		})
	})
}

// unknown returns a sentence for each thing because of which a cluster may have more than is seen.
func (x *side) unknown() (found []string) {
	found = x.holders.unknown(func(*ippool.NAD) bool { return true })
	if x.WithoutAgents {
		found = append(found, "there are no SandboxReports, so what sandboxes without a pod carry cannot be seen: add "+
			"them and their Leases to the snapshot, if node agents run")
	}
	for i := range found {
		found[i] = x.Label + ": " + strings.TrimSuffix(found[i], ".")
	}
	return found
}

// unexported returns a sentence for each thing that an observation may lack although none of its lists says so.
func (x *holders) unexported() (found []string) {
	o := x.j.Observation
	switch lacking := o.LackingPods; {
	case o.PodsComplete:
	case len(o.Pods) == 0:
		found = append(found, "there are no pods, so what they carry cannot be seen: export them, or use --pods-complete if "+
			"the cluster has none")
	case len(lacking) > 0:
		found = append(found, "these namespaces have allocations and no pods, so what their pods carry cannot be seen: "+
			"export them, or use --pods-complete if they have none: "+facts.AtMost(lacking, 5))
	}
	if o.Cut != "" {
		found = append(found, fmt.Sprintf("sysdump wrote %s, but the archive's manifest.json is missing, so other files may "+
			"be missing, too", o.Cut))
	}
	return found
}
