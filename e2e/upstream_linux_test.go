//go:build slow

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestUpstream_ReleasesAddressesInUse has a dozen situations in which whereabouts' reconciler releases an address
// in use. Ours changes none of them. Then that of whereabouts v0.9.4 runs on the same objects, which proves the
// situations.
func TestUpstream_ReleasesAddressesInUse(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	up := func(name, cidr string, more harness.IPAM) *pod {
		n := network(name, harness.IPAM{"range": cidr})
		for k, v := range more {
			n.IPAM[k] = v
		}
		return s.up(t, "worker-1", name, n)
	}
	s.pending(t, "worker-1", "a3", simple("a3", "10.3.0.0/24"))
	up("a4", "10.4.0.0/24", nil).annotate(t, statusAnnotation, `[{"ips":["10.4.0.1"]`)
	a5 := up("a5", "10.5.0.0/24", nil).annotate(t, statusAnnotation, "")
	a5.change(t, map[string]any{"status": map[string]any{"podIP": "10.5.0.1", "podIPs": []corev1.PodIP{{IP: "10.5.0.1"}}}},
		"status")
	a6 := up("a6", "10.6.0.0/24", nil)
	a6.status[0].Default = true
	a6.running(t)
	a7 := up("a7", "2001:db8:7::/64", harness.IPAM{"range_start": "2001:db8:7::a"})
	a7.status[0].IPs = []string{"2001:DB8:7::A"}
	a7.running(t)
	up("a8", "10.8.0.0/24", harness.IPAM{"network_name": "red"})
	up("a9", "2001:db8::/64", harness.IPAM{"range_start": "2001:db8:0:0:1::"})
	up("a11", "10.11.0.0/24", nil)
	s.patch(t, harness.IPPools, "10.11.0.0-24", `{"spec":{"allocations":{"1":null}}}`)
	s.age(t, harness.Reservations, "10.11.0.1", 5*time.Minute)
	s.reservation(t, "10.12.0.1", "", 5*time.Minute)
	a13 := up("a13", "10.13.0.0/24", nil)
	a13.change(t, map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"},
	}}}, "status")
	a13.delete(t, 3600)
	up("a14", "193::/24", harness.IPAM{"range_start": "193:21:4::2"})
	up("fine", "10.20.0.0/24", nil)
	up("leaked", "10.21.0.0/24", nil).leak(t)
	before := s.contents(t)

	ours := s.run(t)
	ours.exits(t, 0)
	s.checkReleased(t, before, "10.21.0.0-24 1", "reservation 10.21.0.1")

	before = s.contents(t)
	s.upstream(t)
	s.checkReleased(t, before, "10.3.0.0-24 1", "reservation 10.3.0.1", "10.4.0.0-24 1", "reservation 10.4.0.1",
		"10.5.0.0-24 1", "reservation 10.5.0.1",
		"10.6.0.0-24 1", "reservation 10.6.0.1", "2001-db8-7---64 10", "reservation 2001-db8-7--a",
		"reservation red-10.8.0.1",
		"reservation 2001-db8-0-0-1--0", "reservation 10.11.0.1", "reservation 10.12.0.1", "10.13.0.0-24 1",
		"reservation 10.13.0.1", "193---24 2")
	t.Logf("upstream's reconciler releases %d of %d entries and reservations that are in use, or said to be somebody's; "+
		"ours none", len(before)-len(s.contents(t)), len(before))
}

// upstream makes one pass of whereabouts' own reconciler as the admin, in a root folder with the files of its pod.
func (s *stage) upstream(t *testing.T) {
	t.Helper()
	var log buffer
	cmd := inPod(t, s.Config(), filepath.Join(harness.Upstream(t), "ip-reconciler"), "-log-level", "debug")
	cmd.Stdout, cmd.Stderr = &log, &log
	check(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("upstream's reconciler says:\n%s", shortened(log.String()))
		}
	})
	eventually(t, "upstream's reconciler to make a pass", func() bool {
		return strings.Contains(log.String(), "reconciler run succeeded")
	})
}
