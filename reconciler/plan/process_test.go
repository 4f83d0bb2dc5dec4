package plan_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan/plantest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// process makes plans of one observation after the other, with what each has learned.
type process struct {
	plantest.Want
	memory.Memory
	restore.State
	window  plan.Window
	Options plan.Options
	skew    time.Duration // of the machine's clock
}

func newProcess(t *testing.T, o plan.Options) *process {
	return &process{Want: plantest.Want{T: t}, Options: o}
}

var quarter, atOnce = plan.Options{ConfirmAfter: 15 * time.Minute}, plan.Options{} // atOnce waits for no confirmation

// unconfirmed and proven make the usual allocation Stale.
var unconfirmed, proven = All(UsualPool, ReportingWorker()), All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)))

func paused(o *Observed) { o.Paused = true }

func revision(n uint64) Part { return func(o *Observed) { o.Revision = n } }

// pass observes, judges and plans at a time after the start, and releases nothing.
func (p *process) pass(after time.Duration, parts ...Part) *plan.Plan {
	o := Observe(append([]Part{At(Now.Add(after))}, parts...)...)
	o.Local = o.Now.Add(p.skew)
	observed, restored := p.State.Observe(o.Observation)
	if observed.IsNewerThan(p.State) {
		p.Memory = p.Unconfirmed()
	}
	p.State, o.Restored = observed, restored
	j := judge.Judge(facts.New(o.Observation, p, p.Options.JudgePolicy()), p, p.Options.Overrides)
	p.Memory, p.State = p.Next(j), p.Settle(j)
	return plan.Make(j, p.Memory, p.State, p.window, p.Options)
}

// passAndRelease is a pass that releases its plan.
func (p *process) passAndRelease(after time.Duration, parts ...Part) *plan.Plan {
	made := p.pass(after, parts...)
	p.window, _ = made.Count(p.window)
	return made
}

// forecast is a pass that says what the breaker will refuse.
func (p *process) forecast(after time.Duration, parts ...Part) *plan.Plan {
	made := p.pass(after, parts...)
	made.Forecast(p.window)
	return made
}

// gates returns the gates of the first refused item.
func gates(p *plan.Plan) (found []plan.Refusal) {
	for _, g := range p.Refused[0].Gates() {
		found = append(found, g.Why)
	}
	return found
}
