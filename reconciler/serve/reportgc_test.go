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
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// fakeReportAPI is what the API says of one node.
type fakeReportAPI struct {
	there   bool
	fails   error
	asked   int
	deleted []string
}

func (a *fakeReportAPI) HasNode(context.Context, string) (bool, error) {
	a.asked++
	return a.there, a.fails
}

func (a *fakeReportAPI) DeleteReport(_ context.Context, r *podstate.Report) error {
	a.deleted = append(a.deleted, r.Name)
	return nil
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A reportGCTest is a ReportGC before which time passes. There is a Ready node worker-1;
// worker-2, which has a report, is gone.
type reportGCTest struct {
	*ReportGC
	api   *fakeReportAPI
	next  time.Time
	nodes map[string]*podstate.Node
	heard time.Time // when worker-2's agent was heard last
	pools []*ippool.Pool
}

func newReportGCTest() *reportGCTest {
	api := &fakeReportAPI{}
	return &reportGCTest{
		ReportGC: &ReportGC{API: api, Log: slog.New(slog.DiscardHandler)}, api: api, heard: noon.Add(-time.Hour),
		nodes: map[string]*podstate.Node{"worker-1": {}},
	}
}

// at collects so long after noon.
func (s *reportGCTest) at(after time.Duration) {
	o := &judge.Observation{
		Now: noon.Add(after), Nodes: s.nodes, Pools: s.pools, NADs: map[types.NamespacedName]*ippool.NAD{}, Pods: map[types.NamespacedName]*podstate.Pod{},
		Reports: []*podstate.Report{{
			SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-2"},
				Sandboxes: []v1alpha1.Sandbox{{ID: "box-0", State: v1alpha1.SandboxReady}}},
			ConfirmedAt: s.heard, LeaseRenewedAt: s.heard,
		}},
	}
	s.next = s.Collect(context.Background(), &reconciler.Result{Judgement: judge.Judge(o, nil, judge.Policy{})})
}

func TestReportGC(t *testing.T) {
	type step struct {
		minute         int
		change         func(s *reportGCTest)
		deleted, asked int // so far
	}
	nothing := func(*reportGCTest) {}
	isBack := func(s *reportGCTest) { s.nodes["worker-2"] = &podstate.Node{} }
	isGone := func(s *reportGCTest) { delete(s.nodes, "worker-2") }
	hasAllocation := func(s *reportGCTest) { s.pools = []*ippool.Pool{aPool("10.1.0.0-24", "10.1.0.0/24", "default/web")} }
	fails := func(s *reportGCTest) { s.api.fails = errors.New("too many requests") }
	for name, steps := range map[string][]step{
		"after an hour":               {{59, nothing, 0, 0}, {60, nothing, 1, 1}},
		"its agent renews its Lease":  {{90, func(s *reportGCTest) { s.heard = noon.Add(90 * time.Minute) }, 0, 0}},
		"the node is back":            {{90, isBack, 0, 0}},
		"and goes again":              {{50, isBack, 0, 0}, {70, isGone, 0, 0}, {129, nothing, 0, 0}, {130, nothing, 1, 1}},
		"no node can be listed":       {{90, func(s *reportGCTest) { s.nodes = nil }, 0, 0}},
		"an allocation needs it":      {{90, hasAllocation, 0, 0}, {91, func(s *reportGCTest) { s.pools = nil }, 1, 1}},
		"the API server has the node": {{90, func(s *reportGCTest) { s.api.there = true }, 0, 1}},
		"the API server does not say": {{90, fails, 0, 1}, {120, func(s *reportGCTest) { s.api.fails = nil }, 0, 1}, {150, nothing, 1, 2}},
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
				if len(s.api.deleted) != step.deleted || s.api.asked != step.asked {
					t.Errorf("minute %d: deleted %v, asked %d times; want %d, %d", step.minute, s.api.deleted, s.api.asked, step.deleted, step.asked)
				}
			}
		})
	}
}
