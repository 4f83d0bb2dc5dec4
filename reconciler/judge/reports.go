package judge

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// report is a SandboxReport with what is asked of it often.
type report struct {
	*podstate.Report
	node      []string // its name alone
	hasUnread bool     // it has a sandbox whose addresses no cache entry lists
	// complete are the UIDs of sandboxes that are READY with all of their addresses, incomplete the pods
	// whose sandboxes may have addresses that are not listed.
	complete, incomplete map[string]bool
}

// mention is what a report says of one container ID.
type mention struct {
	report *report
	kind   mentionKind
	*v1alpha1.Sandbox
}

type mentionKind int

const (
	ofSandbox    mentionKind = iota
	ofAttachment             // its Sandbox has no state, and the attachment's time
	ofGone                   // its Sandbox has IDs only
)

// sandboxAddress is an address that a report says is configured in a sandbox.
type sandboxAddress struct {
	mention
	*v1alpha1.Address
}

func (g *mention) pod() string { return g.Namespace + "/" + g.Name }

// addReports indexes the reports by node, then sandboxes before attachments before what is gone, then as they stand
// in the report: the order in which reports are read does not decide.
func (x *Index) addReports() {
	n := 0
	for _, r := range x.o.Reports {
		n += len(r.Sandboxes)
	}
	x.byNode = make(map[string]*report, len(x.o.Reports))
	x.byContainerID, x.sandboxesByAddress = make(map[string][]mention, n), make(map[netip.Addr][]sandboxAddress, n)
	for _, r := range slices.SortedStableFunc(slices.Values(x.o.Reports), func(a, b *podstate.Report) int { return cmp.Compare(a.Name, b.Name) }) {
		rep := &report{Report: r, node: []string{r.Name}, complete: make(map[string]bool, len(r.Sandboxes)), incomplete: map[string]bool{}}
		x.byNode[r.Name] = rep
		x.reports = append(x.reports, rep)
		for i := range r.Sandboxes {
			x.addMention(mention{rep, ofSandbox, &r.Sandboxes[i]})
		}
		for _, a := range r.Attachments {
			x.addMention(mention{rep, ofAttachment, &v1alpha1.Sandbox{ID: a.ID, UID: a.UID, Namespace: a.Namespace, Name: a.Name,
				NetworkClosed: a.NetworkClosed, CreatedAt: a.Since, Addresses: a.Addresses}})
		}
		for _, a := range r.Gone {
			x.addMention(mention{rep, ofGone, &v1alpha1.Sandbox{ID: a.ID, UID: a.UID}})
		}
	}
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

// isReady reports whether a fresh report has a READY sandbox.
func (x *Index) isReady(g *mention) bool {
	return g.report.IsFresh(x.now) && g.kind == ofSandbox && g.State == v1alpha1.SandboxReady
}

// mayRun reports whether a sandbox is Ready, NotReady or Attached as of its report, fresh or stale.
func (x *Index) mayRun(g *mention) bool {
	switch g.kind {
	case ofSandbox:
		return g.State == v1alpha1.SandboxReady || !podstate.IsClosed(g.NetworkClosed)
	case ofAttachment:
		return x.counts(g)
	}
	return false
}

// counts reports whether an attachment is evidence.
func (x *Index) counts(g *mention) bool {
	return g.kind == ofAttachment && g.report.IsEvidence(&v1alpha1.Attachment{Since: g.CreatedAt, NetworkClosed: g.NetworkClosed}, x.now)
}

// holds reports whether a sandbox or attachment may hold its addresses.
func (x *Index) holds(g *mention) bool { return !x.endedWithNode(g.report) && x.mayRun(g) }

// stateOf is what a fresh report's mention proves; ok is false where it proves nothing, or the report is not fresh.
func (x *Index) stateOf(g *mention) (state Sandbox, ok bool) {
	switch {
	case !g.report.IsFresh(x.now):
		return 0, false
	case g.kind == ofGone:
		return Gone, true
	case g.kind == ofAttachment:
		return Attached, x.counts(g)
	case g.State == v1alpha1.SandboxReady:
		return Ready, true
	case g.State == v1alpha1.SandboxNotReady && podstate.IsClosed(g.NetworkClosed):
		return Stopped, true
	}
	return NotReady, true
}

// dead reports whether a node is proven dead by its Node object.
func (x *Index) dead(node string) bool {
	n := x.o.Nodes[node]
	return n != nil && n.IsDead() && !x.past.DoubtsTaint(n)
}

// missing reports whether a node's object is gone.
func (x *Index) missing(node string) bool {
	return len(x.o.Nodes) > 0 && node != "" && x.o.Nodes[node] == nil
}

// notReady reports whether a node is known not to be Ready.
func (x *Index) notReady(node string) bool {
	n := x.o.Nodes[node]
	return n != nil && !n.Ready
}

func (x *Index) hasFreshReport(node string) bool {
	r := x.byNode[node]
	return r != nil && r.IsFresh(x.now)
}

// rebooted reports whether the node runs another boot than at the time of the report, on the same machine. Another
// machine under the name proves nothing of the one before. Without a fresh report of an agent that was there before the
// boot, etcd may just have been restored, and nobody reports it yet: then what the node has run since it booted is not
// known, and its pods may have been given the addresses of entries that the restore brought back.
func (x *Index) rebooted(r *report) bool {
	isReported := !x.freshSince.IsZero() && x.freshSince.Before(r.lastRenewed())
	return isReported && x.hasAnotherBoot(r) && x.o.Nodes[r.Name].Machine.Same(r.Machine)
}

// findFreshSince is since when the first of the reports that are fresh has been there; zero for none, or where that is
// not known.
func findFreshSince(o *Observation) (since time.Time) {
	for _, r := range o.Reports {
		if r.IsFresh(o.Now) && (since.IsZero() || r.CreationTimestamp.Time.Before(since)) {
			since = r.CreationTimestamp.Time
		}
	}
	return since
}

// lastRenewed is when the agent last renewed its Lease, whatever that confirms.
func (r *report) lastRenewed() time.Time {
	if r.LeaseRenewedAt.IsZero() {
		return r.WrittenAt
	}
	return r.LeaseRenewedAt
}

// hasAnotherBoot reports whether the Node is known to be at a later boot than its report.
func (x *Index) hasAnotherBoot(r *report) bool {
	n := x.o.Nodes[r.Name]
	return n != nil && n.BootID != "" && r.BootID != "" && n.BootID != r.BootID && !x.past.DoubtsBoot(n)
}

// isOfAnotherMachine reports whether the machine of a report is known, and its Node names another.
func (x *Index) isOfAnotherMachine(r *report) bool {
	n := x.o.Nodes[r.Name]
	return n != nil && n.Machine.IsKnown() && r.Machine.IsKnown() && n.Machine != r.Machine
}

// isReplaced reports whether another machine runs under the node's name than at the time of the report: what the one
// before ran is then as that of a missing node. A machine ID alone can be made again while everything runs on.
func (x *Index) isReplaced(r *report) bool {
	return !r.IsFresh(x.now) && x.hasAnotherBoot(r) && x.isOfAnotherMachine(r)
}

// expired reports whether the machine of a report has been gone, and its report not renewed, for as long as an
// unconfirmed verdict must hold.
func (x *Index) expired(r *report) bool {
	renewed := r.lastRenewed()
	return !r.IsFresh(x.now) && !renewed.IsZero() && (x.missing(r.Name) || x.isReplaced(r)) && !x.now.Before(renewed.Add(x.policy.missingAfter()))
}

// endedWithNode reports whether what a report lists ended with its node: it is stale, and the node is dead or has
// booted again since.
func (x *Index) endedWithNode(r *report) bool {
	return !r.IsFresh(x.now) && (x.dead(r.Name) || x.rebooted(r))
}
