package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// scripted is a Source that reads the same again and again.
type scripted struct {
	parts []part
	err   error
}

func (s *scripted) Observe(context.Context) (*Observation, error) {
	if s.err != nil {
		return nil, s.err
	}
	return observe(s.parts...), nil
}

func (s *scripted) Refresh(context.Context, *Observation) (*Observation, error) {
	return s.Observe(context.Background())
}

func (s *scripted) Fresh(context.Context, *Observation, Need) (*Live, error) { return &Live{}, nil }

// lookedAt is an OnNode of worker-1 whose look, made an hour behind the API
// server's clock, has this content. before is what it was given to go on from.
func lookedAt(source Source, c ...content) (on *OnNode, before **v1alpha1.SandboxReport) {
	before = new(*v1alpha1.SandboxReport)
	return &OnNode{Source: source, Node: "worker-1", BootID: "boot-1",
		Look: func(_ context.Context, b *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error) {
			*before = b
			r := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObservedAt: metav1.NewTime(now.Add(-time.Hour))}}
			for _, f := range c {
				f(r)
			}
			return r.SandboxReport, nil
		}}, before
}

// both looks both ways in which a report comes into an observation.
func both(t *testing.T, on *OnNode, check func(t *testing.T, o *Observation)) {
	t.Helper()
	o, err := on.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("observed", func(t *testing.T) { check(t, o) })
	if o, err = on.Refresh(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Run("refreshed", func(t *testing.T) { check(t, o) })
}

func TestANodeThatIsLookedAtHereCountsAsHeard(t *testing.T) {
	for name, c := range map[string]struct {
		has  part // the API
		sees []content
		want outcome
	}{
		"no agent, and the sandbox runs":       {nothing, []content{box("box-1", "uid-1")}, outcome{InUse, SandboxReady, false, Ready}},
		"no agent, and the sandbox is stopped": {nothing, []content{box("box-1", "uid-2", notReady(closed))}, outcome{Stale, PodReplaced, true, Stopped}},
		"no agent, and nothing is seen":        {nothing, nil, outcome{Stale, AddressNotOnPod, false, Absent}},
		"a stale report that has it, and it runs no more": {staleReport("worker-1", box("box-1", "uid-2")),
			[]content{gone("box-1", "uid-2")}, outcome{Stale, PodReplaced, true, Gone}},
		"a fresh report that knows nothing, and it runs": {freshReport("worker-1"),
			[]content{box("box-1", "uid-1")}, outcome{InUse, SandboxReady, false, Ready}},
	} {
		t.Run(name, func(t *testing.T) {
			on, _ := lookedAt(&scripted{parts: []part{usualPool, web(carrying("10.0.0.7")), aNode("worker-1"), c.has}}, c.sees...)
			both(t, on, func(t *testing.T, o *Observation) {
				if len(o.Reports) != 1 || o.Reports[0].Name != "worker-1" || !o.Reports[0].Fresh(o.Now) {
					t.Fatalf("reports: %+v", o.Reports)
				}
				if got := outcomeOf(allocation(t, Judge(o, Policy{}), "10.0.0.5")); got != c.want {
					t.Errorf("got  %v\nwant %v", got, c.want)
				}
			})
		})
	}
}

func TestTheReportOfTheLookTakesThePlaceOfTheNodesOwn(t *testing.T) {
	seen := now.Add(-7 * time.Minute)
	restored := func(r *podstate.Report) { r.RestoreSeen = seen }
	on, before := lookedAt(&scripted{parts: []part{
		aNode("worker-1"), aNode("worker-2"),
		freshReport("worker-2", box("other", "uid-9")), staleReport("worker-1", restored, box("old", "uid-1"), gone("older", "uid-0")),
	}}, box("box-1", "uid-1"))
	both(t, on, func(t *testing.T, o *Observation) {
		if len(o.Reports) != 2 || o.Reports[0].Name != "worker-2" || o.Reports[0].Sandboxes[0].ID != "other" {
			t.Fatalf("reports: %+v", o.Reports)
		}
		r := o.Reports[1]
		if len(r.Sandboxes) != 1 || r.Sandboxes[0].ID != "box-1" {
			t.Errorf("sandboxes: %v", r.Sandboxes)
		}
		if !r.Written.Equal(now) || !r.LastHeard.Equal(now) || !r.RestoreSeen.Equal(seen) {
			t.Errorf("written %s, heard %s, restore seen %s", r.Written, r.LastHeard, r.RestoreSeen)
		}
		// What is gone goes on from what the node's own report has.
		b := *before
		if b == nil || b.Name != "worker-1" || b.Sandboxes[0].ID != "old" || b.Gone[0].ID != "older" {
			t.Errorf("it goes on from %+v", b)
		}
	})
}

func TestWithoutAReportOfTheNodeALookStartsAnew(t *testing.T) {
	on, before := lookedAt(&scripted{parts: []part{aNode("worker-1"), freshReport("worker-2")}})
	both(t, on, func(t *testing.T, o *Observation) {
		if *before != nil || len(o.Reports) != 2 {
			t.Errorf("it goes on from %+v; reports %v", *before, o.Reports)
		}
	})
}

func TestTheBootIDIsInTheReportOnlyWhenItIsTheNodesOwn(t *testing.T) {
	for name, c := range map[string]struct {
		node part
		want string
	}{
		"the Node's own":            {aNode("worker-1"), "boot-1"},
		"the Node has none yet":     {aNode("worker-1", booted("")), ""},
		"nothing is known of nodes": {nothing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			on, _ := lookedAt(&scripted{parts: []part{c.node}})
			both(t, on, func(t *testing.T, o *Observation) {
				if got := o.Reports[0].BootID; got != c.want {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

func TestALookOnANodeThatCannotBeMadeIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*OnNode)
		want   string
	}{
		"the cluster has no such Node":  {func(on *OnNode) { on.Node = "worker-7" }, "--node worker-7"},
		"the Node was booted otherwise": {func(on *OnNode) { on.Source = &scripted{parts: []part{aNode("worker-1", booted("boot-2"))}} }, "another machine"},
		"the runtime does not answer":   {func(on *OnNode) { on.Look = blindly }, "worker-1: no socket"},
		"the cluster cannot be read":    {func(on *OnNode) { on.Source = &scripted{err: errors.New("no API")} }, "no API"},
	} {
		t.Run(name, func(t *testing.T) {
			on, _ := lookedAt(&scripted{parts: []part{aNode("worker-1")}})
			c.change(on)
			if o, err := on.Observe(t.Context()); o != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("observed: %v, %v", o, err)
			}
			if o, err := on.Refresh(t.Context(), observe()); o != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("refreshed: %v, %v", o, err)
			}
		})
	}
}

func blindly(context.Context, *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error) {
	return nil, errors.New("no socket")
}

// Whose runtime it is must be sure before anything counts as gone there.
func TestANodeThatIsNotKnownToBeThisMachineStartsAnew(t *testing.T) {
	for name, parts := range map[string][]part{
		"the Node has no boot id":   {aNode("worker-1", booted("")), freshReport("worker-1", box("old", "uid"))},
		"nothing is known of nodes": {freshReport("worker-1", box("old", "uid"))},
	} {
		t.Run(name, func(t *testing.T) {
			on, before := lookedAt(&scripted{parts: parts})
			both(t, on, func(t *testing.T, o *Observation) {
				if *before != nil || len(o.Reports) != 1 {
					t.Errorf("it goes on from %+v; reports %v", *before, o.Reports)
				}
			})
		})
	}
}
