package kube

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// renewEvery leaves room for a second try within writeWithin.
	renewEvery = 250 * time.Millisecond
	// writeWithin is how long after a renewal was sent, which the server has
	// confirmed, a write may begin: others may take the Lease 1.5 s after they
	// saw the renewal.
	writeWithin = 700 * time.Millisecond
)

// keep renews the Leases until it is stopped. One that is somebody else's by now,
// or was not renewed before others may take it, ends the hold at once.
func (h *leases) keep(end context.CancelFunc) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, l := range h.held {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(renewEvery):
				}
				if !h.renew(l) {
					end()
					return
				}
			}
		})
	}
	return func() { close(done); wg.Wait() }
}

// renew reports whether the Lease is still ours. It is not ended with the hold: an
// answer that nobody waits for leaves a Lease of unknown version behind.
func (h *leases) renew(l *heldLease) bool {
	ctx, cancel := context.WithDeadline(context.Background(), l.renewed.Add(expiry))
	defer cancel()
	sent := time.Now()
	next := l.DeepCopy()
	now := metav1.NewMicroTime(sent)
	next.Spec.RenewTime = &now
	next, err := h.c.core.CoordinationV1().Leases(h.namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		l.Lease, l.renewed = next, sent
		return true
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), ctx.Err() != nil:
		h.lost = true
		h.c.Log.Debug("a Lease was lost while it was held", "lease", l.Name, "error", err)
		return false
	}
	h.c.Log.Debug("a Lease was not renewed; it is tried again", "lease", l.Name, "error", err)
	return true
}
