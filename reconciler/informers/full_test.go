package informers

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// fullPass reads everything by quorum.
func (b *bench) fullPass(t *testing.T) *judge.Observation {
	t.Helper()
	o, err := b.full.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// verified reports whether the caches can be relied upon.
func (b *bench) verified(t *testing.T) bool {
	t.Helper()
	_, err := b.source.List(t.Context())
	if err != nil && !errors.Is(err, ErrCacheUnverified) {
		t.Fatal(err)
	}
	return err == nil
}

// rebuilt returns why the caches are to be rebuilt, "" if they are not.
func (b *bench) rebuilt() string {
	select {
	case why := <-b.source.rebuild:
		return why
	default:
		return ""
	}
}

func TestCachesAreReliedUponSinceAFullPassThatAgreed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.has("pods", aPod("web", "7"))
	b.sets(t, "pods", aPod("web", "7"))
	if b.verified(t) {
		t.Error("they are relied upon before they were compared")
	}
	b.fullPass(t)
	if !b.verified(t) {
		t.Error("they are not relied upon although they agree")
	}
	equal(t, "read twice", b.api.lists["pods"], 1)
	b.source.store("pods").ended(t.Context(), errors.New("connection refused"))
	if b.verified(t) {
		t.Error("they are relied upon although a request has failed since")
	}
	b.fullPass(t)
	if !b.verified(t) {
		t.Error("they are not relied upon although they agree again")
	}
	b.source.store("nodes").closed()
	if b.verified(t) {
		t.Error("they are relied upon although a watch is closed")
	}
	equal(t, "broken", len(b.broken), 0)
}

func TestCachesThatKeepDifferingAreThrownAway(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, b *bench)
		why     string
	}{
		"an object that is gone":  {func(t *testing.T, b *bench) { b.sets(t, "pods", aPod("web", "7")) }, "pods default/web is there and does not exist"},
		"an object that it lacks": {func(t *testing.T, b *bench) { b.api.has("pods", aPod("web", "7")) }, "pods default/web is missing there"},
		"an old version, of a pool": {func(t *testing.T, b *bench) {
			b.api.has("ippools", aPool("9", "web"))
			b.sets(t, "ippools", aPool("7", "web"))
		}, "ippools kube-system/10.0.0.0-24 is there at resourceVersion 7 and was read at 9"},
		"more than one": {func(t *testing.T, b *bench) { b.api.has("pods", aPod("a", "7"), aPod("b", "8")) }, "pods default/a is missing there, and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tt.prepare(t, b)
			o := b.fullPass(t)
			equal(t, "broken", strings.Join(b.broken, "; "), tt.why)
			equal(t, "rebuilt", b.rebuilt(), tt.why)
			equal(t, "restored", o.Restored, "")
			equal(t, "lists of pods", b.api.lists["pods"], 1)
			if b.verified(t) {
				t.Error("they are relied upon")
			}
		})
	}
}

func TestFull_CachesThatCatchUpAreKept(t *testing.T) {
	t.Parallel()
	catchUp := func(b *bench, version string) func() {
		return func() { b.sets(t, "pods", aPod("web", version)) }
	}
	for name, tt := range map[string]struct {
		version string // in the cache, in the end
		late    bool   // after everything was read
	}{
		"while it is read": {"9", false},
		"after it was":     {"9", true},
		// A pod that changes all the time is never caught up with.
		"and are behind again": {"8", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sets(t, "pods", aPod("web", "7"))
			b.api.has("pods", aPod("web", "9"))
			b.api.onList = func(resource string, n int) {
				switch {
				case resource != "pods" || n != 1:
				case tt.late:
					time.AfterFunc(20*time.Millisecond, catchUp(b, tt.version))
				default:
					catchUp(b, tt.version)()
				}
			}
			b.fullPass(t)
			equal(t, "broken", len(b.broken), 0)
			equal(t, "lists of pods", b.api.lists["pods"], 1)
			if !b.verified(t) {
				t.Error("they are not relied upon")
			}
		})
	}
}

