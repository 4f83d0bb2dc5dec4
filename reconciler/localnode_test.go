package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// scripted is a Source that always reads the same.
type scripted struct {
	parts []Part
	err   error
}

func (s *scripted) List(context.Context) (*facts.Observation, error) {
	if s.err != nil {
		return nil, s.err
	}
	return Observe(s.parts...).Observation, nil
}

func (s *scripted) Relist(context.Context, *facts.Observation) (*facts.Observation, error) {
	return s.List(context.Background())
}

func (s *scripted) GetLive(context.Context, *facts.Observation, facts.LiveKeys) (*facts.Live, error) {
	return &facts.Live{}, nil
}

// inspectedWorker is a WithLocalNode of worker-1 whose inspection has this content, by a clock an hour behind the API
// server's. before is the report that the inspection continues.
func inspectedWorker(source Source, c ...ReportEdit) (on *WithLocalNode, before **v1alpha1.SandboxReport) {
	before = new(*v1alpha1.SandboxReport)
	return &WithLocalNode{Source: source, Node: "worker-1", BootID: "boot-1",
		Inspect: func(_ context.Context, b *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error) {
			*before = b
			r := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObservedAt: metav1.NewTime(Now.Add(-time.Hour))}}
			for _, f := range c {
				f(r)
			}
			return r.SandboxReport, nil
		}}, before
}

