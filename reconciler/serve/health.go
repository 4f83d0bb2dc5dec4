package serve

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// stuckAfter is how long the leader may make no progress: twice observeEvery. A pass progresses with every page of
	// a list and every batch of releases.
	stuckAfter = 10 * time.Minute
	// notReadyAfter is how long passes may fail until the leader is not ready.
	notReadyAfter = 5 * time.Minute
)

// Health answers the liveness and readiness probes. It is safe for concurrent use.
type Health struct {
	isSynced func() bool

	mu              sync.Mutex
	isLeader        bool
	lastProgress    time.Time // of a pass
	lastObservation time.Time // end of the last successful pass
	lastError       error     // of the last pass
}

// NewHealth returns a Health. isSynced is Synced of the caches.
func NewHealth(isSynced func() bool) *Health {
	return &Health{isSynced: isSynced}
}

// Lead records that this process is the leader.
func (h *Health) Lead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isLeader, h.lastProgress, h.lastObservation = true, time.Now(), time.Now()
}

// Progress records progress of a pass.
func (h *Health) Progress() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastProgress = time.Now()
}

func (h *Health) passEnded(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastProgress, h.lastError = time.Now(), err
	if err == nil {
		h.lastObservation = time.Now()
	}
}

// Alive returns an error if the leader is stuck.
func (h *Health) Alive(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastProgress); h.isLeader && since > stuckAfter {
		return fmt.Errorf("a pass has made no progress for %s", since.Round(time.Second))
	}
	return nil
}

// Ready returns an error if this process cannot make passes, or could not as the leader.
func (h *Health) Ready(*http.Request) error {
	if !h.isSynced() {
		return errors.New("the watch caches are not synced")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastObservation); h.isLeader && h.lastError != nil && since > notReadyAfter {
		return fmt.Errorf("no pass has succeeded for %s: %w", since.Round(time.Second), h.lastError)
	}
	return nil
}
