package informers

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// fullPass makes the observation of a full pass.
func (b *bench) fullPass(t *testing.T) *facts.Observation {
	t.Helper()
	o, err := b.full.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// isVerified reports whether the caches are verified.
func (b *bench) isVerified(t *testing.T) bool {
	t.Helper()
	_, err := b.source.List(t.Context())
	if err != nil && !errors.Is(err, ErrCacheUnverified) {
		t.Fatal(err)
	}
	return err == nil
}

// rebuildReason returns the reason of a requested rebuild, "" without one.
func (b *bench) rebuildReason() string {
	select {
	case why := <-b.source.rebuild:
		return why
	default:
		return ""
	}
}

func TestFull_VerifiesCachesThatAgree(t *testing.T) {
	b := parallelBench(t)
	b.api.has("pods", aPod("web", "7"))
	b.sets(t, "pods", aPod("web", "7"))
	if b.isVerified(t) {
		t.Error("verified before a full pass")
	}
	b.fullPass(t)
	if !b.isVerified(t) {
		t.Error("not verified, although they agree")
	}
	equal(t, "read twice", b.api.lists["pods"], 1)
	b.source.store("pods").handleResult(t.Context(), "watch", errors.New("connection refused"))
	if b.isVerified(t) {
		t.Error("verified after a failed request")
	}
	b.fullPass(t)
	if !b.isVerified(t) {
		t.Error("not verified, although they agree again")
	}
	b.source.store("nodes").removeWatch()
	if b.isVerified(t) {
		t.Error("verified with a closed watch")
	}
	equal(t, "broken", len(b.broken), 0)
}

// An object of a restored etcd may have a version twice, with another content. It must not be taken from the caches.
func TestFull_KeepsOneOfEqualObjects(t *testing.T) {
	b := parallelBench(t)
	gone := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	b.api.has("pods", aPod("web", "7"), aPod("other", "7", gone))
	b.api.has("ippools", aPool("9", "web"))
	b.sets(t, "pods", aPod("web", "7"))
	b.sets(t, "pods", aPod("other", "7"))
	b.sets(t, "ippools", aPool("9", "web"))
	read, cached := b.fullPass(t), b.observe()
	web, other := types.NamespacedName{Namespace: "default", Name: "web"}, types.NamespacedName{Namespace: "default",
		Name: "other"}
	equal(t, "one pod in memory", read.Pods[web] == cached.Pods[web], true)
	equal(t, "one pool in memory", read.Pools[0] == cached.Pools[0], true)
	equal(t, "the pod that was read", read.Pods[other].Phase, podstate.Finished)
}

func TestFull_RebuildsCachesThatDiffer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, b *bench)
		why     string
	}{
		"deleted object": {func(t *testing.T, b *bench) {
			b.sets(t, "pods", aPod("web", "7"))
		}, "pods default/web is in the cache and does not exist"},
		"missing object": {func(t *testing.T, b *bench) {
			b.api.has("pods", aPod("web", "7"))
		}, "pods default/web is not in the cache"},
		"old version of a pool": {func(t *testing.T, b *bench) {
			b.api.has("ippools", aPool("9", "web"))
			b.sets(t, "ippools", aPool("7", "web"))
		}, "ippools kube-system/10.0.0.0-24 has resourceVersion 7 in the cache, and 9"},
		"two objects": {func(t *testing.T, b *bench) {
			b.api.has("pods", aPod("a", "7"), aPod("b", "8"))
		}, "pods default/a is not in the cache, and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			b := parallelBench(t)
			tt.prepare(t, b)
			o := b.fullPass(t)
			equal(t, "broken", strings.Join(b.broken, "; "), tt.why)
			equal(t, "rebuilt", b.rebuildReason(), tt.why)
			equal(t, "restored", o.Restored, "")
			equal(t, "lists of pods", b.api.lists["pods"], 1)
			if b.isVerified(t) {
				t.Error("verified")
			}
		})
	}
}

