//go:build slow

package e2e

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// The Deployment's own ServiceAccount and arguments, but for the addresses.
func TestTheRightsOfTheDeploymentSufficeToServe(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	kubeconfig := s.applied(t, "../deploy/deployment-with-agent")
	check(t, s.CreateNAD(t.Context(), blue))
	node := s.agent(t, "worker-1")
	v := s.serve(t, kubeconfig, "--leader-elect", "--agents=required", "--repair")
	v.said(t, `msg="the cluster is watched" kinds=8`)
	equal(t, "the leader's Lease is held", s.heldBy(t, "ip-reconcile") != "", true)

	stopped := s.up(t, "worker-1", "stopped", blue)
	node.writeReport(t, stopped.listed(v1alpha1.SandboxReady))
	stopped.forceDelete(t)
	node.writeReport(t, stopped.stopped())
	s.freed(t, promptly, "10.1.0.0-24", "1")
	s.event(t, "IPAddressGarbageCollected", "IPPool", "10.1.0.0-24")

	s.pauseAll(t, "true")
	v.is(t, "ip_reconcile_paused", 1)
	s.pauseAll(t, "false")
	v.is(t, "ip_reconcile_paused", 0)

	if log := v.stderr.String(); strings.Contains(log, "no right") || strings.Contains(log, "forbidden") {
		t.Errorf("it misses rights")
	}

}
