package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

const (
	// statusCalls is how many statuses are fetched at a time. Those of shims that
	// hang wait for as long as a call may last, and must not keep the others waiting.
	statusCalls = 64
	// statusRetryAfter is the pause after a status that could not be fetched. Without it shims that hang would make each
	// inspection slow.
	statusRetryAfter = time.Minute
)

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
		t.listed = true
		if entry := entries[s.ID]; s.Ready && entry != nil {
			t.noWhereabouts = entry.NoWhereabouts
		}
	}
	for id, t := range ni.tracked {
		if next[id] != nil || t.detail.Network == cri.HostNetwork || t.noWhereabouts {
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

// fetchDetails fetches the details of sandboxes and notes what came of it, see
// updateTracked.
func (ni *NodeInspector) fetchDetails(ctx context.Context, sandboxes []cri.Sandbox, began time.Time, last bool) (gone error) {
	details, errs := make([]cri.Detail, len(sandboxes)), make([]error, len(sandboxes))
	var calls errgroup.Group
	calls.SetLimit(statusCalls)
	for i, s := range sandboxes {
		calls.Go(func() error {
			details[i], errs[i] = ni.Runtime.Detail(ctx, s.ID)
			return nil
		})
	}
	_ = calls.Wait() // each call has its own error
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ask for the statuses of sandboxes: %w", err)
	}
	for i, s := range sandboxes {
		t, err := ni.tracked[s.ID], errs[i]
		switch t.statusErr = err; {
		case err == nil:
			t.detailed, t.detailedReady = true, s.Ready
			t.detail, t.retryAt = details[i], time.Time{}
		case errors.Is(err, cri.ErrNotFound) && !last:
			gone, t.detailed = err, false
		default:
			t.detailed, t.detailedReady, t.detail.NetworkClosed = true, s.Ready, nil
			t.detail.Network = cmp.Or(details[i].Network, t.detail.Network)
			t.retryAt = began.Add(statusRetryAfter)
		}
	}
	return gone
}
