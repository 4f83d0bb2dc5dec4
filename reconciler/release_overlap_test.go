package reconciler_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// A pod of a StatefulSet leaked an address and comes back with a definition whose
// range overlaps: its ADD, under the Lease and before ours, takes the address in
// the other pool and keeps the reservation that is its podref's.
func TestAReservationThatAnotherPoolsEntryNeedsByNowIsNotDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 5, "default/web-0", "box-old", true)
		s.poolOf("10.0.0.0-24", "10.0.0.0/24")
		time.Sleep(5 * time.Minute)
		report := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"})
		s.step = func(call, _ string) {
			s.heard(report)
			if call == "hold" && len(s.holds) == 0 {
				s.pod("web-0", "uid-2")
				u := s.pools["10.0.0.0-24"].DeepCopy()
				_ = unstructured.SetNestedMap(u.Object, map[string]any{"id": "box-new", "podref": "default/web-0", "ifname": "net1"}, "spec", "allocations", "5")
				s.mu.Lock()
				s.store(s.pools, u)
				s.mu.Unlock()
			}
		}
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		_, _, err := r.Pass(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if stored := s.stored(); !stored["10.0.0.0-24 5"] || !stored["reservation 10.0.0.5"] {
			t.Errorf("the entry of the pod that is starting has no reservation any more: %v", stored)
		}
	})
}
