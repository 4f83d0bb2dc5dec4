package reconciler

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func TestAFollowedChangeDoesNotConfirmWhatAnotherPassContradicted(t *testing.T) {
	h := NewHistory()
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-1", "box-1", "net1"), Alloc("6", "default/web-2", "box-2", "net1"))
	web := Pod("web-1", CarryingOn("default/wb", "net1", "10.0.0.5"))
	name := types.NamespacedName{Namespace: "default", Name: "web-1"}
	carries := Observe(pool, web).Pods[name]
	o := Observe(pool)
	o.Past = h
	j := Judged(o, judge.Policy{})
	h.Remember(j)
	seen := func(p *podstate.Pod, after time.Duration) *judge.Judgement {
		got := j.Follow(&judge.Live{Now: o.Now.Add(after), Pods: map[types.NamespacedName]*podstate.Pod{name: p}})
		h.noteItems(got)
		return got
	}
	seen(carries, time.Minute)
	gone := seen(nil, 2*time.Minute)
	if len(gone.Allocations) != 1 || gone.Allocations[0].Verdict != judge.Stale {
		t.Fatalf("judged %s", Describe(gone))
	}
	if at := h.confirmedAt(gone.Allocations[0], gone.Observation, 5*time.Minute); at.Before(o.Now.Add(7 * time.Minute)) {
		t.Errorf("confirmed after %s", at.Sub(o.Now))
	}
	if at := h.confirmedAt(j.Allocations[1], gone.Observation, 5*time.Minute); !at.Equal(o.Now.Add(5 * time.Minute)) {
		t.Errorf("what was not touched is confirmed after %s", at.Sub(o.Now))
	}
}
