package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// hold holds Leases, and returns how long it waited for them; -1 if work did not run.
func (a *leaseAPI) hold(t *testing.T, ctx context.Context, work apply.Work,
	names ...string) (waited time.Duration, err error) {
	t.Helper()
	asked := time.Now()
	waited = -1
	names = append([]string{"whereabouts"}, names...)
	err = a.cluster(t, "us").Hold(ctx, "kube-system", names, func(ctx context.Context, s apply.Session) error {
		waited = time.Since(asked)
		return work(ctx, s)
	})
	return waited, err
}

// holdShared holds the shared Lease.
func holdShared(t *testing.T, c *kube.Cluster, work apply.Work) error {
	t.Helper()
	return c.Hold(t.Context(), "kube-system", []string{"whereabouts"}, work)
}

func nothing(context.Context, apply.Session) error { return nil }

func unexpected(context.Context, apply.Session) error { return errors.New("it is held") }

// answering makes writes fail from now on.
func (a *leaseAPI) answering(code int) {
	a.set(func() {
		a.fails = func(_ string, r *http.Request) int { // the caller holds the lock
			if r.Method == http.MethodPut {
				return code
			}
			return 0
		}
	})
}

func (a *leaseAPI) written(replica string) int {
	a.Lock()
	defer a.Unlock()
	return a.writes[replica]
}

// between checks that a duration is within two others.
func between(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %s, want %s to %s", what, got, least, most)
	}
}

func TestHold_RenewedAndCleared(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		_, err := a.hold(t, t.Context(), func(ctx context.Context, s apply.Session) error {
			for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
				if !s.IsOpen() || a.holder(shared) != "us" {
					t.Fatalf("after %s: held by %q, may write: %v", time.Since(began), a.holder(shared), s.IsOpen())
				}
			}
			return ctx.Err()
		})
		check(t, err)
		equal(t, "the holder afterwards", a.holder(shared), "")
	})
}

// A hold ends after five seconds, and before others may take an unrenewed Lease. No write begins that could arrive
// later, and the Lease is not renewed after the end, whatever the work does.
func TestHold_Ends(t *testing.T) {
	for name, c := range map[string]struct {
		event                func(*leaseAPI)
		lastLeast, lastMost  time.Duration // when the last write may begin
		endedLeast, endedMax time.Duration
		holder               string
	}{
		"by its time": {func(*leaseAPI) {}, 3900 * time.Millisecond, 4 * time.Second, 4900 * time.Millisecond,
			5100 * time.Millisecond, ""},
		"since renewals fail": {func(a *leaseAPI) { a.answering(http.StatusInternalServerError) },
			600 * time.Millisecond, 700 * time.Millisecond, 0, 2 * time.Second, "us"},
		"since somebody else took it": {func(a *leaseAPI) { a.has(shared, "default/web-0", 0) }, 0,
			300 * time.Millisecond, 0, 300 * time.Millisecond, "default/web-0"},
	} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				began, last, ended := time.Now(), time.Duration(0), time.Duration(0)
				_, err := a.hold(t, t.Context(), func(ctx context.Context, s apply.Session) error {
					c.event(a)
					for ctx.Err() == nil {
						if s.IsOpen() {
							last = time.Since(began)
						}
						time.Sleep(10 * time.Millisecond)
					}
					ended = time.Since(began)
					equal(t, "may write after the end", s.IsOpen(), false)
					time.Sleep(time.Second) // as a rollback does
					writes := a.written("us")
					time.Sleep(2 * time.Second)
					equal(t, "renewals after the end", a.written("us"), writes)
					return ctx.Err()
				})
				equal(t, "it is ErrHoldSpent", errors.Is(err, apply.ErrHoldSpent), true)
				between(t, "the last write begins", last, c.lastLeast, c.lastMost)
				between(t, "it ends", ended, c.endedLeast, c.endedMax)
				equal(t, "the holder afterwards", a.holder(shared), c.holder)
			})
		})
	}
}

// The time of a hold includes taking the Leases.
func TestHold_StartsBeforeTheRequest(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		a.fails = func(string, *http.Request) int { time.Sleep(300 * time.Millisecond); return 0 }
		asked := time.Now()
		_, err := a.hold(t, t.Context(), func(ctx context.Context, s apply.Session) error {
			end, _ := ctx.Deadline()
			equal(t, "its end, and that of work", []time.Duration{end.Sub(asked), s.Until().Sub(asked)},
				[]time.Duration{5 * time.Second, 2 * time.Second})
			return nil
		})
		check(t, err)
	})
}

// Work that awaits an answer at the end of the hold does not keep others waiting.
func TestHold_ClearedWhileWorkContinues(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = a.hold(t, ctx, func(context.Context, apply.Session) error {
			equal(t, "the holder", a.holder(shared), "us")
			cancel() // the run is being stopped
			time.Sleep(100 * time.Millisecond)
			equal(t, "the holder when the run is stopped", a.holder(shared), "")
			return nil
		})
	})
}

