package agent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/hostdir"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// A Lease that is renewed long after the inspection would say that the report is right now.
func TestAgent_ConfirmsNothingLongAfterTheInspection(t *testing.T) {
	for takes, isWritten := range map[time.Duration]bool{29 * time.Second: true, 31 * time.Second: false} {
		runScene(t, nil, func(s *scene) {
			s.callsDuring(time.Minute)
			s.change(func() { s.answerTakes = takes })
			equal(t, "renewed by an API server that takes "+takes.String(),
				slices.Contains(s.callsDuring(5*time.Minute), "renew"), isWritten)
			s.change(func() { s.answerTakes = 0 })
			equal(t, "renewed afterwards", slices.Contains(s.callsDuring(time.Minute), "renew"), true)
		})
	}
}

// The age of what a Lease confirms counts from the start of the inspection, which may be slow itself.
func TestAgent_ConfirmsNothingAfterASlowInspection(t *testing.T) {
	for name, c := range map[string]struct {
		inspect, answer time.Duration
		isWritten       bool
	}{
		"a slow inspection":                         {20 * time.Second, time.Second, true},
		"an inspection that takes nearly as long":   {28 * time.Second, time.Second, true},
		"one that leaves no time for the write":     {29 * time.Second, time.Millisecond, false},
		"one that takes longer":                     {16 * time.Minute, time.Millisecond, false},
		"a slow inspection and a slow API server":   {20 * time.Second, 15 * time.Second, false},
		"a little of both, which is in time":        {10 * time.Second, 15 * time.Second, true},
		"an inspection that takes twice the minute": {2 * time.Minute, 29 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			runScene(t, nil, func(s *scene) {
				s.callsDuring(time.Minute)
				s.logs.take("")
				s.change(func() { s.inspectTakes, s.answerTakes, s.confirmedAge = c.inspect, c.answer, 0 })
				s.callsDuring(time.Minute) // the last fast inspection
				equal(t, "renewed", slices.Contains(s.callsDuring(time.Hour), "renew"), c.isWritten)
				if s.confirmedAge > 30*time.Second {
					t.Errorf("the Lease confirms content that is %s old", s.confirmedAge)
				}
				took := "the inspection took " + c.inspect.String()
				if isLogged := len(s.logs.take(took)) > 0; isLogged == c.isWritten {
					t.Errorf("the log says %q: %v", took, isLogged)
				}
				if !c.isWritten {
					s.expectReady(took)
				}
				s.change(func() { s.inspectTakes, s.answerTakes = 0, 0 })
				s.callsDuring(c.inspect)
				equal(t, "renewed afterwards", slices.Contains(s.callsDuring(time.Minute), "renew"), true)
				s.expectReady("")
			})
		})
	}
}

// Each file that cannot be read is logged once, and not more than five at once.
func TestAgent_LogsNewUnreadableFiles(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		step := func(what string, unread []string, want ...string) {
			t.Helper()
			s.logs.take("")
			s.change(func() {
				s.unreadable = map[string]error{}
				for _, name := range unread {
					s.unreadable[name] = errors.New("no JSON")
				}
			})
			s.callsDuring(time.Minute)
			var got []string
			for _, line := range s.logs.take("Cannot read") {
				_, line, _ = strings.Cut(line, `" `)
				got = append(got, strings.TrimSpace(line))
			}
			equal(t, what, got, want)
		}
		step("one file", []string{"a"}, `name=a error="no JSON"`)
		step("another one instead", []string{"b"}, `name=b error="no JSON"`)
		step("a second one", []string{"b", "c"}, `name=c error="no JSON"`)
		step("no change", []string{"b", "c"})
		step("seven more", strings.Fields("b c d e f g h i j"), `name=d error="no JSON"`, `name=e error="no JSON"`,
			`name=f error="no JSON"`, `name=g error="no JSON"`, `name=h error="no JSON"`, "more=2")
		step("none", nil)
		step("one again", []string{"j"}, `name=j error="no JSON"`)
	})
}

// A mount keeps the deleted folder for as long as the container lives, so kubelet must restart it.
func TestAgent_IsNotAliveWithADeletedFolder(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		s.change(func() { s.inspectErr = fmt.Errorf("CNI cache: /var/lib/cni: %w", hostdir.ErrReplaced) })
		s.callsDuring(time.Minute)
		s.expectReady("deleted and created again")
		if err := s.Health.Alive(nil); err == nil || !strings.Contains(err.Error(), "deleted and created again") {
			t.Errorf("Alive returns %v", err)
		}
		s.change(func() { s.inspectErr = errors.New("another") })
		s.callsDuring(time.Minute)
		if err := s.Health.Alive(nil); err != nil {
			t.Errorf("after another failure it is not alive: %v", err)
		}
	})
}

