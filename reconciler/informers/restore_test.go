package informers

import (
	"net/http"
	"testing"
	"time"
)

func TestTheLeasesOfThePoolsThatTheWatchesHaveToldOf(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	equal(t, "of no pool", len(b.source.Leases()), 0)
	slice := aPool("8", "web")
	slice.SetName("worker-1-10.0.0.0-24")
	elsewhere := aPool("9", "web")
	elsewhere.SetNamespace("other")
	b.sets(t, "ippools", aPool("7", "web"))
	b.sets(t, "ippools", slice)
	b.sets(t, "ippools", elsewhere)
	all := b.source.Leases()
	equal(t, "namespaces", len(all), 2)
	equal(t, "of one", len(all["kube-system"]), 2)
	equal(t, "of the other", all["other"], []string{"whereabouts"})
	b.source.reset()
	equal(t, "without caches it is not known", b.source.Leases() == nil, true)
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
	b.sets(t, "pods", aPod("web", "70"))
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
