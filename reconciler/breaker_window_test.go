package reconciler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// pass makes a pass in a process that has just started, without waiting.
func (s *simulator) pass(t *testing.T) *reconciler.Result {
	t.Helper()
	out := pass(t, s.reconciler(t))
	return out
}

// leakedEntries adds leaks without reservations.
func (s *simulator) leakedEntries(from, to int) {
	for key := from; key <= to; key++ {
		s.entry(bluePool, key, fmt.Sprint("default/gone-", key), fmt.Sprint("box-", key), false)
	}
}

// proves lets an agent report the end of a sandbox at every call.
func proves(id string) func(*simulator) {
	return func(s *simulator) { s.keepReporting(goneOn("worker-1", v1alpha1.Gone{ID: id, UID: "uid-1"})) }
}

// What the breaker counts, in passes of one or several processes.
func TestBreaker_Store(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	type passAt struct {
		after    time.Duration
		before   func(s *simulator)
		released int
		refused  refusals
	}
	leaks := func(n int) func(*simulator) { return func(s *simulator) { s.leaks(bluePool, n) } }
	alone := func(from, to int) func(*simulator) { return func(s *simulator) { s.alone(from, to) } }
	entries := func(from, to int) func(*simulator) { return func(s *simulator) { s.leakedEntries(from, to) } }
	all := func(of ...func(*simulator)) func(*simulator) {
		return func(s *simulator) {
			for _, f := range of {
				f(s)
			}
		}
	}
	breaks := func(n int) refusals { return refusals{plan.Breaker: n} }
	forbids := func(s *simulator) { s.fault = failing("amend", fmt.Errorf("get Lease: %w", apply.ErrForbidden)) }
	grants := func(s *simulator) { s.fault = nil }
	ofFuture := func(s *simulator) {
		s.kept = fmt.Sprintf(`[{"at":%q,"count":15,"of":15}]`, time.Now().Add(24*hour).UTC().Format(time.RFC3339))
	}
	for _, c := range []struct {
		says   string
		dryRun bool
		one    bool // process makes all passes
		alone  bool // the operator accepts that it counts alone
		passes []passAt
		kept   func(text string) bool // at the end; nil for any
	}{
		{says: "21 items, mostly reservations without allocation", passes: []passAt{{5 * minute,
			all(leaks(1), alone(101, 120)), 0, breaks(21)}}},
		{says: "20 of them are no mass release", passes: []passAt{{5 * minute, alone(101, 120), 20, nil}}},
		{says: "many, with allocations", passes: []passAt{{5 * minute, all(leaks(15), alone(101, 115)), 0, breaks(30)}}},
		{says: "few of many allocations", passes: []passAt{{5 * minute, all(leaks(10), alone(101, 110)), 30, nil}}},
		{says: "the window outlives the process", passes: []passAt{
			{0, entries(101, 112), 12, nil}, {minute, entries(201, 212), 0, breaks(12)}, {minute, nil, 0, breaks(12)},
			{hour, nil, 12, nil}}},
		{says: "reservations that an earlier process released count, too", passes: []passAt{{5 * minute, alone(1, 12), 12,
			nil}, {5 * minute, alone(101, 112), 0, breaks(12)}}},
		{says: "failed releases do not count", passes: []passAt{
			{0, all(leaks(15), func(s *simulator) { s.fault = failing("hold", errServer) }), 0, refusals{plan.WriteFailed: 15}},
			{0, func(s *simulator) {
				if s.fault = nil; s.kept != "" {
					s.late = append(s.late, "kept is "+s.kept)
				}
			}, 30, nil}}},
		{says: "releases are counted before the first write", passes: []passAt{{0, all(leaks(15), func(s *simulator) {
			s.step = func(call, _ string) {
				if call == "hold" && !strings.Contains(s.kept, `"count":15`) {
					s.late = append(s.late, "before the first write kept is "+s.kept)
				}
			}
		}), 30, nil}}},
		{says: "unconfirmed items are not released if they cannot be counted",
			passes: []passAt{{0, all(leaks(3), proves("box-1"), func(s *simulator) { s.fault = failing("amend", errServer) }), 2,
				refusals{plan.WriteFailed: 2}}}},
		{says: "nor if the window cannot be decoded", kept: func(text string) bool { return text == "12 or so" },
			passes: []passAt{{0, all(leaks(3), proves("box-1"), func(s *simulator) { s.kept = "12 or so" }), 2,
				refusals{plan.WriteFailed: 2}}}},
		{says: "if the store is forbidden, and the operator accepts that, a process counts its own releases", one: true,
			alone: true, passes: []passAt{{0, all(leaks(15), forbids), 30, nil}, {0, leaks(15), 0, breaks(15)}}},
		{says: "if it is forbidden, and the operator does not accept that, nothing unconfirmed is released",
			passes: []passAt{{0, all(leaks(3), proves("box-1"), forbids), 2, refusals{plan.WriteFailed: 2}}}},
		{says: "an API server that has just started forbids it for a moment", one: true, alone: true,
			kept: func(text string) bool { return strings.Contains(text, `"count":12`) }, passes: []passAt{
				{0, all(entries(1, 1), forbids), 1, nil}, {minute, all(entries(101, 112), grants), 12, nil},
				{minute, entries(201, 212), 0, breaks(12)}}},
		{says: "a dry run counts nothing", one: true, dryRun: true, kept: func(text string) bool { return text == "" },
			passes: []passAt{
				{0, leaks(15), 0, refusals{plan.DryRunRefusal: 15}}, {0, nil, 0, refusals{plan.DryRunRefusal: 15}}}},
		{says: "a window of the future is over after an hour", passes: []passAt{{0, all(leaks(15), ofFuture), 0, breaks(15)},
			{61 * minute, nil, 30, nil}}},
		{says: "refused items are not released in portions beside proven ones", one: true, passes: []passAt{
			{5 * minute, all(leaks(60), proves("box-60")), 2, breaks(59)},
			{0, func(s *simulator) { faults["reservation rewritten"].before(s) }, 0, breaks(59)}}},
	} {
		inBubble(t, c.says, func(t *testing.T, s *simulator) {
			s.poolOf(bluePool, "10.0.0.0/16")
			r := s.reconciler(nil)
			for i, p := range c.passes {
				if p.before != nil {
					p.before(s)
				}
				time.Sleep(p.after)
				if !c.one {
					r = s.reconciler(nil)
				}
				r.Options.DryRun, r.WithoutRestoreStore = c.dryRun, c.alone
				out := pass(t, r)
				same(t, fmt.Sprint("released by pass ", i+1), len(out.Released), p.released)
				same(t, fmt.Sprint("refused by pass ", i+1), refusalCounts(out), p.refused)
			}
			if c.kept != nil && !c.kept(s.kept) {
				t.Errorf("kept is %q", s.kept)
			}
		})
	}
}

