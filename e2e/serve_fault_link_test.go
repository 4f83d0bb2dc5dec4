//go:build slow

package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

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

func TestServe_WatchesFail(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")

	s.play(t, "again and again, while pods and pools change", func(t *testing.T) {
		l, kubeconfig := s.link(t)
		v := s.serve(t, kubeconfig)
		keep := s.up(t, "worker-1", "keep", blue)
		one.writeReport(t, keep.listed("Ready"))
		v.inUse(t, 1)
		before := s.contents(t)
		cuts := 0
		for i := range 8 {
			p := s.up(t, "worker-1", fmt.Sprint("web-", i), blue)
			cuts += l.cut(anyWatch)
			one.writeReport(t, keep.listed("Ready"), p.listed("Ready"))
			cuts += l.cut(watchOf("pods", "sandboxreports"))
			p.forceDelete(t)
			one.writeReport(t, keep.listed("Ready"), p.stopped())
			cuts += l.cut(watchOf("ippools"))
			s.waitReleased(t, recovery, "10.1.0.0-24", "2")
		}
		if cuts < 40 {
			t.Errorf("only %d watches were cut", cuts)
		}
		s.checkReleased(t, before)
		v.is(t, `ip_reconcile_candidates`, 0)
		equal(t, "caches that were rebuilt", v.metric(`ip_reconcile_cache_rebuilds_total`), 0.0)
	})

	// A pass reads only from the caches what is not about the owner.
	s.play(t, "and stay closed while leaks turn out to be none", func(t *testing.T) {
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
	})

}

// TestServe_SilentWatches is without agents, so that only the API shows that a pod came back.
func TestServe_SilentWatches(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1").withRaceDetector()

	s.play(t, "while a leak's pod comes back, which the check under the Lease sees", func(t *testing.T) {
		l, kubeconfig := s.link(t)
		v := s.serve(t, kubeconfig, "--confirm-after", "30s") // time for the pod to come back
		back := s.up(t, "worker-1", "back", blue).leak(t)
		v.is(t, `ip_reconcile_candidates`, 1)
		l.suffers(faults{hold: watchOf("pods")})
		again := s.pending(t, "worker-1", "back", blue)
		equal(t, "the address of the pod that came back", again.ips, back.ips)
		before := s.contents(t)
		v.said(t, "Not released: no longer Stale at the second check.*"+again.sandbox.ID)
		s.checkReleased(t, before)
	})

	s.play(t, "until a full pass finds it", func(t *testing.T) {
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
	})
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
