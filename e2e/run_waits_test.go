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

// TestARunWaitsForWhatIsUnconfirmed has one run over a leak, which ripens after
// --confirm-after, and a pod whose Node is gone, which takes 40 s at least.
func TestARunWaitsForWhatIsUnconfirmed(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	red := simple("red", "10.2.0.0/24")
	live := s.up(t, "worker-2", "live", blue)

	t.Run("and does not where nothing needs it", func(t *testing.T) {
		out := s.product(t, "run")
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 "+live.ips[0], "InUse AddressOnPod")
		containsNot(t, "the log", out.stderr, "waiting before the next pass")
	})

	leaked := s.up(t, "worker-2", "leaked", blue).leak(t)
	orphan := s.up(t, "worker-1", "orphan", red)
	// The pod went with its node: being deleted for ever, by nobody. Its grace
	// period would lengthen the wait by a minute.
	orphan.delete(t, 1)
	check(t, orphan.sandbox.Close())
	check(t, s.Client().CoreV1().Nodes().Delete(t.Context(), "worker-1", metav1.DeleteOptions{}))
	before := s.contents(t)

	t.Run("and a check says until when", func(t *testing.T) {
		out := s.product(t, "check")
		equal(t, "what stands against it", out.refusal(t, "10.1.0.0-24 10.1.0.2"), "AwaitingConfirmation")
		for _, i := range out.Allocations {
			if wait := time.Until(i.ReleasableAt); i.place() == "10.1.0.0-24 10.1.0.2" && (wait < 14*time.Minute || wait > 16*time.Minute) {
				t.Errorf("it will be released in %s, want some 15 min", wait)
			}
		}
	})

	t.Run("and says at SIGTERM what is left", func(t *testing.T) {
		c := begin(t, "run", "-o", "json", "--kubeconfig", s.Kubeconfig())
		eventually(t, "the run to wait", func() bool { return strings.Contains(c.stderr.String(), "waiting before the next pass") })
		check(t, c.cmd.Process.Signal(os.Interrupt))
		out := c.wait()
		out.exits(t, 1)
		equal(t, "failed", places(out.Failed), "10.1.0.0-24 10.1.0.2, 10.2.0.0-24 10.2.0.1")
		contains(t, "what is said of the leak", out.message("10.1.0.0-24 10.1.0.2"), "it was not confirmed when the run was ended")
		s.lost(t, before)
	})

	began := time.Now()
	c := begin(t, "run", "--confirm-after", "20s", "-o", "json", "--kubeconfig", s.Kubeconfig())
	eventually(t, "the run to wait", func() bool { return strings.Contains(c.stderr.String(), "waiting before the next pass") })
	s.lost(t, before)
	added := s.up(t, "worker-2", "meanwhile", blue) // ADDs go on
	freed := map[string]time.Duration{}
	for _, pool := range []string{"10.1.0.0-24", "10.2.0.0-24"} {
		freed[pool] = s.waitForEntry(t, pool, map[string]string{"10.1.0.0-24": "2", "10.2.0.0-24": "1"}[pool]).Sub(began)
	}
	out := c.wait()
	t.Logf("with --confirm-after 20s the leak went after %.1fs, that of the missing node after %.1fs", freed["10.1.0.0-24"].Seconds(), freed["10.2.0.0-24"].Seconds())
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 "+leaked.ips[0], "Stale PodGone", "10.2.0.0-24 "+orphan.ips[0], "Stale NodeMissing",
		"10.1.0.0-24 "+live.ips[0], "InUse AddressOnPod", "10.1.0.0-24 "+added.ips[0], "InUse AddressOnPod")
	equal(t, "released", places(out.Released), "10.1.0.0-24 10.1.0.2, reservation 10.1.0.2, 10.2.0.0-24 10.2.0.1, reservation 10.2.0.1")
	if d := freed["10.1.0.0-24"]; d < 19*time.Second {
		t.Errorf("the leak was freed after %s", d)
	}
	contains(t, "the log", out.stderr, "pause=20s")
	// Node, pod and allocation are there no more, and that of a Node that is
	// gone waits for 40 s, whatever --confirm-after says.
	if d := freed["10.2.0.0-24"]; d < 39*time.Second {
		t.Errorf("that of the missing node was freed after %s", d)
	}
}

