package findings_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// slice is the slice of worker-9 in the network that Sliced("") cuts.
func slice(o *Observed) { Pool("worker-9-10.0.0.16-28", "10.0.0.16/28")(o) }

func TestFindings_SliceWithoutNode(t *testing.T) {
	sliced := Sliced("")
	for name, c := range map[string]struct {
		parts []Part
		found bool
	}{
		"its Node is gone": {[]Part{slice, sliced, Node("worker-1")}, true},
		"its Node is gone, with an allocation": {[]Part{Pool("worker-9-10.0.0.16-28", "10.0.0.16/28",
			Alloc("1", "default/web-0", "box-1", "net1")), sliced, Node("worker-1")}, true},
		"of a named network": {[]Part{Pool("red-worker-9-10.0.0.16-28", "10.0.0.16/28"), Sliced("red"),
			Node("worker-1")}, true},
		"its last report is obsolete": {[]Part{slice, sliced, Node("worker-1"),
			StaleReport("worker-9", RenewedAt(Now.Add(-3*time.Hour)))}, true},
		"its Node exists":             {[]Part{slice, sliced, Node("worker-9")}, false},
		"nodes are unknown":           {[]Part{slice, sliced, Node("worker-1"), NodesUnknown}, false},
		"there is no node at all":     {[]Part{slice, sliced, NoNodes}, false},
		"reports are unknown":         {[]Part{slice, sliced, Node("worker-1"), ReportsUnknown("forbidden")}, false},
		"it has a fresh report":       {[]Part{slice, sliced, Node("worker-1"), FreshReport("worker-9")}, false},
		"its report expired just now": {[]Part{slice, sliced, Node("worker-1"), StaleReport("worker-9")}, false},
		"a pod is bound to it": {[]Part{slice, sliced, Node("worker-1"), Pod("other", NoNetworkStatus,
			OnNode("worker-9"))}, false},
		"no definition cuts slices": {[]Part{slice, Node("worker-1"), here}, false},
		"the definition cuts other slices": {[]Part{slice, Node("worker-1"),
			NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/29"`))}, false},
		"another definition uses all of it": {[]Part{slice, sliced, Node("worker-1"),
			NAD("wb", WhereaboutsConfig("10.0.0.16/28", "worker-9"))}, false},
		"its name may be the slice of a node that exists": {[]Part{Pool("a-worker-9-10.0.0.16-28", "10.0.0.16/28"), sliced,
			Node("worker-9")}, false},
		"definitions are unknown": {[]Part{slice, Node("worker-1"), func(o *Observed) {
			o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("forbidden"))
		}}, false},
	} {
		if found := FindingsOf(findings.SliceWithoutNode, c.parts...); (len(found) == 1) != c.found {
			t.Errorf("%s: %+v", name, found)
		} else if c.found && found[0].Node != "worker-9" {
			t.Errorf("%s: it is of %s", name, found[0].Node)
		}
	}
}

// A process that knew the node waits until its Node object was missing for 40 s.
func TestFindings_SliceWithoutNodeAfterAMoment(t *testing.T) {
	has := func(o *Observed, memory Past) bool {
		o.Past = memory
		for _, f := range Judged(o, facts.Policy{}).Findings {
			if f.Kind == findings.SliceWithoutNode {
				return true
			}
		}
		return false
	}
	missing := Observe(slice, Sliced(""), Node("worker-1"))
	if has(missing, expecting{"worker-9": Now}) {
		t.Error("it is found while the Node is missing for a moment only")
	}
	if !has(missing, expecting{"worker-1": Now}) {
		t.Error("it is not found by a process that expects other nodes")
	}
}

// expecting are the nodes that had to report in earlier observations.
type expecting map[string]time.Time

func (expecting) Of(judge.ID) judge.ItemHistory     { return judge.ItemHistory{} }
func (e expecting) SawReports() bool                { return false }
func (e expecting) Expected() map[string]time.Time  { return e }
func (e expecting) DoubtsTaint(*podstate.Node) bool { return false }
func (e expecting) LosesNode(string) string         { return "" }
func (e expecting) DoubtsStatus(time.Time) bool     { return false }

// losing is a restore that has lost the Node object of worker-9.
type losing struct{ expecting }

func (losing) LosesNode(node string) string { return map[string]string{"worker-9": "k3f7q2m9xa"}[node] }

func TestFindings_NodeThatARestoreLost(t *testing.T) {
	for _, f := range Judged(Observe(UsualPool, ReportingWorker(), StaleReport("worker-9"), func(o *Observed) {
		o.Past = losing{}
	}), facts.Policy{}).Findings {
		if f.Kind == findings.NoFreshReportFinding && strings.Contains(f.Message, "by the restore k3f7q2m9xa of etcd") {
			return
		}
	}
	t.Error("no finding says that worker-9 has lost its Node object")
}
