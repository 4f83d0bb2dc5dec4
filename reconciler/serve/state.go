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
	// aliveFor is how long the loop may be at something without a step: it takes
	// one for every batch of releases, for which it waits at most for a Lease.
	aliveFor = 10 * time.Minute
	// goodFor is how long looks may fail before a leader is not ready.
	goodFor = 5 * time.Minute
)

// State is what the probes ask for.
type State struct {
	clock  clock.PassiveClock
	synced func() bool

	mu      sync.Mutex
	leading bool
	busy    bool      // the loop is at something, and does not wait for an event
	step    time.Time // the last step of the loop
	good    time.Time // the last look that could be made
	failed  error     // why the last one could not
}

// NewState makes a State; synced reports whether the caches have listed everything.
func NewState(clock clock.PassiveClock, synced func() bool) *State {
	return &State{clock: clock, synced: synced}
}

// Lead says that the loop runs from now on.
func (s *State) Lead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.step, s.good = true, s.clock.Now(), s.clock.Now()
}

// Tick notes a step of the loop.
func (s *State) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = s.clock.Now()
}

// begin and end are around what the loop does at a time.
func (s *State) begin() { s.set(true) }
func (s *State) end()   { s.set(false) }

func (s *State) set(busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.step = busy, s.clock.Now()
}

func (s *State) look(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.failed = s.clock.Now(), err
	if err == nil {
		s.good = s.clock.Now()
	}
}

// Alive says why the loop is stuck; nil if it is not.
func (s *State) Alive(*http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := s.clock.Since(s.step); s.busy && since > aliveFor {
		return fmt.Errorf("no step was taken for %s", since.Round(time.Second))
	}
	return nil
}

// Ready says why this process cannot do its work, or take it over; nil if it can.
func (s *State) Ready(*http.Request) error {
	if !s.synced() {
		return errors.New("the caches have not listed everything yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := s.clock.Since(s.good); s.leading && s.failed != nil && since > goodFor {
		return fmt.Errorf("the cluster could not be looked at for %s: %w", since.Round(time.Second), s.failed)
	}
	return nil
}
