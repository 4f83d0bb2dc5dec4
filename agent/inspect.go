package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Inspection is the result of one complete inspection: every call succeeded, the caches could be read, and the
// runtime lists the agent's own sandbox.
type Inspection struct {
	// At is when the inspection began, by the node's clock.
	At      time.Time
	Runtime v1alpha1.Runtime
	// Identity is empty if the Node object does not confirm this machine.
	Identity
	// Sandboxes are all sandboxes that the runtime lists, with or without a whereabouts address.
	Sandboxes []ListedSandbox
	// Attachments are unlisted ids that are in a CNI cache or have an existing network namespace.
	Attachments []v1alpha1.Attachment
	// NamespaceGone has the ids of the previous inspection that are neither listed nor cached any more. The value
	// is whether the network namespace is known to be gone.
	NamespaceGone map[string]bool
}

// ListedSandbox is a sandbox that the runtime lists.
type ListedSandbox struct {
	v1alpha1.Sandbox
	// IsIrrelevant means that the sandbox is on the host network, or certainly has no whereabouts address.
	IsIrrelevant bool
}

// NodeInspector inspects a node repeatedly, and asks the runtime again only for what may have changed. It is not
// safe for concurrent use.
type NodeInspector struct {
	Runtime *cri.Runtime
	Caches  *cnicache.Cache
	// NetNSDirs are the folders of network namespaces as this process sees them. Paths in other folders are ignored.
	NetNSDirs []string
	// OwnUID is the UID of the agent's own pod, which every inspection must contain; "" outside a pod.
	OwnUID string
	// Now returns the time of the node's clock. The default is time.Now.
	Now func() time.Time

	tracked  map[string]*trackedSandbox
	nodeDirs []os.FileInfo // folders that are confirmed to be the node's
}

// ErrOwnSandboxMissing means that the runtime does not list the agent's own sandbox as READY.
var ErrOwnSandboxMissing = errors.New("the runtime does not list the agent's own sandbox as READY: " +
	"it is not the runtime of this pod, or its answer is incomplete")

// inspectTries limits the tries of one inspection: a sandbox may be removed between the list and its status call.
const inspectTries = 3

// Inspect inspects the node. After an error nothing may be concluded.
func (ni *NodeInspector) Inspect(ctx context.Context) (*Inspection, error) {
	for try := 1; ; try++ {
		inspection, err := ni.inspectOnce(ctx, try == inspectTries)
		if err == nil || !errors.Is(err, cri.ErrNotFound) {
			return inspection, err
		}
	}
}

// inspectOnce reads the runtime before the caches. A sandbox whose setup ends in between is then at least in the cache.
func (ni *NodeInspector) inspectOnce(ctx context.Context, isLastTry bool) (*Inspection, error) {
	inspection := &Inspection{At: now(ni.Now), NamespaceGone: map[string]bool{}}
	var err error
	if inspection.Runtime.Name, inspection.Runtime.Version, err = ni.Runtime.Version(ctx); err != nil {
		return nil, err
	}
	listed, err := ni.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	if ni.OwnUID != "" && !slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && s.UID == ni.OwnUID }) {
		return nil, ErrOwnSandboxMissing
	}
	entries, err := ni.Caches.Read()
	if err != nil {
		return nil, err
	}
	if err := ni.updateTracked(ctx, listed, entries, isLastTry); err != nil {
		return nil, err
	}
	if err := ni.checkCaches(listed, entries); err != nil {
		return nil, err
	}
	netns := ni.findNetNSDirs(listed)
	for _, s := range listed {
		inspection.Sandboxes = append(inspection.Sandboxes, ni.describeSandbox(s, entries[s.ID], netns))
	}
	slices.SortFunc(inspection.Sandboxes, func(a, b ListedSandbox) int { return cmp.Compare(a.ID, b.ID) })
	ni.inspectCached(inspection, entries, netns)
	ni.inspectVanished(inspection, entries, netns)
	slices.SortFunc(inspection.Attachments, func(a, b v1alpha1.Attachment) int { return cmp.Compare(a.ID, b.ID) })
	return inspection, nil
}

// inspectCached adds the attachments of ids that are in a cache and not listed.
func (ni *NodeInspector) inspectCached(inspection *Inspection, entries map[string]*cnicache.Entry, netns *netnsDirs) {
	for id, entry := range entries {
		t := ni.tracked[id]
		if t == nil {
			t = &trackedSandbox{}
			ni.tracked[id] = t
		}
		if t.isListed {
			continue
		}
		t.addNetNS(entry.NetNS)
		t.attachedSince = entry.Since
		before := t.sandbox
		t.sandbox.ID, t.sandbox.Addresses = id, t.addresses(entry)
		t.sandbox.Namespace = cmp.Or(entry.Namespace, before.Namespace)
		t.sandbox.Name, t.sandbox.UID = cmp.Or(entry.Name, before.Name), cmp.Or(entry.UID, before.UID)
		// An entry may be incomplete otherwise because an ADD is in progress.
		t.sandbox.AddressesUnread = entry.IsCut || before.AddressesUnread && !entry.HasAllAddresses
		if t.sandbox.MayCarry = nil; t.sandbox.AddressesUnread && len(entry.MayCarry) > 0 {
			t.sandbox.MayCarry = cnicache.SortedNetworks(slices.Concat(entry.MayCarry, before.MayCarry))
		}
		cnicache.Fit(&t.sandbox, cnicache.MaxBytes)
		closed := t.trustedState(netns.networkClosed(t.netns, false))
		inspection.Attachments = append(inspection.Attachments, t.attachment(closed))
	}
}

