package statuscmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// facts are all that was read. What is said of them is a function of nothing else.
type facts struct {
	// now is the time by the API server's clock.
	now time.Time
	// version of this program, as in 0.1.0.
	version string
	cluster document.Cluster
	// namespace is the reconciler's.
	namespace string
	// leaseNamespace is that of the agents' Leases.
	leaseNamespace string

	workloads answer[[]workload]
	// onlyIn is the only namespace of which workloads may be listed; "" for all.
	onlyIn string
	judged answer[judged]
	paused answer[bool]
	// leader, passes are Leases in the reconciler's namespace; nil where there is none.
	leader, passes answer[*coordinationv1.Lease]
	// addLeases are those that ADD and DEL take, of all pools.
	addLeases answer[[]coordinationv1.Lease]
	// schedule is that of the Deployment.
	schedule answer[configured]
	// definitions by name; nil where there is none.
	definitions map[string]answer[*definition]
	// policy: the agents' admission policy is there, and its binding denies.
	policy answer[bool]
	// ownRights are those of the user that runs this; accountRights the reconciler's.
	ownRights, accountRights answer[[]missingRight]
}

// judged is what a pass would see and do now.
type judged struct {
	*judge.Judgement
	plan *reconciler.Plan
}

// answer is what the API server has told of one thing, or why it did not. The zero answer
// is that it was not asked.
type answer[T any] struct {
	value T
	err   error
	asked bool
}

func (a answer[T]) known() bool { return a.asked && a.err == nil }

// why says in a few words why it is not known.
func (a answer[T]) why() string {
	switch {
	case !a.asked:
		return "not asked"
	case apierrors.IsForbidden(a.err):
		return "no right to it"
	case errors.Is(a.err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return fmt.Sprint(a.err)
}

// ask waits for one answer until the limit, even where what is asked does not heed it.
func ask[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) answer[T] {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan answer[T], 1)
	go func() {
		v, err := f(ctx)
		done <- answer[T]{value: v, err: err, asked: true}
	}()
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
		return answer[T]{err: ctx.Err(), asked: true}
	}
}
