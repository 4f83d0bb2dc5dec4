package reconciler_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// addOf is an ADD of the pod gone-1 as whereabouts v0.9.4 makes it (IPManagementKubernetesUpdate) in three steps: it
// reads the pool and the reservation; writes the entry if the pool is still the same, and else begins again; and
// creates the reservation unless it has read one of its podref.
func (s *simulator) addOf(podRef string) [3]func() {
	var version string
	isReserved := false
	read := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		version = s.pools[bluePool].GetResourceVersion()
		isReserved = s.reservations[blueAddress] != nil
	}
	return [3]func(){
		func() { s.pod("gone-1", "back"); read() },
		func() {
			if s.pools[bluePool].GetResourceVersion() != version {
				read()
			}
			s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": podRef, "ifname": "net1"})
		},
		func() {
			s.mu.Lock()
			if s.reservations[blueAddress] == nil && !isReserved {
				s.store(s.reservations, ippool.NewReservation("kube-system", "", addressOf(1), podRef, "net1").AsNew())
			}
			s.mu.Unlock()
			s.pod("gone-1", "back", 1)
		},
	}
}

// A leak's pod returns while the leak is released, and no Lease blocks its ADD. Whenever the ADD makes its three steps,
// and whichever call of the release fails once, it has its entry and its reservation afterwards.
func TestRelease_InterleavedWithAnADD(t *testing.T) {
	runs, released := 0, 0
	failures, apart := []string{"", "delete, done", "patch", "patch, done", "fresh", "delete", "create"}, 8
	if testing.Short() {
		failures, apart = failures[:4], 4
	}
	for _, failing := range failures {
		for first := 1; ; first++ {
			calls := 0
			for second := first; second <= first+apart; second++ {
				for third := second; third <= second+1; third++ {
					bubble(t, func(t *testing.T, s *simulator) {
						s.leaks(bluePool, 1)
						steps := s.addOf("default/gone-1")
						next := 0
						s.step = func(string, string) {
							calls++
							for at := []int{first, second, third, 0}; at[next] == calls; next++ {
								steps[next]()
							}
						}
						failed := false
						s.fault = func(call, _ string) (error, bool) {
							if failed || call != failing && call+", done" != failing {
								return nil, false
							}
							failed = true
							return errServer, call != failing
						}
						calls = 0
						out, _ := run(t, s.reconciler(nil))
						for ; next < 3; next++ {
							steps[next]()
						}
						runs++
						released += len(out.Released)
						r, entry := s.reservations[blueAddress], entriesOf(s.pools[bluePool])["1"]
						if r == nil || fmt.Sprint(entry) != "map[id:box-new ifname:net1 podref:default/gone-1]" {
							t.Errorf("steps before calls %d, %d, %d of %v, of which %q fails: %v, %v", first, second, third, s.calls,
								failing, entry, r)
						}
						if podRef, _, _ := unstructured.NestedString(r.Object, "spec", "podref"); podRef != "default/gone-1" {
							t.Errorf("it is %s's", podRef)
						}
					})
					if t.Failed() {
						return
					}
				}
			}
			if first > calls {
				break
			}
		}
	}
	t.Logf("%d runs, %d released", runs, released)
	if released == 0 {
		t.Error("nothing was released, so this test shows nothing")
	}
}
