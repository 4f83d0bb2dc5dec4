//go:build slow

package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// withoutSecondCheck is the product with a mutant of internal/mutants: it reads nothing live before a release.
var withoutSecondCheck = build(sync.OnceValues(func() (string, error) {
	scratch, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(scratch)
	write := exec.Command("go", "run", "./internal/mutants", "-run", "^Nothing is read live under the Lease$", "-overlay",
		scratch)
	write.Dir = ".."
	overlay, err := write.Output()
	if err != nil {
		return "", err
	}
	return harness.BuildProduct("without-second-check", "-overlay="+strings.TrimSpace(string(overlay)))
}))

// TestFaults_WatchesOfPodsLag lets the product know no pod that starts, so that only the second check keeps it from
// releasing their addresses. Without the second check the trial must find that: in full, since its build takes long.
func TestFaults_WatchesOfPodsLag(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		programs build
		isWrong  bool
	}{"with the second check": {raced, false}, "without it": {withoutSecondCheck, true}} {
		if c.isWrong && !*full {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "worker-1", "worker-2")
			s.programs = c.programs
			r := newFaultTrial(t, s, false, theNames(blue))
			l, kubeconfig := s.link(t)
			v := s.serve(t, kubeconfig, "--confirm-after", "0s")
			l.suffers(faults{hold: watchOf("pods")})
			rest := r.traffic(t, 5, 4)
			eventuallyWithin(t, 5*time.Minute, "ADDs", func() bool { return r.adds.Load() >= 12 })
			rest() // two pods stay
			if !c.isWrong {
				v.said(t, "Not released: no longer Stale at the second check")
				l.suffers(faults{})
				left := r.settle(t)
				v.stop(t)
				t.Logf("faults: watches of pods that deliver nothing, %s", r.verdict(t, left))
				return
			}
			eventually(t, "an address in use to be released", func() bool {
				left, err := r.leaks(t.Context(), r.of(harness.IPPools), r.of(harness.Reservations))
				return err == nil && strings.Contains(strings.Join(left, "\n"), "missing: entry")
			})
			v.stop(t)
			check(t, r.pools.catchUp(t.Context()))
			count, found := r.checkOperations(try(r.AuditLog().Next()).must(t), nil)
			if len(found) == 0 {
				t.Errorf("%d operations are in order, although an address in use was released", count)
			}
			for _, err := range found {
				t.Logf("found: %v", err)
			}
		})
	}
}

// TestFaults_EtcdFullDuringARelease raises the alarm after the reservation is deleted and before
// the allocation is: then neither the allocation can be removed nor the reservation created again.
func TestFaults_EtcdFullDuringARelease(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2").withRaceDetector()
	check(t, s.CreateNAD(t.Context(), blue))
	live, web, lost := s.up(t, "worker-1", "live", blue), s.up(t, "worker-1", "web", blue).leak(t),
		s.up(t, "worker-2", "lost", blue).leak(t)
	before := s.contents(t)
	full := sync.OnceFunc(func() {
		s.etcd(t, "maintenance/alarm", map[string]any{"action": "ACTIVATE",
			"alarm": "NOSPACE"})
	})
	through := s.onRequest(t, func(r *http.Request) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/ippools/") {
			full()
		}
	})
	out := s.productAs(t, through, "run", "--confirm-after", "0")
	out.exits(t, 1)
	equal(t, "failed", places(out.Failed), at(web)+", "+at(lost))
	contains(t, "what is said", out.judged(at(web)).Message, "database space exceeded")
	s.checkReleased(t, before, stored(web)[1], stored(lost)[1])
	s.etcdHasRoom(t)

	web = s.up(t, "worker-2", "web", blue) // it takes its allocation over and creates its reservation
	s.isWhole(t, s.contents(t), live, web)
	s.run(t).exits(t, 0)
	after := s.contents(t)
	s.isWhole(t, after, live, web)
	equal(t, "entries and reservations", len(after), 4)
	s.sums(t, "etcd full between reservation and entry, 4 ADDs")
}

// etcdHasRoom disarms the alarm, as an operator does when etcd has room again.
func (s *stage) etcdHasRoom(t testing.TB) {
	t.Helper()
	var raised struct{ Alarms []map[string]any }
	check(t, json.Unmarshal(s.etcd(t, "maintenance/alarm", map[string]any{"action": "GET"}), &raised))
	for _, alarm := range raised.Alarms {
		s.etcd(t, "maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": alarm["memberID"],
			"alarm": alarm["alarm"]})
	}
}

