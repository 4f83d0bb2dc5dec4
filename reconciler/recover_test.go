package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// denied is a simulator whose first lists are denied, as those of an API server that has just started.
type denied struct {
	*simulator
	lists int
}

func (d *denied) List(ctx context.Context) (*facts.Observation, error) {
	if d.lists--; d.lists >= 0 {
		return nil, errors.New("cannot list pods: forbidden")
	}
	return d.simulator.List(ctx)
}

// The fence ends with recover: behind it, lists that are denied for a moment are read again.
func TestRecover_IsDenied(t *testing.T) {
	for name, c := range map[string]struct {
		denied   int
		isFenced bool
		want     bool
	}{
		"once, behind a fence":     {1, true, true},
		"for ever, behind a fence": {1000, true, false},
		"once, without a fence":    {1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.lacksAnEntry()
				r := s.reconciler(t)
				r.Source, r.Options.Repair = &denied{s, c.denied}, true
				if c.isFenced {
					r.Fence = fencedSince(time.Now().Add(-time.Minute))
				}
				began := time.Now()
				_, err := r.Recover(t.Context())
				if isWritten := s.entries(bluePool)["1"] != nil; isWritten != c.want || (err == nil) != c.want {
					t.Errorf("the entry is written: %t, %v", isWritten, err)
				}
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("it ended after %s", took)
				}
			})
		})
	}
}
