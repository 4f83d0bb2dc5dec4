//go:build slow

package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	equal(t, "released", places(out.Released), "10.1.0.0-24 10.1.0.2, 10.2.0.0-24 10.2.0.1, reservation 10.1.0.2, reservation 10.2.0.1")
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
