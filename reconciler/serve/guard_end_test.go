package serve

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// API servers restart after a restore, for longer than a fence may last. No ADD waits for the fence meanwhile, and its
// Leases expire.
func TestGuard_OutageDuringAFence(t *testing.T) {
	for _, outage := range []time.Duration{95 * time.Second, 80 * time.Second} {
		t.Run(outage.String(), func(t *testing.T) {
			w := aCluster()
			guarded(t, w, func(t *testing.T, g *Guard) {
				w.restore()
				w.isFenced(t, true)
				w.change(func() { w.away, w.since = true, time.Time{} }, outage) // the Leases expire
				w.change(func() { w.away = false }, time.Second)
				equal(t, "fenced", g.IsFenced(), true)
				w.wait(16 * time.Second) // for the agents, by docs/operate/restore.md
				equal(t, "fenced for the agents", g.IsFenced(), true)
				g.outcomes(t, nil)
			})
		})
	}
}

// A new leader reports the restore for which it has kept the fence before.
func TestGuard_OneFencePerRestore(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		w.restore()
		w.wait(92 * time.Second)
		w.isFenced(t, false)
		w.wait(10 * time.Second)
		g.Lead()
		w.mu.Lock()
		why := w.restored[len(w.restored)-1]
		w.mu.Unlock()
		for _, at := range []time.Duration{-102 * time.Second, 0} {
			g.ReportRestore(why, time.Now().Add(at))
			w.wait(time.Second)
			w.isFenced(t, false)
		}
		for range 2 { // two restores
			g.ReportRestore("another pool is older", time.Now())
			w.wait(time.Second)
			w.isFenced(t, true)
			w.wait(20 * time.Minute)
			w.isFenced(t, false)
		}
	})
}

// A restore may lose the pool of which a pod has an address.
func TestGuard_KeepsLeasesOfLostPools(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		w.change(func() { w.away = true }, 5*time.Second)
		w.change(func() { w.away, w.leases = false, map[string][]string{"other": {"whereabouts"}} }, 20*time.Second)
		want := map[string][]string{"kube-system": {"whereabouts"}, "other": {"whereabouts"}}
		equal(t, "Leases", g.leases, want)
	})
}

func TestGuard_LeavesTheFenceToOthers(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(*testing.T, *Guard) { w.restore() })
	equal(t, "calls of Leave and Lower", []int{w.leaves, w.lowers}, []int{1, 0})
}

func TestCheckFence(t *testing.T) {
	most := kube.LongestFence
	for timeout, isValid := range map[time.Duration]bool{0: true, most: true, most + 1: false, -1: false} {
		if err := CheckFence(timeout); (err == nil) != isValid {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