// waitForEntry waits until an entry is gone, and returns when.
func (s *stage) waitForEntry(t *testing.T, pool, key string) time.Time {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if _, there := s.contents(t)[pool+" "+key]; !there {
			return time.Now()
		}
	}
	t.Fatalf("%s %s is still there after 2 min", pool, key)
	return time.Time{}
}

func TestAnAPIServerThatGoesAwayWhileARunWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1").withRaceDetector()
	leaked, live := s.up(t, "worker-1", "leaked", blue).leak(t), s.up(t, "worker-1", "live", blue)
	before := s.contents(t)
	// The pause is long enough for a second run to begin in it.
	begun := func(t *testing.T) *command {
		return s.beginProduct(t, "run", "--confirm-after", "30s", "--request-timeout", "2s", "-o", "json",
			"--kubeconfig", s.Kubeconfig())
	}
	waits := func(t *testing.T, c *command) {
		eventually(t, "the run to wait", func() bool { return strings.Contains(c.stderr.String(), "waiting before the next pass") })
	}
	blind := func(t *testing.T, c *command) {
		eventually(t, "the run to miss it", func() bool { return strings.Contains(c.stderr.String(), "could not read the cluster again") })
	}
	// What it saw before is told at the end, and that nothing was done about it.
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
		waits(t, c)
		s.StopEtcd()
		blind(t, c)
		interrupted(t, c)
		check(t, s.StartEtcd())
		// An API server that was without etcd for long tries seldom to connect again: a new one does at once.
		s.StopAPI()
		check(t, s.StartAPI(t.Context()))
		s.lost(t, before)
	})

	t.Run("is waited for, and what it has when it is back counts", func(t *testing.T) {
		patient, impatient := begun(t), begun(t)
		waits(t, patient)
		waits(t, impatient)
		s.StopAPI()
		blind(t, patient)
		contains(t, "the warning", patient.stderr.String(), "cannot be reached", "connection refused")
		blind(t, impatient)
		interrupted(t, impatient)
		check(t, s.StartAPI(t.Context()))
		s.lost(t, before)
		// Who comes before the next pass, a minute after the one that failed, takes a place that was free at the last.
		came := s.up(t, "worker-1", "came", blue)
		during := s.contents(t)
		out := patient.wait()
		out.exits(t, 0)
		out.expect(t, at(leaked), "Stale PodGone", at(live), "InUse AddressOnPod", at(came), "InUse AddressOnPod")
		s.lost(t, during, stored(leaked)...)
	})
}

// TestAPoolThatWasDeletedIsMadeAgainWithWhatRuns deletes a pool, as is advised where a range is
// full. whereabouts' next ADD would make it, empty, and hand out what runs.
func TestAPoolThatWasDeletedIsMadeAgainWithWhatRuns(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), blue))
	pods := []*pod{s.up(t, "worker-1", "web-0", blue).age(t, 10*time.Minute), s.up(t, "worker-1", "web-1", blue).age(t, 10*time.Minute)}
	s.agent(t, "worker-1").writeReport(t, pods[0].listed(v1alpha1.SandboxReady), pods[1].listed(v1alpha1.SandboxReady))
	before, whole := s.contents(t), try(s.of(harness.IPPools).Get(t.Context(), "10.1.0.0-24", metav1.GetOptions{})).must(t)

	check(t, s.of(harness.IPPools).Delete(t.Context(), "10.1.0.0-24", metav1.DeleteOptions{}))
	found := s.product(t, "check").found("Unrecorded")
	if equal(t, "unrecorded", len(found), 2); len(found) > 0 {
		contains(t, "it says", found[0].Message, "pool kube-system/10.1.0.0-24 is not there")
	}
	out := s.run(t, "--repair")
	out.exits(t, 0)
	s.lost(t, before)
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