// inspectVanished handles sandboxes that are neither listed nor cached any more. If the network namespace exists, a
// runtime that lost its state may not know that the sandbox runs. It becomes an attachment and stays tracked.
func (ni *NodeInspector) inspectVanished(inspection *Inspection, entries map[string]*cnicache.Entry, netns *netnsDirs) {
	for id, t := range ni.tracked {
		if t.isListed || entries[id] != nil {
			continue
		}
		closed := t.trustedState(netns.networkClosed(t.netns, false))
		if !isOpen(closed) {
			delete(ni.tracked, id)
			inspection.NamespaceGone[id] = closed != nil
			continue
		}
		inspection.Attachments = append(inspection.Attachments, t.attachment(closed))
	}
}

// checkCaches returns an error if no running pod has an entry in the caches. They are then not the caches of this
// node, and a pod that is being set up would be invisible.
func (ni *NodeInspector) checkCaches(listed []cri.Sandbox, entries map[string]*cnicache.Entry) error {
	hasNetwork := func(s cri.Sandbox) bool { return s.Ready && ni.tracked[s.ID].detail.Network != cri.HostNetwork }
	if !ni.Caches.HasResults() && slices.ContainsFunc(listed, hasNetwork) {
		return fmt.Errorf("CNI cache: %s does not exist, but pods have networks: "+
			"name the right folder with --cni-results and mount it", ni.Caches.Results)
	}
	pods, byMultus, anyCached, anyInMultus := 0, 0, false, false
	for _, s := range listed {
		if !s.Ready || ni.tracked[s.ID].detail.Network != cri.PodNetwork {
			continue
		}
		pods++
		if entry := entries[s.ID]; entry != nil {
			anyCached = true
			if entry.ByMultus {
				byMultus++
				anyInMultus = anyInMultus || entry.InMultus
			}
		}
	}
	dirs := strings.Join(ni.Caches.MultusDirs(), ", ")
	const repair = "; if the folder is right and was emptied, restart one of the pods"
	switch {
	case pods > 0 && !anyCached:
		return fmt.Errorf("CNI caches: none of the %d running sandboxes on a pod network has an entry in %s or %s: "+
			"name the right folders with --cni-results and --cni-multus, and mount them%s",
			pods, ni.Caches.Results, dirs, repair)
	case byMultus > 0 && !anyInMultus:
		return fmt.Errorf("CNI caches: none of the %d running sandboxes of Multus has an entry in %s: "+
			"name Multus' cniDir with --cni-multus and mount it%s", byMultus, dirs, repair)
	}
	return nil
}

// Unreadable returns what the last inspection could not read: cache files by path, and sandboxes by id.
func (ni *NodeInspector) Unreadable() map[string]error {
	all := maps.Clone(ni.Caches.Unreadable())
	for id, t := range ni.tracked {
		if t.isListed && t.statusErr != nil {
			all[id] = t.statusErr
		}
	}
	return all
}

func now(clock func() time.Time) time.Time {
	if clock == nil {
		return time.Now()
	}
	return clock()
}

// apiTime returns a time as the API stores it, to the second. It moves a time that the API refuses, such as a file
// time from before the clock was set, to the nearest accepted time.
func apiTime(t time.Time) metav1.Time {
	t = t.UTC().Truncate(time.Second)
	switch {
	case t.Unix() < 0:
		t = time.Unix(0, 0).UTC()
	case t.Year() > 9999:
		t = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return metav1.NewTime(t)
}

// creationTime returns the creation time of a sandbox, zero if it has none. containerd 2.4 reports the year 1754 for a
// sandbox that was incomplete when containerd crashed.
func creationTime(t time.Time) metav1.Time {
	if t.Unix() <= 0 {
		return metav1.Time{}
	}
	return apiTime(t)
}

// Report inspects the node once and returns the report that follows before, which must be of this machine or nil.
func (ni *NodeInspector) Report(ctx context.Context, before *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error) {
	if before != nil {
		ni.Resume(before, true)
	}
	inspection, err := ni.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	report := *NextReport(before, inspection)
	report.ObservedAt = apiTime(inspection.At)
	return &report, nil
}
