package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// scene is an agent with a fake node and API server, in a synctest bubble with simulated time.
type scene struct {
	*testing.T
	*agent.Agent
	start       time.Time
	events      chan struct{}
	changes     chan string
	reconnected chan struct{}
	stop        func()
	done        chan struct{}

	checkPolicy func(context.Context) error

	logs         logBuffer
	mu           sync.Mutex
	items        []any            // sandboxes and attachments of the node
	unreadable   map[string]error // result of Unreadable
	inspectErr   error            // error of Inspect
	bootID       string
	machine      v1alpha1.Machine
	resumes      []bool                  // thisMachine of each Resume
	before       *v1alpha1.SandboxReport // result of Load
	loadErr      error
	publishErr   error
	renewErr     error
	identityErr  error
	answerTakes  time.Duration // of the API server
	inspectTakes time.Duration
	inspectedAt  time.Time                 // start of the last inspection
	confirmedAge time.Duration             // greatest age of content when it was confirmed
	calls        []call                    // since the last callsDuring
	lastCalls    []call                    // during the last callsDuring
	reports      []*v1alpha1.SandboxReport // published reports
}

// logBuffer keeps what an agent logs.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns the lines since the last take that contain a text.
func (l *logBuffer) take(with string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, with) {
			lines = append(lines, line)
		}
	}
	l.text.Reset()
	return lines
}

type call struct {
	what string
	at   time.Duration
}

// runScene runs an agent in a bubble. configure may change the scene before the start.
func runScene(t *testing.T, configure func(*scene), act func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, events: make(chan struct{}, 1), changes: make(chan string, 16), reconnected: make(chan struct{}, 1),
			done: make(chan struct{}), items: []any{oldSandbox("a")}, bootID: "boot-1"}
		s.start = time.Now()
		if configure != nil {
			configure(s)
		}
		s.Agent = &agent.Agent{
			Node: "worker-1", Inspector: inspector{s}, Store: store{s}, CheckPolicy: s.checkPolicy,
			RuntimeEvents: s.events, ReportChanges: s.changes, Reconnected: s.reconnected,
			Health: agent.NewHealth(slog.New(slog.NewTextHandler(&s.logs, nil)), prometheus.NewRegistry()),
			Identity: func(context.Context, *v1alpha1.SandboxReport) (agent.Identity, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return agent.Identity{BootID: s.bootID, Machine: s.machine}, s.identityErr
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		s.stop = stop
		go func() { s.Agent.Run(ctx); close(s.done) }()
		synctest.Wait()
		s.change(func() { s.calls = nil })
		act(s)
		stop()
		<-s.done
	})
}

// oldSandbox is a sandbox that is much older than the bubble's clock.
func oldSandbox(id string) v1alpha1.Sandbox {
	s := sandbox(id)
	s.CreatedAt = at(-100 * 365 * 24 * time.Hour)
	return s
}

func (s *scene) record(what string) {
	s.calls = append(s.calls, call{what, time.Since(s.start)})
}

// change changes the scene while the agent runs.
func (s *scene) change(change func()) { s.mu.Lock(); defer s.mu.Unlock(); change() }

// callsDuring sleeps and returns the calls in that time, without inspections.
func (s *scene) callsDuring(d time.Duration) []string {
	s.Helper()
	return slices.Clip(append([]string(nil), slices.DeleteFunc(s.allCallsDuring(d),
		func(what string) bool { return what == "inspect" })...))
}

func (s *scene) allCallsDuring(d time.Duration) (out []string) {
	time.Sleep(d) // simulated time
	synctest.Wait()
	s.change(func() { s.lastCalls, s.calls = s.calls, nil })
	for _, d := range s.lastCalls {
		out = append(out, d.what)
	}
	return out
}

// timesOf returns when a call was made during the last callsDuring.
func (s *scene) timesOf(what string) (out []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.lastCalls {
		if d.what == what {
			out = append(out, d.at)
		}
	}
	return out
}

// lastReport returns the last published report.
func (s *scene) lastReport() *v1alpha1.SandboxReport {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) == 0 {
		s.Fatal("nothing was published")
	}
	return s.reports[len(s.reports)-1]
}

