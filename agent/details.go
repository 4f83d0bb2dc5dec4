package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

const (
	// statusCalls limits the concurrent status calls. Calls to shims that hang must not delay the others.
	statusCalls = 64
	// statusBytes limits what the answers to them have together. The usual answer has at most usualStatus bytes. A verbose
	// one also has the pod's annotations, twice, and JSON makes up to six bytes of one.
	statusBytes = statusCalls * usualStatus
	usualStatus = 256 << 10
	textCopies  = 8
	// statusRetryDelay is the pause after a failed status call: shims that hang would slow down each inspection.
	statusRetryDelay = time.Minute
)

// updateTracked records which sandboxes are listed. It fetches details of sandboxes that are new or changed state.
// It also fetches details of sandboxes that are not ready and whose network is open, because a network closes
// without a change of state.
//
// If a listed sandbox was removed in the meantime, the error wraps cri.ErrNotFound, except in the last try. If a
// status call fails otherwise, the sandbox stays listed and its network state is unknown.
func (ni *NodeInspector) updateTracked(
	ctx context.Context, listed []cri.Sandbox, entries map[string]*cnicache.Entry, isLastTry bool,
) error {
	next, start := make(map[string]*trackedSandbox, len(listed)), now(ni.Now)
	var toFetch []cri.Sandbox
	for _, s := range listed {
		t := ni.tracked[s.ID]
		if t == nil {
			t = &trackedSandbox{}
		}
		next[s.ID] = t
		if t.needsDetails(s.Ready) && !start.Before(t.retryAt) {
			toFetch = append(toFetch, s)
		}
		t.isListed = true
		entry := entries[s.ID]
		isCached := s.Ready && entry != nil
		t.hadAddresses = t.hadAddresses || len(t.sandbox.Addresses) > 0 || isCached && len(entry.Addresses) > 0
		if isCached {
			t.hasNoWhereabouts = entry.HasNoWhereabouts && !t.hadAddresses
		}
	}
	for id, t := range ni.tracked {
		if next[id] != nil || t.detail.Network == cri.HostNetwork || t.hasNoWhereabouts {
			continue
		}
		if t.isListed {
			t.isListed, t.attachedSince = false, start
		}
		next[id] = t
	}
	ni.tracked = next
	return ni.fetchDetails(ctx, toFetch, start, isLastTry)
}

// needsDetails reports whether the details of a listed sandbox must be fetched.
func (t *trackedSandbox) needsDetails(ready bool) bool {
	closing := !ready && isOpen(t.detail.NetworkClosed)
	return !t.hasDetail || t.detailReady != ready || closing || t.statusErr != nil
}

// fetchDetails fetches the details of sandboxes and records the results as updateTracked describes.
func (ni *NodeInspector) fetchDetails(
	ctx context.Context, sandboxes []cri.Sandbox, start time.Time, isLastTry bool,
) (notFound error) {
	details, errs := make([]cri.Detail, len(sandboxes)), make([]error, len(sandboxes))
	var calls sync.WaitGroup
	limit := semaphore.NewWeighted(statusBytes)
	for i, s := range sandboxes {
		bytes := min(usualStatus+textCopies*int64(s.Texts), statusBytes)
		if limit.Acquire(ctx, bytes) != nil {
			break // ctx has ended
		}
		calls.Go(func() {
			defer limit.Release(bytes)
			details[i], errs[i] = ni.Runtime.Detail(ctx, s.ID)
		})
	}
	calls.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("get the status of sandboxes: %w", err)
	}
	for i, s := range sandboxes {
		t, err := ni.tracked[s.ID], errs[i]
		switch t.statusErr = err; {
		case err == nil:
			t.hasDetail, t.detailReady = true, s.Ready
			t.detail, t.retryAt = details[i], time.Time{}
		case errors.Is(err, cri.ErrNotFound) && !isLastTry:
			notFound, t.hasDetail = err, false
		default:
			t.hasDetail, t.detailReady, t.detail.NetworkClosed = true, s.Ready, nil
			t.detail.Network = cmp.Or(details[i].Network, t.detail.Network)
			t.retryAt = start.Add(statusRetryDelay)
		}
	}
	return notFound
}
