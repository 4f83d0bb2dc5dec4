package document_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func TestRun_ReleasedFromADeletedPool(t *testing.T) {
	for _, left := range [][]Part{{Pool("10.1.0.0-24", "10.1.0.0/24")}, nil} {
		released := Judged(Observe(UsualPool, Pod("bystander")), judge.Policy{}).Allocations
		last := Judged(Observe(append(left, Pod("bystander"))...), judge.Policy{})
		last.Allocations = released // as a run does that an earlier pass of which released them
		d := document.OfRun(document.Header{}, report.OfRun(&reconciler.Result{Judgement: last, Released: released}, false,
			report.Filter{}))
		if len(d.Pools) != len(left) || len(d.Pools) == 1 && d.Pools[0].Allocations != 0 || len(d.Released) != 1 {
			t.Errorf("pools %+v, released %d", d.Pools, len(d.Released))
		}
	}
}

func TestCheck_SummaryOfFilteredPools(t *testing.T) {
	j := Judged(Observe(UsualPool, Pool("10.1.0.0-24", "10.1.0.0/24"), Pod("bystander")), judge.Policy{})
	d := document.OfCheck(document.Header{}, report.OfCheck(j, &reconciler.Plan{},
		report.Filter{Pools: []string{"10.1.0.0-24"}}))
	if d.Summary.Pools != 1 || len(d.Pools) != 1 || d.Summary.Allocations != 0 {
		t.Errorf("%+v of %+v", d.Summary, d.Pools)
	}
}
