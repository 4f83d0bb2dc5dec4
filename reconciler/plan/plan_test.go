package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

func TestPlan_ProvenIsReleasedAtOnce(t *testing.T) {
	p := newProcess(t, quarter)
	p.WantReleased("proven", p.pass(0, proven))
	made := p.pass(0, proven, Reservation("10.0.0.5", "default/web-0", LongAgo))
	p.WantReleased("proven, with its reservation", made)
	if len(made.Release) != 1 || made.Release[0].Allocation == nil || !made.Until.IsZero() {
		t.Errorf("want the allocation alone, its reservation goes with it, and nothing to wait for: %+v", made)
	}
}

func TestPlan_Confirmation(t *testing.T) {
	t.Run("it must stand for --confirm-after", func(t *testing.T) {
		p := newProcess(t, quarter)
		made := p.pass(0, unconfirmed)
		p.WantRefused("at the first pass", plan.AwaitingConfirmation, made)
		if want := Now.Add(15 * time.Minute); !made.Until.Equal(want) {
			t.Errorf("it waits until %v, want %v", made.Until, want)
		}
		p.WantRefused("a second too early", plan.AwaitingConfirmation, p.pass(15*time.Minute-time.Second, unconfirmed))
		p.WantReleased("after 15 minutes", p.pass(15*time.Minute, unconfirmed))
	})
	t.Run("a contradiction starts the wait again", func(t *testing.T) {
		for says, c := range map[string]Part{
			"in use":          All(UsualPool, UsualPod(Carrying("10.0.0.5")), ReportingWorker()),
			"held":            All(UsualPool, ReportingWorker(Sandbox("box-1", UsualUID, NotReady(Open)))),
			"overruled":       All(unconfirmed, Pod("web-1", Carrying("10.0.0.5"))),
			"gone for a pass": ReportingWorker(),
			"rewritten for a new sandbox": All(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-2", "net1")),
				ReportingWorker()),
		} {
			p := newProcess(t, quarter)
			p.pass(0, unconfirmed)
			p.pass(10*time.Minute, c)
			p.pass(11*time.Minute, unconfirmed)
			p.WantRefused(says+", 15 minutes after the first pass", plan.AwaitingConfirmation,
				p.pass(15*time.Minute, unconfirmed))
			p.WantRefused(says+", a second too early", plan.AwaitingConfirmation,
				p.pass(26*time.Minute-time.Second, unconfirmed))
			p.WantReleased(says+", 15 minutes after the contradiction", p.pass(26*time.Minute, unconfirmed))
		}
	})
	t.Run("missing information does not contradict", func(t *testing.T) {
		silent := All(UsualPool, Node("worker-1"), StaleReport("worker-1"))
		for says, c := range map[string]Part{
			"a node is silent": silent,
			"a sandbox was not read": All(UsualPool, ReportingWorker(Sandbox("box-9", "uid-9", OfPod("web-9"),
				func(b *v1alpha1.Sandbox) { b.AddressesUnread = true }))),
			"its node is unreachable": All(UsualPool, Node("worker-1", NotReadyFor(time.Minute)), StaleReport("worker-1")),
		} {
			p := newProcess(t, quarter)
			p.pass(0, unconfirmed)
			if made := p.pass(14*time.Minute, c); len(made.Release) > 0 {
				t.Errorf("%s: released meanwhile", says)
			}
			p.WantRefused(says+", a second too early", plan.AwaitingConfirmation,
				p.pass(15*time.Minute-time.Second, unconfirmed))
			p.WantReleased(says+", after 15 minutes", p.pass(15*time.Minute, unconfirmed))
		}
		p := newProcess(t, quarter)
		p.pass(0, silent)
		p.WantReleased("known for 15 minutes", p.pass(15*time.Minute, unconfirmed))
	})
	// What a kubelet reports, or a missing Node, counts from the first pass that has it.
	t.Run("missing information confirms only an absent sandbox", func(t *testing.T) {
		silent := All(UsualPool, Node("worker-1"), StaleReport("worker-1", Sandbox("box-1", UsualUID, NotReady(Open))),
			UsualPod())
		stopped := All(UsualPool, Node("worker-1"), StaleReport("worker-1", Gone("box-1", UsualUID)),
			UsualPod(Phase("Succeeded"), StoppedByKubelet(0)))
		p := newProcess(t, quarter)
		p.pass(0, silent)
		p.WantRefused("its kubelet has just said so", plan.AwaitingConfirmation, p.pass(time.Hour, stopped))
		p.WantReleased("15 minutes later", p.pass(75*time.Minute, stopped))
	})
	t.Run("a reservation that stands alone waits a day for nodes that do not report", func(t *testing.T) {
		alone := All(Pool("10.0.0.0-24", "10.0.0.0/24"), ReportingWorker(), Node("worker-2"), Reservation("10.0.0.5",
			"default/web-0", LongAgo))
		p := newProcess(t, quarter)
		for at := time.Duration(0); at < 24*time.Hour; at += time.Hour {
			p.WantHeld("before a day has passed", p.pass(at, alone))
		}
		p.WantRefused("after a day", plan.AwaitingConfirmation, p.pass(24*time.Hour, alone))
		p.WantReleased("confirmed", p.pass(24*time.Hour+15*time.Minute, alone))
		for says, c := range map[string]Part{
			"an entry":          All(UsualPool, ReportingWorker(), Reservation("10.0.0.5", "default/web-0", LongAgo)),
			"a pod that starts": All(alone, UsualPod(Phase("Pending"))),
			"another's pod":     All(alone, Pod("web-1", Carrying("10.0.0.5"))),
			"a sandbox with it": All(alone, FreshReport("worker-3", Sandbox("box-9", "uid-9", OfPod("web-9"),
				WithAddress("10.0.0.5", "")))),
		} {
			p := newProcess(t, quarter)
			p.pass(0, alone)
			p.pass(23*time.Hour, c)
			p.WantHeld("a day after the beginning, and an hour after "+says, p.pass(24*time.Hour, alone))
		}
	})
	t.Run("another reason is no contradiction", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, unconfirmed)
		p.pass(10*time.Minute, unconfirmed, UsualPod()) // a successor without the address
		p.WantReleased("still stale", p.pass(15*time.Minute, unconfirmed, UsualPod()))
	})
	t.Run("a dry run confirms nothing", func(t *testing.T) {
		p := newProcess(t, plan.Options{ConfirmAfter: 15 * time.Minute, DryRun: true})
		p.WantRefused("not confirmed", plan.AwaitingConfirmation, p.pass(0, unconfirmed))
	})
	t.Run("a pod that is being set up has the minute in which a report may be from before its ADD, whatever "+
		"--confirm-after says", func(t *testing.T) {
		settingUp := All(unconfirmed, UsualPod(Phase("Pending")))
		p := newProcess(t, plan.Options{})
		p.WantRefused("at the first pass", plan.AwaitingConfirmation, p.pass(0, settingUp))
		p.WantRefused("after 59 s", plan.AwaitingConfirmation, p.pass(59*time.Second, settingUp))
		p.WantReleased("after a minute", p.pass(time.Minute, settingUp))
		p = newProcess(t, quarter)
		p.pass(0, settingUp)
		p.WantRefused("a second before --confirm-after", plan.AwaitingConfirmation,
			p.pass(15*time.Minute-time.Second, settingUp))
	})
	t.Run("A16: a reservation that was recreated under its name begins again", func(t *testing.T) {
		alone := All(Pool("10.0.0.0-24", "10.0.0.0/24"), ReportingWorker())
		p := newProcess(t, quarter)
		p.pass(0, alone, Reservation("10.0.0.5", "default/web-0", LongAgo))
		made := p.pass(15*time.Minute, alone, Reservation("10.0.0.5", "default/web-0", LongAgo), func(o *Observed) {
			o.Reservations.Or(nil)[0].UID = "another"
		})
		p.WantRefused("another UID", plan.AwaitingConfirmation, made)
	})
	t.Run("confirmed items do not wait for others", func(t *testing.T) {
		two := All(ReportingWorker(), Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation, Alloc("6", "default/web-1", "box-2",
			"net1")))
		p := newProcess(t, quarter)
		p.pass(0, unconfirmed)
		made := p.pass(15*time.Minute, two)
		if len(made.Release) != 1 || made.Release[0].ContainerID() != "box-1" || len(made.Refused) != 1 {
			t.Errorf("got %+v", made)
		}
	})
}

