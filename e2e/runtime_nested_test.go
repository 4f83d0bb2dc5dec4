//go:build slow

package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A user hides whereabouts in a network of Multus that runs Multus, and then edits both annotations of the pod.
func TestRuntime_MultusBelowMultus(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		red, nested := simple("red", "10.2.0.0/24"), harness.Network{Namespace: blue.Namespace, Name: "nested"}
		check(t, s.CreateNAD(t.Context(), blue))
		check(t, n.CreateNestedNAD(t.Context(), nested.Name, red))
		web := n.up(t, "web", blue, nested)
		before := s.contents(t)
		equal(t, "entries and reservations", len(before), 4)
		equal(t, "the entry of the inner network", before["10.2.0.0-24 1"], written(web, "net2", "default/web"))
		n.answers(t, "10.2.0.1", true)

		r := n.sees(t, web.id, "Ready")
		for _, b := range r.Sandboxes {
			if b.ID == web.id {
				equal(t, "addresses unread", b.AddressesUnread, true)
				equal(t, "net2 is an interface", slices.Contains(b.Interfaces, "net2"), true)
			}
		}
		inUse := func() {
			t.Helper()
			s.judges(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "reservation 10.1.0.1", "InUse SandboxReady",
				"10.2.0.0-24 10.2.0.1", "InUse SandboxReady", "reservation 10.2.0.1", "InUse SandboxReady")
			s.checkReleased(t, before)
		}
		inUse()

		status := []map[string]any{
			{"name": "local", "interface": "eth0", "ips": []string{"10.88.0.9"}, "default": true},
			{"name": "default/blue", "interface": "net1", "ips": []string{"10.1.0.1"}},
		}
		s.mustKubectl(t, "annotate", "--overwrite", "pod", "web", "k8s.v1.cni.cncf.io/networks=blue",
			statusAnnotation+"="+string(try(json.Marshal(status)).must(t)))
		inUse()
		n.answers(t, "10.2.0.1", true)

		check(t, n.StopPod(t.Context(), web.id))
		equal(t, "entries and reservations after DEL", len(s.contents(t)), 0)
	})
}
