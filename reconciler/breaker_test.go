package reconciler

import (
	"fmt"
	"testing"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// inUseAndStale is a pool with allocations in use and, after them, unconfirmed leaks.
func inUseAndStale(inUse, stale int) Part {
	var allocs []Allocation
	var sandboxes []ReportEdit
	var pods []Part
	for i := range inUse {
		name := fmt.Sprint("used-", i)
		allocs = append(allocs, Alloc(fmt.Sprint(i), "default/"+name, name, "net1"))
		sandboxes = append(sandboxes, Sandbox(name, "uid of "+name, OfPod(name)))
		pods = append(pods, Pod(name, UID("uid of "+name)))
	}
	for i := range stale {
		name := fmt.Sprint("leak-", i)
		allocs = append(allocs, Alloc(fmt.Sprint(inUse+i), "default/"+name, name, "net1"))
	}
	return All(Pool("10.0.0.0-16", "10.0.0.0/16", allocs...), All(pods...), ReportingWorker(sandboxes...))
}

var atOnce = Options{} // without a wait for confirmation

func TestBreaker(t *testing.T) {
	for _, c := range []struct {
		inUse, stale int
		trips        bool
	}{
		{0, 1, false}, {0, 20, false}, // never more than 20
		{20, 21, true}, {21, 21, false}, // more than half, and half
		{0, 21, true}, {900, 100, false}, {499, 501, true}, {500, 500, false},
	} {
		t.Run(fmt.Sprintf("%d of %d allocations", c.stale, c.inUse+c.stale), func(t *testing.T) {
			p := newProcess(t, atOnce)
			plan := p.pass(0, inUseAndStale(c.inUse, c.stale))
			if c.trips {
				p.wantRefused("a mass release", Breaker, plan)
			} else {
				p.wantReleased("no mass release", plan)
			}
		})
	}
	t.Run("--allow-mass-release", func(t *testing.T) {
		p := newProcess(t, Options{AllowMassRelease: true})
		p.wantReleased("allowed", p.pass(0, inUseAndStale(0, 500)))
	})
	t.Run("proven items neither count nor wait", func(t *testing.T) {
		p := newProcess(t, atOnce)
		plan := p.pass(0, inUseAndStale(0, 30), func(o *Observed) {
			for i := range 15 {
				Gone(fmt.Sprint("leak-", i), "x")(o.Reports.Or(nil)[0])
			}
		})
		p.wantReleased("15 proven and 15 unconfirmed of 30", plan)
		plan = newProcess(t, atOnce).pass(0, inUseAndStale(0, 60), func(o *Observed) {
			for i := range 25 {
				Gone(fmt.Sprint("leak-", i), "x")(o.Reports.Or(nil)[0])
			}
		})
		if len(plan.Release) != 25 || len(plan.Refused) != 35 || plan.Refused[0].Why != Breaker {
			t.Errorf("25 proven and 35 unconfirmed of 60: releases %d, refuses %d", len(plan.Release), len(plan.Refused))
		}
	})
	t.Run("items that await confirmation do not count", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, inUseAndStale(0, 20))
		plan := p.pass(15*time.Minute, inUseAndStale(0, 100))
		if len(plan.Release) != 20 || len(plan.Refused) != 80 || plan.Refused[0].Why != AwaitingConfirmation {
			t.Errorf("releases %d, refuses %d", len(plan.Release), len(plan.Refused))
		}
	})
}

// Many small releases within an hour are a mass release, too.
func TestBreaker_LastHour(t *testing.T) {
	t.Run("a second pass that would make it too many", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.wantReleased("30 of 100", p.passAndRelease(0, inUseAndStale(70, 30)))
		p.wantRefused("and 21 of the rest", Breaker, p.passAndRelease(10*time.Minute, inUseAndStale(49, 21)))
		p.wantReleased("and 20", p.passAndRelease(20*time.Minute, inUseAndStale(50, 20)))
		p.wantRefused("and one more", Breaker, p.passAndRelease(59*time.Minute, inUseAndStale(49, 1)))
	})
	t.Run("an hour later only the second pass counts", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.wantReleased("30 of 100", p.passAndRelease(0, inUseAndStale(70, 30)))
		p.wantReleased("and 15 of 70", p.passAndRelease(40*time.Minute, inUseAndStale(55, 15)))
		p.wantRefused("and 21: 36 of the 70 that there were", Breaker, p.passAndRelease(61*time.Minute,
			inUseAndStale(34, 21)))
		p.wantReleased("and 20: 35 of the 70", p.passAndRelease(62*time.Minute, inUseAndStale(35, 20)))
		p.wantReleased("hours later, 20 of 20", p.passAndRelease(5*time.Hour, inUseAndStale(0, 20)))
	})
	t.Run("one at a time", func(t *testing.T) {
		p := newProcess(t, atOnce)
		for i := range 20 {
			p.wantReleased(fmt.Sprint("number ", i+1), p.passAndRelease(time.Duration(i)*time.Minute, inUseAndStale(39-i, 1)))
		}
		p.wantRefused("number 21, of 40", Breaker, p.passAndRelease(20*time.Minute, inUseAndStale(19, 1)))
	})
	// Times are the API server's; the clock of this machine may be wrong.
	t.Run("a clock here that is two hours behind", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.skew = -2 * time.Hour
		p.wantReleased("30 of 100", p.passAndRelease(0, inUseAndStale(70, 30)))
		p.wantRefused("and 21 of the rest", Breaker, p.passAndRelease(10*time.Minute, inUseAndStale(49, 21)))
	})
	t.Run("refused items do not count", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.wantRefused("60 of 100", Breaker, p.passAndRelease(0, inUseAndStale(40, 60)))
		p.wantReleased("30 of 100", p.passAndRelease(time.Minute, inUseAndStale(70, 30)))
	})
	t.Run("allowed releases count afterwards", func(t *testing.T) {
		p := newProcess(t, Options{AllowMassRelease: true})
		p.wantReleased("60 of 100", p.passAndRelease(0, inUseAndStale(40, 60)))
		p.Options.AllowMassRelease = false
		p.wantRefused("and one more", Breaker, p.passAndRelease(time.Minute, inUseAndStale(39, 1)))
	})
}
