package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

const (
	// statusBudget is what the statuses of one look may take together: a look must
	// come well within the minute for which a renewal vouches.
	statusBudget = 8 * time.Second
	// statusCalls is how many statuses are asked for at a time. Those of shims that
	// hang wait for as long as a call may last, and must not keep the others waiting.
	statusCalls = 64
	// statusLeast is what must be left of the budget for one more.
	statusLeast = statusBudget / 16
)

// errNotAsked: the statuses of other sandboxes took the whole budget of a look.
var errNotAsked = errors.New("its status was not asked for yet, the runtime is slow to tell those of others")

// learn asks for the details of sandboxes that are new or in a new state, and of
// those that are not ready while the runtime says that their network is open:
// it closes without a change of state. One that went meanwhile is an error that
// wraps cri.ErrNotFound, unless this is the last try. Sandboxes whose status is
// not to be had (their shims hang, their records are broken) do not blind the node:
// they are listed, and whether their networks are closed is not known.
func (e *NodeInspector) learn(ctx context.Context, listed []cri.Sandbox, entries map[string]*cnicache.Entry, last bool) error {
	next, began := make(map[string]*known, len(listed)), now(e.Now)
	var open []cri.Sandbox // questions
	for _, s := range listed {
		k := e.known[s.ID]
		if k == nil {
			k = &known{}
		}
		next[s.ID] = k
		closes := !s.Ready && k.detail.NetworkClosed != nil && !*k.detail.NetworkClosed
		if (!k.asked || k.ready != s.Ready || closes || k.failed > 0) && !began.Before(k.retry) {
			open = append(open, s)
		}
		if k.listed = true; !s.Ready && k.stopped.IsZero() {
			k.stopped = began
		}
		if entry := entries[s.ID]; s.Ready && entry != nil {
			k.without = entry.NoWhereabouts
		}
	}
	for id, k := range e.known {
		if next[id] != nil || k.detail.HostNetwork || k.without {
			continue
		}
		if k.listed {
			k.listed, k.since = false, began
		}
		next[id] = k
	}
	e.known = next
	slices.SortStableFunc(open, func(a, b cri.Sandbox) int { return cmp.Compare(next[a.ID].failed, next[b.ID].failed) })
	return e.ask(ctx, open, began, last)
}

// ask asks for the details of sandboxes, as learn says.
func (e *NodeInspector) ask(ctx context.Context, about []cri.Sandbox, began time.Time, last bool) (gone error) {
	type answer struct {
		detail cri.Detail
		err    error
	}
	answers := make([]answer, len(about))
	budget := statusBudget
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(deadline)/2)
	}
	end := time.Now().Add(budget)
	limited, stop := context.WithDeadline(ctx, end)
	defer stop()
	var calls errgroup.Group
	calls.SetLimit(statusCalls)
	for i, s := range about {
		calls.Go(func() error {
			if answers[i].err = errNotAsked; time.Until(end) > statusLeast {
				answers[i].detail, answers[i].err = e.Runtime.Detail(limited, s.ID)
			}
			return nil
		})
	}
	_ = calls.Wait() // each has its own
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ask for the statuses of sandboxes: %w", err)
	}
	for i, s := range about {
		k, a := e.known[s.ID], answers[i]
		switch {
		case a.err == nil:
			k.asked, k.answered, k.ready, k.detail, k.failed, k.retry = true, true, s.Ready, a.detail, 0, time.Time{}
		case errors.Is(a.err, errNotAsked):
			k.asked, k.detail.NetworkClosed = false, nil
		case errors.Is(a.err, cri.ErrNotFound) && !last:
			k.asked, gone = false, a.err
		default:
			k.asked, k.ready, k.detail.NetworkClosed = true, s.Ready, nil
			if errors.Is(a.err, cri.ErrPart) {
				k.answered, k.detail.HostNetwork = true, a.detail.HostNetwork
			}
			k.failed++
			k.retry = began.Add(min(5*time.Second<<min(k.failed, 6), 5*time.Minute))
		}
		k.trouble = a.err
	}
	return gone
}
