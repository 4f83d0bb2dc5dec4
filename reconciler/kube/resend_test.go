package kube_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// The server is too busy for a write, as for the renewals. client-go makes the
// write again by itself; by then the Lease was not renewed for a second.
func TestAWriteThatTheServerHadNoTimeForDoesNotBeginAgainByItself(t *testing.T) {
	t.Parallel()
	f, l := newFakeAPI(t), &aLease{spec: map[string]any{}}
	l.on(f, "whereabouts")
	l.fails = func(update int) int {
		if update > 1 && update < 20 {
			return http.StatusInternalServerError
		}
		return 0
	}
	var mu sync.Mutex
	var began []time.Time
	f.answers[oneRes] = func(w http.ResponseWriter, r *http.Request, n int) {
		mu.Lock()
		began = append(began, time.Now())
		mu.Unlock()
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			fails(http.StatusTooManyRequests)(w, r, n)
			return
		}
		object(map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"})(w, r, n)
	}
	c := f.cluster(t)
	start := time.Now()
	mayWrite := false
	err := c.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(ctx context.Context, h *reconciler.Hold) error {
		r := ippool.ReadReservation(reservation())
		err := c.DeleteReservation(ctx, r)
		mayWrite = h.MayWrite()
		return err
	})
	t.Log(err, "may write when it was made again:", mayWrite)
	mu.Lock()
	defer mu.Unlock()
	for _, at := range began {
		t.Log("begun", at.Sub(start))
	}
	if len(began) > 1 { // the second would begin a second later, longer after the renewal than a write may
		t.Errorf("the write was sent %d times", len(began))
	}
}
