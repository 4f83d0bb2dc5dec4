//go:build slow

package e2e

import (
	"os"
	"strings"
	"testing"
)

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
