package reconciler

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A pool of 6 addresses is used by two nodes, of which one runs four pods that the API has bound
// there, and a restore has lost the entries: an entry that is withheld is an address that the next
// ADD hands out again.
func TestWhatTheAPIConfirmsIsWrittenBackInSmallPools(t *testing.T) {
	for _, c := range []struct{ pods, addresses, withheld int }{{4, 1, 0}, {6, 1, 0}, {1, 6, 3}, {2, 3, 2}} {
		p := newProcess(t, Options{Repair: true})
		parts := []Part{Pool("10.0.0.0-29", "10.0.0.0/29"), NAD("wb", WhereaboutsConfig("10.0.0.0/29", "")), Node("worker-1"), Node("worker-2"), FreshReport("worker-2")}
		var sandboxes []ReportEdit
		ip := 0
		for i := range c.pods {
			name, uid := fmt.Sprint("web-", i), fmt.Sprint("uid-", i)
			parts = append(parts, Pod(name, UID(uid), NoNetworkStatus))
			sandboxes = append(sandboxes, Sandbox("box-"+name, uid, OfPod(name), func(b *v1alpha1.Sandbox) {
				for n := range c.addresses {
					ip++
					b.Addresses = append(b.Addresses, v1alpha1.Address{IP: fmt.Sprint("10.0.0.", ip), IfName: fmt.Sprint("net", n), Network: "wb", Range: "10.0.0.0/29"})
				}
			}))
		}
		parts = append(parts, FreshReport("worker-1", sandboxes...), func(o *Observed) { o.Fenced = o.Now.Add(-30 * time.Second) })
		plan := p.History.planRepairs(Judged(Observe(parts...), p.Options.Policy), p.Options)
		if len(plan.withheld) != c.withheld || len(plan.due) != ip-c.withheld {
			t.Errorf("%d pods with %d addresses: %d due, %d withheld, want %d withheld", c.pods, c.addresses, len(plan.due), len(plan.withheld), c.withheld)
		}
	}
}
