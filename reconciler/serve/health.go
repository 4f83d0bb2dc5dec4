package serve

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// stuckAfter is how long the loop may be busy without a step: it takes one for
	// every batch of releases, for which it waits at most for a Lease.
	stuckAfter = 10 * time.Minute
	// notReadyAfter is how long passes may fail before a leader is not ready.
	notReadyAfter = 5 * time.Minute
)

// Health is what the liveness and readiness probes ask for. It is safe for use by several
// goroutines.
type Health struct {
	synced func() bool

	mu           sync.Mutex
	leading      bool
	busy         bool      // the loop makes a pass, and does not wait for a request
	lastStep     time.Time // the last step of the loop
	lastObserved time.Time // the last pass that could observe the cluster
	lastError    error     // why the last one could not
}

// NewHealth returns a Health; synced reports whether the caches have listed everything.
func NewHealth(synced func() bool) *Health {
	return &Health{synced: synced}
}

// Lead takes note that the loop runs from now on.
func (h *Health) Lead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leading, h.lastStep, h.lastObserved = true, time.Now(), time.Now()
}

// Tick takes note of a step of the loop.
func (h *Health) Tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastStep = time.Now()
}

// setBusy is called around each pass.
func (h *Health) setBusy(busy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy, h.lastStep = busy, time.Now()
}

func (h *Health) passEnded(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastStep, h.lastError = time.Now(), err
	if err == nil {
		h.lastObserved = time.Now()
	}
}

// Alive returns why the loop is stuck; nil if it is not.
func (h *Health) Alive(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastStep); h.busy && since > stuckAfter {
		return fmt.Errorf("no step was taken for %s", since.Round(time.Second))
	}
	return nil
}

// Ready returns why this process cannot do its work, or take it over; nil if it can.
func (h *Health) Ready(*http.Request) error {
	if !h.synced() {
		return errors.New("the caches have not listed everything yet")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastObserved); h.leading && h.lastError != nil && since > notReadyAfter {
		return fmt.Errorf("the cluster could not be observed for %s: %w", since.Round(time.Second), h.lastError)
	}
	return nil
}
