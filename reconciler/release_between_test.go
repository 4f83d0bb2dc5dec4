package reconciler_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

const smallPool = "10.0.0.0-24" // its range overlaps that of bluePool

// entryOf is an entry of default/web-0.
func entryOf(id string) map[string]any {
	return map[string]any{"id": id, "podref": "default/web-0", "ifname": "net1"}
}

// Others act while a proven leak is released, before each of its steps. The golden file says who has the address
// afterwards.
func TestRelease_WhatHappensInBetween(t *testing.T) {
	lines := []string{
		"# box-old of default/web-0 leaked 10.0.0.1 and its reservation. While both are released, something happens. Each",
		"# outcome says who has the address in the end; below it are the steps before which it happened:",
		"#   refresh   reports, nodes and pools are listed again    hold        whereabouts' Lease is taken",
		"#   fresh     the second check reads pools                 freshening  the second check reads pods",
		"#   delete    the reservation is deleted                   patch       the entry is removed",
		"#   patch fails, patch is lost: as patch, which fails once, or only its answer is lost",
		"# What is read after it happened prevents the release: pools until the patch, pods until freshening, and reports",
		"# and pauses until the refresh. whereabouts makes no ADD under the Lease; here it does, as if the Lease were lost,",
		"# and writes the entry alone: WITHOUT A RESERVATION means that the release had deleted it before.",
	}
	for _, c := range []struct {
		says    string
		happens func(s *simulator)
	}{
		{"nothing", func(*simulator) {}},
		{"an ADD of its pod reuses the entry", func(s *simulator) {
			s.pod("web-0", "uid-2")
			s.fill(bluePool, "1", entryOf("box-new"))
		}},
		{"an ADD reuses the entry, and a report says that its sandbox is gone, too",
			func(s *simulator) { s.fill(bluePool, "1", entryOf("box-gone")) }},
		{"an ADD of its pod takes the address in an overlapping pool", func(s *simulator) {
			s.pod("web-0", "uid-2")
			s.fill(smallPool, "1", entryOf("box-new"))
		}},
		{"so it does, and a DEL removes the entry", func(s *simulator) {
			s.pod("web-0", "uid-2")
			s.fill(smallPool, "1", entryOf("box-new"))
			s.fill(bluePool, "1", nil)
		}},
		{"a DEL removes the entry", func(s *simulator) { s.fill(bluePool, "1", nil) }},
		{"a DEL removes both", func(s *simulator) { s.fill(bluePool, "1", nil); s.changeReservation(blueAddress, nil) }},
		{"another pod takes the address", func(s *simulator) {
			s.pod("web-9", "uid-9")
			s.entry(bluePool, 1, "default/web-9", "box-new", false)
		}},
		{"its pod starts", func(s *simulator) { s.pod("web-0", "uid-2") }},
		{"its pod carries the address", func(s *simulator) { s.pod("web-0", "uid-2", 1) }},
		{"its sandbox runs after all", func(s *simulator) {
			r := s.reports[0].SandboxReport
			r.Gone, r.Sandboxes = nil, []v1alpha1.Sandbox{{ID: "box-old", UID: "uid-1", Namespace: "default", Name: "web-0",
				State: v1alpha1.SandboxReady}}
		}},
		{"its agent stops reporting", func(s *simulator) { s.silent = true; time.Sleep(62 * time.Second) }},
		{"somebody writes an unknown field into the entry", func(s *simulator) {
			e := entryOf("box-old")
			e["until"] = "later"
			s.fill(bluePool, "1", e)
		}},
		{"the range of the pool cannot be read", func(s *simulator) {
			s.changePool(bluePool, func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, "10.0.0.0/16 and more", "spec", "range")
			})
		}},
		{"the pool is paused", func(s *simulator) {
			s.changePool(bluePool, func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{ippool.PausedAnnotation: "true"})
			})
		}},
		{"everything is paused", func(s *simulator) { s.paused = true }},
		{"etcd is restored", func(s *simulator) { s.api.Revision = 1 }},
	} {
		var found outcomes
		for _, moment := range []string{"refresh", "hold", "fresh", "freshening", "delete", "patch", "patch fails",
			"patch is lost"} {
			inBubble(t, c.says+", before "+moment, func(t *testing.T, s *simulator) {
				s.entry(bluePool, 1, "default/web-0", "box-old", true)
				s.poolOf(smallPool, "10.0.0.0/24")
				time.Sleep(5 * time.Minute)
				report := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"}, v1alpha1.Gone{ID: "box-gone",
					UID: "uid-0"})
				at, _, isFault := strings.Cut(moment, " ")
				if isFault {
					s.takes["patch"] = 6 * time.Second // so that the next hold refreshes
					s.fault = func(call, _ string) (error, bool) {
						if call != "patch" || len(s.made("patch")) > 1 {
							return nil, false
						}
						return errServer, moment == "patch is lost"
					}
				}
				if moment == "hold" {
					s.takes["hold"] = 6 * time.Second // so that the hold refreshes
				}
				happened := false
				s.step = func(call, _ string) {
					if !s.silent {
						s.setReport(report)
					}
					if call == at && !happened {
						happened = true
						c.happens(s)
					}
				}
				r := s.confirming(t)
				out := pass(t, r)
				if !happened {
					t.Fatal("it did not happen")
				}
				found.add(s.outcome(out), moment)
			})
		}
		lines = append(lines, found.lines(c.says)...)
	}
	golden(t, "release_between.txt", lines)
}

