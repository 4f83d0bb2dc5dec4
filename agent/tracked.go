package agent

import (
	"math"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// maxAddresses is how many a SandboxReport accepts for one sandbox.
const maxAddresses = 128

// trackedSandbox is what a NodeInspector remembers of an id: what need not be asked again
// of a sandbox in the state it is in, and what it was when it is not listed any more.
type trackedSandbox struct {
	last          v1alpha1.Sandbox // as it was last observed
	listed        bool             // in the last inspection
	attachedSince time.Time        // when it was listed no more, or its cache entry appeared
	detailed      bool             // detail was fetched by this agent,
	detailedReady bool             // when the sandbox was ready
	detail        cri.Detail
	statusErr     error     // why its status is not known
	retryAt       time.Time // when to fetch it again after that
	// noWhereabouts: its cache entry was complete, and had nothing of whereabouts. DEL
	// removes the entry, so this is remembered.
	noWhereabouts bool
	// addressesComplete: last.Addresses are all that it has.
	addressesComplete bool
	// otherMachine: it is from a report that may be another machine's, where it may still
	// run: that its network is gone here proves nothing.
	otherMachine bool
}

// Resume takes over what an earlier agent by this node's name reported. If it is not known
// to have run on this machine, its ids and their addresses still show what may be in use,
// and nothing shows that they ended.
func (ni *NodeInspector) Resume(report *v1alpha1.SandboxReport, thisMachine bool) {
	if ni.tracked == nil {
		ni.tracked = map[string]*trackedSandbox{}
	}
	resume := func(t trackedSandbox) {
		if t.otherMachine = !thisMachine; ni.tracked[t.last.ID] == nil {
			ni.tracked[t.last.ID] = &t
		}
	}
	for i := range report.Attachments {
		a := &report.Attachments[i]
		resume(trackedSandbox{attachedSince: a.Since.Time, detail: cri.Detail{NetNS: a.NetNS},
			last: v1alpha1.Sandbox{ID: a.ID, Namespace: a.Namespace, Name: a.Name, UID: a.UID, Addresses: a.Addresses}})
	}
	for _, s := range report.Sandboxes {
		resume(trackedSandbox{attachedSince: report.ObservedAt.Time, detail: cri.Detail{NetNS: s.NetNS},
			last: s, addressesComplete: !s.AddressesUnread && len(s.Addresses) > 0})
	}
}

// describeSandbox joins a sandbox that the runtime lists with what else is known of it.
func (ni *NodeInspector) describeSandbox(s cri.Sandbox, entry *cnicache.Entry, netns *netnsDirs) ListedSandbox {
	t := ni.tracked[s.ID]
	out := ListedSandbox{
		Sandbox: v1alpha1.Sandbox{
			ID: s.ID, Namespace: s.Namespace, Name: s.Name, UID: s.UID, Attempt: min(s.Attempt, math.MaxInt32),
			State: v1alpha1.SandboxNotReady, CreatedAt: creationTime(s.CreatedAt), NetworkClosed: t.detail.NetworkClosed,
			NetNS: t.detail.NetNS,
		},
		Irrelevant: t.detail.Network == cri.HostNetwork || t.noWhereabouts,
	}
	if s.Ready {
		out.State, t.otherMachine = v1alpha1.SandboxReady, false
	}
	paths := t.netnsPaths()
	if entry != nil && len(paths) == 0 {
		paths = entry.NetNS
	}
	if out.NetworkClosed == nil {
		out.NetworkClosed = netns.closed(paths, true)
	}
	out.NetworkClosed = t.closedHere(out.NetworkClosed)
	switch {
	case s.Ready || !podstate.IsClosed(out.NetworkClosed):
		out.Addresses = t.addresses(entry)
		if out.AddressesUnread = !t.addressesComplete && !out.Irrelevant; out.AddressesUnread && entry != nil {
			out.MayCarry = entry.MayCarry
		}
	case entry != nil:
		out.Addresses = entry.Addresses
	}
	t.last = out.Sandbox
	return out
}

// addresses returns those of a sandbox that may use them. If its entry is not complete,
// an interface that is not in the entry keeps the addresses that it was last known with.
func (t *trackedSandbox) addresses(entry *cnicache.Entry) []v1alpha1.Address {
	if entry != nil && entry.AddressesComplete {
		t.addressesComplete = true
		return entry.Addresses
	}
	var all []v1alpha1.Address
	if entry != nil {
		all = slices.Clone(entry.Addresses)
	}
	cached := len(all)
	for _, a := range t.last.Addresses {
		if !slices.ContainsFunc(all[:cached], func(b v1alpha1.Address) bool { return a.IfName == b.IfName }) && len(all) < maxAddresses {
			all = append(all, a)
		}
	}
	return all
}

func (t *trackedSandbox) attachment(closed *bool) v1alpha1.Attachment {
	return v1alpha1.Attachment{
		ID: t.last.ID, Since: apiTime(t.attachedSince), NetworkClosed: closed, NetNS: t.detail.NetNS,
		Namespace: t.last.Namespace, Name: t.last.Name, UID: t.last.UID, Addresses: t.last.Addresses,
	}
}

// closedHere returns what was found out here about its network namespace, as far as that
// can be its own.
func (t *trackedSandbox) closedHere(closed *bool) *bool {
	if t.otherMachine && podstate.IsClosed(closed) {
		return nil
	}
	return closed
}

func (t *trackedSandbox) netnsPaths() []string {
	if t.detail.NetNS == "" {
		return nil
	}
	return []string{t.detail.NetNS}
}

// knownOpen reports whether a network namespace is known to exist.
func knownOpen(closed *bool) bool { return closed != nil && !*closed }