// A pod may come and go while everything is read: the list has it, and the cache never has it again.
func TestFull_ObjectThatComesAndGoesWhileItIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.has("pods", aPod("web", "7"))
	b.api.onList = func(resource string, n int) {
		if resource == "pods" && n == 1 {
			b.sets(t, "pods", aPod("web", "7"))
			b.removes(t, "pods", aPod("web", "8"))
		}
	}
	b.fullPass(t)
	equal(t, "broken", len(b.broken), 0)
	if !b.verified(t) {
		t.Error("they are not relied upon")
	}
}

func TestAWatchThatWasClosedMayStillCatchUp(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]func(b *bench){
		"closed":           func(b *bench) { b.source.store("pods").closed() },
		"closed, reopened": func(b *bench) { b.source.store("pods").closed(); b.source.store("pods").opened() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.fullPass(t)
			b.api.has("pods", aPod("web", "7"))
			b.api.onList = func(resource string, n int) {
				if resource == "pods" && n == 2 {
					closed(b)
				}
			}
			b.source.store("pods").ended(t.Context(), errors.New("connection refused"))
			b.fullPass(t)
			equal(t, "broken", len(b.broken), 0)
			if b.verified(t) {
				t.Error("they are relied upon")
			}
		})
	}
}

func TestARestoreOfEtcdIsSeenBy(t *testing.T) {
	t.Parallel()
	restored := map[string]struct {
		prepare func(t *testing.T, b *bench)
		why     string
	}{
		"its revision": {func(t *testing.T, b *bench) { b.api.revision = 50 }, "etcd is at resourceVersion 50, and the watch of pods has delivered 70"},
		"an object that was read at an older version than the cache has": {func(t *testing.T, b *bench) {
			b.api.has("pods", aPod("web", "60"))
		}, "pods default/web is at resourceVersion 60 after 70"},
		"an object that a watch told of again": {func(t *testing.T, b *bench) {
			b.api.has("pods", aPod("web", "60"))
			b.sets(t, "pods", aPod("web", "60"))
		}, "pods default/web is at resourceVersion 60 after 70"},
	}
	for name, tt := range restored {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.api.has("pods", aPod("web", "70"))
			b.sets(t, "pods", aPod("web", "70"))
			b.fullPass(t)
			tt.prepare(t, b)
			o := b.fullPass(t)
			equal(t, "restored", o.Restored, tt.why)
			equal(t, "rebuilt", b.rebuilt(), tt.why)
			if b.verified(t) {
				t.Error("they are relied upon")
			}
		})
	}

	t.Run("another pod of the same name it is not", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.sets(t, "pods", aPod("web", "70"))
		next := aPod("web", "60")
		next.UID = "uid-2"
		b.sets(t, "pods", next)
		b.api.has("pods", next)
		equal(t, "restored", b.fullPass(t).Restored, "")
	})
}

func TestARevisionThatRanBackwardsIsSeenWhenAWatchIsReopened(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.has("pods", aPod("web", "70"))
	b.sets(t, "pods", aPod("web", "70"))
	b.fullPass(t)
	b.api.revision = 50
	if !b.verified(t) { // nothing gave a reason to ask
		t.Error("they are not relied upon")
	}
	b.source.store("pods").closed()
	b.source.store("pods").opened()
	if b.verified(t) {
		t.Error("they are relied upon")
	}
	b.api.revision = 200 // it grows past the old one before a full pass is made
	if o := b.fullPass(t); !strings.Contains(o.Restored, "50") {
		t.Errorf("the full pass reports %q", o.Restored)
	}
	equal(t, "the next full pass", b.fullPass(t).Restored, "")
}

func TestFull_KindThatMayNotBeListedAnyMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: "7"}}
	b.api.has("nodes", node)
	b.sets(t, "nodes", node)
	b.fullPass(t)
	b.api.denied = "nodes"
	b.fullPass(t)
	equal(t, "broken", b.broken, "[]") // that no node is read any more is no difference
	if !b.verified(t) {                // the watch that is open outlives the right
		t.Error("they are not relied upon")
	}
}
