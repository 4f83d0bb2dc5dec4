package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// forecast observes and returns what a pass would do now.
func (p *process) forecast(after time.Duration, parts ...Part) *Plan {
	p.t.Helper()
	p.pass(after, parts...)
	j, err := p.Check(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return p.Plan(p.t.Context(), j)
}

func paused(o *Observed)     { o.Paused = true }
func pausedPool(o *Observed) { o.Pools[0].Paused = true }

// gates returns the gates of the first refused item.
func gates(p *Plan) (found []Refusal) {
	if len(p.Refused) == 0 {
		return nil
	}
	for _, g := range append([]Gate{p.Refused[0].Gate}, p.Refused[0].Also...) {
		found = append(found, g.Why)
	}
	return found
}

func TestForecast_Gates(t *testing.T) {
	silent := All(Node("worker-2"), written("worker-2", 0, RenewedAt(Now)))
	restored := func(p *process) {
		p.pass(0, unconfirmed, written("worker-1", 0), revision(100))
		p.pass(time.Minute, unconfirmed, written("worker-1", 0), revision(90))
	}
	for _, c := range []struct {
		name   string
		before func(*process)
		parts  Part
		want   []Refusal
		at     bool // the gate opens by itself
	}{
		{name: "none", parts: proven},
		{name: "not confirmed", parts: unconfirmed, want: []Refusal{AwaitingConfirmation}, at: true},
		{name: "everything paused", parts: All(proven, paused), want: []Refusal{Paused}},
		{name: "a pool paused", parts: All(proven, pausedPool), want: []Refusal{Paused}},
		{name: "paused, and not confirmed", parts: All(unconfirmed, paused), want: []Refusal{Paused, AwaitingConfirmation}},
		{name: "both pauses", parts: All(proven, paused, pausedPool), want: []Refusal{Paused, Paused}},
		{name: "a restore", before: restored, parts: All(proven, written("worker-1", 0), silent, revision(91)),
			want: []Refusal{EtcdRestored}},
		{name: "a pause and a restore", before: restored, parts: All(proven, paused, written("worker-1", 0), silent,
			revision(91)), want: []Refusal{Paused, EtcdRestored}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProcess(t, quarter)
			if c.before != nil {
				c.before(p)
			}
			plan := p.forecast(2*time.Minute, c.parts)
			if got := gates(plan); !slices.Equal(got, c.want) {
				t.Fatalf("refused because of %v, want %v", got, c.want)
			}
			if len(c.want) == 0 {
				p.wantReleased("nothing stands against it", plan)
			} else if at := plan.Refused[0].At(); c.at == at.IsZero() {
				t.Errorf("it is said to be released at %v", at)
			}
		})
	}
}

func TestForecast_CommonGates(t *testing.T) {
	p := newProcess(t, quarter)
	plan := p.forecast(0, UsualPool, UsualPod(Carrying("10.0.0.5")), paused, pausedPool)
	if len(plan.CommonGates) != 2 || plan.CommonGates[0].Pool != "" ||
		plan.CommonGates[1].Pool != "kube-system/10.0.0.0-24" {
		t.Errorf("got %+v", plan.CommonGates)
	}
}

// manyLeaks is a pool with n unconfirmed leaks.
func manyLeaks(n int) Part {
	var all []Allocation
	for i := range n {
		all = append(all, Alloc(fmt.Sprint(i+1), fmt.Sprintf("default/web-%d", i), fmt.Sprintf("box-%d", i), "net1"))
	}
	return All(ReportingWorker(), Pool("10.0.0.0-24", "10.0.0.0/24", all...))
}

