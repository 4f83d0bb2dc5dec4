package reconciler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// fault is what happens to the calls of one step.
type fault struct {
	err     error // the answer
	isDone  bool  // the call does its work nevertheless
	once    bool  // only the first call
	takes   time.Duration
	before  func(s *simulator) // happens before the first call
	endsRun bool               // the first call cancels the run
	ofWrite bool               // only for writes
	ofHold  bool               // only for the hold
}

var faults = map[string]fault{
	"refused":                  {err: errServer},
	"refused once":             {err: errServer, once: true},
	"refused and the run ends": {err: errServer, endsRun: true, ofWrite: true},
	"forbidden":                {err: fmt.Errorf("403: %w", apply.ErrForbidden), ofWrite: true},
	"lease forbidden":          {err: apply.ErrLeaseForbidden, ofHold: true},
	"busy":                     {err: apply.ErrLeaseBusy, ofHold: true},
	"failed":                   {err: apply.ErrLeaseFailed, ofHold: true},
	"conflict":                 {err: apply.ErrConflict, ofWrite: true},
	"conflict once":            {err: apply.ErrConflict, once: true, ofWrite: true},
	"not sent":                 {err: apply.ErrHoldSpent, ofWrite: true},
	"not sent once":            {err: apply.ErrHoldSpent, once: true, ofWrite: true},
	"answer lost":              {err: errServer, isDone: true, ofWrite: true},
	"answer lost once":         {err: errServer, isDone: true, once: true, ofWrite: true},
	"hangs":                    {takes: 30 * time.Second},
	"hangs once":               {takes: 30 * time.Second, once: true},
	"late":                     {takes: 900 * time.Millisecond},
	"takes all of the hold":    {takes: 4200 * time.Millisecond},
	"reservation gone":         {before: func(s *simulator) { s.changeReservation(blueAddress, nil) }},
	"reservation rewritten": {before: func(s *simulator) {
		s.changeReservation(blueAddress, func(*unstructured.Unstructured) {})
	}},
	"reservation made": {before: func(s *simulator) { s.entry(bluePool, 1, "default/gone-1", "box-1", true) }},
	"entry gone":       {before: func(s *simulator) { s.fill(bluePool, "1", nil) }},
	"pool gone":        {before: func(s *simulator) { s.changePool(bluePool, nil) }},
	"ADD": {before: func(s *simulator) {
		s.pod("gone-1", "back", 1)
		s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": "default/gone-1", "ifname": "net1"})
	}},
	"pool rewritten": {before: func(s *simulator) { s.changePool(bluePool, func(*unstructured.Unstructured) {}) }},
}

const blueAddress = "10.0.0.1"

// inject lets a fault happen to a step: the calls of that name for the first entry of bluePool, or for no object. The
// step "recreate" follows a patch that always fails.
func (s *simulator) inject(step string, f fault, end func()) {
	var mu sync.Mutex
	calls := 0
	isOfStep := func(call, object string) bool {
		if step == "recreate" {
			return call == "create" && object == blueAddress
		}
		return call == step && !strings.HasPrefix(object, "red")
	}
	s.step = func(call, object string) {
		if !isOfStep(call, object) {
			return
		}
		mu.Lock()
		calls++
		first := calls == 1
		mu.Unlock()
		if first && f.before != nil {
			f.before(s)
		}
		if first && f.endsRun {
			end()
		}
	}
	affects := func(call, object string) bool {
		mu.Lock()
		defer mu.Unlock()
		return isOfStep(call, object) && (!f.once || calls == 1)
	}
	s.slow = func(call, object string) time.Duration {
		if !affects(call, object) {
			return 0
		}
		return f.takes
	}
	s.fault = func(call, object string) (error, bool) {
		switch {
		case affects(call, object):
			return f.err, f.isDone
		case step == "recreate" && call == "patch" && object == bluePool:
			return errServer, false
		}
		return nil, false
	}
}

// Each step of a release with each fault. bluePool and redPool have a leak each, with its reservation. The golden file
// says who has the first address afterwards.
func TestRelease_StepsAndFaults(t *testing.T) {
	lines := []string{
		"# box-1 of default/gone-1 leaked 10.0.0.1 and its reservation; the other leak is an address of another pool. Both",
		"# are released, and one step for the first has a fault, at each try or once. Each outcome says who has 10.0.0.1 in",
		"# the end; below it are the faults that lead there. The step 'recreate' undoes a delete: its patch always fails.",
		"# An overlapping pool can assign an address WITHOUT A RESERVATION: only faults of 'recreate' itself may lead there.",
	}
	for _, step := range []string{"hold", "fresh", "delete", "patch", "recreate", "clear"} {
		var found outcomes
		for _, name := range slices.Sorted(maps.Keys(faults)) {
			f := faults[name]
			isWrite := !slices.Contains([]string{"hold", "fresh", "clear"}, step)
			if f.ofWrite && !isWrite || f.ofHold && step != "hold" || f.err != nil && step == "clear" || f.before != nil &&
				step == "clear" {
				continue
			}
			inBubble(t, step+" "+name, func(t *testing.T, s *simulator) {
				s.leaks(bluePool, 1)
				if !f.endsRun { // otherwise the progress of the other one is random
					s.entry(redPool, 2, "default/gone-2", "box-2", true)
				}
				ctx, end := context.WithCancel(t.Context())
				defer end()
				s.inject(step, f, end)
				began := time.Now()
				out, err := s.reconciler(t).Run(ctx)
				check(t, err)
				found.add(s.outcome(out), name)
				if took := time.Since(began); took > 3*time.Minute || len(s.holds) > 15 {
					t.Errorf("it took %s and %d holds", took, len(s.holds))
				}
				if at := slices.Index(s.calls, "patch "+bluePool); at >= 0 && !slices.Contains(s.calls[:at], "delete "+
					blueAddress) {
					t.Errorf("the entry was removed before its reservation: %v", s.calls)
				}
				if s.keepsEntryAlone() && !slices.Contains(cannotRecreate, step+" "+name) {
					t.Errorf("the entry has no reservation: %v", s.calls)
				}
			})
		}
		lines = append(lines, found.lines(step)...)
	}
	golden(t, "release_steps.txt", lines)
}

// cannotRecreate are the faults that leave an entry without its reservation.
var cannotRecreate = []string{
	"recreate refused", "recreate forbidden", "recreate not sent", "recreate hangs", "recreate conflict",
	"recreate refused and the run ends",
}

// keepsEntryAlone reports whether the first entry of bluePool exists without its reservation.
func (s *simulator) keepsEntryAlone() bool {
	return s.entries(bluePool)["1"] != nil && s.reservation(blueAddress) == nil
}
