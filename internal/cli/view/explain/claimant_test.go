package explain_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Who else carries the address of an allocation is known by its node, age and owner, and by its sandbox if a report has
// that.
func TestExplanation_Claimant(t *testing.T) {
	pool := All(NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")),
		Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/past", "box-7", "net1")))
	twin := Pod("twin", UID(OtherUID), OnNode("worker-2"), CreatedLongAgo, ownedBy("ReplicaSet", "web"))
	carrying := Pod("twin", UID(OtherUID), OnNode("worker-2"), CreatedLongAgo, ownedBy("ReplicaSet", "web"),
		Carrying("10.0.0.5"))
	reports := func(uid string) Part {
		return All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1"),
			FreshReport("worker-2", Sandbox("box-2", uid, OfPod("twin"), WithAddress("10.0.0.5", ""))))
	}
	for name, c := range map[string]struct {
		parts                 Part
		pod, container, owner string
		isInAPI               bool
	}{
		"a pod":                   {All(pool, carrying), "default/twin", "", "ReplicaSet/web", true},
		"a sandbox of a pod":      {All(pool, twin, reports(OtherUID)), "default/twin", "box-2", "ReplicaSet/web", true},
		"a sandbox of a past pod": {All(pool, twin, reports("uid-past")), "default/twin", "box-2", "", false},
	} {
		d := ask(t, "10.0.0.5", nil, c.parts)
		if len(d.Items) != 1 || d.Items[0].ClaimedBy == nil {
			t.Errorf("%s: no claimant is named: %+v", name, d.Items)
			continue
		}
		got := d.Items[0].ClaimedBy
		if got.Pod != c.pod || got.Node != "worker-2" || got.ContainerID != c.container || got.Owner != c.owner ||
			got.InAPI != c.isInAPI || got.Since == nil {
			t.Errorf("%s: the claimant is %+v", name, got)
		}
	}
	d := ask(t, "10.0.0.5", nil, All(pool, twin))
	if len(d.Items) != 1 || d.Items[0].ClaimedBy != nil {
		t.Errorf("nobody carries the address, and the claimant is %+v", d.Items)
	}
}

func TestConflicts_ThoseOfTheFirstFindings(t *testing.T) {
	parts := []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24")}
	for _, ip := range []string{"10.0.0.5", "10.0.0.6", "10.0.0.7"} {
		parts = append(parts, Pod("one-"+ip, UID("uid-one-"+ip), Carrying(ip)),
			Pod("two-"+ip, UID("uid-two-"+ip), Carrying(ip)))
	}
	j := Judged(Observe(parts...), facts.Policy{})
	n := len(j.Findings)
	all := explain.Conflicts(j, 2)
	if len(all) != 2 || all[0].IP != "10.0.0.5" || len(all[0].Carriers) != 2 ||
		all[0].Carriers[1].Pod != "default/two-10.0.0.5" {
		t.Errorf("the conflicts are %+v", all)
	}
	if len(j.Findings) != n {
		t.Errorf("the judgement has %d findings, and had %d", len(j.Findings), n)
	}
}
