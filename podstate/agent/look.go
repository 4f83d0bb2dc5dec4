// Package agent is the node agent: it looks at one node's container runtime and
// CNI caches, and publishes what they hold as the node's SandboxReport.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
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

	known      map[string]known
	unanswered map[string]error // sandboxes whose status is not to be had
	mine       []os.FileInfo    // folders that were found to be the node's
}

// known is what is remembered of an id: what need not be asked again of a sandbox in
// the state it is in, and what it was when it is listed no more.
type known struct {
	last   v1alpha1.Sandbox // as it was last seen
	listed bool             // in the last look
	since  time.Time        // when it was listed no more
	asked  bool             // for its details, by this agent
	ready  bool
	detail cri.Detail
	// failed is how often in a row its status could not be asked for, and retry
	// when to ask again.
	failed int
	retry  time.Time
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
		look, err := e.look(ctx, try == lookTries)
		if err == nil || !errors.Is(err, cri.ErrNotFound) {
			return look, err
		}
	}
}

// Recall takes what an earlier agent on this node knew of what it saw.
func (e *Eyes) Recall(report *v1alpha1.SandboxReport) {
	recalled := map[string]known{}
	for i := range report.Sandboxes {
		s := report.Sandboxes[i]
		recalled[s.ID] = known{last: s, since: report.ObservedAt.Time, detail: cri.Detail{NetNS: s.NetNS}}
	}
	for i := range report.Attachments {
		a := &report.Attachments[i]
		recalled[a.ID] = known{since: a.Since.Time, detail: cri.Detail{NetNS: a.NetNS}, last: v1alpha1.Sandbox{
			ID: a.ID, Namespace: a.Namespace, Name: a.Name, UID: a.UID, Addresses: a.Addresses,
		}}
	}
	for id, k := range recalled {
		if _, ok := e.known[id]; !ok && e.known != nil {
			e.known[id] = k
		}
	}
	if e.known == nil {
		e.known = recalled
	}
}

// look reads the runtime first and the caches after it: a sandbox whose setup
// ends in between is then seen in the cache, and never in neither.
func (e *Eyes) look(ctx context.Context, last bool) (*Look, error) {
	look := &Look{At: now(e.Now)}
	if e.unanswered == nil {
		e.unanswered = map[string]error{}
	}
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
	if err := e.learn(ctx, listed, entries, last); err != nil {
		return nil, err
	}
	if path := e.Caches.Missing(); path != "" && slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && !e.known[s.ID].detail.HostNetwork }) {
		return nil, fmt.Errorf("CNI cache: there is no %s, and pods have networks: name the right folder with --cni-results", path)
	}
	namespaces := e.namespaces(listed)
	for _, s := range listed {
		look.Sandboxes = append(look.Sandboxes, e.describe(s, entries[s.ID], namespaces))
	}
	slices.SortFunc(look.Sandboxes, func(a, b Listed) int { return cmp.Compare(a.ID, b.ID) })
	for id, entry := range entries {
		k := e.known[id]
		if k.listed {
			continue
		}
		if len(entry.NetNS) > 0 {
			k.detail.NetNS = entry.NetNS[0]
		}
		k.since = entry.Since
		k.last = v1alpha1.Sandbox{ID: id, Namespace: entry.Namespace, Name: entry.Name, UID: entry.UID, Addresses: entry.Addresses}
		e.known[id] = k
		look.Attachments = append(look.Attachments, k.attachment(namespaces.closed(entry.NetNS)))
	}
	e.lost(look, entries, namespaces)
	slices.SortFunc(look.Attachments, func(a, b v1alpha1.Attachment) int { return cmp.Compare(a.ID, b.ID) })
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
		look.Attachments = append(look.Attachments, k.attachment(closed))
	}
}