func TestRun_APIServerStopsWhileItWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1").withRaceDetector()
	leaked, live := s.up(t, "worker-1", "leaked", blue).leak(t), s.up(t, "worker-1", "live", blue)
	before := s.contents(t)
	// The pause is long enough for a second run to begin in it.
	begun := func(t *testing.T) *command {
		return s.beginProduct(t, "run", "--confirm-after", "30s", "--request-timeout", "2s", "-o", "json",
			"--kubeconfig", s.Kubeconfig())
	}

	blind := func(t *testing.T, c *command) {
		eventually(t, "the run to miss it", func() bool {
			return strings.Contains(c.stderr.String(), "Could not read the cluster again")
		})
	}
	// An interrupted run prints what it found, and that it released nothing.
	interrupted := func(t *testing.T, c *command) {
		check(t, c.cmd.Process.Signal(os.Interrupt))
		out := c.wait()
		out.exits(t, 1)
		out.expect(t, at(leaked), "Stale PodGone", at(live), "InUse AddressOnPod")
		equal(t, "released", places(out.Released), "")
		equal(t, "failed", places(out.Failed), at(leaked))
	}

	t.Run("with its etcd only", func(t *testing.T) {
		c := begun(t)
		c.waits(t)
		s.StopEtcd()
		blind(t, c)
		interrupted(t, c)
		check(t, s.StartEtcd())
		// An API server that was without etcd for long reconnects rarely: a new one does at once.
		s.StopAPI()
		check(t, s.StartAPI(t.Context()))
		s.checkReleased(t, before)
	})

	t.Run("is waited for, and what it has when it is back counts", func(t *testing.T) {
		patient, impatient := begun(t), begun(t)
		patient.waits(t)
		impatient.waits(t)
		s.StopAPI()
		blind(t, patient)
		contains(t, "the warning", patient.stderr.String(), "is unreachable", "connection refused")
		blind(t, impatient)
		interrupted(t, impatient)
		check(t, s.StartAPI(t.Context()))
		s.checkReleased(t, before)
		// A pod that is created before the next pass takes an address that was free at the last.
		came := s.up(t, "worker-1", "came", blue)
		during := s.contents(t)
		out := patient.wait()
		out.exits(t, 0)
		out.expect(t, at(leaked), "Stale PodGone", at(live), "InUse AddressOnPod", at(came), "InUse AddressOnPod")
		s.checkReleased(t, during, stored(leaked)...)
	})
}

// TestRepair_RecreatesADeletedPool deletes a pool, as is advised where a range is full. whereabouts' next
// ADD would create it empty and assign addresses in use.
func TestRepair_RecreatesADeletedPool(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), blue))
	pods := []*pod{s.up(t, "worker-1", "web-0", blue).age(t, 10*time.Minute), s.up(t, "worker-1", "web-1", blue).age(t,
		10*time.Minute)}
	s.agent(t, "worker-1").writeReport(t, pods[0].listed(v1alpha1.SandboxReady), pods[1].listed(v1alpha1.SandboxReady))
	before, whole := s.contents(t), try(s.of(harness.IPPools).Get(t.Context(), "10.1.0.0-24", metav1.GetOptions{})).must(t)

	check(t, s.of(harness.IPPools).Delete(t.Context(), "10.1.0.0-24", metav1.DeleteOptions{}))
	found := s.product(t, "check").found("Unrecorded")
	if equal(t, "unrecorded", len(found), 2); len(found) > 0 {
		contains(t, "it says", found[0].Message, "pool kube-system/10.1.0.0-24 does not exist")
	}
	out := s.run(t, "--repair")
	out.exits(t, 0)
	s.checkReleased(t, before)
	again := try(s.of(harness.IPPools).Get(t.Context(), "10.1.0.0-24", metav1.GetOptions{})).must(t)
	equal(t, "its range", again.Object["spec"].(map[string]any)["range"], whole.Object["spec"].(map[string]any)["range"])

	next := s.up(t, "worker-1", "web-2", blue)
	equal(t, "what the next ADD gives", strings.Join(next.ips, ","), "10.1.0.3")
	for _, p := range pods {
		p.del(t)
	}
	equal(t, "entries and reservations after their DELs", len(s.contents(t)), 2)
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

func longest(sorted []time.Duration) time.Duration { return sorted[len(sorted)-1] }
