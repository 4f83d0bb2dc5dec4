package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func TestRun_ReleasedFromADeletedPool(t *testing.T) {
	for _, left := range [][]Part{{Pool("10.1.0.0-24", "10.1.0.0/24")}, nil} {
		released := Judged(Observe(UsualPool, Pod("bystander")), facts.Policy{}).Allocations
		last := Judged(Observe(append(left, Pod("bystander"))...), facts.Policy{})
		last.Allocations = released // as a run does that an earlier pass of which released them
		d := view.NewRunReport(&reconciler.Result{Assessment: last, Released: released}, false, view.Filter{})
		if len(d.Pools) != len(left) || len(d.Pools) == 1 && d.Pools[0].Allocations != 0 || len(d.Released) != 1 {
			t.Errorf("pools %+v, released %d", d.Pools, len(d.Released))
		}
	}
}

// Every document of a judgement names the sources that are unknown.
func TestUnknownSources(t *testing.T) {
	o := Observe(UsualPool, UsualPod(Carrying("10.0.0.5")))
	o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("list network-attachment-definitions: 403"))
	out := &reconciler.Result{Assessment: Judged(o, facts.Policy{})}
	for _, d := range []view.Document{view.NewCheckReport(out, view.Filter{}),
		view.NewRunReport(out, false, view.Filter{}),
		view.NewPoolsReport(out, usage.Of(out.Assessment)), &view.Plan{Limits: view.NewLimits(out)}} {
		var text bytes.Buffer
		var read view.Limits
		if err := errors.Join(view.Write(&text, "json", d), json.Unmarshal(text.Bytes(), &read)); err != nil {
			t.Fatal(err)
		}
		if len(read.Unknown) != 1 || read.Unknown[0].Source != facts.SourceDefinitions ||
			read.Unknown[0].Why != o.NADs.Why() || read.Unknown[0].Costs == "" ||
			!slices.Contains(read.Unknown[0].Findings, findings.Conflict) || len(read.Notes) < 2 {
			t.Errorf("%T: unknown %+v, notes %q", d, read.Unknown, read.Notes)
		}
	}
}

func TestCheck_SummaryOfFilteredPools(t *testing.T) {
	j := Judged(Observe(UsualPool, Pool("10.1.0.0-24", "10.1.0.0/24"), Pod("bystander")), facts.Policy{})
	d := view.NewCheckReport(&reconciler.Result{Assessment: j}, view.Filter{Pools: []string{"10.1.0.0-24"}})
	if d.Summary.Pools != 1 || len(d.Pools) != 1 || d.Summary.Allocations != 0 {
		t.Errorf("%+v of %+v", d.Summary, d.Pools)
	}
}

// A restore is in the summary for as long as releases wait for it, and what was not repaired keeps its JSON names.
func TestRun_JSONOfARestoreAndOfWhatWasNotRepaired(t *testing.T) {
	j := Judged(Observe(UsualPool, Pod("bystander")), facts.Policy{})
	f := findings.Finding{Kind: findings.Unrecorded, IP: "10.0.0.9", Pool: "kube-system/10.0.0.0-24", Message: "carried"}
	out := &reconciler.Result{Assessment: j,
		Unrepaired: []plan.Unrepaired{{Finding: f, Why: plan.Breaker, Detail: "too many"}}}
	for awaiting, want := range map[string]int{"worker-2": 1, "": 0} {
		out.Restore = &restore.Status{Restored: Now, Why: "resourceVersion 90 after 100"}
		if awaiting != "" {
			out.Restore.Awaiting = []string{awaiting}
		}
		var text bytes.Buffer
		err := view.Write(&text, "json", view.NewRunReport(out, false, view.Filter{}))
		var read struct {
			Summary     struct{ Restore *struct{ Awaiting []string } }
			NotRepaired []struct{ Kind, IP, Refusal, Detail string }
		}
		if err = errors.Join(err, json.Unmarshal(text.Bytes(), &read)); err != nil {
			t.Fatal(err)
		}
		if n := read.NotRepaired; len(n) != 1 || n[0].IP != "10.0.0.9" || n[0].Refusal != "Breaker" ||
			n[0].Detail != "too many" {
			t.Errorf("not repaired: %+v", n)
		}
		if r := read.Summary.Restore; (r != nil) != (want == 1) || r != nil && !slices.Equal(r.Awaiting, []string{awaiting}) {
			t.Errorf("awaiting %q: the summary has %+v", awaiting, r)
		}
	}
}
