package reconciler_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// withoutReservation is an entry of a running pod without its reservation.
func (s *simulator) withoutReservation() {
	s.aNetwork()
	s.entry(bluePool, 1, "default/web", "box-1", false)
	s.pod("web", "u", 1)
}

// misrecorded is an entry of an earlier sandbox of a running pod, whose node reports.
func (s *simulator) misrecorded() {
	s.entry(bluePool, 1, "default/web", "ended", true)
	s.pod("web", "u", 1)
	s.runsOn("worker-1", "web")
	s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {running("web", 1)}})
	time.Sleep(5 * time.Minute)
}

// unrecorded is a sandbox without entry, beside an entry of another one.
func (s *simulator) unrecorded(isPhantom bool) {
	s.aNetwork()
	s.entry(bluePool, 9, "default/other", "box-other", true)
	s.pod("other", "u", 9)
	if !isPhantom {
		s.pod("web", "u", 1)
	}
	s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {running("other", 9), running("web", 1)}})
}

// aThousandUnrecorded are sandboxes without entry, in ten pools, on twenty nodes, of pods of the API.
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
		s.poolOf(fmt.Sprintf("10.%d.0.0-16", pool), fmt.Sprintf("10.%d.0.0/16", pool))
	}
	s.reported(by)
	time.Sleep(5 * time.Minute)
}

// aLostPool is a cluster without the pool of its sandboxes, and with another pool.
func (s *simulator) aLostPool() {
	s.aNetwork()
	s.poolOf("red-10.1.0.0-16", "10.1.0.0/16")
	s.api.Delete(keyOf("IPPool", bluePool))
	s.pod("one", "u", 1)
	s.pod("two", "u", 2)
	s.runsOn("worker-1", "one", "two")
	s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {running("one", 1), running("two", 2)}})
	time.Sleep(5 * time.Minute)
}

// manyOnALostPool has sandboxes of the lost pool, and some of the other one.
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

// entryAt returns id and podref of an entry in bluePool.
func (s *simulator) entryAt(key string) string {
	e, _ := s.entries(bluePool)[key].(map[string]any)
	return fmt.Sprint(e["id"], " ", e["podref"])
}

// expectRecorded checks the entry and the reservation of the first address.
func (s *simulator) expectRecorded(t *testing.T, entry, reservation string) {
	t.Helper()
	got := ""
	if r := s.reservation(blueAddress); r != nil {
		got, _, _ = unstructured.NestedString(r.Object, "spec", "podref")
	}
	same(t, "entry and reservation", s.entryAt("1")+", "+got, entry+", "+reservation)
}

// before adds something that happens before a call of a name.
func (s *simulator) before(call string, happens func()) {
	previous := s.step
	s.step = func(name, object string) {
		if previous != nil {
			previous(name, object)
		}
		if name == call {
			happens()
		}
	}
}

// losesAnswer makes the first write of a kind arrive and its answer not.
func (s *simulator) losesAnswer(write string) {
	isLost := false
	s.fault = func(call, _ string) (err error, after bool) {
		if call != write || isLost {
			return nil, false
		}
		isLost = true
		return errServer, true
	}
}