func (s *scene) expectReady(want string) {
	s.Helper()
	switch err := s.Health.Ready(nil); {
	case want == "" && err != nil:
		s.Errorf("not ready: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		s.Errorf("Ready returns %v, want %q", err, want)
	}
}

type inspector struct{ *scene }

func (e inspector) Resume(_ *v1alpha1.SandboxReport, thisMachine bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resumes = append(e.resumes, thisMachine)
}

func (e inspector) Inspect(context.Context) (*agent.Inspection, error) {
	e.mu.Lock()
	start, takes := time.Now(), e.inspectTakes
	e.mu.Unlock()
	time.Sleep(takes) // simulated time
	e.mu.Lock()
	defer e.mu.Unlock()
	e.record("inspect")
	e.inspectedAt = start
	if e.inspectErr != nil {
		return nil, e.inspectErr
	}
	l := inspection(0, e.items...)
	l.At, l.NamespaceGone = start, map[string]bool{}
	for _, id := range []string{"a", "b", "c", "x"} {
		l.NamespaceGone[id] = true // if it is not listed
	}
	return l, nil
}

func (e inspector) Unreadable() map[string]error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.unreadable)
}

type store struct{ *scene }

func (s store) Load(context.Context) (*v1alpha1.SandboxReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record("load")
	return s.before, s.loadErr
}

func (s store) Publish(ctx context.Context, r *v1alpha1.SandboxReport) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record("publish")
	s.confirmedAge = max(s.confirmedAge, time.Since(s.inspectedAt))
	if s.publishErr == nil {
		s.reports = append(s.reports, r.DeepCopy())
	}
	return s.publishErr
}

func (s store) Renew(ctx context.Context) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record("renew")
	s.confirmedAge = max(s.confirmedAge, time.Since(s.inspectedAt))
	return s.renewErr
}

// answer waits for the answer of a slow API server.
func (s store) answer(ctx context.Context) error {
	s.mu.Lock()
	takes := s.answerTakes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (store) IsOwn(version string) bool { return version == "own" }

var none []string

func TestAgent_PublishesOnceThenRenews(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		equal(t, "at the start", s.allCallsDuring(0), none)
		equal(t, "published", len(s.reports), 1)
		r := s.lastReport()
		equal(t, "its name", r.Name, "worker-1")
		equal(t, "its boot id", r.BootID, "boot-1")
		equal(t, "its sandboxes", len(r.Sandboxes), 1)
		s.expectReady("")
		did := s.callsDuring(10*time.Minute + time.Second)
		for _, what := range did {
			if what != "renew" {
				t.Errorf("%s, though nothing changed", what)
			}
		}
		for what, every := range map[string]time.Duration{"renew": 20 * time.Second, "inspect": 10 * time.Second} {
			times := s.timesOf(what)
			equal(t, what+"s in ten minutes", len(times), int(10*time.Minute/every))
			for i, d := range times {
				equal(t, what, d, every*time.Duration(i+1))
			}
		}
		s.expectReady("")
	})
}

// The agent continues the report of an earlier agent, and rewrites it.
func TestAgent_ContinuesEarlierReport(t *testing.T) {
	runScene(t, func(s *scene) {
		l := inspection(0, oldSandbox("a"), oldSandbox("x"))
		l.At = time.Now().Add(-time.Minute)
		s.before = roundTrip(t, agent.NextReport(nil, l))
		s.before.Name = "worker-1"
	}, func(s *scene) {
		equal(t, "gone", goneIDs(s.lastReport()), "x")
		equal(t, "resumed as this machine's", s.resumes, []bool{true})
	})
	runScene(t, func(s *scene) {
		l := inspection(0, oldSandbox("a"))
		l.At = time.Now().Add(-time.Minute)
		s.before = roundTrip(t, agent.NextReport(nil, l))
		s.before.Name = "worker-1"
	}, func(s *scene) {
		again := s.lastReport()
		equal(t, "observed", again.ObservedAt.UTC(), time.Now().UTC()) // etcd may have been restored meanwhile
		again.ObservedAt = s.before.ObservedAt
		equal(t, "the same report, but for that", podstate.Hash(again), podstate.Hash(s.before))
		equal(t, "after it", s.callsDuring(time.Minute+time.Second), []string{"renew", "renew", "renew"})
	})
}

func TestAgent_PublishesChange(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		s.callsDuring(15 * time.Second)
		s.change(func() { s.items = append(s.items, oldSandbox("b")) })
		s.events <- struct{}{}
		equal(t, "at an event", s.allCallsDuring(time.Millisecond), []string{"inspect", "publish"})
		equal(t, "sandboxes", len(s.lastReport().Sandboxes), 2)
		equal(t, "for 19 s after it", s.callsDuring(19*time.Second), none)
		equal(t, "20 s after it", s.callsDuring(2*time.Second), []string{"renew"})
		s.change(func() { s.items = []any{oldSandbox("b")} })
		equal(t, "without an event, within 10 s", s.callsDuring(10*time.Second), []string{"publish"})
		equal(t, "gone", goneIDs(s.lastReport()), "a")
	})
}

