package kube_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// TestALeaseThatCannotBeWrittenIsNotSaidToBeBusy: who reads that ADDs and DELs hold it looks
// for them, and not at an etcd that is full.
func TestALeaseThatCannotBeWrittenIsNotSaidToBeBusy(t *testing.T) {
	for name, c := range map[string]struct {
		refuses, held bool
		want          error
	}{
		"refused":           {refuses: true, want: reconciler.ErrLeaseFailed},
		"held":              {held: true, want: reconciler.ErrLeaseBusy},
		"refused, but held": {refuses: true, held: true, want: reconciler.ErrLeaseBusy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newLeaseAPI()
				a.has("kube-system/whereabouts", "", time.Hour)
				ctx, cancel := context.WithCancel(t.Context())
				var adds sync.WaitGroup
				defer adds.Wait()
				defer cancel()
				if c.held {
					adds.Go(func() { // each renews it after the other
						for ; ctx.Err() == nil; time.Sleep(500 * time.Millisecond) {
							a.has("kube-system/whereabouts", "an ADD", 0)
						}
					})
					synctest.Wait()
				}
				if c.refuses {
					a.fails = func(_ string, r *http.Request) int {
						if r.Method == http.MethodPut {
							return http.StatusInternalServerError
						}
						return 0
					}
				}
				began := time.Now()
				err := a.cluster(t, "us").Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
					return errors.New("it is held")
				})
				equal(t, "the error is "+c.want.Error(), errors.Is(err, c.want), true)
				if took := time.Since(began); took < 40*time.Second || took > 50*time.Second {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}

func TestALeaseThatRBACForbidsIsADeniedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newLeaseAPI()
		a.has("kube-system/whereabouts", "", time.Hour)
		a.fails = func(_ string, r *http.Request) int {
			if r.Method == http.MethodPut {
				return http.StatusForbidden
			}
			return 0
		}
		c, denied := a.cluster(t, "us"), 0
		c.OnDenied = func() { denied++ }
		err := c.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
			return errors.New("it is held")
		})
		equal(t, "the error says so", errors.Is(err, reconciler.ErrLeaseForbidden), true)
		equal(t, "denied writes", denied, 1)
	})
}
