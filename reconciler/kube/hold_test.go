package kube_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// What must be put back is put back even when the hold is over. The Lease is not
// renewed for that: ADDs would wait for as long as it takes.
func TestALeaseIsNotRenewedAfterFiveSecondsWhateverTheWorkDoes(t *testing.T) {
	t.Parallel()
	f, l := newFakeAPI(t), &aLease{spec: map[string]any{}}
	l.on(f, "whereabouts")
	updates := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.updates }
	holder := func() string { l.mu.Lock(); defer l.mu.Unlock(); return fmt.Sprint(l.spec["holderIdentity"]) }
	late := 0
	_ = held(t, f, []string{"whereabouts"}, func(ctx context.Context, _ *reconciler.Hold) error {
		<-ctx.Done() // as rollback does, which must not be left half done
		for holder() != "" {
			time.Sleep(10 * time.Millisecond)
		}
		before := updates()
		time.Sleep(1200 * time.Millisecond)
		late = updates() - before
		return ctx.Err()
	})
	equal(t, "renewals after the hold should have ended", late, 0)
}