func TestAgent_BatchesEvents(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		s.callsDuring(5 * time.Second)
		for range 100 {
			select {
			case s.events <- struct{}{}:
			default:
			}
			time.Sleep(3 * time.Millisecond) // simulated time
			synctest.Wait()
		}
		equal(t, "inspections in 300 ms", s.allCallsDuring(0), []string{"inspect"})
		// One event waits, so a later change is inspected as well.
		if n := len(s.allCallsDuring(2 * time.Second)); n < 1 || n > 2 {
			t.Errorf("%d inspections in the two seconds after it", n)
		}
		equal(t, "inspections in the 8 s then", s.allCallsDuring(8*time.Second), none)
	})
	runScene(t, nil, func(s *scene) {
		s.callsDuring(5 * time.Second)
		for range 100 { // for ten seconds
			select {
			case s.events <- struct{}{}:
			default:
			}
			time.Sleep(100 * time.Millisecond) // simulated time
		}
		s.allCallsDuring(0)
		times := s.timesOf("inspect")
		if len(times) < 9 {
			t.Errorf("%d inspections in ten seconds of events", len(times))
		}
		for i := 1; i < len(times); i++ {
			if times[i]-times[i-1] < time.Second {
				t.Errorf("inspections at %s and %s", times[i-1], times[i])
			}
		}
	})
}

func TestAgent_FailedInspectionPublishesNothing(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		s.callsDuring(15 * time.Second)
		s.change(func() { s.inspectErr = agent.ErrOwnSandboxMissing; s.items = append(s.items, oldSandbox("b")) })
		equal(t, "for three minutes", s.callsDuring(3*time.Minute), none)
		s.expectReady("own sandbox")
		if err := s.Health.Alive(nil); err != nil {
			t.Errorf("it tries, and is not alive: %v", err)
		}
		if n := len(s.timesOf("inspect")); n < 60 || n > 180 {
			t.Errorf("%d inspections in three minutes", n)
		}
		s.change(func() { s.inspectErr = nil })
		equal(t, "then", s.callsDuring(3*time.Second), []string{"publish"})
		s.expectReady("")
		// If nothing changed meanwhile, only the Lease is renewed, at once.
		s.change(func() { s.inspectErr = errors.New("x") })
		s.callsDuring(time.Minute)
		s.change(func() { s.inspectErr = nil })
		equal(t, "then, when nothing changed", s.callsDuring(3*time.Second), []string{"renew"})
	})
}

func TestAgent_RetriesPublish(t *testing.T) {
	runScene(t, nil, func(s *scene) {
		s.callsDuring(5 * time.Second)
		s.change(func() {
			s.publishErr = errors.New("the server is away")
			s.items = []any{oldSandbox("a"), oldSandbox("b")}
		})
		did := s.callsDuring(2 * time.Minute)
		if len(did) < 20 || len(did) > 25 || slices.ContainsFunc(did, func(what string) bool { return what != "publish" }) {
			t.Errorf("in two minutes: %v", did)
		}
		s.expectReady("the server is away")
		// b appears and ends before anything is published.
		s.change(func() { s.items = []any{oldSandbox("a"), oldSandbox("c")} })
		s.callsDuring(20 * time.Second)
		s.change(func() { s.publishErr = nil })
		equal(t, "then", s.callsDuring(15*time.Second), []string{"publish"})
		r := s.lastReport()
		var ids []string
		for _, b := range r.Sandboxes {
			ids = append(ids, b.ID)
		}
		equal(t, "sandboxes", ids, []string{"a", "c"})
		equal(t, "gone", goneIDs(r), "b")
		s.expectReady("")
	})
}

func TestAgent_RetriesRenewal(t *testing.T) {
	runScene(t, func(s *scene) { s.renewErr = errors.New("the server is away") }, func(s *scene) {
		did := s.callsDuring(30 * time.Second)
		if len(did) < 3 || slices.Contains(did, "publish") {
			t.Errorf("got %v", did)
		}
		s.callsDuring(time.Minute)
		s.expectReady("the server is away")
		s.change(func() { s.renewErr = nil })
		equal(t, "then", s.callsDuring(15*time.Second), []string{"renew"})
		s.expectReady("")
	})
}
