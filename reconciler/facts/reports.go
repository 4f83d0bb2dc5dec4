package facts

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Report is a SandboxReport with what is often looked up.
type Report struct {
	*podstate.Report
	OnNode    []string // its name
	HasUnread bool     // a sandbox or attachment has addresses that the report does not have
	// complete are the UIDs of READY sandboxes with all of their addresses. incomplete are the pods whose sandboxes may
	// have addresses that are not listed.
	Complete, incomplete map[string]bool
}

// Mention is an entry of a report about one container ID.
type Mention struct {
	Report *Report
	Kind   MentionKind
	*v1alpha1.Sandbox
}

// MentionKind is the part of a report that a Mention is of.
type MentionKind int

const (
	OfSandbox    MentionKind = iota
	OfAttachment             // its Sandbox has no state, and the attachment's time
	OfGone                   // its Sandbox has IDs only, and the time of its end
)

// SandboxAddress is an address of a sandbox, by a report.
type SandboxAddress struct {
	Mention
	*v1alpha1.Address
}

// MentionOf is a mention of one of the report's sandboxes.
func (r *Report) MentionOf(b *v1alpha1.Sandbox) *Mention { return &Mention{r, OfSandbox, b} }

// Pod is "<namespace>/<name>" of the sandbox's pod.
func (g *Mention) Pod() string { return g.Namespace + "/" + g.Name }

// addReports indexes the reports by node, sandboxes before attachments before what is gone. The order in which reports
// were read does not matter.
func (f *Facts) addReports() {
	n, reports := 0, f.o.Reports.Or(nil)
	for _, r := range reports {
		n += len(r.Sandboxes)
	}
	f.byNode = make(map[string]*Report, len(reports))
	f.byContainerID, f.sandboxesByAddress = make(map[string][]Mention, n), make(map[netip.Addr][]SandboxAddress, n)
	byName := func(a, b *podstate.Report) int { return cmp.Compare(a.Name, b.Name) }
	for _, r := range slices.SortedStableFunc(slices.Values(reports), byName) {
		rep := &Report{Report: r, OnNode: []string{r.Name},
			Complete: make(map[string]bool, len(r.Sandboxes)), incomplete: map[string]bool{}}
		f.byNode[r.Name] = rep
		f.reports = append(f.reports, rep)
		for i := range r.Sandboxes {
			f.addMention(Mention{rep, OfSandbox, &r.Sandboxes[i]})
		}
		for i := range r.Attachments {
			f.addMention(*NewAttachment(rep, &r.Attachments[i]))
		}
		for _, a := range r.Gone {
			f.addMention(Mention{rep, OfGone, &v1alpha1.Sandbox{ID: a.ID, UID: a.UID, CreatedAt: a.Since}})
		}
	}
}

// NewAttachment is a mention of one of a report's attachments.
func NewAttachment(r *Report, a *v1alpha1.Attachment) *Mention {
	return &Mention{r, OfAttachment, &v1alpha1.Sandbox{ID: a.ID, UID: a.UID, Namespace: a.Namespace, Name: a.Name,
		NetworkClosed: a.NetworkClosed, CreatedAt: a.Since, Addresses: a.Addresses, AddressesUnread: a.AddressesUnread,
		MayCarry: a.MayCarry}}
}

// Unread are the sandboxes and attachments with addresses that the report does not have.
func (r *Report) Unread() iter.Seq[*Mention] {
	return func(yield func(*Mention) bool) {
		if !r.HasUnread {
			return
		}
		for i := range r.Sandboxes {
			if r.Sandboxes[i].AddressesUnread && !yield(r.MentionOf(&r.Sandboxes[i])) {
				return
			}
		}
		for i := range r.Attachments {
			if r.Attachments[i].AddressesUnread && !yield(NewAttachment(r, &r.Attachments[i])) {
				return
			}
		}
	}
}

func (f *Facts) addMention(g Mention) {
	if g.ID != "" {
		f.byContainerID[g.ID] = append(f.byContainerID[g.ID], g)
	}
	for i := range g.Addresses {
		if addr, ok := podstate.ParseAddress(g.Addresses[i]); ok {
			f.sandboxesByAddress[addr] = append(f.sandboxesByAddress[addr], SandboxAddress{g, &g.Addresses[i]})
		}
	}
	isReady := g.Kind == OfSandbox && g.State == v1alpha1.SandboxReady
	g.Report.HasUnread = g.Report.HasUnread || g.AddressesUnread
	switch {
	case g.Kind == OfGone, !isReady && podstate.IsClosed(g.NetworkClosed):
	case g.Kind == OfAttachment, len(g.Addresses) == 0, g.AddressesUnread:
		g.Report.incomplete[g.Pod()] = true
	case isReady:
		g.Report.Complete[g.UID] = true
	}
}

