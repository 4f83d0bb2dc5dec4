//go:build !slow && !cluster

package e2e

import (
	"testing"
	"time"
)

func TestServeWaitsForWhatIsNotProven(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	blue := simple("blue", "10.1.0.0/24")
	// Before serve starts: of a pod that it has seen it would wait for the grace
	// period, too.
	s.up(t, "worker-1", "web", blue).leak(t)
	began := time.Now()
	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "6s")
	v.counts(t, `ip_reconcile_refused_total{reason="AwaitingConfirmation"}`, 1)
	s.freed(t, 3*time.Minute, "10.1.0.0-24", "1")
	if took := time.Since(began); took < 6*time.Second {
		t.Errorf("freed %s after the start", took)
	}
	v.is(t, `ip_reconcile_released_total{reason="PodGone"}`, 2)
}
