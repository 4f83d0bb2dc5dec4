package judge_test

import (
	"fmt"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// An agent that lies may write as much as the API server takes, some 90,000 addresses. That
// costs no more than its size: some 3 KB for each that is one other's, and it holds.
func TestAReportThatIsTwiceAsLargeCostsTwiceAsMuch(t *testing.T) {
	address := map[string]func(n int) string{
		"all of one address":    func(int) string { return "10.0.0.5" },
		"each of another":       func(n int) string { return fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255) },
		"none that can be read": func(n int) string { return fmt.Sprint("no address ", n) },
	}
	for says, address := range address {
		t.Run(says, func(t *testing.T) {
			cost := func(sandboxes int) uint64 {
				large := func(r *podstate.Report) {
					for i := range sandboxes {
						var many []SandboxEdit
						for k := range 64 {
							many = append(many, WithAddress(address(i*64+k), ""))
						}
						Sandbox(fmt.Sprint("box-of-worker-2-", i), "uid-9", many...)(r)
					}
				}
				o := Observe(Pool("10.0.0.0-8", "10.0.0.0/8", UsualAllocation), Node("worker-1"), Node("worker-2"),
					FreshReport("worker-1", Gone("box-1", UsualUID)), FreshReport("worker-2", large))
				bytes, _ := allocated(func() { Judged(o, judge.Policy{}) })
				return bytes
			}
			small, twice := cost(300), cost(600)
			if twice > small*5/2 || twice > 600*64*4096 {
				t.Errorf("%d bytes, and %d for twice as large a report", small, twice)
			}
		})
	}
}