// A deleted pod may need its grace period to stop, and its kubelet a moment more.
func TestPlan_GracePeriod(t *testing.T) {
	hour := GracePeriod(time.Hour)
	t.Run("of a pod that is being deleted", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, unconfirmed, UsualPod(DeletedAgo(-time.Hour), hour))
		p.WantRefused("before", plan.AwaitingConfirmation, p.pass(61*time.Minute-time.Second, unconfirmed,
			UsualPod(DeletedAgo(-time.Hour), hour)))
		p.WantReleased("after", p.pass(61*time.Minute, unconfirmed, UsualPod(DeletedAgo(-time.Hour), hour)))
	})
	t.Run("of a known pod that is missing", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(-time.Minute, UsualPool, ReportingWorker(), UsualPod(Carrying("10.0.0.5"), hour))
		p.pass(0, unconfirmed)
		p.WantRefused("before", plan.AwaitingConfirmation, p.pass(61*time.Minute-time.Second, unconfirmed))
		p.WantReleased("after", p.pass(61*time.Minute, unconfirmed))
	})
	t.Run("of a known pod that is missing, though its successor has a short one", func(t *testing.T) {
		p := newProcess(t, quarter)
		next := UsualPod(UID("uid-2"), GracePeriod(30*time.Second))
		p.pass(-time.Minute, UsualPool, ReportingWorker(), UsualPod(Carrying("10.0.0.5"), hour))
		p.pass(0, unconfirmed, next)
		p.WantRefused("before", plan.AwaitingConfirmation, p.pass(16*time.Minute, unconfirmed, next))
		p.WantReleased("after", p.pass(61*time.Minute, unconfirmed, next))
	})
	t.Run("not of a pod that finished and was not deleted", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, unconfirmed, UsualPod(Phase("Succeeded"), hour))
		p.WantReleased("after 15 minutes", p.pass(15*time.Minute, unconfirmed, UsualPod(Phase("Succeeded"), hour)))
	})
	t.Run("a shorter one shortens nothing", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, unconfirmed, UsualPod(DeletedAgo(0), GracePeriod(5*time.Minute)))
		p.WantRefused("before", plan.AwaitingConfirmation, p.pass(14*time.Minute, unconfirmed))
		p.WantReleased("after", p.pass(15*time.Minute, unconfirmed))
	})
}

