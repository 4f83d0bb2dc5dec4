//go:build slow

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// withoutSecondCheck is the product with a mutant of internal/mutants: it reads nothing live before a release.
var withoutSecondCheck = build(sync.OnceValues(func() (string, error) {
	scratch, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	write := exec.Command("go", "run", "./internal/mutants", "-run", "^Nothing is read live under the Lease$", "-overlay",
		scratch)
	write.Dir = ".."
	overlay, err := write.Output()
	if err != nil {
		return "", err
	}
	return harness.BuildProduct("without-second-check", "-overlay="+strings.TrimSpace(string(overlay)))
}))

// TestFaults_WatchesOfPodsLag lets the product know no pod that starts, so that only the second check keeps it from
// releasing their addresses. Without the second check the trial must find that: in full, since its build takes long.
func TestFaults_WatchesOfPodsLag(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		programs build
		isWrong  bool
	}{"with the second check": {raced, false}, "without it": {withoutSecondCheck, true}} {
		if c.isWrong && !*full {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "worker-1", "worker-2")
			s.programs = c.programs
			r := newFaultTrial(t, s, false, theNames(blue))
			l, kubeconfig := s.link(t)
			v := s.serve(t, kubeconfig, "--confirm-after", "0s")
			l.suffers(faults{hold: watchOf("pods")})
			rest := r.traffic(t, 5, 4)
			eventuallyWithin(t, 5*time.Minute, "ADDs", func() bool { return r.adds.Load() >= 12 })
			rest() // two pods stay
			if !c.isWrong {
				v.said(t, "Not released: no longer Stale at the second check")
				l.suffers(faults{})
				left := r.settle(t)
				v.stop(t)
				t.Logf("faults: watches of pods that deliver nothing, %s", r.verdict(t, left))
				return
			}
			eventually(t, "an address in use to be released", func() bool {
				left, err := r.leaks(t.Context(), r.of(harness.IPPools), r.of(harness.Reservations))
				return err == nil && strings.Contains(strings.Join(left, "\n"), "missing: entry")
			})
			v.stop(t)
			check(t, r.pools.catchUp(t.Context()))
			count, found := r.checkOperations(try(r.AuditLog().Next()).must(t), nil)
			if len(found) == 0 {
				t.Errorf("%d operations are in order, although an address in use was released", count)
			}
			for _, err := range found {
				t.Logf("found: %v", err)
			}
		})
	}
}