func TestAgent_RewritesReportAfterRestore(t *testing.T) {
	restore := &agent.RestoreError{Reason: "a resourceVersion ran backwards"}
	for name, c := range map[string]struct {
		sign  func(*scene) // the restore becomes visible
		over  func(*scene)
		shows string
	}{
		"at a renewal": {
			func(s *scene) { s.renewErr = restore }, func(s *scene) { s.renewErr = nil }, "renew"},
		"at a write": {
			func(s *scene) { s.publishErr = restore; s.bootID = "boot-2" }, func(s *scene) { s.publishErr = nil }, "publish"},
	} {
		t.Run(name, func(t *testing.T) {
			runScene(t, nil, func(s *scene) {
				s.callsDuring(15 * time.Second)
				first := s.lastReport()
				s.change(func() { c.sign(s) })
				var detectedAt time.Time
				for range 2000 { // 20 s, until it is visible
					if slices.Contains(s.callsDuring(10*time.Millisecond), c.shows) {
						detectedAt = time.Now()
						break
					}
				}
				if detectedAt.IsZero() {
					t.Fatal("the restore was not detected")
				}
				s.change(func() { c.over(s) })
				s.callsDuring(3 * time.Second)
				r := s.lastReport()
				equal(t, "published", len(s.reports), 2)
				if !r.ObservedAt.After(first.ObservedAt.Time) ||
					r.ObservedAt.Time.Before(detectedAt.Add(-20*time.Millisecond).Truncate(time.Second)) {
					t.Errorf("detected at %s, but the report of %s was rewritten with %s", detectedAt, first.ObservedAt, r.ObservedAt)
				}
				equal(t, "sandboxes", len(r.Sandboxes), 1)
				did := s.callsDuring(30 * time.Second)
				if slices.Contains(did, "publish") {
					t.Errorf("after it: %v", did)
				}
			})
		})
	}
}

// The report stays to be rewritten until the write succeeds.
func TestAgent_RewritesAfterRestoreUntilWritten(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		s.callsDuring(5 * time.Second)
		first := s.lastReport()
		s.change(func() { s.renewErr, s.publishErr = &agent.RestoreError{Reason: "x"}, errors.New("away") })
		s.callsDuring(30 * time.Second)
		s.change(func() { s.renewErr, s.publishErr = nil, nil })
		equal(t, "then", s.callsDuring(5*time.Second), []string{"publish"})
		if since := s.lastReport().ObservedAt.Sub(first.ObservedAt.Time); since < 30*time.Second {
			t.Errorf("observed only %s after the first", since)
		}
	})
}

func TestAgent_RewritesForeignChange(t *testing.T) {
	for version, want := range map[string][]string{"own": none, "another": {"publish"}, "": {"publish"}} {
		t.Run("to version "+version, func(t *testing.T) {
			runScene(t, nil, func(s *scene) {
				s.callsDuring(2500 * time.Millisecond)
				hash := podstate.Hash(s.lastReport())
				s.changes <- version
				equal(t, "in the two seconds then", s.callsDuring(2*time.Second), want)
				equal(t, "published", podstate.Hash(s.lastReport()), hash)
			})
		})
	}
}

func TestAgent_LoadsReportBeforeInspecting(t *testing.T) {
	runScene(t, func(s *scene) { s.loadErr = errors.New("the server is away") }, func(s *scene) {
		did := s.allCallsDuring(time.Minute)
		if len(did) < 20 || slices.ContainsFunc(did, func(what string) bool { return what != "load" }) {
			t.Errorf("got %v", did)
		}
		s.expectReady("the server is away")
		if err := s.Health.Alive(nil); err != nil {
			t.Error(err)
		}
		s.change(func() { s.loadErr = nil })
		equal(t, "then", s.allCallsDuring(3 * time.Second)[:3], []string{"load", "inspect", "publish"})
		s.expectReady("")
	})
}

// The report from before the boot is proof until kubelet has reported the reboot.
func TestAgent_WaitsForBootIDOfNode(t *testing.T) {
	runScene(t, func(s *scene) {
		s.before = roundTrip(t, agent.NextReport(nil, inspection(0, oldSandbox("x"))))
		s.machine = v1alpha1.Machine{SystemUUID: "uuid-1", MachineID: "machine-1"}
		s.before.Machine, s.before.BootID, s.bootID, s.identityErr = s.machine, "boot-0", "", errors.New("booted as boot-0")
	}, func(s *scene) {
		equal(t, "written", s.callsDuring(time.Minute), none)
		s.expectReady("booted as boot-0")
		s.change(func() { s.bootID, s.identityErr = "boot-1", nil })
		equal(t, "then", s.callsDuring(3*time.Second), []string{"publish"})
		equal(t, "gone", goneIDs(s.lastReport()), "x")
	})
}

func TestAgent_EndsAtOnce(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"while it waits":                  nil,
		"while the report cannot be read": func(s *scene) { s.loadErr = errors.New("x") },
		"while inspections fail":          func(s *scene) { s.inspectErr = errors.New("x") },
		"while writes fail":               func(s *scene) { s.publishErr = errors.New("x") },
	} {
		t.Run(name, func(t *testing.T) {
			runScene(t, change, func(s *scene) {
				s.callsDuring(12*time.Second + 300*time.Millisecond)
				asked := time.Now()
				s.stop()
				<-s.done
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
		time.Sleep(5 * time.Minute) // simulated time
		if err := state.Alive(nil); err != nil {
			t.Error(err)
		}
		if state.Ready(nil) == nil {
			t.Error("ready without a report")
		}
		time.Sleep(time.Second)
		if state.Alive(nil) == nil {
			t.Error("alive")
		}
	})
}

// The reconciler delays ADDs until every node has reported.
func TestAgent_RenewsOftenAfterReconnect(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		equal(s, "as usual", s.callsDuring(time.Minute), []string{"renew", "renew", "renew"})
		s.reconnected <- struct{}{}
		equal(s, "in the first half minute", s.callsDuring(30*time.Second), []string{"publish", "renew", "renew", "renew",
			"renew", "renew"})
		if renewals := len(s.callsDuring(time.Minute)); renewals > 4 {
			s.Errorf("there were %d renewals in the minute after it", renewals)
		}
	})
}

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
