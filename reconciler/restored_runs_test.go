package reconciler

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// busy are Leases that others hold.
type busy struct{}

func (busy) Hold(context.Context, string, []string, apply.Work) error { return apply.ErrLeaseBusy }

func (busy) Recreate(context.Context, *ippool.Reservation, time.Duration) error { return nil }

// An agent noted a restore of etcd days ago. RBAC forbids the store, which the operator accepts. Each run is a process
// of its own, and the agent renews its Lease every 20 s.
func TestRestore_RunsWithoutAStore(t *testing.T) {
	after, version := time.Duration(0), 100
	for run := range 4 {
		p := newProcess(t, atOnce)
		p.Leases, p.WithoutRestoreStore = busy{}, true
		p.RestoreStore = &memoryStore{err: fmt.Errorf("%w: denied", apply.ErrForbidden)}
		clock := p.Clock.(*clocktesting.FakeClock)
		later := func(d time.Duration) {
			after, version = after+d, version+int(d/(20*time.Second))
			p.next = Observe(At(Now.Add(after)), leakReported(-day, after))
			p.next.Reports.Or(nil)[0].LeaseVersion = strconv.Itoa(version)
			clock.SetTime(p.next.Now)
		}
		later(10 * minute)
		ended := make(chan *Result)
		go func() {
			out, err := p.Run(t.Context())
			if err != nil {
				t.Error(err)
			}
			ended <- out
		}()
		var out *Result
		for out == nil {
			select {
			case out = <-ended:
			case <-time.After(time.Millisecond):
				if clock.HasWaiters() {
					later(minute)
				}
			}
		}
		for _, x := range out.Refused {
			if x.Why == plan.EtcdRestored {
				t.Errorf("run %d: %s", run, x.Detail)
			}
		}
	}
}