// While others hold the shared Lease, those of the pools are not touched. The busy Lease of a pool is omitted.
func TestHold_PoolsOwnLeases(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		a.has("kube-system/busy", "default/web-0", 0)
		a.has(shared, "default/web-0", 0)
		go func() { // it is renewed, and then cleared
			for range 8 {
				time.Sleep(time.Second)
				equal(t, "writes while the shared Lease is busy", a.written("us"), 0)
				a.has(shared, "default/web-0", 0)
				a.has("kube-system/busy", "default/web-0", 0)
			}
			a.has(shared, "", 0)
		}()
		_, err := a.hold(t, t.Context(), func(_ context.Context, s apply.Session) error {
			equal(t, "the Leases held", s.Leases(), []string{"whereabouts", "free"})
			return nil
		}, "busy", "free")
		check(t, err)
		equal(t, "the holders afterwards", []string{a.holder("kube-system/busy"), a.holder("kube-system/free")},
			[]string{"default/web-0", ""})
	})
}

// The times in a Lease do not count: they are by its holder's clock.
func TestHold_ExpiredLease(t *testing.T) {
	for renewals, want := range map[int]time.Duration{1: 1500 * time.Millisecond, 10: 10500 * time.Millisecond} {
		onLeases(t, func(t *testing.T, a *leaseAPI) {
			go func() {
				for range renewals {
					a.has(shared, "default/web-0", time.Hour)
					time.Sleep(time.Second)
				}
			}()
			synctest.Wait()
			waited, err := a.hold(t, t.Context(), nothing)
			check(t, err)
			between(t, "taken after", waited, want, want+500*time.Millisecond)
		})
	}
}

// A definition sets the duration that whereabouts writes. One of 68 years counts until the ADD must have ended.
func TestHold_DurationOfTheLease(t *testing.T) {
	for seconds, want := range map[int32]time.Duration{
		-1: 1500 * time.Millisecond, 0: 1500 * time.Millisecond, 15: 15 * time.Second, 119: 119 * time.Second,
		math.MaxInt32: 2 * time.Minute,
	} {
		onLeases(t, func(t *testing.T, a *leaseAPI) {
			a.has(shared, "default/web-0", 0, func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = &seconds })
			cluster, began := a.cluster(t, "us"), time.Now()
			err := apply.ErrLeaseBusy
			for tries := 0; errors.Is(err, apply.ErrLeaseBusy) && tries < 10; tries++ { // each gives up after 45 s
				work := func(context.Context, apply.Session) error {
					between(t, "taken after", time.Since(began), want, want+500*time.Millisecond)
					return nil
				}
				err = holdShared(t, cluster, work)
			}
			check(t, err)
		})
	}
}

// A busy Lease, an etcd that is full, and RBAC are different errors.
func TestHold_LeaseThatCannotBeTaken(t *testing.T) {
	for name, c := range map[string]struct {
		code                int
		held                bool
		want                error
		waits, most, denied int // seconds
	}{
		"refused":           {500, false, apply.ErrLeaseFailed, 40, 50, 0},
		"held":              {0, true, apply.ErrLeaseBusy, 40, 50, 0},
		"refused, but held": {500, true, apply.ErrLeaseBusy, 40, 50, 0},
		"forbidden":         {403, false, apply.ErrLeaseForbidden, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				a.has(shared, "", time.Hour)
				a.answering(c.code)
				ctx, cancel := context.WithCancel(t.Context())
				var adds sync.WaitGroup
				adds.Go(func() { // they renew it in turn
					for ; c.held && ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
						a.has(shared, "an ADD", 0)
					}
				})
				synctest.Wait()
				cluster, denied, began := a.cluster(t, "us"), 0, time.Now()
				cluster.OnDenied = func() { denied++ }
				err := holdShared(t, cluster, unexpected)
				cancel()
				took := time.Since(began)
				adds.Wait()
				equal(t, "the error is "+c.want.Error(), errors.Is(err, c.want), true)
				equal(t, "denied writes", denied, c.denied)
				between(t, "it took", took, time.Duration(c.waits)*time.Second, time.Duration(c.most)*time.Second)
			})
		})
	}
}

// What is said is the last answer of the API server, not of client-go's rate limiter, which refuses requests between
// the deadline and its timer.
func TestHold_SaysTheLastAnswer(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		a.has(shared, "", time.Hour)
		a.answering(507)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(11*time.Second, func() { cancel(context.DeadlineExceeded) })
		late := lateTimer{ctx, time.Now().Add(10 * time.Second)}
		err := a.clusterWith(t, "us", rest.Config{QPS: 1000, Burst: 2000}).Hold(late, "kube-system",
			[]string{"whereabouts"}, unexpected)
		isSaid := errors.Is(err, apply.ErrLeaseFailed) && strings.Contains(err.Error(), "Insufficient Storage")
		equal(t, "it is said: "+err.Error(), isSaid, true)
	})
}

// lateTimer is a context whose timer fires after its deadline.
type lateTimer struct {
	context.Context
	deadline time.Time
}

func (c lateTimer) Deadline() (time.Time, bool) { return c.deadline, true }