// IsReady reports whether a fresh report has the sandbox as READY.
func (f *Facts) IsReady(g *Mention) bool {
	return g.Report.IsFresh(f.now) && g.Kind == OfSandbox && g.State == v1alpha1.SandboxReady
}

// MayRun reports whether a sandbox is Ready, NotReady or Attached by its report, fresh or expired. A network whose
// state is unknown may exist, however old the sandbox is.
func (f *Facts) MayRun(g *Mention) bool {
	return g.Kind != OfGone && (g.State == v1alpha1.SandboxReady || !podstate.IsClosed(g.NetworkClosed))
}

// RenewalGrace is how long after a renewal of its Lease an agent is not silent, whatever content the Lease confirms.
const RenewalGrace = time.Minute

// MayHoldAddress reports whether a sandbox or attachment may use its addresses.
func (f *Facts) MayHoldAddress(g *Mention) bool { return !f.HasEndedWithNode(g.Report) && f.MayRun(g) }

// IsDead reports whether a node is proven dead by its Node object.
func (f *Facts) IsDead(node string) bool {
	n := f.nodes[node]
	return n != nil && n.IsDead() && !f.doubts.DoubtsTaint(n)
}

// IsMissing reports whether a node has no Node object, for another reason than a restore of etcd. Where nodes are
// unknown, none is missing.
func (f *Facts) IsMissing(node string) bool {
	return f.hasNodes && node != "" && f.nodes[node] == nil && f.LosesNode(node) == ""
}

// LosesNode returns the ID of the restore of etcd that has lost the Node object of a node which runs on; "" for none.
func (f *Facts) LosesNode(node string) (id string) { return f.doubts.LosesNode(node) }

// knowsWhoReports reports whether it is known which nodes have a fresh report. A node without a Node object may have
// one.
func (f *Facts) knowsWhoReports() bool {
	return f.o.Reports.IsKnown() && (len(f.reports) == 0 || f.o.AgentLeases.IsKnown())
}

// IsNotReady reports whether the Node object of a node exists and is not Ready.
func (f *Facts) IsNotReady(node string) bool {
	n := f.nodes[node]
	return n != nil && !n.Ready
}

// ProvesAbsence reports whether what a node's report does not list is not on the node: the report is fresh, and of the
// machine of the Node object.
func (f *Facts) ProvesAbsence(node string) bool {
	r := f.byNode[node]
	return r != nil && r.IsFresh(f.now) && f.IsOfItsNode(r)
}

// lastRenewed is when the agent last renewed its Lease, for whatever content.
func (r *Report) lastRenewed() time.Time {
	if r.LeaseRenewedAt.IsZero() {
		return r.WrittenAt
	}
	return r.LeaseRenewedAt
}

// IsOfItsNode reports whether a report certainly is of the machine of its Node: both machine IDs are equal. An ID that
// one of them lacks is not equal; the boot ID then decides, which is of one boot of one machine. If only this Node
// object does not exist, no other machine has the name. If nodes are unknown, so is its machine.
func (f *Facts) IsOfItsNode(r *Report) bool {
	n := f.nodes[r.Name]
	switch {
	case n == nil:
		return f.hasNodes
	case n.Machine.Same(r.Machine):
		return true
	case n.Machine.Differs(r.Machine):
		return false
	}
	return n.BootID != "" && n.BootID == r.BootID
}

// IsObsolete reports whether the node of a report is missing, and the report was not renewed for
// Policy.MissingAfter.
func (f *Facts) IsObsolete(r *Report) bool {
	renewed := r.lastRenewed()
	return !r.IsFresh(f.now) && !renewed.IsZero() && f.IsMissing(r.Name) && f.knowsWhoReports() &&
		!f.now.Before(renewed.Add(f.policy.missingAfter()))
}

// HasEndedWithNode reports whether everything in a report has ended: the report is expired, and the node is dead. A
// boot since the report is no proof: etcd may have been restored, and nobody may have detected it. Then a pod of the
// new boot may have the address by an allocation that was lost. The node's agent must report first.
func (f *Facts) HasEndedWithNode(r *Report) bool {
	return !r.IsFresh(f.now) && f.IsDead(r.Name)
}

// ReportedAt is when the content of a report was last known to be true, by the API server's clock; zero if unknown.
func (r *Report) ReportedAt() time.Time {
	if r.ConfirmedAt.After(r.WrittenAt) {
		return r.ConfirmedAt
	}
	return r.WrittenAt
}
