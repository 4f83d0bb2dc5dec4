package agent_test

import (
	"errors"
	"testing"
	"time"
)

// The last report contains what stopped before the agent.
func TestAgent_LastInspectionAtItsEnd(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		s.callsDuring(3 * time.Second)
		s.change(func() { s.items = []any{oldSandbox("b")} })
		s.stop()
		<-s.done
		equal(t, "done", s.allCallsDuring(0), []string{"inspect", "publish"})
		equal(t, "gone", goneIDs(s.lastReport()), "a")
	})
	runScene(t, func(s *scene) { s.loadErr = errors.New("x") }, func(s *scene) {
		s.callsDuring(3 * time.Second)
		s.stop()
		<-s.done
		equal(t, "done without the report of before", s.callsDuring(0), none)
	})
}
