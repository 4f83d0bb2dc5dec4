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

// Inspection is the state of a node as it was found by one complete inspection: every
// call succeeded, the caches could be read, and the agent's own sandbox was listed.
type Inspection struct {
	// At is when the inspection began, by the node's clock.
	At      time.Time
	Runtime v1alpha1.Runtime
	// Identity is empty as far as the Node object is not known to be this machine's.
	Identity
	// Sandboxes are all that the runtime lists, those without a whereabouts
	// address included.
	Sandboxes []ListedSandbox
	// Attachments are the ids that the runtime does not list, and that are in a CNI
	// cache, or whose network namespace is known to be there.
	Attachments []v1alpha1.Attachment
	// Closed has the ids of the previous inspection that are neither listed nor in a cache
	// any more, and whether their network namespaces are known to be gone.
	Closed map[string]bool
}

// ListedSandbox is a sandbox that the runtime lists.
type ListedSandbox struct {
	v1alpha1.Sandbox
	// Irrelevant is set if it is on the host network, or surely has no whereabouts
	// address.
	Irrelevant bool
}

// NodeInspector inspects a node repeatedly, and asks the runtime again only for what may
// have changed. It is for one goroutine.
type NodeInspector struct {
	Runtime *cri.Runtime
	Caches  *cnicache.Cache
	// NetNSDirs are the folders of the node's network namespaces as this process
	// sees them. Paths elsewhere are ignored.
	NetNSDirs []string
	// OwnUID is the UID of the agent's own pod, which must be in every inspection; ""
	// outside a pod.
	OwnUID string
	// Now is the node's clock; time.Now where it is nil.
	Now func() time.Time

	tracked  map[string]*trackedSandbox
	nodeDirs []os.FileInfo // folders that were found to be the node's
}

// ErrOwnSandboxMissing is returned if the runtime does not list the agent's own sandbox as
// READY: it is the wrong runtime, or its answer is incomplete.
var ErrOwnSandboxMissing = errors.New("the runtime does not list the agent's own sandbox as READY: it is another runtime than the one that runs this pod, or its answer is short")

// inspectTries limits the attempts of one inspection: it begins again if a sandbox was
// removed between the list and the call for its status.
const inspectTries = 3

// Inspect inspects the node. An error means that nothing may be concluded.
func (ni *NodeInspector) Inspect(ctx context.Context) (*Inspection, error) {
	for try := 1; ; try++ {
		inspection, err := ni.inspectOnce(ctx, try == inspectTries)
		if err == nil || !errors.Is(err, cri.ErrNotFound) {
			return inspection, err
		}
	}
}

// inspectOnce reads the runtime first and the caches after it: a sandbox whose setup
// ends in between is then seen in the cache, and never in neither.
func (ni *NodeInspector) inspectOnce(ctx context.Context, last bool) (*Inspection, error) {
	inspection := &Inspection{At: now(ni.Now), Closed: map[string]bool{}}
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
	if err := ni.updateTracked(ctx, listed, entries, last); err != nil {
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
		if t.listed {
			continue
		}
		if len(entry.NetNS) > 0 {
			t.detail.NetNS = entry.NetNS[0]
		}
		t.attachedSince = entry.Since
		t.last = v1alpha1.Sandbox{ID: id, Namespace: entry.Namespace, Name: entry.Name, UID: entry.UID, Addresses: entry.Addresses}
		inspection.Attachments = append(inspection.Attachments, t.attachment(t.closedHere(netns.closed(entry.NetNS, false))))
	}
}

// inspectVanished finds out what became of sandboxes that are neither listed nor in a
// cache any more. One whose network namespace still exists may still run, unknown to a
// runtime that lost its state: it is an attachment, and stays tracked.
func (ni *NodeInspector) inspectVanished(inspection *Inspection, entries map[string]*cnicache.Entry, netns *netnsDirs) {
	for id, t := range ni.tracked {
		if t.listed || entries[id] != nil {
			continue
		}
		closed := t.closedHere(netns.closed(t.netnsPaths(), false))
		if !knownOpen(closed) {
			delete(ni.tracked, id)
			inspection.Closed[id] = closed != nil
			continue
		}
		inspection.Attachments = append(inspection.Attachments, t.attachment(closed))
	}
}

// checkCaches returns an error if the caches are not those of the pods that run here:
// of those at least one would have an entry. A pod that is being set up would not be seen
// either.
func (ni *NodeInspector) checkCaches(listed []cri.Sandbox, entries map[string]*cnicache.Entry) error {
	hasNetwork := func(s cri.Sandbox) bool { return s.Ready && ni.tracked[s.ID].detail.Network != cri.HostNetwork }
	if path := ni.Caches.MissingResults(); path != "" && slices.ContainsFunc(listed, hasNetwork) {
		return fmt.Errorf("CNI cache: there is no %s, and pods have networks: name the right folder with --cni-results, and mount it", path)
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
	const repair = "; where the folder is right and was emptied, restart one of the pods"
	switch {
	case pods > 0 && !anyCached:
		return fmt.Errorf("CNI caches: none of the %d sandboxes that run with a network of their own has an entry in %s or %s: name the right folders with --cni-results and --cni-multus, and mount them%s",
			pods, ni.Caches.Results(), dirs, repair)
	case byMultus > 0 && !anyInMultus:
		return fmt.Errorf("CNI caches: none of the %d sandboxes that Multus gave their networks has an entry in %s: name Multus' cniDir with --cni-multus, and mount it%s", byMultus, dirs, repair)
	}
	return nil
}

// Unreadable returns what the last inspection did without: cache files that could
// not be read, by path, and sandboxes whose status could not be fetched, by id.
func (ni *NodeInspector) Unreadable() map[string]error {
	all := maps.Clone(ni.Caches.Unreadable())
	for id, t := range ni.tracked {
		if t.listed && t.statusErr != nil {
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

// apiTime returns a time as the API stores it: to the second. One that it would refuse,
// as of a file that was written before the clock was set, is moved to the nearest that it
// accepts.
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

// creationTime returns the creation time of a sandbox, zero if it has none: containerd
// 2.4 gives 1754 to a sandbox that it found half made after a crash.
func creationTime(t time.Time) metav1.Time {
	if t.Unix() <= 0 {
		return metav1.Time{}
	}
	return apiTime(t)
}

// Report inspects the node once and returns the report that follows on the one before, which must be of this machine
// (nil for none).
func (ni *NodeInspector) Report(ctx context.Context, before *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error) {
	if before != nil {
		ni.Resume(before, true)
	}
	inspection, err := ni.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	report := *Next(before, inspection)
	report.ObservedAt = apiTime(inspection.At)
	return &report, nil
}
