// Package agent is the node agent: it looks at one node's container runtime and
// CNI caches, and publishes what they hold as the node's SandboxReport.
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

// Inspection is one good look at a node: every call succeeded, the caches could be
// read, and the agent itself was in it.
type Inspection struct {
	// At is when the look began, by the node's clock.
	At      time.Time
	Runtime v1alpha1.Runtime
	// Identity is the node's as far as it is known to be this machine's.
	Identity
	// Sandboxes are all that the runtime lists, those without a whereabouts
	// address included.
	Sandboxes []ListedSandbox
	// Attachments are the ids that the runtime does not list, and that are in a CNI
	// cache, or whose network namespace is known to be there.
	Attachments []v1alpha1.Attachment
	// Closed are ids of the look before that are in neither any more: whether their
	// network namespace is known to be gone.
	Closed map[string]bool
	// Closing: a sandbox stopped not long ago and its network is still open. Runtimes
	// send no event for the end of that.
	Closing bool
}

// ListedSandbox is a sandbox that the runtime lists.
type ListedSandbox struct {
	v1alpha1.Sandbox
	// Irrelevant: it is on the host network, or surely has no whereabouts address.
	Irrelevant bool
}

// NodeInspector inspects a node, again and again.
type NodeInspector struct {
	Runtime *cri.Runtime
	Caches  *cnicache.Cache
	// NetNSDirs are the folders of the node's network namespaces as this process
	// sees them. What lies elsewhere is not looked at.
	NetNSDirs []string
	// OwnUID is the UID of the agent's own pod, which must be in every look; ""
	// outside a pod.
	OwnUID string
	// Now is the node's clock; time.Now where it is nil.
	Now func() time.Time

	tracked  map[string]*trackedSandbox
	nodeDirs []os.FileInfo // folders that were found to be the node's
}

// ErrOwnSandboxMissing: the runtime does not list the agent's own sandbox as READY, so that
// it is the wrong runtime, or its answer is short.
var ErrOwnSandboxMissing = errors.New("the runtime does not list the agent's own sandbox as READY: it is another runtime than the one that runs this pod, or its answer is short")

// inspectTries is how often a look begins again because a sandbox went while its
// status was asked for.
const inspectTries = 3

// Inspect makes a look. An error means that nothing may be concluded.
func (e *NodeInspector) Inspect(ctx context.Context) (*Inspection, error) {
	for try := 1; ; try++ {
		look, err := e.inspectOnce(ctx, try == inspectTries)
		if err == nil || !errors.Is(err, cri.ErrNotFound) {
			return look, err
		}
	}
}

// inspectOnce reads the runtime first and the caches after it: a sandbox whose setup
// ends in between is then seen in the cache, and never in neither.
func (e *NodeInspector) inspectOnce(ctx context.Context, last bool) (*Inspection, error) {
	look := &Inspection{At: now(e.Now)}
	var err error
	if look.Runtime.Name, look.Runtime.Version, err = e.Runtime.Version(ctx); err != nil {
		return nil, err
	}
	listed, err := e.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	if e.OwnUID != "" && !slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && s.UID == e.OwnUID }) {
		return nil, ErrOwnSandboxMissing
	}
	entries, err := e.Caches.Read()
	if err != nil {
		return nil, err
	}
	if err := e.updateTracked(ctx, listed, entries, last); err != nil {
		return nil, err
	}
	if path := e.Caches.MissingResults(); path != "" && slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && !e.tracked[s.ID].detail.HostNetwork }) {
		return nil, fmt.Errorf("CNI cache: there is no %s, and pods have networks: name the right folder with --cni-results, and mount it", path)
	}
	if err := e.checkCaches(listed, entries); err != nil {
		return nil, err
	}
	namespaces := e.findNetNSDirs(listed)
	for _, s := range listed {
		out := e.describeSandbox(s, entries[s.ID], namespaces)
		look.Sandboxes = append(look.Sandboxes, out)
		look.Closing = look.Closing || !s.Ready && !out.Irrelevant && knownOpen(out.NetworkClosed) && look.At.Sub(e.tracked[s.ID].stoppedAt) < closingFor
	}
	slices.SortFunc(look.Sandboxes, func(a, b ListedSandbox) int { return cmp.Compare(a.ID, b.ID) })
	for id, entry := range entries {
		k := e.tracked[id]
		if k == nil {
			k = &trackedSandbox{}
			e.tracked[id] = k
		}
		if k.listed {
			continue
		}
		if len(entry.NetNS) > 0 {
			k.detail.NetNS = entry.NetNS[0]
		}
		k.unlistedSince = entry.Since
		k.last = v1alpha1.Sandbox{ID: id, Namespace: entry.Namespace, Name: entry.Name, UID: entry.UID, Addresses: entry.Addresses}
		look.Attachments = append(look.Attachments, k.attachment(k.closedHere(namespaces.closed(entry.NetNS))))
	}
	e.inspectVanished(look, entries, namespaces)
	slices.SortFunc(look.Attachments, func(a, b v1alpha1.Attachment) int { return cmp.Compare(a.ID, b.ID) })
	return look, nil
}

