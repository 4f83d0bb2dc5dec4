// Package agent is the node agent: it looks at one node's container runtime and
// CNI caches, and publishes what they hold as the node's SandboxReport.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate/cnicache"
	"github.com/ip-reconcile/ip-reconcile/podstate/cri"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// Look is one good look at a node: every call succeeded, the caches could be
// read, and the agent itself was in it.
type Look struct {
	// At is when the look began, by the node's clock.
	At      time.Time
	Runtime v1alpha1.Runtime
	// BootID is the node's, "" unless the Node object has the same.
	BootID string
	// Sandboxes are all that the runtime lists, those without a whereabouts
	// address included.
	Sandboxes []Listed
	// Attachments are the ids that the runtime does not list, and that are in a CNI
	// cache, or whose network namespace is known to be there.
	Attachments []v1alpha1.Attachment
	// Closed are ids of the look before that are in neither any more: whether their
	// network namespace is known to be gone.
	Closed map[string]bool
	// Orphans is how many network namespaces are there that nothing listed or
	// attached accounts for; below zero where that cannot be told.
	Orphans int
}

// Listed is a sandbox that the runtime lists.
type Listed struct {
	v1alpha1.Sandbox
	// Irrelevant: it is on the host network, or surely has no whereabouts address.
	Irrelevant bool
}

// Eyes look at a node, again and again.
type Eyes struct {
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

	known map[string]known
	mine  []os.FileInfo // folders that were found to be the node's
}

// known is what need not be asked again of a sandbox in the state it is in.
type known struct {
	last   v1alpha1.Sandbox // as it was last listed
	listed bool             // in the last look; else only its namespace is there
	since  time.Time        // when it was listed no more
	ready  bool
	detail cri.Detail
	// without: its caches were complete, and had nothing of whereabouts. DEL
	// empties them, so this is remembered.
	without bool
}

// ErrNotOwn: the runtime does not list the agent's own sandbox as READY, so that
// it is the wrong runtime, or its answer is short.
var ErrNotOwn = errors.New("the runtime does not list the agent's own sandbox as READY: it is another runtime than the one that runs this pod, or its answer is short")

// lookTries is how often a look begins anew because a sandbox went while its
// status was asked for.
const lookTries = 3

// Look makes a look. An error means that nothing may be concluded.
func (e *Eyes) Look(ctx context.Context) (*Look, error) {
	for try := 1; ; try++ {
		look, err := e.look(ctx)
		if err == nil || !errors.Is(err, cri.ErrNotFound) || try == lookTries {
			return look, err
		}
	}
}

// look reads the runtime first and the caches after it: a sandbox whose setup
// ends in between is then seen in the cache, and never in neither.
func (e *Eyes) look(ctx context.Context) (*Look, error) {
	look := &Look{At: now(e.Now)}
	var err error
	if look.Runtime.Name, look.Runtime.Version, err = e.Runtime.Version(ctx); err != nil {
		return nil, err
	}
	listed, err := e.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	if e.OwnUID != "" && !slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && s.UID == e.OwnUID }) {
		return nil, ErrNotOwn
	}
	entries, err := e.Caches.Read()
	if err != nil {
		return nil, err
	}
	if err := e.learn(ctx, listed, entries); err != nil {
		return nil, err
	}
	namespaces := e.namespaces(listed)
	for _, s := range listed {
		look.Sandboxes = append(look.Sandboxes, e.describe(s, entries[s.ID], namespaces))
	}
	slices.SortFunc(look.Sandboxes, func(a, b Listed) int { return cmp.Compare(a.ID, b.ID) })
	for id, entry := range entries {
		if e.known[id].listed {
			continue
		}
		namespaces.explain(entry.NetNS...)
		look.Attachments = append(look.Attachments, v1alpha1.Attachment{
			ID: id, Since: seconds(entry.Since), NetworkClosed: namespaces.closed(entry.NetNS),
			Namespace: entry.Namespace, Name: entry.Name, UID: entry.UID, Addresses: entry.Addresses,
		})
	}
	e.lost(look, entries, namespaces)
	slices.SortFunc(look.Attachments, func(a, b v1alpha1.Attachment) int { return cmp.Compare(a.ID, b.ID) })
	look.Orphans = namespaces.orphans()
	return look, nil
}

