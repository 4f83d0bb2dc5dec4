//go:build slow

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const works = "Started leading"

// replica starts a server that works only as the leader, and waits until it watches.
func (s *stage) replica(t testing.TB, kubeconfig string, more ...string) *server {
	t.Helper()
	v := s.beginServe(t, kubeconfig, append([]string{"--leader-elect"}, more...)...)
	v.said(t, "Watch caches are synced")
	return v
}

// logged is the time of the first line of a replica's log that matches.
func (v *server) logged(t testing.TB, pattern string) time.Time {
	t.Helper()
	v.said(t, pattern)
	line := regexp.MustCompile(`(?m)^time=(\S+) .*` + pattern).FindStringSubmatch(v.stderr.String())
	if line == nil {
		t.Fatalf("no line of the log has a time and %s", pattern)
	}
	return try(time.Parse(time.RFC3339Nano, line[1])).must(t)
}

// stands checks that a replica only stands by.
func (v *server) stands(t testing.TB) {
	t.Helper()
	if strings.Contains(v.stderr.String(), works) {
		t.Error("a replica that should stand by works")
	}
}

// goneBoxes are made-up ids of sandboxes that a runtime removed.
func goneBoxes(n int) (ids []string, report []any) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%064x", 0xdead0000+i))
		report = append(report, v1alpha1.Gone{ID: ids[i], UID: fmt.Sprint("uid-", i)})
	}
	return ids, report
}

func TestServe_OtherReplicaTakesOver(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")

	s.play(t, "within 20 s, when the first is killed in the middle of a release", func(t *testing.T) {
		const leaks = 120
		l, kubeconfig := s.link(t)
		ids, gone := goneBoxes(leaks)
		keep, too, silent := s.up(t, "worker-1", "keep", blue), s.up(t, "worker-1", "too", blue),
			s.up(t, "worker-1", "silent", blue)
		one.writeReport(t, keep.listed("Ready"), too.listed("Ready"))
		entries := map[string]any{}
		places := []string{}
		for i := range leaks {
			key, ip := fmt.Sprint(100+i), fmt.Sprint("10.1.0.", 100+i)
			entries[key] = entry(fmt.Sprint("default/gone-", i), ids[i])
			s.reservation(t, ip, fmt.Sprint("default/gone-", i), 0)
			places = append(places, "10.1.0.0-24 "+key, "reservation "+ip)
		}
		s.addEntries(t, "10.1.0.0-24", entries)
		silent.leak(t)
		first := s.replica(t, kubeconfig, "--confirm-after", "31s")
		first.passes(t, 1)
		second := s.replica(t, s.Kubeconfig(), "--confirm-after", "31s")
		second.stands(t)
		first.is(t, `ip_reconcile_candidates`, leaks+1)
		before := s.contents(t)

		// Reservations are deleted first; the patch of the pool does not get through.
		l.suffers(faults{delay: func(r *http.Request) time.Duration {
			if r.Method == http.MethodPatch {
				return time.Hour
			}
			return 0
		}})
		one.writeReport(t, append(gone, keep.listed("Ready"), too.listed("Ready"))...)
		eventually(t, "the release to have begun", func() bool { return len(l.written()) >= 1 })
		check(t, first.cmd.Process.Kill())
		killed := time.Now()
		second.said(t, works)
		if took := time.Since(killed); took > time.Minute {
			t.Errorf("the second works %s after the first was killed", took)
		}
		s.waitReleased(t, recovery, "10.1.0.0-24", "219")
		second.counts(t, `ip_reconcile_released_total{reason="PodGone"}`, leaks)
		s.checkReleased(t, before, places...)
		// The new leader waits for the confirmation again.
		s.waitReleased(t, 3*time.Minute, "10.1.0.0-24", "3")
		leads, released := second.logged(t, works), second.logged(t, `msg=Released .*podRef=default/silent `)
		if took := released.Sub(leads); took < 28*time.Second {
			t.Errorf("released %s after the second works, unconfirmed", took)
		}
		s.checkReleased(t, before, append(places, stored(silent)...)...)
		second.is(t, `ip_reconcile_candidates`, 0)
	})

	s.play(t, "at once, when the first is stopped", func(t *testing.T) {
		first := s.replica(t, s.Kubeconfig())
		first.passes(t, 1)
		second := s.replica(t, s.Kubeconfig())
		second.stands(t)
		leases, from := s.record(t, leasesResource), s.revision(t)
		check(t, first.cmd.Process.Signal(syscall.SIGTERM))
		first.wait().exits(t, 0)
		second.said(t, works)
		check(t, leases.catchUp(t.Context()))
		// The leader releases the Lease: nobody waits until it expires.
		holders := leases.holders("ip-reconcile", from)
		if len(holders) != 3 || holders[1] != "" {
			t.Errorf("the Lease of the leader was held by %q in turn", holders)
		}
		second.passes(t, 1)
		web := s.up(t, "worker-1", "web", blue)
		one.writeReport(t, web.stopped())
		web.forceDelete(t)
		s.waitReleased(t, promptly, "10.1.0.0-24", "1")
	})

	s.play(t, "after the first has ended, which could not renew and still could write", func(t *testing.T) {
		const leaks = 150 // one a second
		l, kubeconfig := s.link(t)
		m, other := s.link(t)
		ids, gone := goneBoxes(leaks)
		keep := s.up(t, "worker-1", "keep", blue)
		one.writeReport(t, append(gone, keep.listed("Ready"))...)
		first := s.replica(t, kubeconfig)
		first.passes(t, 1)
		second := s.replica(t, other)
		second.stands(t)
		l.suffers(just(http.StatusServiceUnavailable, func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/leases/ip-reconcile")
		}))
		cut := time.Now()
		ended := make(chan time.Time, 1)
		go func() {
			_ = first.cmd.Wait()
			ended <- time.Now()
		}()
		for i := 0; len(m.written()) == 0; i++ { // it always has work
			if i == leaks {
				t.Fatal("the second wrote nothing")
			}
			s.addEntries(t, "10.1.0.0-24", map[string]any{fmt.Sprint(100 + i): entry(fmt.Sprint("default/gone-", i), ids[i])})
			within(time.Second, 20*time.Millisecond, func() bool { return len(m.written()) > 0 })
		}
		end, writes := <-ended, l.written()
		if len(writes) == 0 || writes[len(writes)-1].Before(cut) {
			t.Errorf("the first wrote %d times, and not after it lost its Lease", len(writes))
		}
		for _, w := range writes {
			if w.After(end) {
				t.Errorf("the first wrote after its end")
			}
		}
		if begun := m.written()[0]; begun.Before(end) {
			t.Errorf("the second wrote %s before the end of the first", end.Sub(begun))
		} else {
			t.Logf("the second wrote %s after the end of the first, whose last write was %s before it", begun.Sub(end),
				end.Sub(writes[len(writes)-1]))
		}
		if code := first.cmd.ProcessState.ExitCode(); code <= 0 {
			t.Errorf("exit code %d", code)
		}
		contains(t, "the log", first.stderr.String(), "leader election lost")
		second.is(t, `ip_reconcile_candidates`, 0)
	})
}

// addEntries adds allocations to a pool, as ADDs do.
func (s *stage) addEntries(t testing.TB, pool string, entries map[string]any) {
	t.Helper()
	merge := try(json.Marshal(map[string]any{"spec": map[string]any{"allocations": entries}})).must(t)
	_, err := s.of(harness.IPPools).Patch(context.Background(), pool, types.MergePatchType, merge, metav1.PatchOptions{})
	check(t, err)
}
