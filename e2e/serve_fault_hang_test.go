//go:build slow

package e2e

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// TestServe_OnePoolHangs has a webhook that does not answer for one pool. Releases and ADDs of another pool go on, no
// hold of whereabouts' Lease lasts longer than 5 s, and the pool's leak is released after the end.
func TestServe_OnePoolHangs(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	one, green := s.agent(t, "worker-1"), simple("green", "10.2.0.0/24")
	v := s.serve(t, s.Kubeconfig())
	bad, good := s.up(t, "worker-1", "bad", blue), s.up(t, "worker-1", "good", green)
	one.writeReport(t, bad.listed("Ready"), good.listed("Ready"))
	inUse := `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`
	v.is(t, inUse, 2)
	before, leases := s.contents(t), s.record(t, leasesResource)
	allows, over := hanging()
	remove := s.webhook(t, 30, updates, allows, admissionregistrationv1.MatchCondition{
		Name: "one-pool", Expression: `request.name == "10.1.0.0-24"`})
	bad.leak(t)
	good.leak(t)
	one.writeReport(t, bad.stopped(), good.stopped())
	most := s.waitReleased(t, recovery, "10.2.0.0-24", "1")
	var slowest time.Duration
	for _, name := range []string{"next-1", "next-2", "next-3"} {
		began := time.Now()
		next := s.up(t, "worker-1", name, green)
		slowest = max(slowest, time.Since(began))
		one.writeReport(t, bad.stopped(), next.listed("Ready"))
		v.is(t, inUse, 1)
		next.leak(t)
		one.writeReport(t, bad.stopped(), next.stopped())
		most = max(most, s.waitReleased(t, recovery, "10.2.0.0-24", "1"))
	}
	v.said(t, `level=WARN msg="Not released" .*detail="the API server did not answer for 5s: patch IPPool kube-system`)
	if most > time.Minute || slowest > 30*time.Second {
		t.Errorf("of the other pool an ADD took %s, and a release %s", slowest, most)
	}
	equal(t, "the leak of the pool that hangs", s.contents(t)["10.1.0.0-24 1"], before["10.1.0.0-24 1"])
	remove()
	over()
	t.Logf("of another pool an ADD took at most %s and a release %s; of this one it came %s after the end. The "+
		"longest hold lasted %s", slowest, most, s.waitReleased(t, recovery, "10.1.0.0-24", "1"), leases.longestHold(t))
	s.checkReleased(t, before, append(stored(bad), "10.2.0.0-24 1", "reservation 10.2.0.1")...)
	if longest := leases.longestHold(t); longest > 6500*time.Millisecond { // 5 s, and the Lease itself expires after 1.5 s
		t.Errorf("a hold lasted %s", longest)
	}
}

// longestHold is how long the product held whereabouts' Lease at most, from its acquisition to the last renewal.
func (h *history) longestHold(t *testing.T) (longest time.Duration) {
	t.Helper()
	check(t, h.catchUp(t.Context()))
	for _, v := range h.during("whereabouts", 1, 1<<62) {
		if strings.HasPrefix(v.spec("holderIdentity"), "ip-reconcile/") {
			acquired := try(time.Parse(time.RFC3339Nano, v.spec("acquireTime"))).must(t)
			renewed := try(time.Parse(time.RFC3339Nano, v.spec("renewTime"))).must(t)
			longest = max(longest, renewed.Sub(acquired))
		}
	}
	return longest
}
