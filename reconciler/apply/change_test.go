package apply

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Every state with every answer to every write.
func TestState_Next(t *testing.T) {
	deletes := Step{Delete: &ippool.Reservation{}}
	for _, c := range []struct {
		from State
		at   Step
		want [3]State // where it succeeded, was not written, and is uncertain
	}{
		{Waiting, deletes, [3]State{ReservationDeleted, Waiting, ReservationDeleted}},
		{ReservationDeleted, deletes, [3]State{ReservationDeleted, ReservationDeleted, ReservationDeleted}},
		{PatchSent, deletes, [3]State{PatchSent, PatchSent, PatchSent}},
		{Done, deletes, [3]State{Done, Done, Done}},
		{Waiting, Step{}, [3]State{Done, Waiting, PatchSent}},
		{ReservationDeleted, Step{}, [3]State{Done, ReservationDeleted, PatchSent}},
		{PatchSent, Step{}, [3]State{Done, PatchSent, PatchSent}},
		{Done, Step{}, [3]State{Done, Done, Done}},
		{GivenUp, deletes, [3]State{GivenUp, GivenUp, GivenUp}},
		{GivenUp, Step{}, [3]State{GivenUp, GivenUp, GivenUp}},
	} {
		for a, want := range map[answer]State{succeeded: c.want[0], notWritten: c.want[1], uncertain: c.want[2]} {
			if got := c.from.next(c.at, a); got != want {
				t.Errorf("from %d after step %v with answer %d: got %d, want %d", c.from, c.at, a, got, want)
			}
		}
	}
}

func TestAnswerOf(t *testing.T) {
	for err, want := range map[error]answer{
		nil: succeeded, ErrConflict: notWritten, ErrHoldSpent: notWritten,
		notSent{errors.New("too long")}: notWritten,
		// A denial may come from behind the API server.
		ErrForbidden: uncertain, errors.New("timeout"): uncertain,
	} {
		if err != nil {
			if got := answerOf(fmt.Errorf("patch: %w", err)); got != want {
				t.Errorf("%v: got %d, want %d", err, got, want)
			}
		} else if answerOf(nil) != want {
			t.Error("no error is no success")
		}
	}
}

// A hold patches pools of at most 20,000 entries together, and at least one pool.
func TestCountAffordable(t *testing.T) {
	var queue []*Release
	for i, entries := range []int{12_000, 8_000, 1, 30_000, 1} {
		pool := &ippool.Pool{Allocations: make([]ippool.Allocation, entries)}
		pool.Name = fmt.Sprint("pool-", i)
		for range 10 {
			queue = append(queue, &Release{Item: &judge.Item{Pool: pool}})
		}
	}
	queue = append(queue, &Release{Item: &judge.Item{}}) // a reservation alone
	for _, c := range []struct{ from, want int }{{0, 20}, {10, 20}, {20, 10}, {30, 10}, {40, 11}, {45, 6}} {
		if got := countAffordable(queue[c.from:]); got != c.want {
			t.Errorf("from %d: got %d, want %d", c.from, got, c.want)
		}
	}
}
