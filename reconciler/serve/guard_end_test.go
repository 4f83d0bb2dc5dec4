package serve

import (
	"fmt"
	"testing"
	"time"
)

// API servers that start after a restore end and start again: the restore is known, and
// then they are away for longer than the fence may stand. No ADD waits meanwhile, and the
// Leases have expired.
func TestATimeWithoutTheAPIServerIsNoTimeBehindTheFence(t *testing.T) {
	for name, away := range map[string]time.Duration{"for longer than a fence": 95 * time.Second, "for nearly as long": 80 * time.Second} {
		t.Run(name, func(t *testing.T) {
			w := aCluster()
			guarded(t, w, func(t *testing.T, g *Guard) {
				w.restore()
				w.stands(t, true)
				w.is(func() { w.away, w.up = true, time.Time{} }, away) // nobody renews: 3 s later they are nobody's
				w.is(func() { w.away = false }, time.Second)
				equal(t, "it is raised, or still is", g.IsFenced(), true)
				w.is(func() {}, 16*time.Second) // what the agents need, by docs/operate/restore.md
				equal(t, "it stands for as long as the agents need", g.IsFenced(), true)
				g.outcomes(t, nil)
			})
		})
	}
}

// What Server.noticeRestore does at the first pass of a replica that begins to lead while nodes
// are still waited for: it has kept the fence of this very restore, for its whole time.
func TestAFenceWhoseTimeIsUpIsNotRaisedAgainForTheSameRestore(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		w.restore()
		w.is(func() {}, 92*time.Second)
		w.stands(t, false)
		w.is(func() {}, 10*time.Second)
		g.Lead()
		w.mu.Lock()
		sign := w.restored[len(w.restored)-1] // that the source was told, and will tell
		w.mu.Unlock()
		for _, at := range []time.Duration{-102 * time.Second, 0} {
			g.ReportRestore(sign, time.Now().Add(at))
			w.is(func() {}, time.Second)
			w.stands(t, false)
		}
		g.ReportRestore("another pool is older", time.Now())
		w.is(func() {}, time.Second)
		w.stands(t, true)
		w.is(func() {}, 20*time.Minute)
		w.stands(t, false)
		g.ReportRestore("another pool is older", time.Now()) // again, by another restore
		w.is(func() {}, time.Second)
		w.stands(t, true)
	})
}

// A restore may lose the pool that a pod has an address of.
func TestTheLeasesOfPoolsThatTheRestoreHasLostAreTakenToo(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(t *testing.T, g *Guard) {
		w.is(func() { w.away = true }, 5*time.Second)
		w.is(func() { w.away, w.leases = false, map[string][]string{"other": {"whereabouts"}} }, 20*time.Second)
		equal(t, "known", g.leases, map[string][]string{"kube-system": {"whereabouts"}, "other": {"whereabouts"}})
	})
}

func TestAProcessThatEndsLeavesTheFenceOfARestoreToTheOther(t *testing.T) {
	w := aCluster()
	guarded(t, w, func(*testing.T, *Guard) { w.restore() })
	equal(t, "left, lowered", []int{w.left, w.lowered}, []int{1, 0})
}

func TestTheFencesTimeoutIsLessThanADDsWait(t *testing.T) {
	for d, good := range map[time.Duration]bool{0: true, time.Second: true, MaxFence: true, MaxFence + 1: false, -1: false} {
		if err := CheckFence(d); (err == nil) != good {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
