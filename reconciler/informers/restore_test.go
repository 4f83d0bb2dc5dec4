package informers

import (
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func leaseOfNode(name, version string) *coordinationv1.Lease {
	return &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: "uid-1", ResourceVersion: version}}
}

func TestTheLeasesOfThePoolsThatTheWatchesHaveToldOf(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	equal(t, "of no pool", len(b.source.Leases()), 0)
	slice := aPool("8", "web")
	slice.SetName("worker-1-10.0.0.0-24")
	elsewhere := aPool("9", "web")
	elsewhere.SetNamespace("other")
	b.watchEvent("ippools", aPool("7", "web"))
	b.watchEvent("ippools", slice)
	b.watchEvent("ippools", elsewhere)
	all := b.source.Leases()
	equal(t, "namespaces", len(all), 2)
	equal(t, "of one", len(all["kube-system"]), 2)
	equal(t, "of the other", all["other"], []string{"whereabouts"})
	b.source.setSession(nil)
	equal(t, "without caches it is not known", b.source.Leases() == nil, true)
}

func TestWhatShowsThatEtcdRanBackwards(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		happens func(b *bench)
		why     string
	}{
		"nothing": {func(b *bench) {}, ""},
		"its revision": {func(b *bench) { b.watchEvent("pods", aPod("web", "120")) },
			"etcd is at resourceVersion 100 after 120"},
		"a pool, though the revision was bumped": {func(b *bench) {
			b.watchEvent("ippools", aPool("90", "web"))
			b.api.has("ippools", aPool("80", "web"))
		}, "ippools kube-system/10.0.0.0-24 is at resourceVersion 80 after 90"},
		"an agent's Lease, though the revision was bumped": {func(b *bench) {
			b.watchEvent("leases", leaseOfNode("worker-1", "90"))
			b.api.has("leases", leaseOfNode("worker-1", "80"))
		}, "leases kube-system/worker-1 is at resourceVersion 80 after 90"},
		"not one that was recreated": {func(b *bench) {
			other := leaseOfNode("worker-1", "80")
			other.UID = "uid-2"
			b.watchEvent("leases", leaseOfNode("worker-1", "90"))
			b.api.has("leases", other)
		}, ""},
		"not one that has changed since": {func(b *bench) {
			b.watchEvent("ippools", aPool("80", "web"))
			b.api.has("ippools", aPool("90", "web"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tt.happens(b)
			why, err := b.source.RanBackwards(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if name == "its revision" {
				why, tt.why = why[:24], tt.why[:24]
			}
			equal(t, "why", why, tt.why)
		})
	}
}

func TestARestoreIsReportedByTheNextFullPassAndTheCachesAreRebuilt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.source.RecordRestore("a pool is older")
	equal(t, "rebuilt", b.rebuilt(), "a pool is older")
	o := b.fullPass(t)
	equal(t, "what the pass reports", o.Restored, "a pool is older")
	o = b.fullPass(t)
	equal(t, "the pass after it", o.Restored, "")
}

func TestAnErrorDoesNotShowThatEtcdDidNotRunBackwards(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.watchEvent("ippools", aPool("90", "web"))
	b.api.mu.Lock()
	b.api.denied = "ippools"
	b.api.mu.Unlock()
	if why, err := b.source.RanBackwards(t.Context()); err == nil || why != "" {
		t.Errorf("it says %q, %v", why, err)
	}
}

func TestAFullPassThatHangsIsRestartedWhenTheAPIServerIsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hangs, hung := make(chan struct{}), make(chan struct{})
	defer close(hangs)
	b.api.onList = func(resource string, n int) {
		if resource == "ippools" && n == 1 {
			close(hung)
			<-hangs
		}
	}
	go func() {
		<-hung
		b.source.RestartFullPass()
	}()
	b.fullPass(t)
	equal(t, "lists of pools", b.api.lists["ippools"], 2)
	b.source.RestartFullPass() // none is under way
	b.fullPass(t)
}

// A replica that does not lead notices a restore as well, and makes no full pass before it
// leads: that may be days later.
func TestARestoreThatNoPassHasReportedIsDroppedADayLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	late := time.Duration(0)
	next := b.api.Config.Handler
	b.api.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(late).UTC().Format(http.TimeFormat))
		next.ServeHTTP(w, r)
	})
	if _, err := b.source.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.source.RecordRestore("a pool is older") // the guard of the replica that does not lead
	late = 24 * time.Hour
	if _, err := b.source.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := b.fullPass(t); o.Restored != "" { // its first pass as the leader
		t.Errorf("at %s etcd was restored: %q", o.Now, o.Restored)
	}
}

// While the guard asks whether etcd was restored, behind a fence, a full pass may see it
// first, and throws away the caches that show it.
func TestARestoreIsReportedBeforeTheCachesAreThrownAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.has("pods", aPod("web", "70"))
	b.watchEvent("pods", aPod("web", "70"))
	b.fullPass(t)
	var told []string
	b.source.OnRestore = func(why string, at time.Time) {
		told = append(told, why)
		if at.IsZero() || len(b.broken) > 0 {
			t.Errorf("it is told for %s, when %v caches were thrown away", at, b.broken)
		}
	}
	b.api.mu.Lock()
	b.api.revision = 50
	b.api.mu.Unlock()
	if o := b.fullPass(t); o.Restored == "" || len(told) != 1 || told[0] != o.Restored {
		t.Errorf("the pass shows %q, and %q was told", o.Restored, told)
	}
}