// A Node object must be missing for 40 s; then the wait counts from the node's last fresh report.
func TestPlan_NodeMissing(t *testing.T) {
	missing := func(lastReport time.Duration) Part {
		return func(o *Observed) {
			All(UsualPool, Node("worker-2"), FreshReport("worker-2"))(o)
			ReportRenewed("worker-1", o.Now.Sub(Now)+lastReport, Sandbox("box-1", UsualUID))(o)
		}
	}
	t.Run("it counts from the last fresh report", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.WantRefused("at the first pass", plan.AwaitingConfirmation, p.pass(0, missing(10*time.Minute)))
		p.WantRefused("before", plan.AwaitingConfirmation, p.pass(5*time.Minute-time.Second, missing(10*time.Minute)))
		p.WantReleased("15 minutes after the last report", p.pass(5*time.Minute, missing(10*time.Minute)))
	})
	t.Run("a Node object that has just disappeared does not count as missing, whatever the age of the report",
		func(t *testing.T) {
			p := newProcess(t, quarter)
			p.pass(-10*time.Second, UsualPool, Node("worker-1"), Node("worker-2"), FreshReport("worker-2"),
				StaleReport("worker-1", Sandbox("box-1", UsualUID)))
			p.WantRefused("at the first pass without it", plan.AwaitingConfirmation, p.pass(0, missing(10*time.Hour)))
			p.WantRefused("after 39 s", plan.AwaitingConfirmation, p.pass(39*time.Second, missing(10*time.Hour)))
			p.WantReleased("after 40 s", p.pass(40*time.Second, missing(10*time.Hour)))
		})
	t.Run("the 40 s stand whatever --confirm-after says", func(t *testing.T) {
		p := newProcess(t, plan.Options{})
		p.WantRefused("at the first pass", plan.AwaitingConfirmation, p.pass(0, missing(2*time.Minute)))
		p.WantRefused("after 39 s", plan.AwaitingConfirmation, p.pass(39*time.Second, missing(2*time.Minute)))
		p.WantReleased("after 40 s", p.pass(40*time.Second, missing(2*time.Minute)))
	})
	t.Run("without a report it counts from the first pass", func(t *testing.T) {
		seen := All(UsualPool, UsualPod(OnNode("worker-9"), DeletedAgo(0)), Node("worker-2"))
		p := newProcess(t, quarter)
		p.pass(0, seen)
		p.WantRefused("before", plan.AwaitingConfirmation, p.pass(15*time.Minute-time.Second, seen))
		p.WantReleased("after", p.pass(15*time.Minute, seen))
	})
	t.Run("a node that comes back contradicts", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, missing(time.Hour))
		made := p.pass(time.Minute, UsualPool, Node("worker-1"), Node("worker-2"), FreshReport("worker-2"),
			StaleReport("worker-1", Sandbox("box-1", UsualUID)))
		if len(made.Release) > 0 {
			t.Errorf("released: %+v", made.Release[0].Decision)
		}
	})
}