func TestBreaker_WindowStaysSmall(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.poolOf(bluePool, "10.0.0.0/16")
		for key := range 1000 {
			s.entry(bluePool, key+1, fmt.Sprint("default/gone-", key), fmt.Sprint("box-", key), false)
			r := s.reconciler(nil)
			r.Options.AllowMassRelease = true
			pass(t, r)
			time.Sleep(9 * time.Second)
		}
		if len(s.kept) > 4000 {
			t.Errorf("%d bytes are kept", len(s.kept))
		}
		same(t, "released", len(s.stored()), 0)
	})
}

func TestBreaker_StateIsReadOnly(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 15)
		s.pass(t)
		kept := s.kept
		state := func(r *reconciler.Reconciler) plan.BreakerState {
			t.Helper()
			j, err := r.Check(t.Context())
			same(t, "error", err, nil)
			state, err := r.Breaker(t.Context(), j.Assessment)
			same(t, "error", err, nil)
			return state
		}
		if got := state(s.reconciler(t)); got.Releases != 15 || got.Of != 15 || !got.IsShared {
			t.Errorf("got %+v", got)
		}
		alone := s.reconciler(t)
		alone.BreakerStore = nil
		if got := state(alone); got.IsShared || got.Releases != 0 {
			t.Errorf("where nothing is shared: %+v", got)
		}
		time.Sleep(61 * time.Minute)
		same(t, "an hour later", state(s.reconciler(t)).Releases, 0)
		same(t, "kept", s.kept, kept)
	})
}

// The breaker counts what is unconfirmed. What was proven at the first check, and is not at the second, is counted
// before it is released, too: here the agent's report loses its list of ended sandboxes in between.
func TestBreaker_ProvenOnlyAtTheFirstCheck(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		const n = 40
		var gone []v1alpha1.Gone
		for i := 1; i <= n; i++ {
			gone = append(gone, v1alpha1.Gone{ID: fmt.Sprint("box-", i), UID: "uid-1"})
		}
		s.leakedEntries(1, n)
		report := goneOn("worker-1", gone...)
		s.keepReporting(report)
		r := s.confirming(t)
		s.paused = true
		for range 20 {
			pass(t, r)
			time.Sleep(time.Minute)
		}
		s.paused = false
		s.step = func(call, object string) {
			if call == "refresh" {
				report = goneOn("worker-1")
			}
			s.setReport(report)
		}
		same(t, "released at first", len(pass(t, r).Released), 0)
		out := pass(t, r)
		same(t, "released by the next pass", len(out.Released), 0)
		same(t, "refused by it", refusalCounts(out), refusals{plan.Breaker: n})
	})
}
