package serve

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// fakeReportAPI is the API of one node.
type fakeReportAPI struct {
	hasNode bool
	err     error
	reads   int
	deletes int
}

func (a *fakeReportAPI) HasNode(context.Context, string) (bool, error) {
	a.reads++
	return a.hasNode, a.err
}

func (a *fakeReportAPI) DeleteReport(context.Context, *podstate.Report) error {
	a.deletes++
	return nil
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A reportGCTest has the node worker-1, and a report of the deleted node worker-2.
type reportGCTest struct {
	*ReportGC
	api     *fakeReportAPI
	next    time.Time
	nodes   map[string]*podstate.Node
	renewed time.Time // of worker-2's Lease
	pools   []*ippool.Pool
}

func newReportGCTest() *reportGCTest {
	api := &fakeReportAPI{}
	return &reportGCTest{
		ReportGC: &ReportGC{API: api, Log: slog.New(slog.DiscardHandler)}, api: api, renewed: noon.Add(-time.Hour),
		nodes: map[string]*podstate.Node{"worker-1": {}},
	}
}

// at collects some time after noon.
func (s *reportGCTest) at(after time.Duration) {
	o := &facts.Observation{
		Now: noon.Add(after), Nodes: facts.Complete(s.nodes, ""), Pools: s.pools,
		NADs: facts.Complete(map[types.NamespacedName]*ippool.NAD{}, ""),
		Pods: map[types.NamespacedName]*podstate.Pod{},
		Reports: facts.Complete([]*podstate.Report{{
			SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-2"},
				Sandboxes: []v1alpha1.Sandbox{{ID: "box-0", State: v1alpha1.SandboxReady}}},
			ConfirmedAt: s.renewed, LeaseRenewedAt: s.renewed,
		}}, ""),
	}
	j := judgetest.AssessAlone(o, facts.Policy{})
	s.next = s.Collect(context.Background(), &reconciler.Result{Assessment: j})
}

func TestReportGC(t *testing.T) {
	type step struct {
		minute         int
		change         func(s *reportGCTest)
		deletes, reads int // so far
	}
	nothing := func(*reportGCTest) {}
	isBack := func(s *reportGCTest) { s.nodes["worker-2"] = &podstate.Node{} }
	isGone := func(s *reportGCTest) { delete(s.nodes, "worker-2") }
	hasAllocation := func(s *reportGCTest) { s.pools = []*ippool.Pool{aPool("10.1.0.0-24", "10.1.0.0/24", "default/web")} }
	fails := func(s *reportGCTest) { s.api.err = errors.New("too many requests") }
	works := func(s *reportGCTest) { s.api.err = nil }
	for name, steps := range map[string][]step{
		"after an hour":              {{59, nothing, 0, 0}, {60, nothing, 1, 1}},
		"renewed Lease":              {{90, func(s *reportGCTest) { s.renewed = noon.Add(90 * time.Minute) }, 0, 0}},
		"recreated node":             {{90, isBack, 0, 0}},
		"recreated and deleted node": {{50, isBack, 0, 0}, {70, isGone, 0, 0}, {129, nothing, 0, 0}, {130, nothing, 1, 1}},
		"no nodes":                   {{90, func(s *reportGCTest) { s.nodes = nil }, 0, 0}},
		"needed by an allocation":    {{90, hasAllocation, 0, 0}, {91, func(s *reportGCTest) { s.pools = nil }, 1, 1}},
		"node at the API server":     {{90, func(s *reportGCTest) { s.api.hasNode = true }, 0, 1}},
		"failed read":                {{90, fails, 0, 1}, {120, works, 0, 1}, {150, nothing, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newReportGCTest()
			s.at(0)
			if want := noon.Add(time.Hour); !s.next.Equal(want) {
				t.Errorf("the next collection is at %s, want %s", s.next, want)
			}
			for _, step := range steps {
				step.change(s)
				s.at(time.Duration(step.minute) * time.Minute)
				if s.api.deletes != step.deletes || s.api.reads != step.reads {
					t.Errorf("minute %d: %d deletes, %d reads, want %d, %d",
						step.minute, s.api.deletes, s.api.reads, step.deletes, step.reads)
				}
			}
		})
	}
}
