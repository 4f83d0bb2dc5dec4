package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// withPolicyCheck sets the agent's CheckPolicy.
func withPolicyCheck(s *scene, answer func() error) {
	s.checkPolicy = func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.record("check")
		return answer()
	}
}

func TestAgent_PublishesNothingWithoutPolicy(t *testing.T) {
	why := errors.New("not enforced")
	runScene(t, func(s *scene) { withPolicyCheck(s, func() error { return why }) }, func(s *scene) {
		for _, what := range s.callsDuring(5 * time.Minute) {
			equal(t, "done meanwhile", what, "check")
		}
		s.expectReady("cannot publish the report: not enforced")
		s.change(func() { why = nil })
		equal(t, "done once it is enforced", strings.Join(s.callsDuring(20 * time.Second)[:2], " "), "check publish")
		s.expectReady("")
	})
}

func TestAgent_StopsRenewingWithoutPolicy(t *testing.T) {
	var why error
	runScene(t, func(s *scene) { withPolicyCheck(s, func() error { return why }) }, func(s *scene) {
		s.callsDuring(10 * time.Minute)
		if checks := s.timesOf("check"); len(checks) > 2 {
			t.Errorf("checked %d times in ten minutes", len(checks))
		}
		s.change(func() { why = errors.New("the binding is gone") })
		s.callsDuring(11 * time.Minute)
		for _, what := range s.callsDuring(5 * time.Minute) {
			equal(t, "done once it is not enforced", what, "check")
		}
		s.expectReady("the binding is gone")
	})
}
