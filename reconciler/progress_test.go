package reconciler_test

import (
	"testing"
	"time"
)

// serve's liveness probe fails after ten minutes without a step (serve/health.go, stuckAfter). While requests hang no
// page of a LIST is one.
func TestExecutor_EachBatchIsAStepForTheLivenessProbe(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1000)
		s.takes["refresh"] = 2 * time.Minute // 4 tries of 30 s, kube.Cluster.call
		s.fault = func(call, _ string) (error, bool) {
			if call == "refresh" {
				return errServer, false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		last, longest := time.Now(), time.Duration(0)
		r.Progress = func(string) { longest, last = max(longest, time.Since(last)), time.Now() }
		_, took := run(t, r)
		longest = max(longest, time.Since(last))
		if longest > 10*time.Minute {
			t.Errorf("no step for %s of %s", longest, took)
		} else {
			t.Logf("at most %s of %s without a step", longest, took)
		}
	})
}
