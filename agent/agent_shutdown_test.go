package agent_test

import (
	"errors"
	"testing"
	"time"
)

// What stops before the agent does is in the report that it leaves.
func TestAgent_LastInspectionAtItsEnd(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.after(3 * time.Second)
		s.now(func() { s.parts = []any{old("b")} })
		s.stop()
		<-s.ended
		equal(t, "done", s.all(0), []string{"inspect", "publish"})
		equal(t, "gone", goneIDs(s.last()), "a")
	})
	play(t, func(s *scene) { s.noLoad = errors.New("x") }, func(s *scene) {
		s.after(3 * time.Second)
		s.stop()
		<-s.ended
		equal(t, "done without the report of before", s.after(0), nothing)
	})
}
