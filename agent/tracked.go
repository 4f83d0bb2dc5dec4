package agent

import (
	"math"
	"os"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// trackedSandbox is what a NodeInspector remembers of an id, also when the runtime does not list it any more.
type trackedSandbox struct {
	sandbox       v1alpha1.Sandbox // as last observed
	isListed      bool             // in the last inspection
	attachedSince time.Time        // when the id was listed no longer, or its cache entry appeared
	hasDetail     bool             // this agent fetched detail
	detailReady   bool             // the sandbox was ready when detail was fetched
	detail        cri.Detail
	netns         []string  // paths of its network namespace, by the runtime, the caches and the report before
	statusErr     error     // error of the last status call
	retryAt       time.Time // time of the next status call after an error
	// hasNoWhereabouts: the cache entry was complete without whereabouts. DEL removes the entry, so this is remembered.
	hasNoWhereabouts bool
	// hadAddresses: an address was known once, or some were unread in the report before. If the result of a network that
	// was plugged in later is lost, the other files look complete. The sandbox must stay in the report all the same.
	hadAddresses bool
	// hasAllAddresses: sandbox.Addresses are all that it has.
	hasAllAddresses bool
	// isOtherMachine: the id comes from a report that may be another machine's, where the sandbox may still run. A
	// missing namespace on this machine proves nothing.
	isOtherMachine bool
}

// Resume takes over the report of an earlier agent for this node. If that agent may have run on another machine,
// its ids and addresses may be in use, and nothing on this machine proves that they ended.
func (ni *NodeInspector) Resume(report *v1alpha1.SandboxReport, thisMachine bool) {
	if ni.tracked == nil {
		ni.tracked = map[string]*trackedSandbox{}
	}
	resume := func(t trackedSandbox) {
		t.addNetNS([]string{t.detail.NetNS})
		t.hadAddresses = len(t.sandbox.Addresses) > 0 || t.sandbox.AddressesUnread
		if t.isOtherMachine = !thisMachine; ni.tracked[t.sandbox.ID] == nil {
			ni.tracked[t.sandbox.ID] = &t
		}
	}
	for i := range report.Attachments {
		a := &report.Attachments[i]
		resume(trackedSandbox{attachedSince: a.Since.Time, detail: cri.Detail{NetNS: a.NetNS},
			sandbox: v1alpha1.Sandbox{ID: a.ID, Namespace: a.Namespace, Name: a.Name, UID: a.UID, Addresses: a.Addresses,
				AddressesUnread: a.AddressesUnread, MayCarry: a.MayCarry}})
	}
	for _, s := range report.Sandboxes {
		resume(trackedSandbox{attachedSince: report.ObservedAt.Time, detail: cri.Detail{NetNS: s.NetNS},
			sandbox: s, hasAllAddresses: !s.AddressesUnread && len(s.Addresses) > 0})
	}
}

// describeSandbox combines a listed sandbox with its cache entry and its network namespace.
func (ni *NodeInspector) describeSandbox(s cri.Sandbox, entry *cnicache.Entry, netns *netnsDirs) ListedSandbox {
	t := ni.tracked[s.ID]
	out := ListedSandbox{
		Sandbox: v1alpha1.Sandbox{
			ID: s.ID, Namespace: s.Namespace, Name: s.Name, UID: s.UID, Attempt: min(s.Attempt, math.MaxInt32),
			State: v1alpha1.SandboxNotReady, CreatedAt: creationTime(s.CreatedAt), NetworkClosed: t.detail.NetworkClosed,
			NetNS: t.detail.NetNS,
		},
		IsIrrelevant: t.detail.Network == cri.HostNetwork || t.hasNoWhereabouts,
	}
	if s.Ready {
		out.State, t.isOtherMachine = v1alpha1.SandboxReady, false
	}
	paths := []string{t.detail.NetNS}
	switch {
	case t.detail.NetNS != "":
		t.netns = paths
	case entry != nil:
		t.addNetNS(entry.NetNS)
		fallthrough
	default:
		paths = t.netns
	}
	if out.NetworkClosed == nil {
		out.NetworkClosed = netns.networkClosed(paths, true)
	}
	out.NetworkClosed = t.trustedState(out.NetworkClosed)
	switch {
	case s.Ready || !podstate.IsClosed(out.NetworkClosed):
		out.Addresses = t.addresses(entry)
		out.Interfaces = t.interfaces(entry, out.Addresses)
		if out.IsIrrelevant {
			break
		}
		if out.AddressesUnread = !t.hasAllAddresses; out.AddressesUnread && entry != nil && len(entry.MayCarry) > 0 {
			// Last known addresses of other networks may have been left out.
			out.MayCarry = cnicache.SortedNetworks(slices.Concat(entry.MayCarry, t.sandbox.MayCarry))
		}
		if cnicache.Fit(&out.Sandbox, cnicache.MaxBytes) {
			t.hasAllAddresses = false
		}
	case entry != nil:
		out.Addresses = entry.Addresses
	}
	t.sandbox = out.Sandbox
	return out
}

// addresses returns the addresses that a sandbox may use. If the entry is incomplete, interfaces that are not in it
// keep their last known addresses.
func (t *trackedSandbox) addresses(entry *cnicache.Entry) []v1alpha1.Address {
	if entry != nil && entry.HasAllAddresses {
		t.hasAllAddresses = true
		return entry.Addresses
	}
	var all []v1alpha1.Address
	if entry != nil {
		all = slices.Clone(entry.Addresses)
		// The file may be of another interface, and what is left out may be on any.
		t.hasAllAddresses = t.hasAllAddresses && !entry.IsUnread && !entry.IsCut
	}
	cached := len(all)
	for _, a := range t.sandbox.Addresses {
		isSame := func(b v1alpha1.Address) bool { return a.IfName == b.IfName }
		if !slices.ContainsFunc(all[:cached], isSame) {
			all = append(all, a)
		}
	}
	return all
}

// interfaces returns the interfaces that a sandbox may have beside those of its addresses. If the entry is incomplete,
// the last known ones count, too.
func (t *trackedSandbox) interfaces(entry *cnicache.Entry, addresses []v1alpha1.Address) []string {
	if entry != nil && entry.HasAllAddresses {
		return entry.Interfaces
	}
	all := slices.Clone(t.sandbox.Interfaces)
	if entry != nil {
		all = append(all, entry.Interfaces...)
	}
	return cnicache.InterfacesWithout(addresses, all)
}

// addNetNS adds paths that are not known yet. A plugin's result may name very many.
func (t *trackedSandbox) addNetNS(paths []string) {
	all := slices.Concat(t.netns, paths)
	slices.Sort(all)
	t.netns = slices.DeleteFunc(slices.Compact(all), func(p string) bool { return p == "" })
}

func (t *trackedSandbox) attachment(closed *bool) v1alpha1.Attachment {
	path := t.detail.NetNS
	for _, p := range t.netns { // the next agent knows only this one
		if _, err := os.Lstat(p); path == "" || err == nil {
			path = p
		}
	}
	return v1alpha1.Attachment{
		ID: t.sandbox.ID, Since: apiTime(t.attachedSince), NetworkClosed: closed, NetNS: path,
		Namespace: t.sandbox.Namespace, Name: t.sandbox.Name, UID: t.sandbox.UID, Addresses: t.sandbox.Addresses,
		AddressesUnread: t.sandbox.AddressesUnread, MayCarry: t.sandbox.MayCarry,
	}
}

// trustedState returns the observed network state, or nil if a closed network may be another machine's.
func (t *trackedSandbox) trustedState(closed *bool) *bool {
	if t.isOtherMachine && podstate.IsClosed(closed) {
		return nil
	}
	return closed
}

// isOpen reports whether a network namespace is known to exist.
func isOpen(closed *bool) bool { return closed != nil && !*closed }
