package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

const (
	// statusBudget is what the status calls of one inspection may take together: it must
	// end well within the minute for which a renewal of the Lease confirms the report.
	statusBudget = 8 * time.Second
	// statusCalls is how many statuses are fetched at a time. Those of shims that
	// hang wait for as long as a call may last, and must not keep the others waiting.
	statusCalls = 64
	// statusRetryAfter is the pause after a status that could not be fetched. Without it shims that hang would take the
	// budget of the others.
	statusRetryAfter = time.Minute
	// minStatusTime is what must be left of the budget for one more call.
	minStatusTime = statusBudget / 16
)

// errStatusNotFetched: the statuses of other sandboxes took the whole budget.
var errStatusNotFetched = errors.New("its status was not asked for yet, the runtime is slow to tell those of others")

// updateTracked notes which sandboxes are listed, and fetches the details of those that
// are new or in a new state, and of those that are not ready while the runtime says that
// their network is open: it closes without a change of state. A sandbox that was removed
// meanwhile is an error that wraps cri.ErrNotFound, unless this is the last try. A
// sandbox whose status cannot be fetched (its shim hangs, its record is broken) does not
// fail the inspection: it is listed, and whether its network is closed is not known.
func (ni *NodeInspector) updateTracked(ctx context.Context, listed []cri.Sandbox, entries map[string]*cnicache.Entry, last bool) error {
	next, began := make(map[string]*trackedSandbox, len(listed)), now(ni.Now)
	var toFetch []cri.Sandbox
	for _, s := range listed {
		t := ni.tracked[s.ID]
		if t == nil {
			t = &trackedSandbox{}
		}
		next[s.ID] = t
		if t.needsDetails(s.Ready) && !began.Before(t.retryAt) {
			toFetch = append(toFetch, s)
		}
		if t.listed = true; !s.Ready && t.stoppedAt.IsZero() {
			t.stoppedAt = began
		}
		if entry := entries[s.ID]; s.Ready && entry != nil {
			t.noWhereabouts = entry.NoWhereabouts
		}
	}
	for id, t := range ni.tracked {
		if next[id] != nil || t.detail.HostNetwork || t.noWhereabouts {
			continue
		}
		if t.listed {
			t.listed, t.attachedSince = false, began
		}
		next[id] = t
	}
	ni.tracked = next
	return ni.fetchDetails(ctx, toFetch, began, last)
}

// needsDetails reports whether details must be fetched of a sandbox that is listed.
func (t *trackedSandbox) needsDetails(ready bool) bool {
	closing := !ready && t.detail.NetworkClosed != nil && !*t.detail.NetworkClosed
	return !t.detailed || t.detailedReady != ready || closing || t.statusErr != nil
}

type detailAnswer struct {
	detail cri.Detail
	err    error
}

// fetchDetails fetches the details of sandboxes and notes what came of it, see
// updateTracked.
func (ni *NodeInspector) fetchDetails(ctx context.Context, sandboxes []cri.Sandbox, began time.Time, last bool) (gone error) {
	answers := ni.callStatuses(ctx, sandboxes)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ask for the statuses of sandboxes: %w", err)
	}
	for i, s := range sandboxes {
		if err := answers[i].err; errors.Is(err, cri.ErrNotFound) && !last {
			gone = err
		}
		ni.tracked[s.ID].noteDetails(answers[i], s.Ready, began, last)
	}
	return gone
}

// callStatuses makes the calls, as many as the budget allows.
func (ni *NodeInspector) callStatuses(ctx context.Context, sandboxes []cri.Sandbox) []detailAnswer {
	answers := make([]detailAnswer, len(sandboxes))
	budget := statusBudget
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(deadline)/2)
	}
	end := time.Now().Add(budget)
	limited, stop := context.WithDeadline(ctx, end)
	defer stop()
	var calls errgroup.Group
	calls.SetLimit(statusCalls)
	for i, s := range sandboxes {
		calls.Go(func() error {
			if answers[i].err = errStatusNotFetched; time.Until(end) > minStatusTime {
				answers[i].detail, answers[i].err = ni.Runtime.Detail(limited, s.ID)
			}
			return nil
		})
	}
	_ = calls.Wait() // each answer has its own error
	return answers
}

func (t *trackedSandbox) noteDetails(a detailAnswer, ready bool, began time.Time, last bool) {
	switch {
	case a.err == nil:
		t.detailed, t.networkModeKnown, t.detailedReady, t.detail, t.retryAt = true, true, ready, a.detail, time.Time{}
	case errors.Is(a.err, errStatusNotFetched):
		t.detailed, t.detail.NetworkClosed = false, nil
	case errors.Is(a.err, cri.ErrNotFound) && !last:
		t.detailed = false
	default:
		t.detailed, t.detailedReady, t.detail.NetworkClosed = true, ready, nil
		if errors.Is(a.err, cri.ErrPartialStatus) {
			t.networkModeKnown, t.detail.HostNetwork = true, a.detail.HostNetwork
		}
		t.retryAt = began.Add(statusRetryAfter)
	}
	t.statusErr = a.err
}
