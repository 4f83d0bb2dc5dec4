package reconciler

import (
	"errors"
	"fmt"
	"testing"
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
		nil: succeeded, ErrConflict: notWritten, ErrHoldSpent: notWritten, notSent{errors.New("too long")}: notWritten,
		ErrForbidden: uncertain, errors.New("timeout"): uncertain, // a denial may come from behind the API server
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
