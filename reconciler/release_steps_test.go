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

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// A fault is what becomes of the calls of one step.
type fault struct {
	err     error // the answer
	isDone  bool  // the call does its work all the same
	once    bool  // only the first call
	takes   time.Duration
	before  func(s *simulator) // happens before the first call
	endsRun bool               // the run is ended with the first call
	ofWrite bool               // it befalls writes alone
	ofHold  bool               // it befalls the hold alone
}

var faults = map[string]fault{
	"refused":               {err: errServer},
	"refused once":          {err: errServer, once: true},
	"refused, run ended":    {err: errServer, endsRun: true, ofWrite: true},
	"forbidden":             {err: fmt.Errorf("403: %w", reconciler.ErrForbidden), ofWrite: true},
	"no right":              {err: reconciler.ErrLeaseForbidden, ofHold: true},
	"busy":                  {err: reconciler.ErrLeaseBusy, ofHold: true},
	"failed":                {err: reconciler.ErrLeaseFailed, ofHold: true},
	"conflict":              {err: reconciler.ErrConflict, ofWrite: true},
	"conflict once":         {err: reconciler.ErrConflict, once: true, ofWrite: true},
	"not sent":              {err: reconciler.ErrHoldSpent, ofWrite: true},
	"not sent once":         {err: reconciler.ErrHoldSpent, once: true, ofWrite: true},
	"answer lost":           {err: errServer, isDone: true, ofWrite: true},
	"answer lost once":      {err: errServer, isDone: true, once: true, ofWrite: true},
	"hangs":                 {takes: 30 * time.Second},
	"hangs once":            {takes: 30 * time.Second, once: true},
	"late":                  {takes: 900 * time.Millisecond},
	"takes all of the hold": {takes: 4200 * time.Millisecond},
	"reservation gone":      {before: func(s *simulator) { s.changeReservation(blueAddress, nil) }},
	"reservation rewritten": {before: func(s *simulator) { s.changeReservation(blueAddress, func(*unstructured.Unstructured) {}) }},
	"reservation made":      {before: func(s *simulator) { s.entry(bluePool, 1, "default/gone-1", "box-1", true) }},
	"entry gone":            {before: func(s *simulator) { s.fill(bluePool, "1", nil) }},
	"pool gone":             {before: func(s *simulator) { s.changePool(bluePool, nil) }},
	"ADD": {before: func(s *simulator) {
		s.pod("gone-1", "back", 1)
		s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": "default/gone-1", "ifname": "net1"})
	}},
	"pool rewritten": {before: func(s *simulator) { s.changePool(bluePool, func(*unstructured.Unstructured) {}) }},
}

const blueAddress = "10.0.0.1"

// inject has a fault befall a step: the calls of that name that are about the first entry of bluePool, or about no object.
// The step "put back" follows a patch that always fails.
func (s *simulator) inject(step string, f fault, end func()) {
	var mu sync.Mutex
	calls := 0
	concerned := func(call, object string) bool {
		if step == "put back" {
			return call == "create" && object == blueAddress
		}
		return call == step && !strings.HasPrefix(object, "red")
	}
	s.step = func(call, object string) {
		if !concerned(call, object) {
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
	befalls := func(call, object string) bool {
		mu.Lock()
		defer mu.Unlock()
		return concerned(call, object) && (!f.once || calls == 1)
	}
	s.slow = func(call, object string) time.Duration {
		if !befalls(call, object) {
			return 0
		}
		return f.takes
	}
	s.fault = func(call, object string) (error, bool) {
		switch {
		case befalls(call, object):
			return f.err, f.isDone
		case step == "put back" && call == "patch" && object == bluePool:
			return errServer, false
		}
		return nil, false
	}
}

// state is what is stored of the first address of bluePool, and then what a run made of it and of the other pool's.
func (s *simulator) state(out *reconciler.Result) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := []string{"-", "-"}
	if e, _ := entriesOf(s.pools[bluePool])["1"].(map[string]any); e != nil {
		text[0] = fmt.Sprint(e["id"])
	}
	if r := s.reservations[blueAddress]; r != nil {
		text[1], _, _ = unstructured.NestedString(r.Object, "spec", "podref")
	}
	for _, x := range out.Refused {
		text = append(text, string(x.Why))
	}
	if n := len(out.Released); n > 0 {
		text = append(text, fmt.Sprintf("%d released", n))
	}
	slices.Sort(text[2:])
	return strings.Join(text, " ")
}

// Each step of a release, and what may become of it. There are a leak in bluePool and one in redPool, each with its
// reservation. testdata/release_steps.txt has what is stored of the first afterwards, its entry and its reservation, and
// what the result says of all four.
func TestRelease_StepsAndFaults(t *testing.T) {
	var lines []string
	for _, step := range []string{"hold", "fresh", "delete", "patch", "put back", "give back"} {
		for _, name := range slices.Sorted(maps.Keys(faults)) {
			f := faults[name]
			isWrite := !slices.Contains([]string{"hold", "fresh", "give back"}, step)
			if f.ofWrite && !isWrite || f.ofHold && step != "hold" || f.err != nil && step == "give back" || f.before != nil && step == "give back" {
				continue
			}
			t.Run(step+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *simulator) {
					s.leaks(bluePool, 1)
					if !f.endsRun { // else it is chance how far the other one has come
						s.entry(redPool, 2, "default/gone-2", "box-2", true)
					}
					ctx, end := context.WithCancel(t.Context())
					defer end()
					s.inject(step, f, end)
					began := time.Now()
					out, err := s.reconciler(t).Run(ctx)
					if err != nil {
						t.Fatal(err)
					}
					lines = append(lines, fmt.Sprintf("%-9s  %-21s  %s, %d holds", step, name, s.state(out), len(s.holds)))
					if took := time.Since(began); took > 3*time.Minute || len(s.holds) > 15 {
						t.Errorf("it took %s and %d holds", took, len(s.holds))
					}
					if at := slices.Index(s.calls, "patch "+bluePool); at >= 0 && !slices.Contains(s.calls[:at], "delete "+blueAddress) {
						t.Errorf("the entry was removed before its reservation: %v", s.calls)
					}
					if s.keepsEntryAlone() && !slices.Contains(lostForGood, step+" "+name) {
						t.Errorf("the entry has no reservation: %v", s.calls)
					}
				})
			})
		}
	}
	golden(t, "release_steps.txt", lines)
}

// lostForGood are the faults that leave an entry without its reservation: it cannot be put back.
var lostForGood = []string{"put back refused", "put back forbidden", "put back not sent", "put back hangs", "put back conflict", "put back refused, run ended"}

// keepsEntryAlone reports whether the first entry of bluePool is there, and its reservation is not.
func (s *simulator) keepsEntryAlone() bool {
	return entriesOf(s.pools[bluePool])["1"] != nil && s.reservations[blueAddress] == nil
}