// A reservation without allocation gets one before the hold.
func TestRelease_ReservationForWhichAnEntryAppears(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 9, "default/gone-9", "box-9", false)
		s.alone(1, 1)
		time.Sleep(5 * time.Minute)
		s.step = func(call, _ string) {
			if call == "hold" && len(s.holds) == 0 {
				s.entry(bluePool, 1, "default/lost-1", "box-1", false)
			}
		}
		pass(t, s.reconciler(t))
		same(t, "deleted", s.made("delete"), []string{})
	})
}

// A definition was edited to another range, whose pool does not exist. Before the second check reads pools, an ADD
// creates it, and adopts the reservation of an earlier pod of this name.
func TestRelease_ReservationAdoptedInANewPool(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.poolOf(bluePool, "10.0.0.0/16")
		s.alone(1, 1)
		s.addNAD("small", ippool.Network{Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, Overlapping: true})
		time.Sleep(5 * time.Minute)
		isAdopted := false
		s.step = func(call, _ string) {
			if call == "fresh" && !isAdopted {
				isAdopted = true
				s.poolOf(smallPool, "10.0.0.0/24")
				s.entry(smallPool, 1, "default/lost-1", "box-new", false)
			}
		}
		pass(t, s.reconciler(t))
		same(t, "deleted", s.made("delete"), []string{})
	})
}

// An allocation has no reservation, and its verdict is confirmed. Before the hold an ADD of its pod takes the address
// in an overlapping pool, with a reservation.
func TestRelease_ReservationOfAnotherPoolAppears(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 1, "default/web-0", "box-old", false)
		s.poolOf(smallPool, "10.0.0.0/24")
		report := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"})
		s.step = func(call, _ string) {
			if s.setReport(report); call == "hold" && len(s.holds) == 0 {
				s.pod("web-0", "uid-2")
				s.fill(smallPool, "1", entryOf("box-new"))
				s.mu.Lock()
				s.put(ippool.NewReservation("kube-system", "", addressOf(1), "default/web-0", "net1").AsNew())
				s.mu.Unlock()
			}
		}
		s.passOnceConfirmed(t)
		same(t, "stored", s.stored(), map[string]bool{smallPool + " 1": true, "reservation " + blueAddress: true})
	})
}

