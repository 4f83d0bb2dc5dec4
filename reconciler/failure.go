package reconciler

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

var (
	errPaused = errors.New("paused")
	// errPreconditions: the observation is no ground to write any more.
	errPreconditions = errors.New("nothing is written now")
	errAllPaused     = fmt.Errorf("%w: %w: the reconciler's namespace has the annotation %s",
		errPreconditions, errPaused, ippool.PausedAnnotation)
)

// refusalOf is the word for the error with which a change was given up.
func refusalOf(err error) plan.Refusal {
	switch {
	case errors.Is(err, apply.ErrLeaseBusy), errors.Is(err, apply.ErrLeaseMissing):
		return plan.LeaseBusy
	case errors.Is(err, apply.ErrLeaseForbidden):
		return plan.NoLease
	case errors.Is(err, apply.ErrConflict):
		return plan.Changed
	case errors.Is(err, errPaused):
		return plan.Paused
	case errors.Is(err, errPreconditions):
		return plan.EtcdRestored
	}
	return plan.WriteFailed
}

func refusedBecause(it *judge.Item, why plan.Refusal, detail string) plan.Refused {
	return plan.Refused{Item: it, Gate: plan.Gate{Why: why, Detail: detail}}
}

func leaseForbiddenDetail(namespace string, leases []string) string {
	return fmt.Sprintf("cannot take whereabouts' Lease %s in namespace %s: forbidden; "+
		"grant get, create and update on leases, or use --without-lease", strings.Join(leases, ", "), namespace)
}