// inspectVanished finds out what became of sandboxes that are neither listed nor in a cache
// any more. One whose network namespace is still there runs on behind the back of
// a runtime that lost its state, and is kept in sight.
func (e *NodeInspector) inspectVanished(look *Inspection, entries map[string]*cnicache.Entry, namespaces *netnsDirs) {
	look.Closed = map[string]bool{}
	for id, k := range e.tracked {
		if k.listed || entries[id] != nil {
			continue
		}
		closed := k.closedHere(namespaces.closed(k.netnsPaths()))
		if !knownOpen(closed) {
			delete(e.tracked, id)
			look.Closed[id] = closed != nil
			continue
		}
		look.Attachments = append(look.Attachments, k.attachment(closed))
	}
}

// checkCaches is an error where the caches are not those of the pods that run here: were
// they, one of them at least would be in there. What is being set up could not be
// seen either.
func (e *NodeInspector) checkCaches(listed []cri.Sandbox, entries map[string]*cnicache.Entry) error {
	pods, cached, byMultus, inMultus := 0, 0, 0, 0
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for _, s := range listed {
		k, entry := e.tracked[s.ID], entries[s.ID]
		if !s.Ready || !k.networkModeKnown || k.detail.HostNetwork {
			continue
		}
		pods++
		if entry != nil {
			cached++
			count(&byMultus, entry.ByMultus)
			count(&inMultus, entry.ByMultus && entry.InMultus)
		}
	}
	dirs := strings.Join(e.Caches.MultusDirs(), ", ")
	const repair = "; where the folder is right and was emptied, restart one of the pods"
	switch {
	case pods > 0 && cached == 0:
		return fmt.Errorf("CNI caches: none of the %d sandboxes that run with a network of their own has an entry in %s or %s: name the right folders with --cni-results and --cni-multus, and mount them%s",
			pods, e.Caches.Results(), dirs, repair)
	case byMultus > 0 && inMultus == 0:
		return fmt.Errorf("CNI caches: none of the %d sandboxes that Multus gave their networks has an entry in %s: name Multus' cniDir with --cni-multus, and mount it%s", byMultus, dirs, repair)
	}
	return nil
}

// Unreadable is what cost only its own entry in the last look: cache files that could
// not be read, by path, and sandboxes whose status is not to be had, by id.
func (e *NodeInspector) Unreadable() map[string]error {
	all := maps.Clone(e.Caches.Unreadable())
	for id, k := range e.tracked {
		if k.listed && k.statusErr != nil {
			all[id] = k.statusErr
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

// apiTime is a time as the API keeps it. A time that it would refuse, as of a file
// that was written before the clock was set, is moved to the next that it takes.
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

// creationTime is the time of a sandbox. What is none is left out: containerd 2.4 gives
// 1754 to a sandbox that it found half made after a crash.
func creationTime(t time.Time) metav1.Time {
	if t.Unix() <= 0 {
		return metav1.Time{}
	}
	return apiTime(t)
}

// String names a look for a log line.
func (l *Inspection) String() string {
	ready := 0
	for i := range l.Sandboxes {
		if l.Sandboxes[i].State == v1alpha1.SandboxReady {
			ready++
		}
	}
	return fmt.Sprintf("%d sandboxes (%d ready), %d attachments", len(l.Sandboxes), ready, len(l.Attachments))
}

// Report is a look as a report, going on from the one before it, which must be of this
// machine (nil for none), and the UIDs of all pods that run.
func (e *NodeInspector) Report(ctx context.Context, before *v1alpha1.SandboxReport) (next *v1alpha1.SandboxReport, runs []string, err error) {
	if before != nil {
		e.Resume(before, true)
	}
	look, err := e.Inspect(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range look.Sandboxes {
		if s := &look.Sandboxes[i]; s.State == v1alpha1.SandboxReady && s.UID != "" {
			runs = append(runs, s.UID)
		}
	}
	report := *Next(before, look)
	report.ObservedAt = apiTime(look.At)
	return &report, runs, nil
}