func TestPlan_Paused(t *testing.T) {
	pause := func(value string) Part {
		return func(o *Observed) {
			annotated, err := ippool.Decode[ippool.Pool](fmt.Appendf(nil,
				`{"metadata": {"annotations": {"ip-reconcile.dev/paused": %q}}}`, value))
			if err != nil {
				t.Fatal(err)
			}
			p := *o.Pools[0]
			p.Paused = annotated.Paused
			o.Pools[0] = &p
		}
	}
	alone := All(Pool("10.0.0.0-24", "10.0.0.0/24"), ReportingWorker(), Reservation("10.0.0.5", "default/web-0", LongAgo))
	other := Pool("10.1.0.0-24", "10.1.0.0/24", Alloc("5", "default/web-1", "box-2", "net1"))
	for says, c := range map[string]struct {
		parts   []Part
		refused bool
	}{
		"a pool, proven":                       {[]Part{proven, pause("true")}, true},
		"a pool, unconfirmed":                  {[]Part{unconfirmed, pause("true")}, true},
		"a pool, with another value":           {[]Part{proven, pause("false")}, false},
		"a pool, a reservation of its address": {[]Part{alone, pause("true")}, true},
		"everything": {[]Part{proven, other, Reservation("10.1.0.9", "default/web-0", LongAgo),
			paused}, true},
	} {
		p := newProcess(t, atOnce)
		if made := p.pass(0, c.parts...); c.refused {
			p.WantRefused(says, plan.Paused, made)
		} else {
			p.WantReleased(says, made)
		}
	}
	t.Run("a pool, and no other", func(t *testing.T) {
		made := newProcess(t, atOnce).pass(0, proven, pause("true"), other)
		if len(made.Release) != 1 || made.Release[0].Pool.Name != "10.1.0.0-24" {
			t.Errorf("got %+v", made)
		}
	})
	t.Run("judging goes on", func(t *testing.T) {
		Expect(t, Want(judge.Stale, judge.PodGone, true, judge.Gone), proven, pause("true"), paused)
	})
	t.Run("and so does confirming", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, unconfirmed, paused)
		p.WantReleased("not paused any more", p.pass(15*time.Minute, unconfirmed))
	})
}

