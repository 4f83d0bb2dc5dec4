package agent_test

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestAgent_RewritesReportAfterRestore(t *testing.T) {
	restore := &agent.RestoreError{Reason: "a resourceVersion ran backwards"}
	for name, c := range map[string]struct {
		sign  func(*scene) // the restore shows
		over  func(*scene)
		shows string
	}{
		"at a renewal": {
			func(s *scene) { s.noRenew = restore }, func(s *scene) { s.noRenew = nil }, "renew"},
		"at a write": {
			func(s *scene) { s.noPublish = restore; s.bootID = "boot-2" }, func(s *scene) { s.noPublish = nil }, "publish"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(s *scene) {
				s.after(15 * time.Second)
				first := s.last()
				s.now(func() { c.sign(s) })
				var showed time.Time
				for range 2000 { // 20 s, until it shows
					if slices.Contains(s.after(10*time.Millisecond), c.shows) {
						showed = time.Now()
						break
					}
				}
				if showed.IsZero() {
					t.Fatal("it never showed")
				}
				s.now(func() { c.over(s) })
				s.after(3 * time.Second)
				r := s.last()
				equal(t, "published", len(s.content), 2)
				if !r.ObservedAt.After(first.ObservedAt.Time) || r.ObservedAt.Time.Before(showed.Add(-20*time.Millisecond).Truncate(time.Second)) {
					t.Errorf("it showed at %s, the report of %s was rewritten with %s", showed, first.ObservedAt, r.ObservedAt)
				}
				equal(t, "sandboxes", len(r.Sandboxes), 1)
				did := s.after(30 * time.Second)
				if slices.Contains(did, "publish") {
					t.Errorf("after it: %v", did)
				}
			})
		})
	}
}

// A note that would stay on the report of a quiet node is news to every reconciler that
// starts.
func TestAgent_DropsExpiredRestoreNote(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.after(5 * time.Second)
		s.now(func() { s.outdated = true })
		did := s.after(10 * time.Second)
		s.now(func() { s.outdated = false })
		equal(t, "then", did, []string{"publish"})
		equal(t, "after it", slices.Contains(s.after(time.Minute), "publish"), false)
	})
}

// As long as the report is not written, it is to be rewritten.
func TestAgent_RewritesAfterRestoreUntilWritten(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.after(5 * time.Second)
		first := s.last()
		s.now(func() { s.noRenew, s.noPublish = &agent.RestoreError{Reason: "x"}, errors.New("away") })
		s.after(30 * time.Second)
		s.now(func() { s.noRenew, s.noPublish = nil, nil })
		equal(t, "then", s.after(5*time.Second), []string{"publish"})
		if since := s.last().ObservedAt.Sub(first.ObservedAt.Time); since < 30*time.Second {
			t.Errorf("observed only %s after the first", since)
		}
	})
}

func TestAgent_RewritesForeignChange(t *testing.T) {
	for version, want := range map[string][]string{"own": nothing, "another": {"publish"}, "": {"publish"}} {
		t.Run("to version "+version, func(t *testing.T) {
			play(t, nil, func(s *scene) {
				s.after(2500 * time.Millisecond)
				hash := podstate.Hash(s.last())
				s.changes <- version
				equal(t, "in the two seconds then", s.after(2*time.Second), want)
				equal(t, "published", podstate.Hash(s.last()), hash)
			})
		})
	}
}

func TestAgent_LoadsReportBeforeInspecting(t *testing.T) {
	play(t, func(s *scene) { s.noLoad = errors.New("the server is away") }, func(s *scene) {
		did := s.all(time.Minute)
		if len(did) < 20 || slices.ContainsFunc(did, func(what string) bool { return what != "load" }) {
			t.Errorf("got %v", did)
		}
		s.ready("the server is away")
		if err := s.Health.Alive(); err != nil {
			t.Error(err)
		}
		s.now(func() { s.noLoad = nil })
		equal(t, "then", s.all(3 * time.Second)[:3], []string{"load", "inspect", "publish"})
		s.ready("")
	})
}

// What the report of before the boot says is proof, until kubelet has said that the
// node was rebooted.
func TestAgent_WaitsForBootIDOfNode(t *testing.T) {
	play(t, func(s *scene) {
		s.before = stored(t, agent.NextReport(nil, inspected(0, old("x"))))
		s.machine = v1alpha1.Machine{SystemUUID: "uuid-1", MachineID: "machine-1"}
		s.before.Machine, s.before.BootID, s.bootID, s.otherBoot = s.machine, "boot-0", "", errors.New("booted as boot-0")
	}, func(s *scene) {
		equal(t, "written", s.after(time.Minute), nothing)
		s.ready("booted as boot-0")
		s.now(func() { s.bootID, s.otherBoot = "boot-1", nil })
		equal(t, "then", s.after(3*time.Second), []string{"publish"})
		equal(t, "gone", goneIDs(s.last()), "x")
	})
}

func TestAgent_EndsAtOnce(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"while it waits":                    nil,
		"while the report cannot be loaded": func(s *scene) { s.noLoad = errors.New("x") },
		"while nothing can be seen":         func(s *scene) { s.blind = errors.New("x") },
		"while nothing can be written":      func(s *scene) { s.noPublish = errors.New("x") },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, change, func(s *scene) {
				s.after(12*time.Second + 300*time.Millisecond)
				asked := time.Now()
				s.stop()
				<-s.ended
				if took := time.Since(asked); took != 0 {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestHealth_StuckAgentIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := agent.NewHealth(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		time.Sleep(5 * time.Minute) // of the bubble
		if err := state.Alive(); err != nil {
			t.Error(err)
		}
		if state.Ready() == nil {
			t.Error("ready without a report")
		}
		time.Sleep(time.Second)
		if state.Alive() == nil {
			t.Error("alive")
		}
	})
}

// The reconciler keeps ADDs waiting until every node has reported.
func TestAgent_RenewsOftenAfterReconnect(t *testing.T) {
	play(t, nil, func(s *scene) {
		equal(s, "as usual", s.after(time.Minute), []string{"renew", "renew", "renew"})
		s.again <- struct{}{}
		equal(s, "in the first half minute", s.after(30*time.Second), []string{"publish", "renew", "renew", "renew", "renew", "renew"})
		if renewals := len(s.after(time.Minute)); renewals > 4 {
			s.Errorf("there were %d renewals in the minute after it", renewals)
		}
	})
}
