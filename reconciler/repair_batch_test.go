package reconciler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// aThousandUnrecorded are in ten pools, on twenty nodes, of pods that the API has.
func (s *simulator) aThousandUnrecorded() {
	s.aNetwork()
	by := map[string][]v1alpha1.Sandbox{}
	for i := range 1000 {
		name, node := fmt.Sprint("web-", i), fmt.Sprint("worker-", i%20)
		b := running(name, i)
		pool := i / 100
		b.Addresses[0].IP, b.Addresses[0].Range = fmt.Sprintf("10.%d.0.%d", pool, 1+i%100), fmt.Sprintf("10.%d.0.0/16", pool)
		by[node] = append(by[node], b)
		s.pod(name, "u")
		s.runsOn(node, name)
	}
	for pool := range 10 {
		s.emptyPool(fmt.Sprintf("10.%d.0.0-16", pool), fmt.Sprintf("10.%d.0.0/16", pool))
	}
	s.reported(by)
	time.Sleep(5 * time.Minute)
}

func (s *simulator) entries() (n int) {
	for _, p := range s.pools {
		n += len(entriesOf(p))
	}
	return n
}

// A thousand are back soon after they may be, and no hold begins a write after most of
// a second.
func TestAThousandAddressesInTenPoolsAreBackInSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aThousandUnrecorded()
		s.takes = map[string]time.Duration{"patch": 200 * time.Millisecond, "create": 30 * time.Millisecond, "fresh": 100 * time.Millisecond}
		var late time.Duration
		reports := s.step
		s.step = func(call, object string) {
			reports(call, object)
			s.mu.Lock()
			defer s.mu.Unlock()
			if n := len(s.holds); n > 0 && (call == "patch" || call == "create") {
				late = max(late, time.Since(s.holds[n-1].began))
			}
		}
		r := s.reconciler(nil)
		r.Options.Repair = true
		out, took := run(t, r)
		same(t, "not repaired", fmt.Sprint(out.Unrepaired), "[]")
		same(t, "entries", s.entries(), 1000)
		same(t, "reservations of the pool that has some", len(s.reservations), 100)
		same(t, "patches", len(s.made("patch")), 10)
		if took > time.Minute+10*time.Second {
			t.Errorf("it took %s after the minute", took-time.Minute)
		}
		if late > 900*time.Millisecond {
			t.Errorf("a write began %s after the Lease was had", late)
		}
	})
}

func TestOnePoolThatCannotBeWrittenStopsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aThousandUnrecorded()
		s.fault = func(call, object string) (error, bool) {
			if call == "patch" && object == "10.0.0.0-16" {
				return errServer, false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.Repair = true
		out, _ := run(t, r)
		same(t, "entries", s.entries(), 900)
		same(t, "not repaired", len(out.Unrepaired), 100)
		same(t, "left", out.ToRepair, 100)
		for _, u := range out.Unrepaired {
			if u.Why != reconciler.WriteFailed || u.Pool != "kube-system/10.0.0.0-16" {
				t.Fatalf("%s: %s", u.Why, u)
			}
		}
		if n := len(s.holds); n > 40 {
			t.Errorf("%d holds", n)
		}
	})
}

// One address in two sandboxes is a Conflict. One of them gets the entry: none would
// have the next ADD make it three.
func TestOfTwoThatCarryAnUnrecordedAddressOneGetsTheEntry(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 9, "default/other", "box-other", false)
		for i, name := range []string{"one", "two", "other"} {
			s.pod(name, "u", 1+i%2)
			s.runsOn("worker-1", name)
		}
		s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {running("one", 1), running("two", 1), running("other", 9), running("third", 3)}})
		time.Sleep(5 * time.Minute)
		r := s.reconciler(t)
		r.Options.Repair = true
		out, _ := run(t, r)
		same(t, "not repaired", fmt.Sprint(out.Unrepaired), "[]")
		entry, _ := s.recorded(t, 1)
		same(t, "entry", entry, "box-one default/one")
		same(t, "holds", len(s.holds), 1)
		entry, _ = s.recorded(t, 3)
		same(t, "that of the third", entry, "box-third default/third_u")
	})
}
