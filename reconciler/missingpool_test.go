package reconciler_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// aLostPool is a cluster whose pool a restore has lost, with what runs and another pool.
func (s *simulator) aLostPool() {
	s.aNetwork()
	s.emptyPool("red-10.1.0.0-16", "10.1.0.0/16")
	delete(s.pools, bluePool)
	s.pod("one", "u", 1)
	s.pod("two", "u", 2)
	s.runsOn("worker-1", "one", "two")
	s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {running("one", 1), running("two", 2)}})
	time.Sleep(5 * time.Minute)
}

const lostPool = "10.0.0.0-16"

func TestAPoolThatIsNotThereIsMadeWithWhatRuns(t *testing.T) {
	for says, takes := range map[string]time.Duration{"after a minute": time.Minute, "behind the fence at once": 0} {
		t.Run(says, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.aLostPool()
				r := s.reconciler(t)
				if r.Options.Repair = true; takes == 0 {
					r.Fence = fenced{time.Now().Add(-time.Minute)}
				}
				out, took := run(t, r)
				same(t, "it took", took, takes)
				same(t, "not repaired", fmt.Sprint(out.Unrepaired), "[]")
				same(t, "left", out.ToRepair, 0)
				same(t, "writes to the pool", s.made("createpool", "patch"), []string{"createpool " + lostPool})
				same(t, "reservations", len(s.reservations), 2)
				same(t, "entries", len(entriesOf(s.pools[lostPool])), 2)
				p := ippool.ReadPool(s.pools[lostPool])
				if a := p.Find("2"); p.Problem != "" || a == nil || a.PodRef != "default/two" {
					t.Errorf("made was %+v", p)
				}
			})
		})
	}
}

func TestAPoolThatAnADDWasFasterToMakeIsTakenAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aLostPool()
		reports := s.step
		s.step = func(call, object string) {
			if reports(call, object); call == "createpool" && s.pools[lostPool] == nil {
				s.entry(lostPool, 1, "default/added", "box-added", true)
			}
		}
		r := s.reconciler(t)
		r.Options.Repair = true
		out, _ := run(t, r)
		same(t, "not repaired", fmt.Sprint(out.Unrepaired), "[]")
		entries := entriesOf(s.pools[lostPool])
		same(t, "the ADD's entry", entries["1"].(map[string]any)["podref"], any("default/added"))
		same(t, "the other's entry", entries["2"].(map[string]any)["podref"], any("default/two"))
	})
}

// manyOnALostPool has so many sandboxes of the lost pool, and some of the one that is there.
func (s *simulator) manyOnALostPool(lost, onRed int) {
	s.aLostPool()
	by := map[string][]v1alpha1.Sandbox{}
	for i := range lost + onRed {
		b, node := running(fmt.Sprint("pod-", i), i+1), fmt.Sprint("worker-", i/50)
		if i >= lost {
			a := &b.Addresses[0]
			a.IP, a.Range, a.NetworkName = "10.1"+strings.TrimPrefix(a.IP, "10.0"), "10.1.0.0/16", "red"
		}
		s.pod(b.Name, "u", i+1)
		s.runsOn(node, b.Name)
		by[node] = append(by[node], b)
	}
	s.reported(by)
	time.Sleep(5 * time.Minute)
}

func TestAPoolOfThousandsThatIsNotThereIsMadeByManyWrites(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.manyOnALostPool(2500, 0)
		r := s.reconciler(t)
		r.Options.Repair = true
		out, _ := run(t, r)
		same(t, "left", out.ToRepair, 0)
		same(t, "entries", len(entriesOf(s.pools[lostPool])), 2500)
		same(t, "times it was made", len(s.made("createpool")), 1)
	})
}

// Its own Lease would be that of a node's slice, which it is not.
func TestAMissingPoolOfANetworkNeedsTheSharedLeaseAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aLostPool()
		s.busy = map[string]int{"green-10.2.0.0-16": 1 << 20}
		s.nads[types.NamespacedName{Namespace: "default", Name: "green"}] = &ippool.NAD{Namespace: "default", Name: "green",
			Networks: []ippool.Network{{Name: "green", Ranges: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}}}}
		b := running("one", 1)
		b.Addresses[0].IP, b.Addresses[0].Range, b.Addresses[0].NetworkName = "10.2.0.1", "10.2.0.0/16", "green"
		s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {b}})
		r := s.reconciler(t)
		r.Options.Repair, r.Fence = true, fenced{time.Now().Add(-time.Minute)}
		out, took := run(t, r)
		same(t, "not repaired", fmt.Sprint(out.Unrepaired), "[]")
		same(t, "it took", took, 0)
		same(t, "entries", len(entriesOf(s.pools["green-10.2.0.0-16"])), 1)
	})
}

func TestWithoutTheRightToMakeAPoolTheRestIsRepaired(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.manyOnALostPool(1100, 200)
		s.fault = func(call, _ string) (error, bool) {
			if call == "createpool" {
				return reconciler.ErrForbidden, false
			}
			return nil, false
		}
		r := s.reconciler(t)
		r.Options.Repair = true
		out, _ := run(t, r)
		same(t, "not repaired", len(out.Unrepaired), 1100)
		same(t, "of", out.Unrepaired[0].Pool, "kube-system/"+lostPool)
		same(t, "the other pool's entries", len(entriesOf(s.pools["red-10.1.0.0-16"])), 200)
	})
}