// What --repair writes, when, and under how many holds.
func TestRepair(t *testing.T) {
	const minute = time.Minute
	hasReservation := func(s *simulator) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.put(ippool.NewReservation("kube-system", "", addressOf(1), "default/web", "net1").AsNew())
	}
	for _, c := range []struct {
		says       string
		set        func(s *simulator)
		fenced     bool
		mass       bool          // --allow-mass-repair
		took       time.Duration // but for seconds
		repaired   int
		unrepaired refusals
		calls      []string // of these: hold, create, createpool, patch; nil for any
		check      func(t *testing.T, s *simulator)
	}{
		{says: "a missing reservation, a minute after it was found", set: (*simulator).withoutReservation, took: minute,
			repaired: 1, calls: []string{"hold [whereabouts]", "create 10.0.0.1"}},
		{says: "a finding that disappears before the second pass is not repaired", set: func(s *simulator) {
			s.withoutReservation()
			passes := 0
			s.before("observe", func() {
				if passes++; passes == 3 { // the first is one without --repair
					hasReservation(s)
				}
			})
		}, took: minute, calls: []string{}},
		// An existing reservation stays as it is, and the next pass finds it.
		{says: "nor one that disappears before the hold", set: func(s *simulator) {
			s.withoutReservation()
			s.before("hold", func() { hasReservation(s) })
		}, took: minute, calls: []string{"hold [whereabouts]", "create 10.0.0.1", "hold [whereabouts]"}},
		{says: "an entry is written back", set: func(s *simulator) { s.unrecorded(false) }, took: minute, repaired: 2,
			check: func(t *testing.T, s *simulator) { same(t, "entry", s.entryAt("1"), "box-web default/web") }},
		{says: "that of a phantom under a name that no successor takes over", set: func(s *simulator) { s.unrecorded(true) },
			took: minute, repaired: 2,
			check: func(t *testing.T, s *simulator) { same(t, "entry", s.entryAt("1"), "box-web default/web_u") }},
		// One address in two sandboxes is a Conflict. One of them gets the entry, so that no ADD gives it to a third.
		{says: "of two that carry an address one gets the entry", set: func(s *simulator) {
			s.entry(bluePool, 9, "default/other", "box-other", false)
			for i, name := range []string{"one", "two", "other"} {
				s.pod(name, "u", 1+i%2)
				s.runsOn("worker-1", name)
			}
			s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {running("one", 1), running("two", 1), running("other", 9),
				running("third", 3)}})
		}, took: minute, repaired: 2, check: func(t *testing.T, s *simulator) {
			same(t, "entries", s.entryAt("1")+", "+s.entryAt("3"), "box-one default/one, box-third default/third_u")
			same(t, "holds", len(s.holds), 1)
		}},
		{says: "a repair that always fails gives up", set: func(s *simulator) {
			s.unrecorded(false)
			s.fault = failing("patch", errServer)
		}, took: minute, unrepaired: refusals{plan.WriteFailed: 1}, check: func(t *testing.T, s *simulator) {
			if len(s.holds) > 10 {
				t.Errorf("%d holds", len(s.holds))
			}
		}},
		{says: "a busy Lease is asked for once", set: func(s *simulator) {
			s.withoutReservation()
			s.fault = failing("hold", apply.ErrLeaseBusy)
		}, took: minute, unrepaired: refusals{plan.LeaseBusy: 1}, calls: []string{"hold [whereabouts]"}},
		{says: "no Lease is held for a paused pool", set: func(s *simulator) {
			s.withoutReservation()
			s.changePool(bluePool, func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{ippool.PausedAnnotation: "true"})
			})
		}, calls: []string{}},
		{says: "an entry of the past is rewritten with its reservation", set: (*simulator).aRestoredPast, took: minute,
			repaired: 2, check: func(t *testing.T, s *simulator) {
				s.expectRecorded(t, "box-web default/web", "default/web")
				same(t, "writes", s.made("patch", "delete", "create"), []string{"patch " + bluePool, "delete 10.0.0.1",
					"create 10.0.0.1"})
			}},
		// Otherwise that pod would get the address from a pool with an overlapping range.
		{says: "a reservation of the past is replaced later, too", set: func(s *simulator) {
			s.withoutReservation()
			s.entry(bluePool, 1, "default/web", "box-web", false)
			s.put(ippool.NewReservation("kube-system", "", addressOf(1), "default/past", "net1").AsNew())
			s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {running("web", 1)}})
		}, took: minute, repaired: 1, check: func(t *testing.T, s *simulator) {
			s.expectRecorded(t, "box-web default/web", "default/web")
		}},
		{says: "one that another entry needs is not replaced", set: func(s *simulator) {
			s.aRestoredPast()
			s.poolOf("10.0.0.0-15", "10.0.0.0/15")
			s.entry("10.0.0.0-15", 1, "default/past", "box-past2", false)
		}, took: minute, repaired: 1, check: func(t *testing.T, s *simulator) {
			s.expectRecorded(t, "box-web default/web", "default/past")
		}},
		{says: "a paused pool is not repaired behind the fence", fenced: true, set: func(s *simulator) {
			s.aRestoredPast()
			s.changePool(bluePool, func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{ippool.PausedAnnotation: "true"})
			})
		}, calls: []string{}},
		{says: "three hundred of either kind under one hold", mass: true, set: func(s *simulator) {
			s.aNetwork()
			var sandboxes []v1alpha1.Sandbox
			for i := 1; i <= 300; i++ {
				name := fmt.Sprint("web-", i)
				s.entry(bluePool, i, "default/"+name, "box-"+name, false)
				s.pod(name, "u", i)
				sandboxes = append(sandboxes, running(name, i), running("lost-"+name, 300+i))
			}
			s.reported(map[string][]v1alpha1.Sandbox{"worker-1": sandboxes})
		}, took: minute, repaired: 900, check: func(t *testing.T, s *simulator) {
			same(t, "entries, reservations", []int{len(s.entries(bluePool)), len(s.all(fakeapi.Reservations))}, []int{600, 600})
			same(t, "holds and patches", len(s.made("hold", "patch")), 2)
		}},
		{says: "a thousand in ten pools in seconds, and no write begins late in a hold", set: func(s *simulator) {
			s.aThousandUnrecorded()
			s.takes = map[string]time.Duration{"patch": 200 * time.Millisecond, "create": 30 * time.Millisecond,
				"fresh": 100 * time.Millisecond}
			for _, write := range []string{"patch", "create"} {
				s.before(write, func() {
					if late := time.Since(s.holds[len(s.holds)-1].began); late > 900*time.Millisecond {
						s.late = append(s.late, fmt.Sprint(write, " began after ", late))
					}
				})
			}
		}, took: minute, repaired: 1100, check: func(t *testing.T, s *simulator) {
			same(t, "patches", len(s.made("patch")), 10)
		}},
		{says: "one pool that cannot be written stops no other", set: func(s *simulator) {
			s.aThousandUnrecorded()
			s.whereCallFails(errServer, func(call, object string) bool { return call == "patch" && object == bluePool })
		}, took: minute, repaired: 900, unrepaired: refusals{plan.WriteFailed: 100}, check: func(t *testing.T, s *simulator) {
			if len(s.holds) > 40 {
				t.Errorf("%d holds", len(s.holds))
			}
		}},
		{says: "a missing pool is created with what runs", set: (*simulator).aLostPool, took: minute, repaired: 4,
			check: func(t *testing.T, s *simulator) {
				same(t, "calls", s.made("hold", "createpool", "patch"), []string{"hold [whereabouts]", "createpool " + bluePool})
				p := ippool.Read[ippool.Pool](s.pool(bluePool))
				if a := p.Find("2"); p.Problem != "" || a == nil || a.PodRef != "default/two" {
					t.Errorf("created: %+v", p)
				}
			}},
		{says: "behind the fence at once", set: (*simulator).aLostPool, fenced: true, repaired: 4},
		{says: "a pool that an ADD creates first stays as it is", set: func(s *simulator) {
			s.aLostPool()
			s.before("createpool", func() {
				if s.pool(bluePool) == nil {
					s.entry(bluePool, 1, "default/added", "box-added", true)
				}
			})
		}, took: minute, repaired: 2, check: func(t *testing.T, s *simulator) {
			same(t, "entries", s.entryAt("1")+", "+s.entryAt("2"), "box-added default/added, box-two default/two")
		}},
		{says: "a pool of thousands is created by many writes", set: func(s *simulator) { s.manyOnALostPool(2500, 0) },
			took: minute, repaired: 5000,
			check: func(t *testing.T, s *simulator) { same(t, "creates", len(s.made("createpool")), 1) }},
		// Only a node's slice has its own Lease.
		{says: "a pool of a named network needs only the shared Lease", fenced: true, set: func(s *simulator) {
			s.aLostPool()
			s.busy = map[string]int{"green-10.2.0.0-16": 1 << 20}
			s.addNAD("green", ippool.Network{Name: "green", Ranges: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")}})
			b := running("one", 1)
			b.Addresses[0].IP, b.Addresses[0].Range, b.Addresses[0].NetworkName = "10.2.0.1", "10.2.0.0/16", "green"
			s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {b}})
		}, repaired: 1, check: func(t *testing.T, s *simulator) {
			same(t, "entries", len(s.entries("green-10.2.0.0-16")), 1)
		}},
		// It is found at the next hold, which creates its reservation.
		{says: "an entry whose answer is lost is repaired", set: func(s *simulator) {
			s.unrecorded(false)
			s.losesAnswer("patch")
		}, took: minute, repaired: 2, check: func(t *testing.T, s *simulator) {
			s.expectRecorded(t, "box-web default/web", "default/web")
			same(t, "writes", s.made("patch", "create"), []string{"patch " + bluePool, "create 10.0.0.1"})
		}},
		{says: "without its reservation, if the pool is paused meanwhile", set: func(s *simulator) {
			s.unrecorded(false)
			s.losesAnswer("patch")
			s.before("hold", func() {
				if len(s.holds) == 1 {
					s.changePool(bluePool, func(u *unstructured.Unstructured) {
						u.SetAnnotations(map[string]string{ippool.PausedAnnotation: "true"})
					})
				}
			})
		}, took: minute, repaired: 1, check: func(t *testing.T, s *simulator) {
			s.expectRecorded(t, "box-web default/web", "")
		}},
		{says: "so is one of which another sandbox carries the address", set: func(s *simulator) {
			s.misrecorded()
			s.losesAnswer("patch")
		}, took: minute, repaired: 1, check: func(t *testing.T, s *simulator) {
			s.expectRecorded(t, "box-web default/web", "default/web")
		}},
		{says: "so is a pool", set: func(s *simulator) {
			s.aLostPool()
			s.losesAnswer("createpool")
		}, took: minute, repaired: 4, check: func(t *testing.T, s *simulator) {
			same(t, "creates", s.made("createpool"), []string{"createpool " + bluePool})
		}},
		{says: "so is a reservation", set: func(s *simulator) {
			s.withoutReservation()
			s.losesAnswer("create")
		}, took: minute, repaired: 1},
		{says: "an entry that an ADD wrote instead is not", set: func(s *simulator) {
			s.unrecorded(false)
			tries := 0
			s.before("patch", func() {
				if tries++; tries == 1 {
					s.entry(bluePool, 1, "default/added", "box-added", true)
				}
			})
			s.fault = failing("patch", errServer)
		}, took: minute, check: func(t *testing.T, s *simulator) {
			s.expectRecorded(t, "box-added default/added", "default/added")
		}},
		{says: "if creating pools is forbidden the rest is repaired", set: func(s *simulator) {
			s.manyOnALostPool(1100, 200)
			s.fault = failing("createpool", apply.ErrForbidden)
		}, took: minute, repaired: 200, unrepaired: refusals{plan.WriteFailed: 1100}},
	} {
		inBubble(t, c.says, func(t *testing.T, s *simulator) {
			c.set(s)
			time.Sleep(5 * time.Minute) // younger ADDs are not touched
			r := s.reconciler(nil)
			run(t, r)
			same(t, "without --repair", s.made("create", "createpool"), []string{})
			s.holds, s.calls = nil, nil
			if r.Options.Repair, r.Options.AllowMassRepair = true, c.mass; c.fenced {
				r.Fence = fencedSince(time.Now().Add(-minute))
			}
			out, took := run(t, r)
			same(t, "it took", took.Truncate(10*time.Second), c.took)
			same(t, "repaired", len(out.Repaired), c.repaired)
			if c.fenced {
				same(t, "to repair, for which the fence would stand", out.ToRepair, 0)
			}
			same(t, "not repaired", countReasons(out.Unrepaired, func(u plan.Unrepaired) plan.Refusal { return u.Why }),
				c.unrepaired)
			if c.calls != nil {
				same(t, "calls", s.made("hold", "create", "createpool", "patch"), c.calls)
			}
			if c.check != nil {
				c.check(t, s)
			}
		})
	}
}