// The API server of the next pass may have another clock.
func TestPlan_OwnClock(t *testing.T) {
	unconfirmed := All(UsualPool, Node("worker-1"))
	p := newProcess(t, quarter)
	p.skew = 20 * time.Minute // the API server of the first pass is behind
	p.WantRefused("at the first pass", plan.AwaitingConfirmation, p.pass(-20*time.Minute, unconfirmed))
	p.skew = 0
	made := p.pass(time.Second, unconfirmed)
	p.WantRefused("a second later", plan.AwaitingConfirmation, made)
	if want := Now.Add(15 * time.Minute); !made.Until.Equal(want) {
		t.Errorf("confirmed at %s, want %s", made.Until, want)
	}
	p.WantReleased("15 minutes later", p.pass(15*time.Minute, unconfirmed))
}

// A person who has read the evidence waits for no confirmation. Reports may be older than an ADD that is in progress.
func TestPlan_ByHand(t *testing.T) {
	byHand := plan.Options{ConfirmAfter: 15 * time.Minute, ByHand: true}
	settingUp := All(unconfirmed, UsualPod(Phase("Pending")))
	missing := All(UsualPool, Node("worker-2"), FreshReport("worker-2"),
		func(o *Observed) { ReportRenewed("worker-1", o.Now.Sub(Now)+time.Hour, Sandbox("box-1", UsualUID))(o) })
	deleted := All(unconfirmed, UsualPod(DeletedAgo(-time.Hour), GracePeriod(time.Hour)))
	for says, c := range map[string]struct {
		parts Part
		waits time.Duration
	}{
		"proven":                         {proven, 0},
		"without agents":                 {All(UsualPool, Node("worker-1")), 0},
		"absent":                         {unconfirmed, time.Minute},
		"absent, and the pod is Pending": {settingUp, 15 * time.Minute},
		"its Node object is missing":     {missing, 40 * time.Second},
		"the pod has an hour to stop":    {deleted, 61 * time.Minute},
		"kubelet reported that it finished": {All(UsualPool, Node("worker-1"), StaleReport("worker-1"),
			UsualPod(Phase("Succeeded"), StoppedByKubelet(0))), time.Minute},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, byHand)
			if c.waits > 0 {
				p.WantRefused("at the first pass", plan.AwaitingConfirmation, p.pass(0, c.parts))
				p.WantRefused("a second too early", plan.AwaitingConfirmation, p.pass(c.waits-time.Second, c.parts))
			}
			p.WantReleased("then", p.pass(c.waits, c.parts))
		})
	}
	t.Run("pauses, restores and the breaker stay", func(t *testing.T) {
		p := newProcess(t, byHand)
		p.pass(0, unconfirmed, revision(100))
		p.WantRefused("paused", plan.Paused, p.pass(time.Minute, unconfirmed, revision(101), paused))
		p.WantRefused("restored", plan.EtcdRestored, p.pass(2*time.Minute, unconfirmed, revision(90)))
		var entries []Allocation
		for i := range 25 {
			entries = append(entries, Alloc(fmt.Sprint(i+1), "default/web-0", fmt.Sprint("box-", i), "net1"))
		}
		p = newProcess(t, byHand)
		p.WantRefused("25 of 25", plan.Breaker, p.pass(0, Pool("10.0.0.0-24", "10.0.0.0/24", entries...), Node("worker-1")))
	})
}

func TestPlan_Only(t *testing.T) {
	two := All(ReportingWorker(Gone("box-1", UsualUID)), Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation,
		Alloc("6", "default/web-1", "box-2", "net1")))
	p := newProcess(t, quarter)
	p.Options.Only = func(it *judge.Item) bool { return it.ContainerID() == "box-1" }
	made := p.pass(0, two)
	if len(made.Release) != 1 || len(made.Refused) != 0 || !made.Until.IsZero() {
		t.Errorf("got %+v", made)
	}
}