// lost finds out what became of sandboxes that are neither listed nor in a cache
// any more. One whose network namespace is still there runs on behind the back of
// a runtime that lost its state, and is kept in sight.
func (e *Eyes) lost(look *Look, entries map[string]*cnicache.Entry, namespaces *namespaces) {
	look.Closed = map[string]bool{}
	for id, k := range e.known {
		if k.listed || entries[id] != nil {
			continue
		}
		closed := namespaces.closed(k.paths())
		if closed == nil || *closed {
			delete(e.known, id)
			look.Closed[id] = closed != nil
			continue
		}
		namespaces.explain(k.detail.NetNS)
		look.Attachments = append(look.Attachments, v1alpha1.Attachment{
			ID: id, Since: seconds(k.since), NetworkClosed: closed,
			Namespace: k.last.Namespace, Name: k.last.Name, UID: k.last.UID, Addresses: k.last.Addresses,
		})
	}
}

func (k *known) paths() []string {
	if k.detail.NetNS == "" {
		return nil
	}
	return []string{k.detail.NetNS}
}

// learn asks for the details of sandboxes that are new or in a new state, and of
// those that are not ready while the runtime says that their network is open:
// it closes without a change of state.
func (e *Eyes) learn(ctx context.Context, listed []cri.Sandbox, entries map[string]*cnicache.Entry) error {
	next := make(map[string]known, len(listed))
	for _, s := range listed {
		k, ok := e.known[s.ID]
		open := k.detail.NetworkClosed != nil && !*k.detail.NetworkClosed
		if !ok || k.ready != s.Ready || !s.Ready && open {
			detail, err := e.Runtime.Detail(ctx, s.ID)
			if err != nil {
				return err
			}
			k.ready, k.detail = s.Ready, detail
		}
		if entry := entries[s.ID]; s.Ready && entry != nil {
			k.without = entry.NoWhereabouts
		}
		k.listed = true
		next[s.ID] = k
	}
	for id, k := range e.known {
		if _, ok := next[id]; !ok && !k.detail.HostNetwork && !k.without {
			if k.listed {
				k.listed, k.since = false, now(e.Now)
			}
			next[id] = k
		}
	}
	e.known = next
	return nil
}

func (e *Eyes) describe(s cri.Sandbox, entry *cnicache.Entry, namespaces *namespaces) Listed {
	k := e.known[s.ID]
	out := Listed{
		Sandbox: v1alpha1.Sandbox{
			ID: s.ID, Namespace: s.Namespace, Name: s.Name, UID: s.UID, Attempt: s.Attempt,
			State: v1alpha1.SandboxNotReady, CreatedAt: seconds(s.CreatedAt), NetworkClosed: k.detail.NetworkClosed,
		},
		Irrelevant: k.detail.HostNetwork || k.without,
	}
	if s.Ready {
		out.State = v1alpha1.SandboxReady
		namespaces.elsewhere = namespaces.elsewhere || !k.detail.HostNetwork && !namespaces.has(k.detail.NetNS)
	}
	paths := k.paths()
	namespaces.explain(paths...)
	if entry != nil {
		out.Addresses = entry.Addresses
		namespaces.explain(entry.NetNS...)
		if len(paths) == 0 {
			paths = entry.NetNS
		}
	}
	if out.NetworkClosed == nil {
		out.NetworkClosed = namespaces.closed(paths)
	}
	k.last = out.Sandbox
	e.known[s.ID] = k
	return out
}

// Unread are the cache files that cost only their own entry in the last look.
func (e *Eyes) Unread() map[string]error { return e.Caches.Unread() }

func now(clock func() time.Time) time.Time {
	if clock == nil {
		return time.Now()
	}
	return clock()
}

// seconds is a time as the API keeps it. What is no time of a sandbox is left out:
// containerd 2.4 gives 1754 to one that it found half made after a crash.
func seconds(t time.Time) metav1.Time {
	if t.Unix() <= 0 || t.Year() > 9999 {
		return metav1.Time{}
	}
	return metav1.NewTime(t.UTC().Truncate(time.Second))
}

// String names a look for a log line.
func (l *Look) String() string {
	ready := 0
	for i := range l.Sandboxes {
		if l.Sandboxes[i].State == v1alpha1.SandboxReady {
			ready++
		}
	}
	return fmt.Sprintf("%d sandboxes (%d ready), %d attachments", len(l.Sandboxes), ready, len(l.Attachments))
}

// Report is a look as a report, going on from the one before it (nil for none).
func (e *Eyes) Report(ctx context.Context, before *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error) {
	look, err := e.Look(ctx)
	if err != nil {
		return nil, err
	}
	report := *Next(before, look)
	report.ObservedAt = seconds(look.At)
	return &report, nil
}
