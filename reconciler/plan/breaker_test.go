package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
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
			made := p.pass(0, inUseAndStale(c.inUse, c.stale))
			if c.trips {
				p.WantRefused("a mass release", plan.Breaker, made)
			} else {
				p.WantReleased("no mass release", made)
			}
		})
	}
	t.Run("--allow-mass-release", func(t *testing.T) {
		p := newProcess(t, plan.Options{AllowMassRelease: true})
		p.WantReleased("allowed", p.pass(0, inUseAndStale(0, 500)))
	})
	t.Run("proven items neither count nor wait", func(t *testing.T) {
		p := newProcess(t, atOnce)
		made := p.pass(0, inUseAndStale(0, 30), func(o *Observed) {
			for i := range 15 {
				Gone(fmt.Sprint("leak-", i), "x")(o.Reports.Or(nil)[0])
			}
		})
		p.WantReleased("15 proven and 15 unconfirmed of 30", made)
		made = newProcess(t, atOnce).pass(0, inUseAndStale(0, 60), func(o *Observed) {
			for i := range 25 {
				Gone(fmt.Sprint("leak-", i), "x")(o.Reports.Or(nil)[0])
			}
		})
		if len(made.Release) != 25 || len(made.Refused) != 35 || made.Refused[0].Why != plan.Breaker {
			t.Errorf("25 proven and 35 unconfirmed of 60: releases %d, refuses %d", len(made.Release), len(made.Refused))
		}
	})
	t.Run("items that await confirmation do not count", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, inUseAndStale(0, 20))
		made := p.pass(15*time.Minute, inUseAndStale(0, 100))
		if len(made.Release) != 20 || len(made.Refused) != 80 || made.Refused[0].Why != plan.AwaitingConfirmation {
			t.Errorf("releases %d, refuses %d", len(made.Release), len(made.Refused))
		}
	})
}

// Many small releases within an hour are a mass release, too.
func TestBreaker_LastHour(t *testing.T) {
	t.Run("a second pass that would make it too many", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.WantReleased("30 of 100", p.passAndRelease(0, inUseAndStale(70, 30)))
		p.WantRefused("and 21 of the rest", plan.Breaker, p.passAndRelease(10*time.Minute, inUseAndStale(49, 21)))
		p.WantReleased("and 20", p.passAndRelease(20*time.Minute, inUseAndStale(50, 20)))
		p.WantRefused("and one more", plan.Breaker, p.passAndRelease(59*time.Minute, inUseAndStale(49, 1)))
	})
	t.Run("an hour later only the second pass counts", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.WantReleased("30 of 100", p.passAndRelease(0, inUseAndStale(70, 30)))
		p.WantReleased("and 15 of 70", p.passAndRelease(40*time.Minute, inUseAndStale(55, 15)))
		p.WantRefused("and 21: 36 of the 70 that there were", plan.Breaker, p.passAndRelease(61*time.Minute,
			inUseAndStale(34, 21)))
		p.WantReleased("and 20: 35 of the 70", p.passAndRelease(62*time.Minute, inUseAndStale(35, 20)))
		p.WantReleased("hours later, 20 of 20", p.passAndRelease(5*time.Hour, inUseAndStale(0, 20)))
	})
	t.Run("one at a time", func(t *testing.T) {
		p := newProcess(t, atOnce)
		for i := range 20 {
			p.WantReleased(fmt.Sprint("number ", i+1), p.passAndRelease(time.Duration(i)*time.Minute, inUseAndStale(39-i, 1)))
		}
		p.WantRefused("number 21, of 40", plan.Breaker, p.passAndRelease(20*time.Minute, inUseAndStale(19, 1)))
	})
	// Times are the API server's; the clock of this machine may be wrong.
	t.Run("a clock here that is two hours behind", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.skew = -2 * time.Hour
		p.WantReleased("30 of 100", p.passAndRelease(0, inUseAndStale(70, 30)))
		p.WantRefused("and 21 of the rest", plan.Breaker, p.passAndRelease(10*time.Minute, inUseAndStale(49, 21)))
	})
	t.Run("refused items do not count", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.WantRefused("60 of 100", plan.Breaker, p.passAndRelease(0, inUseAndStale(40, 60)))
		p.WantReleased("30 of 100", p.passAndRelease(time.Minute, inUseAndStale(70, 30)))
	})
	t.Run("allowed releases count afterwards", func(t *testing.T) {
		p := newProcess(t, plan.Options{AllowMassRelease: true})
		p.WantReleased("60 of 100", p.passAndRelease(0, inUseAndStale(40, 60)))
		p.Options.AllowMassRelease = false
		p.WantRefused("and one more", plan.Breaker, p.passAndRelease(time.Minute, inUseAndStale(39, 1)))
	})
}

// The breaker will refuse 105 unconfirmed of 119 once they are confirmed, and not 14 or 20.
func TestForecast_BreakerOfWhatAwaitsConfirmation(t *testing.T) {
	for stale, want := range map[int][]plan.Refusal{105: {plan.AwaitingConfirmation, plan.Breaker},
		14: {plan.AwaitingConfirmation}, 20: {plan.AwaitingConfirmation}} {
		p := newProcess(t, quarter)
		made := p.forecast(0, inUseAndStale(119-stale, stale))
		if got := gates(made); !slices.Equal(got, want) || made.Refused[0].At().IsZero() != (len(want) > 1) {
			t.Errorf("%d of 119: %v, at %v", stale, got, made.Refused[0].At())
		}
		p.Options.AllowMassRelease = true
		if got := gates(p.forecast(0, inUseAndStale(119-stale, stale))); len(got) != 1 {
			t.Errorf("%d of 119, with --allow-mass-release: %v", stale, got)
		}
	}
	t.Run("releases of other processes count", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.window = p.window.Add(Now, 10, 50)
		got := gates(p.forecast(0, inUseAndStale(30, 20)))
		if !slices.Equal(got, []plan.Refusal{plan.AwaitingConfirmation, plan.Breaker}) {
			t.Error(got)
		}
		p.window = plan.Window(nil).Add(Now.Add(-50*time.Minute), 10, 50) // not counted by then
		if got := gates(p.forecast(0, inUseAndStale(30, 20))); len(got) != 1 {
			t.Error(got)
		}
	})
}

func TestReadBreaker(t *testing.T) {
	of := func(count int) string {
		text, _ := plan.Window(nil).Add(Now.Add(-20*time.Minute), count, 60).Text()
		return text
	}
	for _, c := range []struct {
		kept    string
		made    int
		refuses bool
	}{{"", 0, false}, {of(29), 29, false}, {of(30), 30, true}} {
		s, err := plan.ReadBreaker(c.kept, Now, 60)
		if err != nil || s.Releases != c.made || (s.Refusal != "") != c.refuses {
			t.Errorf("%s: %+v, %v", c.kept, s, err)
		}
		if c.made > 0 && !s.Until.Equal(Now.Add(40*time.Minute)) {
			t.Errorf("until %s", s.Until)
		}
	}
	if s, err := plan.ReadBreaker(of(30), Now.Add(41*time.Minute), 60); err != nil || s.Releases != 0 || s.Refusal != "" {
		t.Errorf("an hour later: %+v, %v", s, err)
	}
	if _, err := plan.ReadBreaker("?", Now, 60); err == nil {
		t.Error("an invalid text counts as empty")
	}
}