func (k *known) attachment(closed *bool) v1alpha1.Attachment {
	return v1alpha1.Attachment{
		ID: k.last.ID, Since: seconds(k.since), NetworkClosed: closed, NetNS: k.detail.NetNS,
		Namespace: k.last.Namespace, Name: k.last.Name, UID: k.last.UID, Addresses: k.last.Addresses,
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
// it closes without a change of state. One that went meanwhile is an error that
// wraps cri.ErrNotFound, unless this is the last try. One sandbox whose status is
// not to be had (its shim hangs, its record is broken) does not blind the node: it
// is listed, and whether its network is closed is not known.
func (e *Eyes) learn(ctx context.Context, listed []cri.Sandbox, entries map[string]*cnicache.Entry, last bool) error {
	next, began := make(map[string]known, len(listed)), now(e.Now)
	for _, s := range listed {
		k, ok := e.known[s.ID]
		ok = ok && k.asked
		open := k.detail.NetworkClosed != nil && !*k.detail.NetworkClosed
		if (!ok || k.ready != s.Ready || !s.Ready && open || k.failed > 0) && !began.Before(k.retry) {
			detail, err := e.Runtime.Detail(ctx, s.ID)
			switch {
			case err == nil:
				k.asked, k.ready, k.detail, k.failed, k.retry = true, s.Ready, detail, 0, time.Time{}
			case errors.Is(err, cri.ErrNotFound) && !last, errors.Is(err, cri.ErrAway):
				return err
			default:
				k.asked, k.ready, k.detail.NetworkClosed = true, s.Ready, nil
				k.failed++
				k.retry = began.Add(min(5*time.Second<<k.failed, 5*time.Minute))
				e.unanswered[s.ID] = err
			}
		}
		if k.failed == 0 {
			delete(e.unanswered, s.ID)
		}
		if entry := entries[s.ID]; s.Ready && entry != nil {
			k.without = entry.NoWhereabouts
		}
		k.listed = true
		next[s.ID] = k
	}
	for id, k := range e.known {
		if _, ok := next[id]; ok || k.detail.HostNetwork || k.without {
			continue
		}
		if k.listed {
			k.listed, k.since = false, began
		}
		next[id] = k
	}
	e.known = next
	return nil
}

func (e *Eyes) describe(s cri.Sandbox, entry *cnicache.Entry, namespaces *namespaces) Listed {
	k := e.known[s.ID]
	out := Listed{
		Sandbox: v1alpha1.Sandbox{
			ID: s.ID, Namespace: s.Namespace, Name: s.Name, UID: s.UID, Attempt: min(s.Attempt, math.MaxInt32),
			State: v1alpha1.SandboxNotReady, CreatedAt: created(s.CreatedAt), NetworkClosed: k.detail.NetworkClosed,
			NetNS: k.detail.NetNS,
		},
		Irrelevant: k.detail.HostNetwork || k.without,
	}
	if s.Ready {
		out.State = v1alpha1.SandboxReady
	}
	paths := k.paths()
	if entry != nil {
		out.Addresses = entry.Addresses
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

// Unread is what cost only its own entry in the last look: cache files that could
// not be read, by path, and sandboxes whose status is not to be had, by id.
func (e *Eyes) Unread() map[string]error {
	all := maps.Clone(e.unanswered)
	maps.Copy(all, e.Caches.Unread())
	return all
}

func now(clock func() time.Time) time.Time {
	if clock == nil {
		return time.Now()
	}
	return clock()
}

// seconds is a time as the API keeps it. A time that it would refuse, as of a file
// that was written before the clock was set, is moved to the next that it takes.
func seconds(t time.Time) metav1.Time {
	t = t.UTC().Truncate(time.Second)
	switch {
	case t.Unix() < 0:
		t = time.Unix(0, 0).UTC()
	case t.Year() > 9999:
		t = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return metav1.NewTime(t)
}

// created is the time of a sandbox. What is none is left out: containerd 2.4 gives
// 1754 to a sandbox that it found half made after a crash.
func created(t time.Time) metav1.Time {
	if t.Unix() <= 0 {
		return metav1.Time{}
	}
	return seconds(t)
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
	if before != nil {
		e.Recall(before)
	}
	look, err := e.Look(ctx)
	if err != nil {
		return nil, err
	}
	report := *Next(before, look)
	report.ObservedAt = seconds(look.At)
	return &report, nil
}
