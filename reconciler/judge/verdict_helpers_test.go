package judge_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// expectVerdict is Expect where the rules define the verdict only, and not the state
// of the sandbox.
func expectVerdict(t *testing.T, want decision, parts ...Part) {
	t.Helper()
	it := AllocationOf(t, Judged(Observe(parts...), judge.Policy{}), "10.0.0.5")
	if got := (decision{it.Verdict, it.Reason, it.Proven}); got != want {
		t.Errorf("got  %v\nwant %v\nit says: %s", got, want, it.Message())
	}
}

// expectKept wants the usual allocation in use or held, whatever the reason.
func expectKept(t *testing.T, parts ...Part) {
	t.Helper()
	if it := AllocationOf(t, Judged(Observe(parts...), judge.Policy{}), "10.0.0.5"); it.Verdict == judge.Stale {
		t.Errorf("%v\nit says: %s", OutcomeOf(it), it.Message())
	}
}

// afterPassesOver has earlier passes over the same things, every ten minutes from so long
// ago on.
func afterPassesOver(ago time.Duration, parts ...Part) Part {
	return func(o *Observed) {
		h := reconciler.NewHistory()
		o.Past = h
		for ; ago > 0; ago -= 10 * time.Minute {
			before := Observe(append([]Part{At(Now.Add(-ago))}, parts...)...)
			before.Past = h
			h.Remember(Judged(before, judge.Policy{}))
		}
	}
}
