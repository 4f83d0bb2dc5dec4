package reconciler

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Every state with every outcome of every write.
func TestState_Next(t *testing.T) {
	for _, c := range []struct {
		from state
		at   writeStep
		want [3]state // where it succeeded, was not written, and is uncertain
	}{
		{planned, deleteStep, [3]state{reservationDeleted, planned, reservationDeleted}},
		{reservationDeleted, deleteStep, [3]state{reservationDeleted, reservationDeleted, reservationDeleted}},
		{patchSent, deleteStep, [3]state{patchSent, patchSent, patchSent}},
		{done, deleteStep, [3]state{done, done, done}},
		{planned, lastStep, [3]state{done, planned, patchSent}},
		{reservationDeleted, lastStep, [3]state{done, reservationDeleted, patchSent}},
		{patchSent, lastStep, [3]state{done, patchSent, patchSent}},
		{done, lastStep, [3]state{done, done, done}},
	} {
		for o, want := range map[outcome]state{succeeded: c.want[0], notWritten: c.want[1], uncertain: c.want[2]} {
			if got := c.from.next(c.at, o); got != want {
				t.Errorf("from %d after step %d with outcome %d: got %d, want %d", c.from, c.at, o, got, want)
			}
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	for err, want := range map[error]outcome{
		nil: succeeded, apply.ErrConflict: notWritten, apply.ErrHoldSpent: notWritten,
		notSent{errors.New("too long")}: notWritten,
		// A denial may come from behind the API server.
		apply.ErrForbidden: uncertain, errors.New("timeout"): uncertain,
	} {
		if err != nil {
			if got := outcomeOf(fmt.Errorf("patch: %w", err)); got != want {
				t.Errorf("%v: got %d, want %d", err, got, want)
			}
		} else if outcomeOf(nil) != want {
			t.Error("no error is no success")
		}
	}
}

// A hold patches pools of at most 20,000 entries together, and at least one pool.
func TestCountAffordable(t *testing.T) {
	var queue []*change
	for i, entries := range []int{12_000, 8_000, 1, 30_000, 1} {
		pool := &ippool.Pool{Allocations: make([]ippool.Allocation, entries)}
		pool.Name = fmt.Sprint("pool-", i)
		for range 10 {
			queue = append(queue, &change{Item: &judge.Item{Pool: pool}})
		}
	}
	queue = append(queue, &change{Item: &judge.Item{}}) // a reservation alone
	for _, c := range []struct{ from, want int }{{0, 20}, {10, 20}, {20, 10}, {30, 10}, {40, 11}, {45, 6}} {
		if got := countAffordable(queue[c.from:]); got != c.want {
			t.Errorf("from %d: got %d, want %d", c.from, got, c.want)
		}
	}
}
