package kube_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

const sharedLease = "kube-system/whereabouts"

// hold holds the shared Lease in a bubble, and returns for how long it was waited for.
func (a *leaseAPI) hold(t *testing.T, ctx context.Context, work func(context.Context, *reconciler.Hold) error) (waited time.Duration, err error) {
	t.Helper()
	asked := time.Now()
	waited = -1
	err = a.cluster(t, "us").Hold(ctx, "kube-system", []string{"whereabouts"}, func(ctx context.Context, h *reconciler.Hold) error {
		waited = time.Since(asked)
		return work(ctx, h)
	})
	return waited, err
}

func nothing(context.Context, *reconciler.Hold) error { return nil }

// Its times count for nothing: they are by the clock of whoever holds it.
func TestALeaseOfAnotherIsTakenOnceNobodyRenewsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newLeaseAPI()
		api.has(sharedLease, "default/web-0", time.Hour)
		waited, err := api.hold(t, t.Context(), nothing)
		check(t, err)
		if waited < 1500*time.Millisecond || waited > 2*time.Second {
			t.Errorf("taken after %s, and a holder that does not renew is gone after 1.5s", waited)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		api := newLeaseAPI()
		go func() { // for ten seconds it is renewed each second
			for range 10 {
				api.has(sharedLease, "default/web-0", time.Hour)
				time.Sleep(time.Second)
			}
		}()
		synctest.Wait()
		waited, err := api.hold(t, t.Context(), nothing)
		check(t, err)
		if waited < 10*time.Second || waited > 12*time.Second {
			t.Errorf("taken after %s, and it was renewed for nine", waited)
		}
	})
}

func TestWithoutTheRightToALeaseNothingIsDoneUnderIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newLeaseAPI()
		api.fails = func(string, *http.Request) int { return http.StatusForbidden }
		if waited, err := api.hold(t, t.Context(), nothing); waited >= 0 || !errors.Is(err, reconciler.ErrLeaseForbidden) {
			t.Errorf("work began after %s: %v", waited, err)
		}
	})
}

func TestNoWriteBeginsInTheLastSecondOfAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newLeaseAPI()
		var last time.Duration
		began := time.Now()
		_, err := api.hold(t, t.Context(), func(ctx context.Context, h *reconciler.Hold) error {
			for ctx.Err() == nil {
				if h.MayWrite() {
					last = time.Since(began)
				}
				time.Sleep(10 * time.Millisecond)
			}
			return ctx.Err()
		})
		if ended := time.Since(began); !errors.Is(err, reconciler.ErrHoldSpent) || last < 3900*time.Millisecond || last > 4*time.Second || ended < 4900*time.Millisecond || ended > 5100*time.Millisecond {
			t.Errorf("the last write may begin at %s of a hold that ends after %s: %v", last, ended, err)
		}
	})
}

// The fake clock shows each moment: a write would have 800 ms before others may have it.
func TestNoWriteBeginsLongAfterTheLastRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newLeaseAPI()
		fails := false
		api.fails = func(_ string, r *http.Request) int { // the caller holds mu
			if fails && r.Method == http.MethodPut {
				return http.StatusInternalServerError
			}
			return 0
		}
		began, last := time.Now(), time.Duration(0)
		_, err := api.hold(t, t.Context(), func(ctx context.Context, h *reconciler.Hold) error {
			api.mu.Lock()
			fails = true
			api.mu.Unlock()
			for ctx.Err() == nil {
				if h.MayWrite() {
					last = time.Since(began)
				}
				time.Sleep(10 * time.Millisecond)
			}
			return ctx.Err()
		})
		if ended := time.Since(began); !errors.Is(err, reconciler.ErrHoldSpent) || last < 600*time.Millisecond || last > 700*time.Millisecond || ended > 2*time.Second {
			t.Errorf("the last write may begin %s after the last renewal, and the hold ends after %s: %v", last, ended, err)
		}
	})
}

func TestALeaseThatSomebodyElseTookEndsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newLeaseAPI()
		var lost time.Duration
		_, err := api.hold(t, t.Context(), func(ctx context.Context, h *reconciler.Hold) error {
			api.has(sharedLease, "default/web-0", 0)
			taken := time.Now()
			<-ctx.Done()
			lost = time.Since(taken)
			if h.MayWrite() {
				t.Error("it is somebody else's, and may be written under")
			}
			return ctx.Err()
		})
		if !errors.Is(err, reconciler.ErrHoldSpent) || lost > 300*time.Millisecond {
			t.Errorf("the hold ended %s after it: %v", lost, err)
		}
		equal(t, "the holder afterwards", api.holder(sharedLease), "default/web-0")
	})
}

func TestALeaseIsLeftToOthersForAsLongAsItWasHeld(t *testing.T) {
	for held, want := range map[time.Duration]time.Duration{0: 1500 * time.Millisecond, 3 * time.Second: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			api := newLeaseAPI()
			c := api.cluster(t, "us")
			var ended, again time.Time
			hold := func(work func()) {
				check(t, c.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
					work()
					return nil
				}))
			}
			hold(func() { time.Sleep(held); ended = time.Now() })
			hold(func() { again = time.Now() })
			if pause := again.Sub(ended); pause < want || pause > want+500*time.Millisecond {
				t.Errorf("held for %s, and taken again after %s", held, pause)
			}
		})
	}
}
