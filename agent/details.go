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
	// minStatusTime is what must be left of the budget for one more.
	minStatusTime = statusBudget / 16
)

// errStatusNotFetched: the statuses of other sandboxes took the whole budget of a look.
var errStatusNotFetched = errors.New("its status was not asked for yet, the runtime is slow to tell those of others")

// updateTracked asks for the details of sandboxes that are new or in a new state, and of
// those that are not ready while the runtime says that their network is open:
// it closes without a change of state. One that went meanwhile is an error that
// wraps cri.ErrNotFound, unless this is the last try. Sandboxes whose status is
// not to be had (their shims hang, their records are broken) do not blind the node:
// they are listed, and whether their networks are closed is not known.
func (e *NodeInspector) updateTracked(ctx context.Context, listed []cri.Sandbox, entries map[string]*cnicache.Entry, last bool) error {
	next, began := make(map[string]*trackedSandbox, len(listed)), now(e.Now)
	var open []cri.Sandbox // questions
	for _, s := range listed {
		k := e.tracked[s.ID]
		if k == nil {
			k = &trackedSandbox{}
		}
		next[s.ID] = k
		closes := !s.Ready && k.detail.NetworkClosed != nil && !*k.detail.NetworkClosed
		if (!k.detailed || k.detailedReady != s.Ready || closes || k.statusFailures > 0) && !began.Before(k.retryAt) {
			open = append(open, s)
		}
		if k.listed = true; !s.Ready && k.stoppedAt.IsZero() {
			k.stoppedAt = began
		}
		if entry := entries[s.ID]; s.Ready && entry != nil {
			k.noWhereabouts = entry.NoWhereabouts
		}
	}
	for id, k := range e.tracked {
		if next[id] != nil || k.detail.HostNetwork || k.noWhereabouts {
			continue
		}
		if k.listed {
			k.listed, k.unlistedSince = false, began
		}
		next[id] = k
	}
	e.tracked = next
	slices.SortStableFunc(open, func(a, b cri.Sandbox) int { return cmp.Compare(next[a.ID].statusFailures, next[b.ID].statusFailures) })
	return e.fetchDetails(ctx, open, began, last)
}

// fetchDetails asks for the details of sandboxes, as learn says.
func (e *NodeInspector) fetchDetails(ctx context.Context, about []cri.Sandbox, began time.Time, last bool) (gone error) {
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
			if answers[i].err = errStatusNotFetched; time.Until(end) > minStatusTime {
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
		k, a := e.tracked[s.ID], answers[i]
		switch {
		case a.err == nil:
			k.detailed, k.networkModeKnown, k.detailedReady, k.detail, k.statusFailures, k.retryAt = true, true, s.Ready, a.detail, 0, time.Time{}
		case errors.Is(a.err, errStatusNotFetched):
			k.detailed, k.detail.NetworkClosed = false, nil
		case errors.Is(a.err, cri.ErrNotFound) && !last:
			k.detailed, gone = false, a.err
		default:
			k.detailed, k.detailedReady, k.detail.NetworkClosed = true, s.Ready, nil
			if errors.Is(a.err, cri.ErrPartialStatus) {
				k.networkModeKnown, k.detail.HostNetwork = true, a.detail.HostNetwork
			}
			k.statusFailures++
			k.retryAt = began.Add(min(5*time.Second<<min(k.statusFailures, 6), 5*time.Minute))
		}
		k.statusErr = a.err
	}
	return gone
}
