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

const (
	// maxAddresses is what a SandboxReport takes for one sandbox.
	maxAddresses = 64
	// closingFor is how long after a sandbox stopped the end of its network is worth
	// looking for more often than usual: a DEL takes seconds.
	closingFor = time.Minute
)

// trackedSandbox is what is remembered of an id: what need not be asked again of a sandbox in
// the state it is in, and what it was when it is listed no more.
type trackedSandbox struct {
	last          v1alpha1.Sandbox // as it was last seen
	listed        bool             // in the last look
	unlistedSince time.Time        // when it was listed no more
	detailed      bool             // for its details, by this agent
	detailedReady bool             // when it was asked for them
	detail        cri.Detail
	// networkModeKnown: whether it is on the host network was told.
	networkModeKnown bool
	stoppedAt        time.Time // when it was first seen not to be ready
	// statusFailures is how often in a row its status could not be asked for, and retry
	// when to ask again.
	statusFailures int
	retryAt        time.Time
	statusErr      error // why its status is not known
	// noWhereabouts: its caches were complete, and had nothing of whereabouts. DEL
	// empties them, so this is remembered.
	noWhereabouts bool
	// addressesComplete: the last addresses are all that it has.
	addressesComplete bool
	// otherMachine: it is of a report that may be another machine's, where it may run on:
	// that its network is gone here tells nothing.
	otherMachine bool
}

// Resume takes what an earlier agent by this node's name knew of what it saw. Of a
// machine that is not known to be this one, ids and their addresses still say what
// may be in use, and nothing says that it ended.
func (e *NodeInspector) Resume(report *v1alpha1.SandboxReport, thisMachine bool) {
	recalled := map[string]*trackedSandbox{}
	for i := range report.Sandboxes {
		s := report.Sandboxes[i]
		recalled[s.ID] = &trackedSandbox{last: s, unlistedSince: report.ObservedAt.Time, detail: cri.Detail{NetNS: s.NetNS},
			addressesComplete: !s.AddressesUnread && len(s.Addresses) > 0, otherMachine: !thisMachine}
	}
	for i := range report.Attachments {
		a := &report.Attachments[i]
		recalled[a.ID] = &trackedSandbox{unlistedSince: a.Since.Time, detail: cri.Detail{NetNS: a.NetNS}, otherMachine: !thisMachine, last: v1alpha1.Sandbox{
			ID: a.ID, Namespace: a.Namespace, Name: a.Name, UID: a.UID, Addresses: a.Addresses,
		}}
	}
	for id, k := range recalled {
		if _, ok := e.tracked[id]; !ok && e.tracked != nil {
			e.tracked[id] = k
		}
	}
	if e.tracked == nil {
		e.tracked = recalled
	}
}

// describeSandbox is a sandbox that the runtime lists, with what else is known of it.
func (e *NodeInspector) describeSandbox(s cri.Sandbox, entry *cnicache.Entry, namespaces *netnsDirs) ListedSandbox {
	k := e.tracked[s.ID]
	out := ListedSandbox{
		Sandbox: v1alpha1.Sandbox{
			ID: s.ID, Namespace: s.Namespace, Name: s.Name, UID: s.UID, Attempt: min(s.Attempt, math.MaxInt32),
			State: v1alpha1.SandboxNotReady, CreatedAt: creationTime(s.CreatedAt), NetworkClosed: k.detail.NetworkClosed,
			NetNS: k.detail.NetNS,
		},
		Irrelevant: k.detail.HostNetwork || k.noWhereabouts,
	}
	if s.Ready {
		out.State, k.otherMachine = v1alpha1.SandboxReady, false
	}
	paths := k.netnsPaths()
	if entry != nil && len(paths) == 0 {
		paths = entry.NetNS
	}
	if out.NetworkClosed == nil {
		out.NetworkClosed = namespaces.closed(paths)
	}
	out.NetworkClosed = k.closedHere(out.NetworkClosed)
	switch {
	case s.Ready || !podstate.Closed(out.NetworkClosed):
		out.Addresses = k.addresses(entry)
		out.AddressesUnread = !k.addressesComplete && !out.Irrelevant
	case entry != nil:
		out.Addresses = entry.Addresses
	}
	k.last = out.Sandbox
	return out
}

// addresses are those of a sandbox that may use them. Where its entry does not tell
// all, an interface that it does not tell of has those that it was last known with.
func (k *trackedSandbox) addresses(entry *cnicache.Entry) []v1alpha1.Address {
	if entry != nil && entry.AddressesComplete {
		k.addressesComplete = true
		return entry.Addresses
	}
	var all []v1alpha1.Address
	if entry != nil {
		all = slices.Clone(entry.Addresses)
	}
	tells := len(all)
	for _, a := range k.last.Addresses {
		if !slices.ContainsFunc(all[:tells], func(b v1alpha1.Address) bool { return a.IfName == b.IfName }) && len(all) < maxAddresses {
			all = append(all, a)
		}
	}
	return all
}

func (k *trackedSandbox) attachment(closed *bool) v1alpha1.Attachment {
	return v1alpha1.Attachment{
		ID: k.last.ID, Since: apiTime(k.unlistedSince), NetworkClosed: closed, NetNS: k.detail.NetNS,
		Namespace: k.last.Namespace, Name: k.last.Name, UID: k.last.UID, Addresses: k.last.Addresses,
	}
}

// closedHere is what is seen here of its network, as far as that is this sandbox's own.
func (k *trackedSandbox) closedHere(closed *bool) *bool {
	if k.otherMachine && podstate.Closed(closed) {
		return nil
	}
	return closed
}

func (k *trackedSandbox) netnsPaths() []string {
	if k.detail.NetNS == "" {
		return nil
	}
	return []string{k.detail.NetNS}
}

// knownOpen reports whether a network namespace is known to be there.
func knownOpen(closed *bool) bool { return closed != nil && !*closed }
