package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// several has a leak, a phantom, a pod in use, a reservation without an allocation, and
// an entry in another pool that cannot be read.
func several() *findings.Assessment {
	return Judged(Observe(
		Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"),
			Alloc("6", "prod/ghost", "box-2", "net1"), Alloc("7", "prod/web-1", "box-3", "net1")),
		Pool("10.1.0.0-24", "10.1.0.0/24", Alloc("1", "", "box-4", "net1")),
		Pod("web-1", func(p *corev1.Pod) { p.Namespace = "prod" }, Carrying("10.0.0.7")),
		Node("worker-1"), Node("worker-2"),
		FreshReport("worker-1", Gone("box-1", UsualUID)), FreshReport("worker-2",
			Sandbox("box-2", "uid-9", OfPod("ghost"), WithAddress("10.0.0.6", ""))),
		Reservation("10.0.0.9", "default/lone", LongAgo),
	), facts.Policy{})
}

func ofCheck(t *testing.T, f Filter) *CheckReport {
	t.Helper()
	r := &reconciler.Reconciler{Options: plan.Options{ConfirmAfter: 15 * time.Minute}, Process: &reconciler.Process{}}
	j := several()
	return NewCheckReport(PlannedResult(&reconciler.Result{Assessment: j}, r.Plan(t.Context(), j)), f)
}

func TestFilter_Picks(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Filter
		want string // addresses, and kinds of findings
	}{
		{"nothing", Filter{}, "10.0.0.5 10.0.0.6 10.0.0.7 10.1.0.1 10.0.0.9 Malformed Phantom"},
		{"a pool by its name", Filter{Pools: []string{"10.1.0.0-24"}}, "10.1.0.1 Malformed"},
		{"a pool by namespace and name", Filter{Pools: []string{"kube-system/10.0.0.0-24"}},
			"10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.9 Phantom"},
		{"a pool of another namespace", Filter{Pools: []string{"other/10.0.0.0-24"}}, ""},
		{"pods of a namespace", Filter{PodNamespaces: []string{"prod"}}, "10.0.0.6 10.0.0.7"},
		{"a node", Filter{Nodes: []string{"worker-2"}}, "10.0.0.6 10.0.0.9 Phantom"},
		{"a verdict", Filter{Verdicts: []judge.Verdict{judge.Stale}}, "10.0.0.5 10.0.0.9"},
		{"a reason", Filter{Reasons: []string{"PhantomPod"}}, "10.0.0.6"},
		{"a finding", Filter{Reasons: []string{"Phantom"}}, "Phantom"},
		{"a word that is a reason and a finding", Filter{Reasons: []string{"Malformed"}}, "10.1.0.1 Malformed"},
		{"two of one kind are alternatives", Filter{Verdicts: []judge.Verdict{judge.Stale, judge.InUse}},
			"10.0.0.5 10.0.0.7 10.0.0.9"},
		{"two kinds must both hold", Filter{Verdicts: []judge.Verdict{judge.Held}, PodNamespaces: []string{"prod"}},
			"10.0.0.6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ofCheck(t, c.f).Full()
			var got []string
			for _, row := range r.Allocations {
				got = append(got, row.IP)
			}
			for _, row := range r.Reservations {
				got = append(got, row.IP)
			}
			for _, f := range r.Findings {
				got = append(got, string(f.Kind))
			}
			want := strings.Fields(c.want)
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestFilter_UnknownWords(t *testing.T) {
	for _, c := range []struct{ verdict, reason, failOn, want string }{
		{"gone", "", "", `--verdict "gone": must be one of InUse, Held, Stale`},
		{"", "Gone", "", `--reason "Gone": must be a reason (`},
		{"", "", "Konflikt", `--fail-on "Konflikt": did you mean Conflict?`},
		{"", "", "everything", `--fail-on "everything": must be none, or of `},
		{"stael", "", "", `--verdict "stael": did you mean Stale?`},
	} {
		words := func(text string) []string { return strings.Fields(text) }
		err := (&Filter{Reasons: words(c.reason)}).Parse(nil, words(c.verdict))
		if err == nil {
			_, err = NewFailOn(words(c.failOn))
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	f := Filter{Reasons: []string{"podgone", "CONFLICT"}}
	if err := f.Parse(nil, []string{"stale"}); err != nil ||
		f.Verdicts[0] != judge.Stale || !slices.Equal(f.Reasons, []string{"PodGone", "Conflict"}) {
		t.Errorf("in any case: %+v, %v", f, err)
	}
}

func TestFilter_FindingsOfANode(t *testing.T) {
	onNode := func(node string, parts ...Part) (kinds []string) {
		j := Judged(Observe(parts...), facts.Policy{})
		r := Pick(PlannedResult(&reconciler.Result{Assessment: j}, &plan.Plan{}), Filter{Nodes: []string{node}})
		for _, f := range r.Findings {
			kinds = append(kinds, string(f.Kind))
		}
		return kinds
	}
	wb := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	pods := []Part{wb, Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("1", "default/web-1", "box-1", "net1")),
		Pod("web-1", OnNode("worker-1"), Carrying("10.0.0.1")), Pod("web-3", OnNode("worker-3"), Carrying("10.0.0.1"))}
	sandbox := func(id string) ReportEdit { return Sandbox(id, "uid-"+id, OfPod(id), WithAddress("10.0.0.1", "")) }
	sandboxes := []Part{wb, Pool("10.0.0.0-24", "10.0.0.0/24"), FreshReport("worker-1", sandbox("box-1")),
		FreshReport("worker-3", sandbox("box-3"))}
	for _, c := range []struct {
		node  string
		parts []Part
		want  bool
	}{
		{"worker-1", pods, true}, {"worker-3", pods, true}, {"worker-2", pods, false}, {"nope", pods, false},
		{"worker-1", sandboxes, true}, {"worker-3", sandboxes, true}, {"worker-2", sandboxes, false},
	} {
		if got := slices.Contains(onNode(c.node, c.parts...), "Conflict"); got != c.want {
			t.Errorf("%s has the Conflict: %v, want %v", c.node, got, c.want)
		}
	}
}
