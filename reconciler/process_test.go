package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan/plantest"
)

// process is a reconciler that receives one observation after the other. Its plans count as executed.
type process struct {
	t *testing.T
	plantest.Want
	*Reconciler
	next *Observed
	skew time.Duration // of the machine's clock
}

var quarter, atOnce = plan.Options{ConfirmAfter: 15 * time.Minute}, plan.Options{} // atOnce waits for no confirmation

// unconfirmed and proven make the usual allocation Stale.
var unconfirmed, proven = All(UsualPool, ReportingWorker()), All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)))

func newProcess(t *testing.T, opts plan.Options) *process {
	p := &process{t: t, Want: plantest.Want{T: t}}
	p.Reconciler = &Reconciler{Source: p, Options: opts, Clock: clocktesting.NewFakeClock(Now),
		Log: slog.New(slog.DiscardHandler), Process: &Process{},
		PodsComplete: true} // most tests observe only one allocation
	return p
}

func (p *process) List(context.Context) (*facts.Observation, error) { return p.next.Observation, nil }

// Relist reads the same again, without the sign of a restore.
func (p *process) Relist(_ context.Context, o *facts.Observation) (*facts.Observation, error) {
	again := *o
	again.Restored, again.Now = "", p.Clock.Now().Add(-p.skew)
	return &again, nil
}

func (p *process) GetLive(context.Context, *facts.Observation, facts.LiveKeys) (*facts.Live, error) {
	return &facts.Live{}, nil
}

// pass observes, judges and plans at a time after the start, and releases nothing.
func (p *process) pass(after time.Duration, parts ...Part) *plan.Plan {
	p.t.Helper()
	p.next = Observe(append([]Part{At(Now.Add(after))}, parts...)...)
	p.Clock.(*clocktesting.FakeClock).SetTime(p.next.Now.Add(p.skew))
	j, err := p.Check(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	p.saveRestore(p.t.Context(), p.next.Now)
	p.next.Past = p.Process.Known
	return p.plan(j.Judgement)
}

// restarted returns the next process, which remembers nothing.
func (p *process) restarted() *process {
	next := newProcess(p.t, p.Options)
	next.RestoreStore = p.RestoreStore
	return next
}

// memoryStore is a StateStore in memory.
type memoryStore struct {
	text      string
	err       error
	noWriting bool
}

func (s *memoryStore) Update(_ context.Context, change func(string) (string, error)) error {
	if s.err != nil {
		return s.err
	}
	text, err := change(s.text)
	if err == nil && s.noWriting && text != s.text {
		return errors.New("etcdserver: request timed out")
	}
	if err == nil {
		s.text = text
	}
	return err
}
