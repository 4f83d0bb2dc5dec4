package informers

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// A report that cannot be read, and still cannot, is no news because its agent renews its Lease.
func TestTheLeaseOfAReportThatCannotBeReadIsNotEverything(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.session.view
	r := aReport("23")
	r.Object["sandboxes"] = "nonsense"
	b.watchEvent("sandboxreports", r)
	v.observe(&judge.Observation{})
	b.watchEvent("leases", aLease("24", "worker-1", "abc", 0))
	b.watchEvent("pods", aPod("web", "25"))
	equal(t, "a pod, and a Lease that was renewed", fmt.Sprint(told(v.changesSince())), "[pod web]")
}

// What a pass says of a node is what the changes since say, too.
func TestChangesSayWhenALeaseDoesNotFollowItsReport(t *testing.T) {
	v := newAgentOnly()
	v.writesLease(v.reports("box-1", "1"), "2")
	v.reports("box-2", "3")
	o := v.observe(&judge.Observation{}) // box-1, fresh
	known := o.Reports[0]
	v.time = v.time.Add(leaseDelay + time.Second)
	if r := v.changesSince().Reports["worker-1"]; r != nil {
		known = r
	}
	all := v.observe(&judge.Observation{}).Reports[0]
	if known.Sandboxes[0].ID != all.Sandboxes[0].ID || known.Fresh(v.time) != all.Fresh(v.time) {
		t.Errorf("followed: sandbox %s, fresh %v; a cache pass: %s, %v", known.Sandboxes[0].ID, known.Fresh(v.time), all.Sandboxes[0].ID, all.Fresh(v.time))
	}
}
