package judge

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// report is a SandboxReport with what is often looked up.
type report struct {
	*podstate.Report
	node      []string // its name
	hasUnread bool     // a sandbox has addresses that no CNI cache file lists
	// complete are the UIDs of READY sandboxes with all of their addresses. incomplete are the pods whose sandboxes may
	// have addresses that are not listed.
	complete, incomplete map[string]bool
}

// mention is an entry of a report about one container ID.
type mention struct {
	report *report
	kind   mentionKind
	*v1alpha1.Sandbox
}

type mentionKind int

const (
	ofSandbox    mentionKind = iota
	ofAttachment             // its Sandbox has no state, and the attachment's time
	ofGone                   // its Sandbox has IDs only, and the time of its end
)

// sandboxAddress is an address of a sandbox, by a report.
type sandboxAddress struct {
	mention
	*v1alpha1.Address
}

func (g *mention) pod() string { return g.Namespace + "/" + g.Name }

// addReports indexes the reports by node, sandboxes before attachments before what is gone. The order in which reports
// were read does not matter.
func (x *Index) addReports() {
	n, reports := 0, x.o.Reports.Or(nil)
	for _, r := range reports {
		n += len(r.Sandboxes)
	}
	x.byNode = make(map[string]*report, len(reports))
	x.byContainerID, x.sandboxesByAddress = make(map[string][]mention, n), make(map[netip.Addr][]sandboxAddress, n)
	byName := func(a, b *podstate.Report) int { return cmp.Compare(a.Name, b.Name) }
	for _, r := range slices.SortedStableFunc(slices.Values(reports), byName) {
		rep := &report{Report: r, node: []string{r.Name},
			complete: make(map[string]bool, len(r.Sandboxes)), incomplete: map[string]bool{}}
		x.byNode[r.Name] = rep
		x.reports = append(x.reports, rep)
		for i := range r.Sandboxes {
			x.addMention(mention{rep, ofSandbox, &r.Sandboxes[i]})
		}
		for i := range r.Attachments {
			x.addMention(*newAttachment(rep, &r.Attachments[i]))
		}
		for _, a := range r.Gone {
			x.addMention(mention{rep, ofGone, &v1alpha1.Sandbox{ID: a.ID, UID: a.UID, CreatedAt: a.Since}})
		}
	}
}

func newAttachment(r *report, a *v1alpha1.Attachment) *mention {
	return &mention{r, ofAttachment, &v1alpha1.Sandbox{ID: a.ID, UID: a.UID, Namespace: a.Namespace, Name: a.Name,
		NetworkClosed: a.NetworkClosed, CreatedAt: a.Since, Addresses: a.Addresses}}
}

func (x *Index) addMention(g mention) {
	if g.ID != "" {
		x.byContainerID[g.ID] = append(x.byContainerID[g.ID], g)
	}
	for i := range g.Addresses {
		if addr, ok := podstate.ParseAddress(g.Addresses[i]); ok {
			x.sandboxesByAddress[addr] = append(x.sandboxesByAddress[addr], sandboxAddress{g, &g.Addresses[i]})
		}
	}
	isReady := g.kind == ofSandbox && g.State == v1alpha1.SandboxReady
	g.report.hasUnread = g.report.hasUnread || g.AddressesUnread
	switch {
	case g.kind == ofGone, !isReady && podstate.IsClosed(g.NetworkClosed):
	case g.kind == ofAttachment, len(g.Addresses) == 0, g.AddressesUnread:
		g.report.incomplete[g.pod()] = true
	case isReady:
		g.report.complete[g.UID] = true
	}
}

func (x *Index) isReady(g *mention) bool {
	return g.report.IsFresh(x.now) && g.kind == ofSandbox && g.State == v1alpha1.SandboxReady
}

// mayRun reports whether a sandbox is Ready, NotReady or Attached by its report, fresh or expired. A network whose
// state is unknown may exist, however old the sandbox is.
func (x *Index) mayRun(g *mention) bool {
	return g.kind != ofGone && (g.State == v1alpha1.SandboxReady || !podstate.IsClosed(g.NetworkClosed))
}

// renewalGrace is how long after a renewal of its Lease an agent is not silent, whatever content the Lease confirms.
const renewalGrace = time.Minute

// mayHoldAddress reports whether a sandbox or attachment may use its addresses.
func (x *Index) mayHoldAddress(g *mention) bool { return !x.hasEndedWithNode(g.report) && x.mayRun(g) }

// isDead reports whether a node is proven dead by its Node object.
func (x *Index) isDead(node string) bool {
	n := x.nodes[node]
	return n != nil && n.IsDead() && !x.doubts.DoubtsTaint(n)
}

// isMissing reports whether a node has no Node object. Where nodes are unknown, none is missing.
func (x *Index) isMissing(node string) bool {
	return x.hasNodes && node != "" && x.nodes[node] == nil
}

// knowsWhoReports reports whether it is known which nodes have a fresh report. A node without a Node object may have
// one.
func (x *Index) knowsWhoReports() bool {
	return x.o.Reports.IsKnown() && (len(x.reports) == 0 || x.o.AgentLeases.IsKnown())
}

func (x *Index) isNotReady(node string) bool {
	n := x.nodes[node]
	return n != nil && !n.Ready
}

// provesAbsence reports whether what a node's report does not list is not on the node: the report is fresh, and of the
// machine of the Node object.
func (x *Index) provesAbsence(node string) bool {
	r := x.byNode[node]
	return r != nil && r.IsFresh(x.now) && x.isOfItsNode(r)
}

// lastRenewed is when the agent last renewed its Lease, for whatever content.
func (r *report) lastRenewed() time.Time {
	if r.LeaseRenewedAt.IsZero() {
		return r.WrittenAt
	}
	return r.LeaseRenewedAt
}

// isOfItsNode reports whether a report certainly is of the machine of its Node: both machine IDs are equal. An ID that
// one of them lacks is not equal; the boot ID then decides, which is of one boot of one machine. If only this Node
// object does not exist, no other machine has the name. If nodes are unknown, so is its machine.
func (x *Index) isOfItsNode(r *report) bool {
	n := x.nodes[r.Name]
	switch {
	case n == nil:
		return x.hasNodes
	case n.Machine.Same(r.Machine):
		return true
	case n.Machine.Differs(r.Machine):
		return false
	}
	return n.BootID != "" && n.BootID == r.BootID
}

// isObsolete reports whether the node of a report is missing, and the report was not renewed for
// Policy.MissingAfter.
func (x *Index) isObsolete(r *report) bool {
	renewed := r.lastRenewed()
	return !r.IsFresh(x.now) && !renewed.IsZero() && x.isMissing(r.Name) && x.knowsWhoReports() &&
		!x.now.Before(renewed.Add(x.policy.missingAfter()))
}

// hasEndedWithNode reports whether everything in a report has ended: the report is expired, and the node is dead. A
// boot since the report is no proof: etcd may have been restored, and nobody may have detected it. Then a pod of the
// new boot may have the address by an allocation that was lost. The node's agent must report first.
func (x *Index) hasEndedWithNode(r *report) bool {
	return !r.IsFresh(x.now) && x.isDead(r.Name)
}

// reportedAt is when the content of a report was last known to be true, by the API server's clock; zero if unknown.
func (r *report) reportedAt() time.Time {
	if r.ConfirmedAt.After(r.WrittenAt) {
		return r.ConfirmedAt
	}
	return r.WrittenAt
}
