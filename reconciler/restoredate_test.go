package reconciler

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// The leader ended while the API server was away, and the agents are faster than the next.
func TestAProcessWhoseFirstPassShowsARestoreTakesTheAgentsDate(t *testing.T) {
	byWatches := func(o *Observed) { o.Restored = "its watches say so" }
	quiet := All(Node("worker-2"), written("worker-2", 90*time.Second)) // lost nothing, and wrote again
	lost := restoreNoticed("worker-1", minute, 80*time.Second)
	leak := All(UsualPool, Node("worker-1"), lost, func(o *Observed) { Gone("box-1", UsualUID)(o.Reports[0]) })
	t.Run("which is there at that pass", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.wantRefused("the look that saw it", EtcdRestored, p.pass(2*minute, leak, quiet, byWatches))
		p.wantRefused("renewed before it", EtcdRestored, p.pass(2*minute+5*time.Second, leak, quiet))
		p.wantReleased("renewed after it", p.pass(3*minute, leak, quiet))
	})
	t.Run("or comes later", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.wantRefused("the look that saw it", EtcdRestored, p.pass(2*minute, leakOn(80*time.Second), quiet, byWatches))
		p.wantRefused("no agent reports it", EtcdRestored, p.pass(3*minute, leakOn(80*time.Second), quiet))
		p.wantReleased("an agent reports it", p.pass(4*minute, leak, quiet))
	})
	t.Run("and what was written before that does not count", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(2*minute, leak, Node("worker-2"), written("worker-2", 50*time.Second), byWatches)
		p.wantRefused("later", EtcdRestored, p.pass(hour, leak, Node("worker-2"), written("worker-2", 50*time.Second)))
	})
}

// A replica that begins to lead after a restore has made no pass before, and agents write
// their reports within seconds of it, once.
func TestANewLeaderDoesNotWaitForWhatWasWrittenBeforeItsFirstPass(t *testing.T) {
	shown := func(intact time.Duration) Part {
		return func(o *Observed) {
			o.Restored = "a pool is older"
			if intact != 0 {
				o.Intact = Now.Add(intact)
			}
		}
	}
	for says, c := range map[string]struct {
		there Part
		why   Refusal // "" for none
	}{
		"it knows when all was well, and the report is younger": {All(leakOn(10*time.Second), shown(5*time.Second)), ""},
		"it knows when all was well, and the report is older":   {All(leakOn(4*time.Second), shown(5*time.Second)), EtcdRestored},
		"it does not, but the agent has dated it":               {All(Node("worker-1"), UsualPool, noticedWith(5*time.Second, 10*time.Second), shown(0)), ""},
		"it does not, and no agent has":                         {All(leakOn(10*time.Second), shown(0)), EtcdRestored},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			p.wantRefused("the look that shows it", EtcdRestored, p.pass(20*time.Second, c.there, revision(90)))
			later := All(c.there, func(o *Observed) { o.Restored, o.Intact = "", time.Time{} })
			if out := p.pass(30*time.Second, later, revision(91)); c.why == "" {
				p.wantReleased("the pass after it", out)
			} else {
				p.wantRefused("the pass after it", c.why, out)
			}
		})
	}
}

// noticedWith is the report of worker-1 with a leak, whose agent says that etcd was restored.
func noticedWith(after, write time.Duration) Part {
	text := Now.Add(after).Format(time.RFC3339)
	return written("worker-1", write, Gone("box-1", UsualUID), func(r *podstate.Report) { r.RestoreNote, r.RestoreSeen = text, Now.Add(after) })
}

// A pass reads again before it writes, and that takes long on a busy machine: the agents
// wrote before, and have no cause to write again.
func TestAPassThatReadsAgainDatesARestoreByItsFirstRead(t *testing.T) {
	quiet := leakOn(70 * time.Second)
	for says, intact := range map[string]time.Duration{"somebody knows when all was last well": minute, "nobody does": 0} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			p.pass(0, leakOn(0), revision(100))
			p.pass(2*minute, quiet, revision(90), func(o *Observed) {
				if intact != 0 {
					o.Intact = Now.Add(intact)
				}
			})
			b := &liveIndex{Reconciler: p.Reconciler, first: p.next.Observation}
			p.Clock.(*clocktesting.FakeClock).SetTime(Now.Add(3 * minute))
			if err := b.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if b.observation().Restored == "" {
				t.Error("what is read again does not say what the first read showed")
			}
			p.wantReleased("the pass after it", p.pass(4*minute, quiet, revision(91)))
		})
	}
}

// As in TestAProcessWhoseFirstPassShowsARestoreTakesTheAgentsDate, "or comes later", and
// the process is restarted in between.
func TestTheProcessAfterOneWithNothingToDateARestoreByTakesTheAgentsDateToo(t *testing.T) {
	byWatches := func(o *Observed) { o.Restored = "its watches say so" }
	quiet := All(Node("worker-2"), written("worker-2", 90*time.Second)) // lost nothing, and wrote again
	lost := restoreNoticed("worker-1", minute, 80*time.Second)
	leak := All(UsualPool, Node("worker-1"), lost, func(o *Observed) { Gone("box-1", UsualUID)(o.Reports[0]) })
	p := newProcess(t, atOnce)
	p.Restores = &memoryStore{}
	p.wantRefused("the look that saw it", EtcdRestored, p.pass(2*minute, leakOn(80*time.Second), quiet, byWatches))
	p = p.restarted()
	p.wantReleased("an agent reports it", p.pass(4*minute, leak, quiet))
	p.wantReleased("a day later", p.pass(day, leak, quiet))
}
