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
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// forecast observes and returns what a pass would do now.
func (p *process) forecast(after time.Duration, parts ...Part) *plan.Plan {
	p.t.Helper()
	p.pass(after, parts...)
	j, err := p.Check(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return p.Plan(p.t.Context(), j.Assessment)
}

func paused(o *Observed)     { o.Paused = true }
func pausedPool(o *Observed) { o.Pools[0].Paused = true }

// gates returns the gates of the first refused item.
func gates(p *plan.Plan) (found []plan.Refusal) {
	if len(p.Refused) == 0 {
		return nil
	}
	for _, g := range append([]plan.Gate{p.Refused[0].Gate}, p.Refused[0].Also...) {
		found = append(found, g.Why)
	}
	return found
}

func TestForecast_Gates(t *testing.T) {
	silent := All(Node("worker-2"), written("worker-2", 0, RenewedAt(Now)))
	restored := func(p *process) {
		p.seesRestore(unconfirmed, written("worker-1", 0))
	}
	for _, c := range []struct {
		name   string
		before func(*process)
		parts  Part
		want   []plan.Refusal
		at     bool // the gate opens by itself
	}{
		{name: "none", parts: proven},
		{name: "not confirmed", parts: unconfirmed, want: []plan.Refusal{plan.AwaitingConfirmation}, at: true},
		{name: "everything paused", parts: All(proven, paused), want: []plan.Refusal{plan.Paused}},
		{name: "a pool paused", parts: All(proven, pausedPool), want: []plan.Refusal{plan.Paused}},
		{name: "paused, and not confirmed", parts: All(unconfirmed, paused),
			want: []plan.Refusal{plan.Paused, plan.AwaitingConfirmation}},
		{name: "both pauses", parts: All(proven, paused, pausedPool), want: []plan.Refusal{plan.Paused, plan.Paused}},
		{name: "a restore", before: restored, parts: All(proven, written("worker-1", 0), silent, revision(91)),
			want: []plan.Refusal{plan.EtcdRestored}},
		{name: "a pause and a restore", before: restored, parts: All(proven, paused, written("worker-1", 0), silent,
			revision(91)), want: []plan.Refusal{plan.Paused, plan.EtcdRestored}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProcess(t, quarter)
			if c.before != nil {
				c.before(p)
			}
			made := p.forecast(2*time.Minute, c.parts)
			if got := gates(made); !slices.Equal(got, c.want) {
				t.Fatalf("refused because of %v, want %v", got, c.want)
			}
			if len(c.want) == 0 {
				p.WantReleased("nothing stands against it", made)
			} else if at := made.Refused[0].At(); c.at == at.IsZero() {
				t.Errorf("it is said to be released at %v", at)
			}
		})
	}
}

func TestForecast_CommonGates(t *testing.T) {
	p := newProcess(t, quarter)
	made := p.forecast(0, UsualPool, UsualPod(Carrying("10.0.0.5")), paused, pausedPool)
	if len(made.CommonGates) != 2 || made.CommonGates[0].Pool != "" ||
		made.CommonGates[1].Pool != "kube-system/10.0.0.0-24" {
		t.Errorf("got %+v", made.CommonGates)
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
	p := newProcess(t, plan.Options{})
	p.BreakerStore = store
	before := store.text
	made := p.forecast(time.Minute, manyLeaks(15))
	if got := gates(made); !slices.Equal(got, []plan.Refusal{plan.Breaker}) || len(made.Refused) != 15 {
		t.Errorf("%d refused because of %v", len(made.Refused), got)
	}
	if store.text != before {
		t.Errorf("the window was %s and is %s", before, store.text)
	}
	p = newProcess(t, plan.Options{})
	p.BreakerStore = &memoryStore{}
	made = p.forecast(time.Minute, manyLeaks(15))
	if store = p.BreakerStore.(*memoryStore); len(made.Release) != 15 || store.text != "" {
		t.Errorf("%d released, the window is %q", len(made.Release), store.text)
	}
}

// rightsOnly is Leases of which some are forbidden.
type rightsOnly struct {
	apply.Leases
	forbidden []string
	err       error
}

func (w rightsOnly) ForbiddenLeases(context.Context, string, []string) ([]string, error) {
	return w.forbidden, w.err
}

func TestForecast_LeasesForbidden(t *testing.T) {
	for says, c := range map[string]struct {
		leases   rightsOnly
		refused  []plan.Refusal
		released int
	}{
		"none":          {rightsOnly{}, nil, 2},
		"the shared":    {rightsOnly{forbidden: []string{"whereabouts"}}, []plan.Refusal{plan.NoLease}, 0},
		"a pool's own":  {rightsOnly{forbidden: []string{"blue-10.2.0.0-24"}}, []plan.Refusal{plan.NoLease}, 1},
		"it is unknown": {rightsOnly{err: errors.New("the API server could not decide")}, nil, 2},
		"one is known, and the others are not": {rightsOnly{forbidden: []string{"blue-10.2.0.0-24"},
			err: errors.New("the API server could not decide")}, []plan.Refusal{plan.NoLease}, 1},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, quarter)
			p.Leases = c.leases
			p.Options.DryRun = true
			blue := Pool("blue-10.2.0.0-24", "10.2.0.0/24", Alloc("7", "default/web-0", "box-7", "net2"))
			parts := All(proven, blue, ReportingWorker(Gone("box-1", UsualUID), Gone("box-7", UsualUID)))
			made := p.forecast(0, parts)
			if got := gates(made); !slices.Equal(got, c.refused) || len(made.Release) != c.released {
				t.Errorf("refused because of %v, want %v; %d are released, want %d", got, c.refused, len(made.Release),
					c.released)
			}
			if len(made.Refused) > 0 && !strings.Contains(made.Refused[0].Detail, "grant get, create and update on leases") {
				t.Error(made.Refused[0].Detail)
			}
			out, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, x := range out.Refused {
				if x.Why == plan.NoLease {
					n++
				}
			}
			if n != len(made.Refused) {
				t.Errorf("a dry run refuses %d for lack of a Lease, want %d", n, len(made.Refused))
			}
		})
	}
}
