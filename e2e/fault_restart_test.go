//go:build slow

package e2e

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

// TestNothingIsFreedWronglyThoughTheControlPlaneDies has SIGKILL end the API server and etcd,
// in turn and at any moment, while the product releases and repairs and pods come and go.
func TestNothingIsFreedWronglyThoughTheControlPlaneDies(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	r := newFaultTrial(t, s)
	m := r.mending(t)
	v := r.beginServe(t, s.Kubeconfig(), "--repair", "--confirm-after", "2s", "--cron", "@every 10s")
	oneShot := r.runs(t, s.Kubeconfig())
	rest := r.traffic(t, 3, 6)
	counts := s.restarts(t, rand.New(rand.NewPCG(3, 3)), 75*time.Second)
	rest()
	within(3*time.Minute, time.Second, func() bool { return len(m.records(t)) == len(m.whole) })
	left := r.settle(t, 2*time.Minute)
	oneShot()
	v.stop(t)
	equal(t, "what was damaged", m.records(t), m.whole)
	t.Logf("faults: %s, %s", inOrder(counts), r.verdict(t, left))
	if r.adds.Load() < 20 || counts["SIGKILLs of the API server"]+counts["SIGKILLs of etcd"] < 6 {
		t.Error("that was too little to show anything")
	}
}

// restarts kills and starts the API server and etcd for so long.
func (s *stage) restarts(t *testing.T, dice *rand.Rand, during time.Duration) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	counts := map[string]int{}
	for ends := time.Now().Add(during); time.Now().Before(ends); {
		time.Sleep(time.Duration(1000+dice.IntN(5000)) * time.Millisecond) // at any moment is what is wanted
		away := time.Duration(dice.IntN(3000)) * time.Millisecond
		if dice.IntN(2) == 0 {
			s.StopEtcd()
			time.Sleep(away)
			check(t, s.StartEtcd())
			check(t, s.WaitReady(ctx))
			counts["SIGKILLs of etcd"]++
			continue
		}
		s.StopAPI()
		time.Sleep(away)
		check(t, s.StartAPI(ctx))
		counts["SIGKILLs of the API server"]++
	}
	return counts
}
