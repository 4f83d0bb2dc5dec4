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
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// unknown returns a sentence for each thing because of which more addresses may be in use, or be assigned, than are
// seen. Pods and sandboxes whose addresses are unread count if one of their definitions or ranges may lead into what is
// asked about.
func (x *holders) unknown(mayLeadIntoAsked func(*ippool.NAD) bool, isAsked func(facts.NetworkRange) bool,
) (found []string) {
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
	if o, machines := x.j.Observation, x.machines(); len(machines) > 0 && !o.Guests.IsKnown() {
		add(fmt.Sprintf("VirtualMachineInstances cannot be read (%s), so the guests of these pods may have more addresses: ",
			o.Guests.Why()), machines)
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
		case findings.MalformedFinding, findings.UnsupportedRangeFinding:
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
	var pods, sandboxes []string
	for _, u := range x.f.UnreadPods() {
		if u.IsAny || u.NAD == nil || mayLeadIntoAsked(u.NAD) {
			pods = append(pods, u.Pod.String()+" ("+u.Why+")")
		}
	}
	for _, p := range x.j.Observation.Pods { // UnreadPods leaves out networks without a definition
		if x.f.IsUnread(p) && slices.ContainsFunc(p.Networks(), x.isUndefined) {
			pods = append(pods, p.String()+" (a definition that it names does not exist)")
		}
	}
	add("the addresses of these pods are unknown: ", pods)
	for _, u := range x.f.UnreadSandboxes() {
		// One that may have any address has a finding, also where its node is missing for long.
		if x.f.IsObsolete(u.Report) && !u.IsAny || !u.MayHave(mayLeadIntoAsked, isAsked) {
			continue
		}
		text := fmt.Sprintf("%s of %s on %s", u.ID, u.Pod(), u.Report.Name)
		if u.IsAny {
			text += " (" + u.Why + ")"
		}
		sandboxes = append(sandboxes, text)
	}
	add("reports lack addresses of these sandboxes: ", sandboxes)
	return append(found, x.unexported()...)
}

// machines are the pods of virtual machines.
func (x *holders) machines() (names []string) {
	for _, m := range x.j.Observation.Machines() {
		names = append(names, m.String())
	}
	return names
}

// isUndefined reports whether the definitions are known and none has the name.
func (x *holders) isUndefined(name string) bool {
	namespace, short, _ := strings.Cut(name, "/")
	nads, known := x.j.Observation.NADs.Get()
	return known && nads[types.NamespacedName{Namespace: namespace, Name: short}] == nil
}

// mayLeadIntoAsked reports whether a pod of a definition may carry an address that is asked about: the proposal
// replaces it, or it has a range that is asked about.
func (x *asked) mayLeadIntoAsked(nad *ippool.NAD) bool {
	return x.isReplaced(nad) || slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
		return slices.ContainsFunc(n.Ranges, func(r netip.Prefix) bool {
			return x.isAskedRange(facts.NetworkRange{Network: n.Name, Prefix: r})
		})
	})
}

// isAskedRange reports whether a range has addresses that are asked about: of the proposal, or of the pools of today.
// One that cannot be read may have any.
func (x *asked) isAskedRange(r facts.NetworkRange) bool {
	if !x.networks[r.Network] || !r.Prefix.IsValid() {
		return x.networks[r.Network]
	}
	return slices.ContainsFunc(x.p.Networks, func(n ippool.Network) bool {
		return slices.ContainsFunc(n.Ranges, r.Prefix.Overlaps)
	}) || slices.ContainsFunc(x.p.Pools, func(p *usage.Pool) bool { return r.Prefix.Overlaps(p.Range.Prefix()) })
}

// unknown returns a sentence for each thing because of which a cluster may have more than is seen.
func (x *side) unknown() (found []string) {
	found = x.holders.unknown(func(*ippool.NAD) bool { return true }, func(facts.NetworkRange) bool { return true })
	if x.WithoutAgents {
		found = append(found, "there are no SandboxReports, so what sandboxes without a pod carry cannot be seen: add "+
			"them and their Leases to the snapshot, if node agents run")
	} else if names := x.withoutAgent(); len(names) > 0 {
		found = append(found, "these nodes have no agent, so what sandboxes without a pod carry there cannot be seen: "+
			facts.AtMost(names, 5))
	}
	for i := range found {
		found[i] = x.Label + ": " + strings.TrimSuffix(found[i], ".")
	}
	return found
}

// withoutAgent are the nodes of a cluster with agents that need none, as --agent-nodes says, and have no report.
func (x *side) withoutAgent() (names []string) {
	for name := range x.Observation.Nodes.Or(nil) {
		if _, hasState := x.Nodes[name]; !hasState {
			names = append(names, name)
		}
	}
	return facts.SortedUnique(names)
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
		found = append(found, "these namespaces have allocations or reservations and no pods, so what their pods carry "+
			"cannot be seen: export them, or use --pods-complete if they have none: "+facts.AtMost(lacking, 5))
	}
	if o.Cut != "" {
		found = append(found, fmt.Sprintf("sysdump wrote %s, but the archive's manifest.json is missing, so other files may "+
			"be missing, too", o.Cut))
	}
	return found
}
