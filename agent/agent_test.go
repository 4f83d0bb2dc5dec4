package agent_test

import (
	"context"
	"errors"
	"log/slog"
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

// scene is an agent with a node and an API server that are made up. It runs in a
// synctest bubble, where time goes on when everybody waits.
type scene struct {
	*testing.T
	*agent.Agent
	began   time.Time
	events  chan struct{}
	changes chan string
	again   chan struct{}
	stop    func()
	ended   chan struct{}

	checkPolicy func(context.Context) error

	mu        sync.Mutex
	parts     []any // what the node has
	blind     error // why it cannot be looked at
	bootID    string
	machine   v1alpha1.Machine
	recalled  []bool                  // whether each was of this machine
	before    *v1alpha1.SandboxReport // what Load finds
	noLoad    error
	noPublish error
	noRenew   error
	otherBoot error
	outdated  bool                      // a note of the report is
	did       []deed                    // since the last after
	window    []deed                    // between that and the one before it
	content   []*v1alpha1.SandboxReport // published
}

type deed struct {
	what string
	at   time.Duration
}

// play runs an agent, as it was changed, in a bubble.
func play(t *testing.T, change func(*scene), act func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, events: make(chan struct{}, 1), changes: make(chan string, 16), again: make(chan struct{}, 1), ended: make(chan struct{}),
			parts: []any{old("a")}, bootID: "boot-1"}
		s.began = time.Now()
		if change != nil {
			change(s)
		}
		s.Agent = &agent.Agent{
			Node: "worker-1", Inspector: inspector{s}, Store: store{s}, CheckPolicy: s.checkPolicy,
			RuntimeEvents: s.events, ReportChanges: s.changes, Reconnected: s.again,
			Health: agent.NewHealth(slog.New(slog.DiscardHandler), prometheus.NewRegistry()),
			Identity: func(context.Context, *v1alpha1.SandboxReport) (agent.Identity, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return agent.Identity{BootID: s.bootID, Machine: s.machine}, s.otherBoot
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		s.stop = stop
		go func() { s.Agent.Run(ctx); close(s.ended) }()
		synctest.Wait()
		s.now(func() { s.did = nil })
		act(s)
		stop()
		<-s.ended
	})
}

// old is a sandbox that was there long before the bubble's clock began.
func old(id string) v1alpha1.Sandbox {
	s := sandbox(id)
	s.CreatedAt = at(-100 * 365 * 24 * time.Hour)
	return s
}

func (s *scene) do(what string) {
	s.did = append(s.did, deed{what, time.Since(s.began)})
}

// now changes the scene while the agent runs.
func (s *scene) now(change func()) { s.mu.Lock(); defer s.mu.Unlock(); change() }

// after lets time go by and returns what was done meanwhile, inspections left out.
func (s *scene) after(d time.Duration) []string {
	s.Helper()
	return slices.Clip(append([]string(nil), slices.DeleteFunc(s.all(d), func(what string) bool { return what == "inspect" })...))
}

func (s *scene) all(d time.Duration) (out []string) {
	time.Sleep(d) // of the bubble: nobody waits
	synctest.Wait()
	s.now(func() { s.window, s.did = s.did, nil })
	for _, d := range s.window {
		out = append(out, d.what)
	}
	return out
}

// times are when something was done between the last two afters.
func (s *scene) times(what string) (out []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.window {
		if d.what == what {
			out = append(out, d.at)
		}
	}
	return out
}

// last is the report that was published last.
func (s *scene) last() *v1alpha1.SandboxReport {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.content) == 0 {
		s.Fatal("nothing was published")
	}
	return s.content[len(s.content)-1]
}

func (s *scene) ready(want string) {
	s.Helper()
	switch err := s.Health.Ready(); {
	case want == "" && err != nil:
		s.Errorf("not ready: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		s.Errorf("ready says %v, not %q", err, want)
	}
}

type inspector struct{ *scene }

func (e inspector) Resume(_ *v1alpha1.SandboxReport, thisMachine bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recalled = append(e.recalled, thisMachine)
}

func (e inspector) Inspect(context.Context) (*agent.Inspection, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.do("inspect")
	if e.blind != nil {
		return nil, e.blind
	}
	l := inspected(0, e.parts...)
	l.At, l.NamespaceGone = time.Now(), map[string]bool{}
	for _, id := range []string{"a", "b", "c", "x"} {
		l.NamespaceGone[id] = true // where it is there no more
	}
	return l, nil
}

func (inspector) Unreadable() map[string]error { return nil }

type store struct{ *scene }

func (s store) Load(context.Context) (*v1alpha1.SandboxReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do("load")
	return s.before, s.noLoad
}

func (s store) Publish(_ context.Context, r *v1alpha1.SandboxReport) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do("publish")
	if s.noPublish == nil {
		s.content = append(s.content, r.DeepCopy())
	}
	return s.noPublish
}

func (s store) Renew(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do("renew")
	return s.noRenew
}

func (store) IsOwn(version string) bool { return version == "own" }

func (s store) IsRestoreNoteExpired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outdated
}

var nothing []string

func TestAgent_PublishesOnceThenRenews(t *testing.T) {
	play(t, nil, func(s *scene) {
		equal(t, "at the start", s.all(0), nothing)
		equal(t, "published", len(s.content), 1)
		r := s.last()
		equal(t, "its name", r.Name, "worker-1")
		equal(t, "its boot id", r.BootID, "boot-1")
		equal(t, "its sandboxes", len(r.Sandboxes), 1)
		s.ready("")
		did := s.after(10*time.Minute + time.Second)
		for _, what := range did {
			if what != "renew" {
				t.Errorf("%s, though nothing changed", what)
			}
		}
		for what, every := range map[string]time.Duration{"renew": 20 * time.Second, "inspect": 10 * time.Second} {
			times := s.times(what)
			equal(t, what+"s in ten minutes", len(times), int(10*time.Minute/every))
			for i, d := range times {
				equal(t, what, d, every*time.Duration(i+1))
			}
		}
		s.ready("")
	})
}

