package reconciler

import (
	"errors"
	"fmt"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

var (
	errPaused = errors.New("paused")
	// errPreconditions: the observation is no ground to write any more.
	errPreconditions = errors.New("nothing is written now")
	errAllPaused     = fmt.Errorf("%w: %w: the reconciler's namespace has the annotation %s",
		errPreconditions, errPaused, ippool.PausedAnnotation)
)

// refusalOf is the word for the error with which a change was given up.
func refusalOf(err error) Refusal {
	switch {
	case errors.Is(err, apply.ErrLeaseBusy), errors.Is(err, apply.ErrLeaseMissing):
		return LeaseBusy
	case errors.Is(err, apply.ErrLeaseForbidden):
		return NoLease
	case errors.Is(err, apply.ErrConflict):
		return Changed
	case errors.Is(err, errPaused):
		return Paused
	case errors.Is(err, errPreconditions):
		return EtcdRestored
	}
	return WriteFailed
}