func (c lateTimer) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// A server that answers nothing shows no holder, and a run that is stopped shows neither.
func TestHold_NoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  error
	}{
		"until the timeout": {time.Hour, apply.ErrLeaseFailed},
		"and stopped":       {time.Second, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(c.after, cancel)
				transport := roundTripper(func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
				cluster := clusterInBubble(t, rest.Config{Transport: transport, QPS: -1},
					kube.Settings{Identity: "us", Timeout: time.Hour, Log: slog.New(slog.DiscardHandler)})
				err := cluster.Hold(ctx, "kube-system", []string{"whereabouts"}, unexpected)
				equal(t, fmt.Sprintf("%v is the error", err), errors.Is(err, c.want), true)
				cancel()
			})
		})
	}
}

// Work that does not need the Lease of that pool goes on.
func TestHold_ForbiddenLeaseOfAPool(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		a.forbid("/forbidden")
		c, denied := a.cluster(t, "us"), 0
		c.OnDenied = func() { denied++ }
		names := []string{"whereabouts", "free", "forbidden"}
		check(t, c.Hold(t.Context(), "kube-system", names, func(_ context.Context, s apply.Session) error {
			equal(t, "held", s.Leases(), []string{"whereabouts", "free"})
			equal(t, "forbidden", s.Forbidden(), []string{"forbidden"})
			return nil
		}))
		equal(t, "denied writes", denied, 1)
		equal(t, "writes: two Leases are taken and cleared", a.writes["us"], 4)
		equal(t, "holders", a.holder(shared)+a.holder("kube-system/free"), "")
	})
}

// Two ADDs hold the Lease one after the other, and then a DEL dies with it.
func TestHold_ObservesForeignHolds(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		go func() {
			for holder, renewals := range [...]int{3, 1, 2} {
				for range renewals {
					a.has(shared, fmt.Sprint("default/web-", holder), 0)
					time.Sleep(time.Second)
				}
			}
		}()
		synctest.Wait()
		var observed []time.Duration
		c := a.cluster(t, "us")
		c.OnForeignHold = func(d time.Duration) { observed = append(observed, d) }
		check(t, holdShared(t, c, nothing))
		if len(observed) != 3 {
			t.Fatalf("observed %v", observed)
		}
		for i, want := range []time.Duration{3 * time.Second, time.Second, 2500 * time.Millisecond} {
			between(t, "a hold", observed[i], want-300*time.Millisecond, want+300*time.Millisecond)
		}
		check(t, holdShared(t, c, nothing))
		equal(t, "observed holds without another process", len(observed), 3)
	})
}

// A hold is followed by a pause as long as it was, at least 1.5 s. If no ADD took the Lease in 1.25 s, the pause ends
// then, and the next hold is longer.
func TestHold_YieldsAfterwards(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		held, add, want time.Duration // add is when an ADD takes the Lease for a moment; zero for none
		isLost          bool          // the answer to the request that clears it
		work            time.Duration // for how long the next hold begins new work
	}{
		{0, 0, 1250 * ms, false, 3000 * ms},
		{3000 * ms, 0, 1250 * ms, false, 3000 * ms},
		{3000 * ms, 1100 * ms, 3000 * ms, false, 2000 * ms},
		{0, 1100 * ms, 1500 * ms, false, 2000 * ms},
		{3000 * ms, 0, 3000 * ms, true, 2000 * ms},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				cluster := a.cluster(t, "us")
				var ended, again time.Time
				hold := func(work func(), want time.Duration) {
					check(t, holdShared(t, cluster, func(_ context.Context, s apply.Session) error {
						equal(t, "new work begins for", time.Until(s.Until()), want)
						work()
						return nil
					}))
				}
				hold(func() {
					time.Sleep(c.held)
					a.set(func() { a.lost = func() bool { return c.isLost } })
					ended = time.Now()
				}, 2*time.Second)
				go func() {
					if time.Sleep(c.add); c.add > 0 {
						a.has(shared, "default/web-0", 0)
						a.has(shared, "", 0)
					}
				}()
				a.set(func() { a.lost = nil })
				hold(func() { again = time.Now() }, c.work)
				between(t, "retaken after", again.Sub(ended), c.want, c.want+250*ms)
			})
		})
	}
}

// The server is too busy for a write and for renewals. client-go repeats the write, when the Lease was not renewed for
// a second.
func TestHold_LateRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, sent := newLeaseAPI(), 0
		a.fails = func(_ string, r *http.Request) int { // the caller holds the lock
			switch {
			case r.Method == http.MethodDelete:
				if sent++; sent == 1 {
					return http.StatusTooManyRequests
				}
			case sent > 0 && r.Method == http.MethodPut:
				return http.StatusInternalServerError
			}
			return 0
		}
		c := a.cluster(t, "us")
		err := holdShared(t, c, func(ctx context.Context, s apply.Session) error {
			return s.DeleteReservation(ctx, readReservation())
		})
		if err == nil || sent != 1 {
			t.Errorf("the write was sent %d times: %v", sent, err)
		}
	})
}