// passOnceConfirmed makes a pass while everything is paused, and one after the time for a confirmation.
func (s *simulator) passOnceConfirmed(t *testing.T) {
	t.Helper()
	r := s.confirming(t)
	for _, paused := range []bool{true, false} {
		s.paused = paused
		pass(t, r)
		time.Sleep(20 * time.Minute)
	}
}

// A pod moves to another network, whose range has the address and no pool yet, or an empty one. An ADD of the pod
// records it there before the second check reads pools live, and uses the reservation of the former allocation.
func TestRelease_PoolOfAnotherNetworkAppears(t *testing.T) {
	for says, c := range map[string]struct{ made, filled string }{
		"there is none":                  {"hold", "hold"},
		"an empty one is there":          {"", "hold"},
		"an empty one is read a bit ago": {"refresh", "fresh"},
	} {
		inBubble(t, says, func(t *testing.T, s *simulator) {
			if c.made == "refresh" {
				s.takes["hold"] = 6 * time.Second // so that the hold refreshes
			}
			s.entry(bluePool, 1, "default/web-0", "box-old", true)
			s.aNetwork()
			s.addNAD("small", ippool.Network{Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, Overlapping: true})
			if c.made == "" {
				s.poolOf(smallPool, "10.0.0.0/24")
			}
			time.Sleep(5 * time.Minute)
			report, isMade, isFilled := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"}), false, false
			s.step = func(call, _ string) {
				s.setReport(report)
				if call == c.made && !s.paused && !isMade {
					isMade = true
					s.poolOf(smallPool, "10.0.0.0/24")
				}
				if call == c.filled && !isFilled {
					isFilled = true
					s.pod("web-0", "uid-2")
					s.fill(smallPool, "1", entryOf("box-new"))
				}
			}
			s.passOnceConfirmed(t)
			same(t, "stored", s.stored(), map[string]bool{smallPool + " 1": true, "reservation " + blueAddress: true})
		})
	}
}

// The delete of a reservation without allocation arrives after the hold, or may yet arrive. By then an ADD of its pod
// may have adopted it.
func TestRelease_ReservationAdoptedWhileItIsDeleted(t *testing.T) {
	none := map[string]bool{bluePool + " 2": true}
	adopted := map[string]bool{bluePool + " 1": true, "reservation " + blueAddress: true, bluePool + " 2": true}
	for _, c := range []struct {
		fault    string
		isAdded  bool
		stored   map[string]bool
		released int
	}{
		{"takes all of the hold", true, adopted, 0},
		{"answer lost", true, adopted, 0},
		{"hangs", true, adopted, 0},
		{"takes all of the hold", false, none, 1},
		{"answer lost", false, none, 1},
		{"hangs", false, none, 1},
	} {
		inBubble(t, fmt.Sprintf("%s, an ADD: %v", c.fault, c.isAdded), func(t *testing.T, s *simulator) {
			s.entry(bluePool, 2, "default/stays", "box-2", false)
			s.pod("stays", "uid", 2)
			s.alone(1, 1)
			late := ippool.Read[ippool.Reservation](s.reservation(blueAddress))
			time.Sleep(5 * time.Minute)
			f, calls := faults[c.fault], 0
			s.step = func(call, _ string) {
				if call != "delete" {
					return
				}
				if calls++; calls == 1 && c.isAdded {
					s.pod("lost-1", "back", 1)
					s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": "default/lost-1", "ifname": "net1"})
				}
			}
			s.slow = func(call, _ string) time.Duration {
				if call != "delete" || calls > 1 {
					return 0
				}
				return f.takes
			}
			s.fault = func(call, _ string) (error, bool) {
				if call != "delete" || calls > 2 { // the delete and the one that follows at once
					return nil, false
				}
				return f.err, f.isDone
			}
			out, _ := run(t, s.reconciler(t))
			_ = s.delete(t.Context(), late)
			same(t, "stored", s.stored(), c.stored)
			same(t, "released", len(out.Released), c.released)
		})
	}
}

