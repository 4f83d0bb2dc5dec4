package view

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

func TestFailOn_Check(t *testing.T) {
	for _, c := range []struct {
		words string
		f     Filter
		want  bool
	}{
		{"", Filter{}, true},
		{"", Filter{Pools: []string{"none"}}, false},
		{"", Filter{Reasons: []string{"Malformed"}}, true},
		{"none", Filter{}, false},
		{"Conflict,Unrecorded", Filter{}, false},
		{"Conflict,phantom", Filter{}, true},
		{"stale", Filter{}, true},
		{"stale", Filter{PodNamespaces: []string{"prod"}}, false},
		{"Held", Filter{PodNamespaces: []string{"prod"}}, true},
		{"PodFinished", Filter{}, false},
		{"Malformed", Filter{}, true},
	} {
		on, err := NewFailOn(strings.FieldsFunc(c.words, func(r rune) bool { return r == ',' }))
		check(t, err)
		if got := on.Fails(ofCheck(t, c.f)); got != c.want {
			t.Errorf("--fail-on %q, %+v: %v, want %v", c.words, c.f, got, c.want)
		}
	}
}

// That nothing is found is not all-clear while it cannot be known.
func TestFailOn_UnknownFindings(t *testing.T) {
	o := Observe(UsualPool, UsualPod(Carrying("10.0.0.5")))
	o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("forbidden"))
	j := Judged(o, facts.Policy{})
	for _, c := range []struct {
		words []string
		f     Filter
		want  bool
	}{
		{nil, Filter{}, true},
		{nil, Filter{Verdicts: []judge.Verdict{judge.Stale}}, false},
		{nil, Filter{Reasons: []string{"Phantom"}}, false},
		{[]string{"none"}, Filter{}, false},
		{[]string{"Conflict"}, Filter{}, true},
		{[]string{"Phantom", "Stale"}, Filter{}, false},
	} {
		on, err := NewFailOn(c.words)
		check(t, err)
		out := &reconciler.Result{Assessment: j}
		if got := on.Fails(NewCheckReport(PlannedResult(out, &plan.Plan{}), c.f)); got != c.want {
			t.Errorf("--fail-on %q, %+v: %v, want %v", c.words, c.f, got, c.want)
		}
	}
}

// With --fail-on a run that only has to wait does not fail, for example that of a CronJob.
func TestFailOn_Run(t *testing.T) {
	j := several()
	for _, c := range []struct {
		words []string
		why   plan.Refusal
		want  bool
	}{
		{nil, plan.AwaitingConfirmation, true},
		{[]string{"Breaker", "writefailed"}, plan.AwaitingConfirmation, false},
		{[]string{"Breaker", "writefailed"}, plan.WriteFailed, true},
		{[]string{"Breaker", "writefailed"}, plan.Breaker, true},
		{[]string{"Breaker", "writefailed"}, plan.Paused, false},
	} {
		on, err := NewFailOn(c.words)
		check(t, err)
		refused := plan.Refused{Item: j.Allocations[0], Gate: plan.Gate{Why: c.why}}
		out := &reconciler.Result{Assessment: j, Refused: []plan.Refused{refused}}
		if got := on.FailsRun(NewRunReport(out, false, Filter{})); got != c.want {
			t.Errorf("--fail-on %q, refused for %s: %v, want %v", c.words, c.why, got, c.want)
		}
	}
}

// What is refused counts also without a Stale item: a repair, and a gate against everything or a pool.
func TestFailOn_RefusalsWithoutItems(t *testing.T) {
	j := Judged(Observe(UsualPool, UsualPod(Carrying("10.0.0.5"))), facts.Policy{})
	unrepaired := []plan.Unrepaired{{Why: plan.Breaker}}
	restored := []plan.Gate{{Why: plan.EtcdRestored}}
	for _, c := range []struct {
		word string
		out  reconciler.Result
		want bool
	}{
		{"Breaker", reconciler.Result{}, false},
		{"Breaker", reconciler.Result{Unrepaired: unrepaired}, true},
		{"WriteFailed", reconciler.Result{Unrepaired: unrepaired}, false},
		{"EtcdRestored", reconciler.Result{CommonGates: restored}, true},
		{"NoLease", reconciler.Result{CommonGates: restored}, false},
		{"none", reconciler.Result{CommonGates: restored, Unrepaired: unrepaired}, false},
	} {
		on, err := NewFailOn([]string{c.word})
		check(t, err)
		if c.out.Assessment = j; on.FailsRun(NewRunReport(&c.out, false, Filter{})) != c.want {
			t.Errorf("--fail-on %s, %v, %v: want %v", c.word, c.out.CommonGates, c.out.Unrepaired, c.want)
		}
	}
}

// An item fails the command by the refusal that the output has.
func TestFailOn_WaitingItemThatTheBreakerWouldRefuse(t *testing.T) {
	j := several()
	x := plan.Refused{
		Item: j.Allocations[0],
		Gate: plan.Gate{Why: plan.AwaitingConfirmation, At: j.Observation.Now},
		Also: []plan.Gate{{Why: plan.Breaker}},
	}
	r := NewCheckReport(PlannedResult(&reconciler.Result{Assessment: j}, &plan.Plan{Refused: []plan.Refused{x}}), Filter{})
	for word, want := range map[string]bool{"Breaker": true, "AwaitingConfirmation": false, "Paused": false} {
		on, err := NewFailOn([]string{word})
		check(t, err)
		if got := on.Fails(r); got != want {
			t.Errorf("--fail-on %s: %v, want %v", word, got, want)
		}
	}
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
