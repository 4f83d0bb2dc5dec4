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
			Renewed: s.heard, LeaseRenewed: s.heard,
		}},
	}
	s.next = s.Collect(context.Background(), &reconciler.Result{Judgement: judge.Judge(o, nil, judge.Policy{})})
}

// expect checks whether the report was removed, and how often the API was asked.
func (s *reportGCTest) expect(t *testing.T, deleted, asked int) {
	t.Helper()
	if len(s.api.deleted) != deleted || s.api.asked != asked {
		t.Errorf("deleted %v, asked %d times; want %d, %d", s.api.deleted, s.api.asked, deleted, asked)
	}
}

func TestTheReportOfANodeThatIsGoneIsRemovedAfterAnHour(t *testing.T) {
	s := newReportGCTest()
	s.at(0)
	if want := noon.Add(time.Hour); !s.next.Equal(want) {
		t.Errorf("the next collection is at %s, want %s", s.next, want)
	}
	s.at(time.Hour - time.Second)
	s.expect(t, 0, 0)
	s.at(time.Hour)
	s.expect(t, 1, 1)
}

func TestTheReportOfANodeIsKept(t *testing.T) {
	for name, meanwhile := range map[string]struct {
		happens func(s *reportGCTest)
		asked   int // the API, after an hour and a half
	}{
		"whose agent has renewed its Lease":     {func(s *reportGCTest) { s.heard = noon.Add(90 * time.Minute) }, 0},
		"that is back":                          {func(s *reportGCTest) { s.nodes["worker-2"] = &podstate.Node{} }, 0},
		"while no node can be listed":           {func(s *reportGCTest) { s.nodes = nil }, 0},
		"whose allocation is not freed":         {func(s *reportGCTest) { s.pools = []*ippool.Pool{aPool("10.1.0.0-24", "10.1.0.0/24", "default/web")} }, 0},
		"that the API server has":               {func(s *reportGCTest) { s.api.there = true }, 1},
		"of which the API server knows nothing": {func(s *reportGCTest) { s.api.fails = errors.New("too many requests") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newReportGCTest()
			s.at(0)
			meanwhile.happens(s)
			s.at(90 * time.Minute)
			s.expect(t, 0, meanwhile.asked)
		})
	}
}

func TestTheHourStartsOverWhenTheNodeWasBack(t *testing.T) {
	s := newReportGCTest()
	s.at(0)
	s.nodes["worker-2"] = &podstate.Node{}
	s.at(50 * time.Minute)
	delete(s.nodes, "worker-2")
	s.at(70 * time.Minute)
	s.expect(t, 0, 0)
	s.at(130*time.Minute - time.Second)
	s.expect(t, 0, 0)
	s.at(130 * time.Minute)
	s.expect(t, 1, 1)
}

func TestWhatCouldNotBeRemovedIsTriedAfterAnotherHour(t *testing.T) {
	s := newReportGCTest()
	s.at(0)
	s.api.fails = errors.New("too many requests")
	s.at(time.Hour)
	s.api.fails = nil
	s.at(90 * time.Minute)
	s.expect(t, 0, 1)
	s.at(2 * time.Hour)
	s.expect(t, 1, 2)
}

func TestWhatAnAllocationNeededGoesWithIt(t *testing.T) {
	s := newReportGCTest()
	s.pools = []*ippool.Pool{aPool("10.1.0.0-24", "10.1.0.0/24", "default/web")}
	s.at(0)
	s.at(2 * time.Hour)
	s.expect(t, 0, 0)
	s.pools = nil
	s.at(2*time.Hour + time.Second)
	s.expect(t, 1, 1)
}