func TestForecast_SharedWindow(t *testing.T) {
	store := &memoryStore{text: fmt.Sprintf(`[{"at":%q,"count":15,"of":30}]`, Now.Format(time.RFC3339))}
	p := newProcess(t, Options{})
	p.BreakerStore = store
	before := store.text
	plan := p.forecast(time.Minute, manyLeaks(15))
	if got := gates(plan); !slices.Equal(got, []Refusal{Breaker}) || len(plan.Refused) != 15 {
		t.Errorf("%d refused because of %v", len(plan.Refused), got)
	}
	if store.text != before {
		t.Errorf("the window was %s and is %s", before, store.text)
	}
	p = newProcess(t, Options{})
	p.BreakerStore = &memoryStore{}
	plan = p.forecast(time.Minute, manyLeaks(15))
	if store = p.BreakerStore.(*memoryStore); len(plan.Release) != 15 || store.text != "" {
		t.Errorf("%d released, the window is %q", len(plan.Release), store.text)
	}
}

// rightsOnly is Leases that may be taken, unless it has an error.
type rightsOnly struct {
	apply.Leases
	err error
}

func (w rightsOnly) CheckLeases(context.Context, string, []string) error { return w.err }

func TestForecast_LeasesForbidden(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []Refusal
	}{
		{nil, nil},
		{fmt.Errorf("%w: create leases", apply.ErrLeaseForbidden), []Refusal{NoLease}},
		{errors.New("the API server could not decide"), nil},
	} {
		p := newProcess(t, quarter)
		p.Leases = rightsOnly{err: c.err}
		plan := p.forecast(0, proven)
		if got := gates(plan); !slices.Equal(got, c.want) {
			t.Errorf("%v: refused because of %v, want %v", c.err, got, c.want)
		}
		if len(c.want) > 0 && !strings.Contains(plan.Refused[0].Detail, "grant get, create and update on leases") {
			t.Error(plan.Refused[0].Detail)
		}
		p.Options.DryRun = true
		if out, err := p.Run(t.Context()); err != nil || (out.Refused[0].Why == NoLease) != (len(c.want) > 0) {
			t.Errorf("%v: a dry run refuses %+v, %v", c.err, out.Refused, err)
		}
	}
}

func TestPlan_Only(t *testing.T) {
	two := All(ReportingWorker(Gone("box-1", UsualUID)), Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation,
		Alloc("6", "default/web-1", "box-2", "net1")))
	p := newProcess(t, quarter)
	p.Options.Only = func(it *judge.Item) bool { return it.ContainerID() == "box-1" }
	plan := p.pass(0, two)
	if len(plan.Release) != 1 || len(plan.Refused) != 0 || !plan.Until.IsZero() {
		t.Errorf("got %+v", plan)
	}
}

// The breaker will refuse 105 unconfirmed of 119 once they are confirmed, and not 14 or 20.
func TestForecast_BreakerOfWhatAwaitsConfirmation(t *testing.T) {
	for stale, want := range map[int][]Refusal{105: {AwaitingConfirmation, Breaker}, 14: {AwaitingConfirmation},
		20: {AwaitingConfirmation}} {
		p := newProcess(t, quarter)
		plan := p.forecast(0, inUseAndStale(119-stale, stale))
		if got := gates(plan); !slices.Equal(got, want) || plan.Refused[0].At().IsZero() != (len(want) > 1) {
			t.Errorf("%d of 119: %v, at %v", stale, got, plan.Refused[0].At())
		}
		p.Options.AllowMassRelease = true
		if got := gates(p.forecast(0, inUseAndStale(119-stale, stale))); len(got) != 1 {
			t.Errorf("%d of 119, with --allow-mass-release: %v", stale, got)
		}
	}
	t.Run("releases of other processes count", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, inUseAndStale(30, 20))
		p.Process.releases = window{{At: p.next.Now, Count: 10, Of: 50}}
		if got := gates(p.forecast(0, inUseAndStale(30, 20))); !slices.Equal(got, []Refusal{AwaitingConfirmation, Breaker}) {
			t.Error(got)
		}
		p.Process.releases[0].At = p.next.Now.Add(-50 * time.Minute) // not counted by then
		if got := gates(p.forecast(0, inUseAndStale(30, 20))); len(got) != 1 {
			t.Error(got)
		}
	})
}
