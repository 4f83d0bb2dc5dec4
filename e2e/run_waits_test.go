//go:build slow

package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

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
