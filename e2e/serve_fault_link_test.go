//go:build slow

package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var localPort = regexp.MustCompile(`:[0-9]+->`)

// repeatsNothing checks that no warning and no error was logged twice.
func (v *server) repeatsNothing(t testing.TB) {
	t.Helper()
	said := map[string]int{}
	for line := range strings.Lines(v.stderr.String()) {
		_, text, _ := strings.Cut(localPort.ReplaceAllString(line, ""), " ") // without the time
		if strings.HasPrefix(text, "level=WARN") || strings.HasPrefix(text, "level=ERROR") {
			said[text]++
		}
	}
	for text, n := range said {
		if n > 1 {
			t.Errorf("said %d times: %s", n, text)
		}
	}
}

// ofTheCaches are the watches of the caches, and the lists that replace a failed watch: those ask for no newer version
// than the last known.
func ofTheCaches(r *http.Request) bool { return anyWatch(r) || r.URL.Query().Has("resourceVersion") }

// TestServe_WatchesStayClosed has leaks that turn out to be none while no watch opens again: a pass reads only from
// the caches what is not about the owner.
func TestServe_WatchesStayClosed(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")
	l, kubeconfig := s.link(t)
	v := s.serve(t, kubeconfig, "--confirm-after", "30s")
	lost, back, claimed := s.up(t, "worker-1", "lost", blue), s.up(t, "worker-1", "back", blue),
		s.up(t, "worker-1", "claimed", blue)
	one.writeReport(t)
	for _, p := range []*pod{lost, back, claimed} {
		p.leak(t)
	}
	v.is(t, `ip_reconcile_candidates`, 3)
	l.suffers(just(http.StatusServiceUnavailable, ofTheCaches))
	l.cut(anyWatch)
	again := s.pending(t, "worker-1", "back", blue)
	equal(t, "the address of the pod that came back", again.ips, back.ips)
	one.writeReport(t, again.listed("Ready"))
	thief := s.bare(t, "worker-1", "thief")
	thief.status = claimed.status
	thief.running(t)
	before := s.contents(t)
	s.waitReleased(t, 2*time.Minute, "10.1.0.0-24", "1")
	s.checkReleased(t, before, stored(lost)...)
	v.is(t, `ip_reconcile_allocations{reason="ClaimedByOther",verdict="Held"}`, 1)
	v.inUse(t, 1)
	l.suffers(faults{})
	v.said(t, "Watch caches are verified again")
	s.checkReleased(t, before, stored(lost)...)
	v.repeatsNothing(t)
}

// TestServe_SilentWatches is without agents, so that only the API shows a pod. Until a full pass finds it, the second
// check keeps its address, as in TestFaults_WatchesOfPodsLag.
func TestServe_SilentWatches(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1").withRaceDetector()
	l, kubeconfig := s.link(t)
	v := s.serve(t, kubeconfig, "--confirm-after", "5s", "--cron", "@every 15s")
	l.suffers(faults{hold: watchOf("pods")})
	unseen := s.up(t, "worker-1", "unseen", blue)
	before := s.contents(t)
	v.counts(t, `ip_reconcile_cache_rebuilds_total`, 1)
	contains(t, "the event", s.event(t, "CacheRebuilt", "Namespace", metav1.NamespaceSystem),
		"differ from the API server",
		"pods default/unseen")
	v.said(t, `level=ERROR msg="Watch caches differ from the API server and are rebuilt" reason="pods default/unseen`)
	passes := v.metric(`ip_reconcile_passes_total`)
	v.passes(t, passes+1) // by then the caches alone would have released it
	s.checkReleased(t, before)
	l.suffers(faults{})
	v.said(t, "(?s)Watch caches are synced.*Watch caches are synced")
	unseen.leak(t)
	v.is(t, `ip_reconcile_candidates`, 1)
	equal(t, "caches that were rebuilt", v.metric(`ip_reconcile_cache_rebuilds_total`), 1.0)
	v.repeatsNothing(t)
}

func TestServe_MassRelease(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1").withRaceDetector()
	entries, leaks := map[string]any{}, []string{}
	for i := range 40 {
		key, name := fmt.Sprint(100+i), fmt.Sprint("gone-", i)
		if i >= 30 {
			name = fmt.Sprint("live-", i)
			s.bare(t, "worker-1", name)
		} else {
			leaks = append(leaks, "10.1.0.0-24 "+key)
		}
		entries[key] = entry("default/"+name, fmt.Sprintf("%064x", 0xdead0000+i))
	}
	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "4s")
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", entries)
	before := s.contents(t)
	v.counts(t, `ip_reconcile_refused_total{reason="Breaker"}`, 30)
	contains(t, "the event", s.event(t, "MassReleaseRefused", "Namespace", metav1.NamespaceSystem),
		"30 unconfirmed releases", "of 40 allocations", "--allow-mass-release")
	v.said(t, `level=ERROR msg="Refused a mass release" detail="30 unconfirmed`)
	v.is(t, `ip_reconcile_candidates`, 30)
	s.checkReleased(t, before)
	v.repeatsNothing(t)

	s.run(t, "--allow-mass-release").exits(t, 0)
	s.checkReleased(t, before, leaks...)
	v.is(t, `ip_reconcile_candidates`, 0)
	v.is(t, `ip_reconcile_released_total`, 0)
}

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
