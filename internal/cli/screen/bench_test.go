package screen

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// BenchmarkCheck tells of ten pools with 5,000 entries each, half of them Stale.
func BenchmarkCheck(b *testing.B) {
	parts := []Part{Node("worker-1")}
	var gone []ReportEdit
	for p := range 10 {
		var entries []Allocation
		for i := range 5000 {
			id := fmt.Sprintf("box-%d-%d", p, i)
			entries = append(entries, Alloc(fmt.Sprint(i+1), fmt.Sprintf("default/web-%d-%d", p, i), id, "net1"))
			if i%4 == 0 {
				gone = append(gone, Gone(id, "uid-1"))
			}
		}
		parts = append(parts, Pool(fmt.Sprintf("10.%d.0.0-16", p), fmt.Sprintf("10.%d.0.0/16", p), entries...))
	}
	j := Judged(Observe(append(parts, FreshReport("worker-1", gone...))...), judge.Policy{})
	r := &reconciler.Reconciler{Options: reconciler.Options{ConfirmAfter: 15 * time.Minute}, History: reconciler.NewHistory()}
	for b.Loop() {
		rep := report.OfCheck(j, r.Plan(b.Context(), j), report.Filter{})
		for _, wide := range []bool{false, true} {
			s := &Screen{Style: table.Style{Width: 160, Wide: wide}}
			s.Check(rep)
		}
		if _, err := json.Marshal(document.OfCheck(document.Header{}, rep)); err != nil {
			b.Fatal(err)
		}
	}
}