// Its mate of before left a report: it is gone on from, and rewritten.
func TestAgent_ContinuesEarlierReport(t *testing.T) {
	play(t, func(s *scene) {
		l := inspected(0, old("a"), old("x"))
		l.At = time.Now().Add(-time.Minute)
		s.before = stored(t, agent.NextReport(nil, l))
		s.before.Name = "worker-1"
	}, func(s *scene) {
		equal(t, "gone", goneIDs(s.last()), "x")
	})
	play(t, func(s *scene) {
		l := inspected(0, old("a"))
		l.At = time.Now().Add(-time.Minute)
		s.before = stored(t, agent.NextReport(nil, l))
		s.before.Name = "worker-1"
	}, func(s *scene) {
		again := s.last()
		equal(t, "observed", again.ObservedAt.UTC(), time.Now().UTC()) // etcd may have been restored meanwhile
		again.ObservedAt = s.before.ObservedAt
		equal(t, "the same report, but for that", podstate.Hash(again), podstate.Hash(s.before))
		equal(t, "after it", s.after(time.Minute+time.Second), []string{"renew", "renew", "renew"})
	})
}

func TestAgent_PublishesChange(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.after(15 * time.Second)
		s.now(func() { s.parts = append(s.parts, old("b")) })
		s.events <- struct{}{}
		equal(t, "at an event", s.all(time.Millisecond), []string{"inspect", "publish"})
		equal(t, "sandboxes", len(s.last().Sandboxes), 2)
		equal(t, "for 19 s after it", s.after(19*time.Second), nothing)
		equal(t, "20 s after it", s.after(2*time.Second), []string{"renew"})
		s.now(func() { s.parts = []any{old("b")} })
		equal(t, "without an event, within 10 s", s.after(10*time.Second), []string{"publish"})
		equal(t, "gone", goneIDs(s.last()), "a")
	})
}

func TestAgent_BatchesEvents(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.after(5 * time.Second)
		for range 100 {
			select {
			case s.events <- struct{}{}:
			default:
			}
			time.Sleep(3 * time.Millisecond) // of the bubble
			synctest.Wait()
		}
		equal(t, "inspections in 300 ms", s.all(0), []string{"inspect"})
		// What came after the inspection is looked at: one event waits.
		if n := len(s.all(2 * time.Second)); n < 1 || n > 2 {
			t.Errorf("%d inspections in the two seconds after it", n)
		}
		equal(t, "inspections in the 8 s then", s.all(8*time.Second), nothing)
	})
	play(t, nil, func(s *scene) {
		s.after(5 * time.Second)
		for range 100 { // for ten seconds
			select {
			case s.events <- struct{}{}:
			default:
			}
			time.Sleep(100 * time.Millisecond) // of the bubble
		}
		s.all(0)
		times := s.times("inspect")
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
	play(t, nil, func(s *scene) {
		s.after(15 * time.Second)
		s.now(func() { s.blind = agent.ErrOwnSandboxMissing; s.parts = append(s.parts, old("b")) })
		equal(t, "for three minutes", s.after(3*time.Minute), nothing)
		s.ready("own sandbox")
		if err := s.Health.Alive(); err != nil {
			t.Errorf("it tries, and is not alive: %v", err)
		}
		if n := len(s.times("inspect")); n < 60 || n > 180 {
			t.Errorf("%d inspections in three minutes", n)
		}
		s.now(func() { s.blind = nil })
		equal(t, "then", s.after(3*time.Second), []string{"publish"})
		s.ready("")
		// When nothing changed meanwhile, only the Lease is renewed, and at once.
		s.now(func() { s.blind = errors.New("x") })
		s.after(time.Minute)
		s.now(func() { s.blind = nil })
		equal(t, "then, when nothing changed", s.after(3*time.Second), []string{"renew"})
	})
}

func TestAgent_RetriesPublish(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.after(5 * time.Second)
		s.now(func() { s.noPublish = errors.New("the server is away"); s.parts = []any{old("a"), old("b")} })
		did := s.after(2 * time.Minute)
		if len(did) < 20 || len(did) > 25 || slices.ContainsFunc(did, func(what string) bool { return what != "publish" }) {
			t.Errorf("in two minutes: %v", did)
		}
		s.ready("the server is away")
		// b is seen and goes before anything is published of it.
		s.now(func() { s.parts = []any{old("a"), old("c")} })
		s.after(20 * time.Second)
		s.now(func() { s.noPublish = nil })
		equal(t, "then", s.after(15*time.Second), []string{"publish"})
		r := s.last()
		var ids []string
		for _, b := range r.Sandboxes {
			ids = append(ids, b.ID)
		}
		equal(t, "sandboxes", ids, []string{"a", "c"})
		equal(t, "gone", goneIDs(r), "b")
		s.ready("")
	})
}

func TestAgent_RetriesRenewal(t *testing.T) {
	play(t, func(s *scene) { s.noRenew = errors.New("the server is away") }, func(s *scene) {
		did := s.after(30 * time.Second)
		if len(did) < 3 || slices.Contains(did, "publish") {
			t.Errorf("got %v", did)
		}
		s.after(time.Minute)
		s.ready("the server is away")
		s.now(func() { s.noRenew = nil })
		equal(t, "then", s.after(15*time.Second), []string{"renew"})
		s.ready("")
	})
}
