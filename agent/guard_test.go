package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// guarded has the agent check its policy, with this answer.
func guarded(s *scene, answer func() error) {
	s.checkPolicy = func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.do("check")
		return answer()
	}
}

func TestAgent_PublishesNothingWithoutPolicy(t *testing.T) {
	why := errors.New("not enforced")
	play(t, func(s *scene) { guarded(s, func() error { return why }) }, func(s *scene) {
		for _, what := range s.after(5 * time.Minute) {
			equal(t, "done meanwhile", what, "check")
		}
		s.ready("cannot publish the report: not enforced")
		s.now(func() { why = nil })
		equal(t, "done once it is enforced", strings.Join(s.after(20 * time.Second)[:2], " "), "check publish")
		s.ready("")
	})
}

func TestAgent_StopsRenewingWithoutPolicy(t *testing.T) {
	var why error
	play(t, func(s *scene) { guarded(s, func() error { return why }) }, func(s *scene) {
		s.after(10 * time.Minute)
		if checks := s.times("check"); len(checks) > 2 {
			t.Errorf("checked %d times in ten minutes", len(checks))
		}
		s.now(func() { why = errors.New("the binding is gone") })
		s.after(11 * time.Minute)
		for _, what := range s.after(5 * time.Minute) {
			equal(t, "done once it is not enforced", what, "check")
		}
		s.ready("the binding is gone")
	})
}
