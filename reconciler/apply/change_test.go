package apply

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
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