func TestFull_KeepsCachesThatCatchUp(t *testing.T) {
	t.Parallel()
	later := func(f func()) { time.AfterFunc(20*time.Millisecond, f) }
	for name, during := range map[string]func(b *bench){
		"during the read": func(b *bench) { b.sets(t, "pods", aPod("web", "9")) },
		"after the read":  func(b *bench) { later(func() { b.sets(t, "pods", aPod("web", "9")) }) },
		// The caches never catch up with a pod that changes all the time.
		"older version": func(b *bench) { later(func() { b.sets(t, "pods", aPod("web", "8")) }) },
		"deleted":       func(b *bench) { b.removes(t, "pods", aPod("web", "10")) },
	} {
		t.Run(name, func(t *testing.T) {
			b := parallelBench(t)
			b.source.settleTimeout = time.Second // later than the change, on a busy machine, too
			b.sets(t, "pods", aPod("web", "7"))
			b.api.has("pods", aPod("web", "9"))
			b.api.onList = func(_ context.Context, resource string, n int) {
				if resource == "pods" && n == 1 {
					during(b)
				}
			}
			b.fullPass(t)
			equal(t, "broken", len(b.broken), 0)
			equal(t, "lists of pods", b.api.lists["pods"], 1)
			if !b.isVerified(t) {
				t.Error("not verified")
			}
		})
	}
}

func TestFull_KeepsCachesWhoseWatchWasClosed(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]func(b *bench){
		"closed":           func(b *bench) { b.source.store("pods").removeWatch() },
		"closed, reopened": func(b *bench) { b.source.store("pods").removeWatch(); b.source.store("pods").addWatch() },
	} {
		t.Run(name, func(t *testing.T) {
			b := parallelBench(t)
			b.fullPass(t)
			b.api.has("pods", aPod("web", "7"))
			b.api.onList = func(_ context.Context, resource string, n int) {
				if resource == "pods" && n == 2 {
					closed(b)
				}
			}
			b.source.store("pods").handleResult(t.Context(), "watch", errors.New("connection refused"))
			b.fullPass(t)
			equal(t, "broken", len(b.broken), 0)
			if b.isVerified(t) {
				t.Error("verified")
			}
		})
	}
}

func TestFull_DetectsRestore(t *testing.T) {
	t.Parallel()
	restored := map[string]struct {
		prepare func(t *testing.T, b *bench)
		why     string
	}{
		"revision": {func(t *testing.T, b *bench) {
			b.api.isAt(50)
		}, "etcd is at resourceVersion 50, and the watch of pods has delivered 70"},
		"older object in a list": {func(t *testing.T, b *bench) {
			b.api.has("pods", aPod("web", "60"))
		}, "pods default/web is at resourceVersion 60 after 70"},
		"older object by a watch": {func(t *testing.T, b *bench) {
			b.api.has("pods", aPod("web", "60"))
			b.sets(t, "pods", aPod("web", "60"))
		}, "pods default/web is at resourceVersion 60 after 70"},
		"older object of a kind whose watch is forbidden": {func(t *testing.T, b *bench) {
			b.isForbidden(t, "pods")
			b.api.has("pods", aPod("web", "60"))
		}, "pods default/web is at resourceVersion 60 after 70"},
		"older object while the watch of another kind is forbidden": {func(t *testing.T, b *bench) {
			b.isForbidden(t, "ippools")
			b.api.has("pods", aPod("web", "60"))
		}, "pods default/web is at resourceVersion 60 after 70"},
		"revision of a kind whose watch is forbidden": {func(t *testing.T, b *bench) {
			b.isForbidden(t, "pods")
			b.api.isAt(50)
		}, "etcd is at resourceVersion 50, and the watch of pods has delivered 70"},
	}
	for name, tt := range restored {
		t.Run(name, func(t *testing.T) {
			b := benchWithPod(t)
			tt.prepare(t, b)
			o := b.fullPass(t)
			equal(t, "restored", o.Restored, tt.why)
			equal(t, "rebuilt", b.rebuildReason(), tt.why)
			if b.isVerified(t) {
				t.Error("verified")
			}
		})
	}

	t.Run("another pod of the same name", func(t *testing.T) {
		b := parallelBench(t)
		b.sets(t, "pods", aPod("web", "70"))
		next := aPod("web", "60")
		next.UID = "uid-2"
		b.sets(t, "pods", next)
		b.api.has("pods", next)
		equal(t, "restored", b.fullPass(t).Restored, "")
	})
}

