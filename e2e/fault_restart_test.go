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
	s := newStageWithReports(t, "worker-1", "worker-2").withRaceDetector()
	r := newFaultTrial(t, s)
	m := r.mending(t)
	v := r.beginServe(t, s.Kubeconfig(), "--repair", "--confirm-after", "2s", "--cron", "@every 10s")
	oneShot := r.runs(t, s.Kubeconfig())
	rest := r.traffic(t, 3, 6)
	counts := r.restarts(t, rand.New(rand.NewPCG(3, 3)), 10)
	rest()
	within(5*time.Minute, time.Second, func() bool { return len(m.records(t)) == len(m.whole) })
	left := r.settle(t)
	oneShot()
	v.stop(t)
	equal(t, "what was damaged", m.records(t), m.whole)
	t.Logf("faults: %s, %s", inOrder(counts), r.verdict(t, left))
}

// restarts kills and starts the API server and etcd, so many times at least, and until there was
// something to disturb.
func (r *faultTrial) restarts(t *testing.T, dice *rand.Rand, least int) map[string]int {
	t.Helper()
	s := r.stage
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	counts := map[string]int{}
	for n := 0; n < least || r.adds.Load() < 20; n++ {
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
