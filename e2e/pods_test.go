//go:build !slow && !cluster

package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestWhatAPodObjectProves goes by the API alone: no node agent runs.
// statusWithoutAddress is a network-status that whoever may edit a pod can write: the default network's entry alone.
const statusWithoutAddress = `[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true}]`

func TestWhatAPodObjectProves(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	const place, reserved = "10.1.0.0-24 10.1.0.1", "reservation 10.1.0.1"

	// Each situation is made with a pod that has 10.1.0.1 from a real ADD.
	for _, tt := range []struct {
		name    string
		make    func(t *testing.T)
		verdict string
		args    []string
	}{
		{"a running pod that carries its address", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue)
		}, "InUse AddressOnPod", nil},
		{"a running pod whose user removed its address from the network-status", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).annotate(t, statusAnnotation, statusWithoutAddress)
		}, "Held AddressNotOnPod", nil},
		{"a running pod whose network-status lacks its address, where that is trusted", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).annotate(t, statusAnnotation, statusWithoutAddress)
		}, "Stale AddressNotOnPod", []string{"--trust-network-status"}},
		{"a Pending pod whose ADD is done and whose network-status is not written", func(t *testing.T) {
			s.pending(t, "worker-1", "p", blue)
		}, "InUse PodPending", nil},
		{"a Pending pod that has its network-status", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).phase(t, corev1.PodPending)
		}, "InUse PodPending", nil},
		{"a pod that kubelet has ended", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).finish(t, corev1.PodSucceeded)
		}, "Stale PodFinished", nil},
		{"a pod that somebody but kubelet called failed", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).phase(t, corev1.PodFailed)
		}, "Held TerminalButRunning", nil},
		{"a pod that is being deleted", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).delete(t, 3600)
		}, "Held Terminating", nil},
		{"a pod that should have been gone for six minutes", func(t *testing.T) {
			p := s.up(t, "worker-1", "p", blue)
			p.delete(t, 60)
			p.age(t, 7*time.Minute)
		}, "Held StuckTerminating", nil},
		{"a pod being deleted on a node that is not Ready", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).delete(t, 60)
			s.notReady(t, "worker-1", 0)
		}, "Held NodeUnreachable", nil},
		{"a pod that carries its address on a node that is not Ready", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue)
			s.notReady(t, "worker-1", 0)
		}, "InUse AddressOnPod", nil},
		{"a pod being deleted on a node that is out of service and not Ready", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).delete(t, 60)
			s.notReady(t, "worker-1", 0)
			s.outOfService(t, "worker-1")
		}, "Stale NodeDead proven", nil},
		{"a pod being deleted on a node that is out of service and yet Ready", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).delete(t, 60)
			s.outOfService(t, "worker-1")
		}, "Held Terminating", nil},
		{"no pod, while some node is not Ready", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).leak(t)
			s.notReady(t, "worker-2", 0)
		}, "Held NodeUnreachable", nil},
		{"no pod, while a node is not Ready for longer than the operator allows for", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).leak(t)
			s.notReady(t, "worker-2", time.Hour)
		}, "Stale NodeUnreachable", []string{"--unreachable-node-timeout", "30m"}},
		{"no pod, while a node is out of service and not Ready", func(t *testing.T) {
			s.up(t, "worker-1", "p", blue).leak(t)
			s.notReady(t, "worker-1", 0)
			s.outOfService(t, "worker-1")
		}, "Stale PodGone", nil},
		{"a successor of the same name to whom ADD gave the entry", func(t *testing.T) {
			first := s.up(t, "worker-1", "web-0", blue)
			first.forceDelete(t)
			second := s.up(t, "worker-2", "web-0", blue)
			equal(t, "the successor's address", second.ips, first.ips)
			first.del(t) // comes late, with the old id, and takes nothing away
			check(t, first.sandbox.Close())
		}, "InUse AddressOnPod", nil},
		{"a successor of the same name that is Pending, before its ADD", func(t *testing.T) {
			s.up(t, "worker-1", "web-0", blue).leak(t)
			s.bare(t, "worker-2", "web-0")
		}, "InUse PodPending", nil},
		{"a successor of the same name that runs without an address", func(t *testing.T) {
			s.up(t, "worker-1", "web-0", blue).leak(t)
			s.bare(t, "worker-2", "web-0").phase(t, corev1.PodRunning)
		}, "Held NetworkStatusMissing", nil},
	} {
		s.play(t, tt.name, func(t *testing.T) {
			t.Cleanup(func() { s.restoreNodes(t) })
			tt.make(t)
			before := s.contents(t)
			equal(t, "entries and reservations", len(before), 2)
			out := s.run(t, tt.args...)
			out.exits(t, 0)
			out.expect(t, place, tt.verdict, reserved, tt.verdict)
			if tt.verdict[:5] == "Stale" {
				s.lost(t, before, "10.1.0.0-24 1", reserved)
			} else {
				s.lost(t, before)
			}
		})
	}

	// The network of a StatefulSet was edited: its pod came back on another
	// address, and the old entry stayed.
	s.play(t, "a successor of the same name on another address", func(t *testing.T) {
		s.up(t, "worker-1", "web-0", blue).leak(t)
		object := s.bare(t, "worker-2", "web-0")
		object.attach(t, simple("blue", "10.9.0.0/24"))
		object.running(t)
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, place, "Held AddressNotOnPod", reserved, "Held AddressNotOnPod", "10.9.0.0-24 10.9.0.1", "InUse AddressOnPod")
		s.lost(t, before)
		out = s.run(t, "--trust-network-status")
		out.exits(t, 0)
		out.expect(t, place, "Stale AddressNotOnPod", "10.9.0.0-24 10.9.0.1", "InUse AddressOnPod")
		s.lost(t, before, "10.1.0.0-24 1", reserved)
	})

	// Until it was known that a pod is being deleted, its grace period says
	// nothing about when its containers end.
	s.play(t, "the grace period of a pod that is not being deleted does not lengthen the wait", func(t *testing.T) {
		s.up(t, "worker-1", "p", blue).finish(t, corev1.PodSucceeded)
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		s.lost(t, before, "10.1.0.0-24 1", reserved)
		out.waitsForNothing(t)
	})
}

// restoreNodes makes all nodes Ready and without taints.
func (s *stage) restoreNodes(t testing.TB) {
	t.Helper()
	for name, n := range s.nodes {
		check(t, n.SetReady(context.Background(), true))
		s.patchNode(t, name, map[string]any{"spec": map[string]any{"taints": nil}})
	}
}