// isForbidden makes a watch fail as those of an API server do that has just started.
func (b *bench) isForbidden(t *testing.T, resource string) {
	t.Helper()
	b.source.store(resource).handleResult(t.Context(), "watch", apierrors.NewForbidden(schema.GroupResource{}, "", nil))
}

// A pass that cannot compare may not conclude that nothing was restored.
func TestFull_RevisionIsUnknown(t *testing.T) {
	b := parallelBench(t)
	b.api.has("pods", aPod("web", "70"))
	b.sets(t, "pods", aPod("web", "70"))
	instead := b.api.Instead
	b.api.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		if q.Query.Get("limit") == "1" && q.Resource == fakeapi.Pods {
			a := fakeapi.Failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "")
			return &a
		}
		return instead(q)
	}
	o, err := b.full.List(t.Context())
	if err == nil || !strings.Contains(err.Error(), "compare what was read") {
		t.Errorf("the full pass says %v", err)
	}
	if len(o.Versions) == 0 {
		t.Error("it does not say what it has read")
	}
	b.api.Instead = instead
	b.fullPass(t)
}

func TestList_ComparesRevisionsAfterAWatchWasOpened(t *testing.T) {
	b := benchWithPod(t)
	b.api.isAt(50)
	if !b.isVerified(t) { // no watch was opened
		t.Error("not verified")
	}
	b.source.store("pods").removeWatch()
	b.source.store("pods").addWatch()
	if b.isVerified(t) {
		t.Error("verified")
	}
	b.api.isAt(200) // exceeds the old one before the next full pass
	if o := b.fullPass(t); !strings.Contains(o.Restored, "50") {
		t.Errorf("the full pass reports %q", o.Restored)
	}
	equal(t, "the next full pass", b.fullPass(t).Restored, "")
}

func TestFull_KindThatBecomesForbidden(t *testing.T) {
	b := parallelBench(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: "7"}}
	b.api.has("nodes", node)
	b.sets(t, "nodes", node)
	b.fullPass(t)
	b.api.denies("nodes")
	b.fullPass(t)
	equal(t, "broken", b.broken, nil)
	if !b.isVerified(t) { // the open watch continues
		t.Error("not verified")
	}
}

// Machines are not watched: the observations of the caches have what the last quorum read found.
func TestObserve_MachinesOfTheLastRead(t *testing.T) {
	b := parallelBench(t)
	claimed := aPool("7", "launcher-1")
	must(t, unstructured.SetNestedField(claimed.Object, "default/vm.net1", "spec", "allocations", "5", "ipamclaimref"))
	b.api.has("ippools", claimed)
	b.sets(t, "ippools", claimed)
	o := b.fullPass(t)
	equal(t, "unread after a full pass", b.observe().IPAMClaims.Why(), "")
	b.source.mu.Lock()
	b.source.lastFull.IPAMClaims = facts.Unknown[map[types.NamespacedName]*ippool.Claim](errors.New("forbidden"))
	b.source.mu.Unlock()
	equal(t, "unread until the next read", b.observe().IPAMClaims.Why(), "forbidden")
	_, err := b.source.Relist(t.Context(), o)
	must(t, err)
	equal(t, "unread after a refresh", b.observe().IPAMClaims.Why(), "")
}
