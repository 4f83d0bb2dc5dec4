package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// server answers at random: with success, or with an error that leaves the outcome open or not.
type server struct {
	mu        sync.Mutex
	rand      *rand.Rand
	x         *facts.Facts
	recreated int
	isDown    bool // no reservation can be recreated
}

func (s *server) answer() error {
	s.mu.Lock()
	takes, what := time.Duration(s.rand.IntN(900))*time.Millisecond, s.rand.IntN(8)
	s.mu.Unlock()
	time.Sleep(takes)
	return []error{
		nil, nil, nil, nil, ErrConflict, ErrForbidden, ErrHoldSpent, errors.New("connection reset"),
	}[what]
}

func (s *server) Refresh(context.Context) error {
	if s.rand.IntN(8) == 0 {
		return errors.New("read reports: 500")
	}
	return nil
}

func (s *server) Read(ctx context.Context, _ facts.LiveKeys) error { return s.Refresh(ctx) }
func (s *server) Wrote(written *facts.Live)                        { s.x = s.x.With(written) }
func (s *server) Facts() *facts.Facts                              { return s.x }

func (s *server) Hold(ctx context.Context, _ string, leases []string, work Work) error {
	if s.rand.IntN(8) == 0 {
		return []error{ErrLeaseBusy, ErrHoldSpent}[s.rand.IntN(2)]
	}
	return work(ctx, session{s, leases})
}

func (s *server) Recreate(context.Context, *ippool.Reservation, time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDown {
		return errors.New("recreate: 500")
	}
	s.recreated++
	return nil
}

type session struct {
	*server
	leases []string
}

func (s session) Leases() []string    { return s.leases }
func (s session) Forbidden() []string { return nil }
func (s session) Until() time.Time    { return time.Time{} }
func (s session) IsOpen() bool        { return true }

func (s session) PatchPool(context.Context, *ippool.Pool, []byte) (string, error) {
	return "2", s.answer()
}
func (s session) DeleteReservation(context.Context, *ippool.Reservation) error { return s.answer() }
func (s session) CreateReservation(context.Context, *ippool.Reservation) error { return s.answer() }
func (s session) DeletePool(context.Context, *ippool.Removal) error            { return s.answer() }
func (s session) CreatePool(context.Context, *ippool.Pool, []ippool.NewEntry) (string, error) {
	return "2", s.answer()
}

// told are rules by which most changes stand, and how often each end was told.
type told struct {
	rand             *rand.Rand
	finished, gaveUp map[*Release]int
	ended            map[*Release]bool // by the second check
}

func (r *told) Recheck(f *facts.Facts, todo []*Release) Checked[*Release] {
	var stand []*Release
	for _, c := range todo {
		if r.rand.IntN(10) == 0 {
			r.ended[c] = true
		} else {
			stand = append(stand, c)
		}
	}
	return CheckedReleases(f, &judge.Judgement{}, todo, stand, nil)
}

func (r *told) FollowUps(*facts.Facts, *Release) []*Release { return nil }
func (r *told) GaveUp(c *Release, _ Failure)                { r.gaveUp[c]++ }
func (r *told) Finished(c *Release)                         { r.finished[c]++ }

// Whatever the API server answers, each change ends once, as done or given up, and the rules are told which. What is
// given up has its reservations back if they can be recreated.
func TestExecute_EachChangeEndsOnce(t *testing.T) {
	parts := []Part{Node("worker-1"), ReportingWorker()}
	var allocs []Allocation
	for i := range 6 {
		allocs = append(allocs, Alloc(fmt.Sprint(i+1), fmt.Sprint("default/gone-", i), fmt.Sprint("box-", i), "net1"))
		parts = append(parts, Reservation(fmt.Sprint("10.0.0.", i+1), fmt.Sprint("default/gone-", i), LongAgo))
	}
	o := Observe(append(parts, Pool("10.0.0.0-24", "10.0.0.0/24", allocs...))...)
	ends := map[State]int{}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // no secret
			s := &server{rand: random, x: facts.New(o.Observation, o.Past, facts.Policy{}), isDown: seed%10 == 0}
			rules := &told{random, map[*Release]int{}, map[*Release]int{}, map[*Release]bool{}}
			var changes []*Release
			for _, it := range Judged(o, facts.Policy{}).StaleItems() {
				if it.Allocation != nil {
					changes = append(changes, NewRelease(it))
				}
			}
			if len(changes) != 6 {
				t.Fatalf("%d allocations are Stale, want 6", len(changes))
			}
			deps := Deps{
				Reader: s, Leases: s, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
				Jitter: func(d time.Duration) time.Duration { return d },
			}
			Execute(t.Context(), deps, Terms{Activity: "Releasing"}, rules, slices.Clone(changes))
			for _, c := range changes {
				ends[c.state]++
				told := [3]bool{rules.finished[c] == 1, rules.gaveUp[c] == 1, rules.ended[c]}
				want := map[State][][3]bool{
					Done: {{true, false, false}}, GivenUp: {{false, true, false}, {false, false, true}},
				}[c.state]
				if !slices.Contains(want, told) {
					t.Errorf("seed %d: state %d, but finished %d times, given up %d times, ended by the second check: %v",
						seed, c.state, rules.finished[c], rules.gaveUp[c], rules.ended[c])
				}
				if n := len(c.undo()); rules.gaveUp[c] > 0 && n > 0 && !s.isDown {
					t.Errorf("seed %d: %d reservations of what was given up are still deleted", seed, n)
				}
			}
		})
	}
	if t.Log(ends); ends[Done] < 200 || ends[GivenUp] < 200 {
		t.Error("the answers are too one-sided")
	}
}
