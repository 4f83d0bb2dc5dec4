package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// The API server has trouble: a patch fails after its reservations were deleted,
// and while the Lease is waited for the agent falls silent. Everything is put back.
func TestPuttingBackDoesNotKeepTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 100)
		var gone []v1alpha1.Gone
		for i := 1; i <= 100; i++ {
			gone = append(gone, v1alpha1.Gone{ID: fmt.Sprint("box-", i), UID: "u"})
		}
		time.Sleep(5 * time.Minute)
		s.heard(goneOn("worker-1", gone...))
		s.takes["create"] = 100 * time.Millisecond
		s.fault = func(call, _ string) (error, bool) {
			if call == "patch" {
				return errServer, false
			}
			return nil, false
		}
		s.step = func(call, _ string) {
			if call == "hold" && len(s.holds) == 1 {
				time.Sleep(62 * time.Second)
			}
		}
		r := s.reconciler(nil)
		r.Options.ConfirmAfter = 15 * time.Minute
		longest := &longestHold{simulator: s}
		r.Writer = longest
		if _, _, err := r.Pass(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		t.Log(len(s.made("create")), "put back,", len(s.holds), "holds")
		if longest.took > 5*time.Second {
			t.Errorf("the Lease was held for %s", longest.took)
		}
	})
}

type longestHold struct {
	*simulator
	took time.Duration
}

func (l *longestHold) Hold(ctx context.Context, namespace string, leases []string, work func(context.Context, *reconciler.Hold) error) error {
	return l.simulator.Hold(ctx, namespace, leases, func(ctx context.Context, h *reconciler.Hold) error {
		began := time.Now()
		defer func() { l.took = max(l.took, time.Since(began)) }()
		return work(ctx, h)
	})
}