// The delete of a reservation hangs, and the entry that it belongs to is gone meanwhile, or the pool. The next ADD
// adopts the reservation. Then the delete arrives.
func TestRelease_EntryGoneWhileItsReservationIsDeleted(t *testing.T) {
	for _, gone := range []string{"entry gone", "pool gone"} {
		inBubble(t, gone, func(t *testing.T, s *simulator) {
			s.entry(bluePool, 2, "default/stays", "box-2", false)
			s.pod("stays", "uid", 2)
			s.leaks(bluePool, 1)
			late := ippool.Read[ippool.Reservation](s.reservation(blueAddress))
			s.inject("delete", fault{takes: 30 * time.Second, once: true, before: faults[gone].before}, nil)
			out, _ := run(t, s.reconciler(t))
			same(t, "released", len(out.Released), 0)
			_ = s.delete(t.Context(), late)
			if s.reservation(blueAddress) == nil {
				t.Error("the reservation is gone")
			}
		})
	}
}

// A pool whose patches hang is given up until the next pass, and other pools do not wait for it.
func TestExecutor_HangingPatch(t *testing.T) {
	for _, also := range []int{0, 6} { // more pools that hang than are written at once
		bubble(t, func(t *testing.T, s *simulator) {
			const good = "zz-10.0.0.0-16"
			s.leaks(bluePool, 3)
			s.entry(good, 900, "default/gone-900", "box-900", true)
			for n := range also {
				name := fmt.Sprint("hangs-", n)
				s.entry(name+"-10.0.0.0-16", 800+n, "default/"+name, "box-"+name, true)
			}
			s.slow = func(call, object string) time.Duration {
				if call == "patch" && object != good {
					return time.Hour
				}
				return 0
			}
			r := s.reconciler(nil)
			began, goodAt := time.Now(), time.Time{}
			s.step = func(call, object string) {
				if call == "patch" && object == good {
					goodAt = time.Now()
				}
			}
			out := pass(t, r)
			rounds := time.Duration(1 + (also+1)/2) // two pools are written at once
			same(t, "refused", refusalCounts(out), refusals{plan.WriteFailed: 3 + also})
			same(t, "the other pool has", len(s.entries(good)), 0)
			if took, most := goodAt.Sub(began), 13*time.Second*(rounds-1)+time.Second; took > most {
				t.Errorf("the other pool was patched after %s", took)
			}
			if took := time.Since(began); took > 13*time.Second*(rounds+1) {
				t.Errorf("the pass took %s", took)
			}
			t.Logf("%d hang: the other was patched after %s, the pass took %s", 1+also, goodAt.Sub(began), time.Since(began))
			for i := range 3 {
				if s.reservation(addressOf(1+i).String()) == nil {
					t.Errorf("the reservation of %s is lost", addressOf(1+i))
				}
			}
			for _, x := range out.Refused {
				if !strings.HasPrefix(x.Detail, "the API server did not answer for 10s") {
					t.Errorf("the detail is %q", x.Detail)
				}
			}
		})
	}
}

// addOf is an ADD of the pod gone-1 as whereabouts v0.9.4 makes it (IPManagementKubernetesUpdate) in three steps: it
// reads the pool and the reservation; writes the entry if the pool is still the same, and else begins again; and
// creates the reservation unless it has read one of its podref.
func (s *simulator) addOf(podRef string) [3]func() {
	var version string
	isReserved := false
	read := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		version = s.pool(bluePool).GetResourceVersion()
		isReserved = s.reservation(blueAddress) != nil
	}
	return [3]func(){
		func() { s.pod("gone-1", "back"); read() },
		func() {
			if s.pool(bluePool).GetResourceVersion() != version {
				read()
			}
			s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": podRef, "ifname": "net1"})
		},
		func() {
			s.mu.Lock()
			if s.reservation(blueAddress) == nil && !isReserved {
				s.put(ippool.NewReservation("kube-system", "", addressOf(1), podRef, "net1").AsNew())
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
						r, entry := s.reservation(blueAddress), s.entries(bluePool)["1"]
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