// forListAndRelist expects something of the observations of List and of Relist.
func forListAndRelist(t *testing.T, on *WithLocalNode, expect func(t *testing.T, o *facts.Observation)) {
	t.Helper()
	o, err := on.List(t.Context())
	check(t, err)
	t.Run("observed", func(t *testing.T) { expect(t, o) })
	if o, err = on.Relist(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Run("refreshed", func(t *testing.T) { expect(t, o) })
}

func TestLocalNode_Verdicts(t *testing.T) {
	for name, c := range map[string]struct {
		has  Part // the API
		sees []ReportEdit
		want Ruling
	}{
		"no agent, and the sandbox runs": {Nothing, []ReportEdit{Sandbox("box-1", "uid-1")},
			Want(judge.InUse, judge.SandboxReady, false, judge.Ready)},
		"no agent, and the sandbox is stopped": {Nothing, []ReportEdit{Sandbox("box-1", "uid-2", NotReady(Closed))},
			Want(judge.Stale, judge.PodReplaced, true, judge.Stopped)},
		"no agent, and the runtime has nothing": {Nothing, nil, Want(judge.Stale, judge.AddressNotOnPod, false,
			judge.Absent)},
		"a stale report that has it, and it runs no more": {StaleReport("worker-1", Sandbox("box-1", "uid-2")),
			[]ReportEdit{Gone("box-1", "uid-2")}, Want(judge.Stale, judge.PodReplaced, true, judge.Gone)},
		"a fresh report that knows nothing, and it runs": {FreshReport("worker-1"),
			[]ReportEdit{Sandbox("box-1", "uid-1")}, Want(judge.InUse, judge.SandboxReady, false, judge.Ready)},
	} {
		t.Run(name, func(t *testing.T) {
			on, _ := inspectedWorker(&scripted{parts: []Part{UsualPool, UsualPod(Carrying("10.0.0.7")), Node("worker-1"),
				c.has}}, c.sees...)
			forListAndRelist(t, on, func(t *testing.T, o *facts.Observation) {
				if len(o.Reports.Or(nil)) != 1 || o.Reports.Or(nil)[0].Name != "worker-1" || !o.Reports.Or(nil)[0].IsFresh(o.Now) {
					t.Fatalf("reports: %+v", o.Reports)
				}
				if got := RulingOf(AllocationOf(t, AssessAlone(o, facts.Policy{}), "10.0.0.5")); got != c.want {
					t.Errorf("got  %v\nwant %v", got, c.want)
				}
			})
		})
	}
}

func TestLocalNode_ReplacesReport(t *testing.T) {
	restored := func(r *podstate.Report) { r.RestoreNonce = "k3f7q2m9xa" }
	on, before := inspectedWorker(&scripted{parts: []Part{
		Node("worker-1"), Node("worker-2"),
		FreshReport("worker-2", Sandbox("other", "uid-9")), StaleReport("worker-1", restored, Sandbox("old", "uid-1"),
			Gone("older", "uid-0")),
	}}, Sandbox("box-1", "uid-1"))
	forListAndRelist(t, on, func(t *testing.T, o *facts.Observation) {
		all := o.Reports.Or(nil)
		if len(all) != 2 || all[0].Name != "worker-2" || all[0].Sandboxes[0].ID != "other" {
			t.Fatalf("reports: %+v", o.Reports)
		}
		r := o.Reports.Or(nil)[1]
		if len(r.Sandboxes) != 1 || r.Sandboxes[0].ID != "box-1" {
			t.Errorf("sandboxes: %v", r.Sandboxes)
		}
		if !r.WrittenAt.Equal(Now) || !r.LeaseRenewedAt.Equal(Now) || r.RestoreNonce != "k3f7q2m9xa" || !r.IsLocal {
			t.Errorf("written %s, renewed %s, nonce %q, local %v", r.WrittenAt, r.LeaseRenewedAt, r.RestoreNonce, r.IsLocal)
		}
		// The list of ended sandboxes continues that of the node's own report.
		b := *before
		if b == nil || b.Name != "worker-1" || b.Sandboxes[0].ID != "old" || b.Gone[0].ID != "older" {
			t.Errorf("it continues %+v", b)
		}
	})
}

func TestLocalNode_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*WithLocalNode)
		want   string
	}{
		"the cluster has no such Node": {func(on *WithLocalNode) { on.Node = "worker-7" }, "--node worker-7"},
		"the Node has no boot ID": {func(on *WithLocalNode) {
			on.Source = &scripted{parts: []Part{Node("worker-1", Booted(""))}}
		}, "another machine"},
		"Nodes may not be listed": {func(on *WithLocalNode) { on.Source = &scripted{parts: []Part{FreshReport("worker-1")}} },
			"forbidden"},
		"the Node was booted otherwise": {func(on *WithLocalNode) {
			on.Source = &scripted{parts: []Part{Node("worker-1", Booted("boot-2"))}}
		}, "another machine"},
		"the runtime does not answer": {func(on *WithLocalNode) { on.Inspect = blindly }, "worker-1: no socket"},
		"the cluster cannot be read": {func(on *WithLocalNode) { on.Source = &scripted{err: errors.New("no API")} },
			"no API"},
	} {
		t.Run(name, func(t *testing.T) {
			on, _ := inspectedWorker(&scripted{parts: []Part{Node("worker-1")}})
			c.change(on)
			if o, err := on.List(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("observed: %v, %v", o, err)
			}
			if o, err := on.Relist(t.Context(), Observe().Observation); err == nil || !strings.Contains(err.Error(),
				c.want) {
				t.Errorf("refreshed: %v, %v", o, err)
			}
		})
	}
}

func blindly(context.Context, *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error) {
	return nil, errors.New("no socket")
}

// The runtime must be that of this boot before a sandbox counts as ended.
func TestLocalNode_PreviousReport(t *testing.T) {
	bootIs := func(id string) ReportEdit { return func(r *podstate.Report) { r.BootID = id } }
	for name, c := range map[string]struct {
		report Part
		goesOn bool
	}{
		"a report of this boot":        {FreshReport("worker-1", Sandbox("old", "uid")), true},
		"a stale one of another boot":  {StaleReport("worker-1", bootIs("boot-0"), Sandbox("old", "uid")), false},
		"a stale one without boot id":  {StaleReport("worker-1", bootIs(""), Sandbox("old", "uid")), false},
		"a fresh one of another's":     {FreshReport("worker-2", Sandbox("old", "uid")), false},
		"no report of any node at all": {Nothing, false},
	} {
		t.Run(name, func(t *testing.T) {
			on, before := inspectedWorker(&scripted{parts: []Part{Node("worker-1"), UsualPod(), c.report}},
				Sandbox("box-1", "uid-1"))
			forListAndRelist(t, on, func(t *testing.T, o *facts.Observation) {
				if (*before != nil) != c.goesOn {
					t.Errorf("it continues %+v", *before)
				}
			})
		})
	}
}
