package serve

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// stuckAfter is how long the loop may be at something without a step: it takes
	// one for every batch of releases, for which it waits at most for a Lease.
	stuckAfter = 10 * time.Minute
	// notReadyAfter is how long passes may fail before a leader is not ready.
	notReadyAfter = 5 * time.Minute
)

// Health is what the liveness and readiness probes ask for. It is safe for use by several
// goroutines.
type Health struct {
	clock  clock.PassiveClock
	synced func() bool

	mu           sync.Mutex
	leading      bool
	busy         bool      // the loop is at something, and does not wait for an event
	lastStep     time.Time // the last step of the loop
	lastObserved time.Time // the last pass that could observe the cluster
	lastError    error     // why the last one could not
}

// NewHealth returns a Health; synced reports whether the caches have listed everything.
func NewHealth(clock clock.PassiveClock, synced func() bool) *Health {
	return &Health{clock: clock, synced: synced}
}

// Lead takes note that the loop runs from now on.
func (s *Health) Lead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.lastStep, s.lastObserved = true, s.clock.Now(), s.clock.Now()
}

// Tick notes a step of the loop.
func (s *Health) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastStep = s.clock.Now()
}

// begin and end are around what the loop does at a time.
func (s *Health) begin() { s.set(true) }
func (s *Health) end()   { s.set(false) }

func (s *Health) set(busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.lastStep = busy, s.clock.Now()
}

func (s *Health) passEnded(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastStep, s.lastError = s.clock.Now(), err
	if err == nil {
		s.lastObserved = s.clock.Now()
	}
}

// Alive returns why the loop is stuck; nil if it is not.
func (s *Health) Alive(*http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := s.clock.Since(s.lastStep); s.busy && since > stuckAfter {
		return fmt.Errorf("no step was taken for %s", since.Round(time.Second))
	}
	return nil
}

// Ready returns why this process cannot do its work, or take it over; nil if it can.
func (s *Health) Ready(*http.Request) error {
	if !s.synced() {
		return errors.New("the caches have not listed everything yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := s.clock.Since(s.lastObserved); s.leading && s.lastError != nil && since > notReadyAfter {
		return fmt.Errorf("the cluster could not be observed for %s: %w", since.Round(time.Second), s.lastError)
	}
	return nil
}
