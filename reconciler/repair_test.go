package reconciler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func TestRepairWritesAfterTwoPassesAMinuteApart(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.entry(bluePool, 1, "default/web", "box-1", false)
		s.pod("web", "u", 1)
		time.Sleep(5 * time.Minute) // an ADD that was so young would be left alone
		r := s.reconciler(t)
		run(t, r)
		same(t, "without being asked to", s.made("create", "hold"), []string{})
		r.Options.Repair = true
		out, took := run(t, r)
		same(t, "it took", took, time.Minute)
		same(t, "repaired", len(out.Repaired), 1)
		same(t, "calls", s.made("hold", "create", "patch"), []string{"hold [whereabouts]", "create 10.0.0.1"})
		same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, "reservation 10.0.0.1": true})
	})
}

func TestRepairLeavesAloneWhatMendsItself(t *testing.T) {
	for name, moment := range map[string]string{"before the second pass": "observe", "before the Lease is had": "hold"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.aNetwork()
				s.entry(bluePool, 1, "default/web", "box-1", false)
				s.pod("web", "u", 1)
				time.Sleep(5 * time.Minute)
				passes := 0
				s.step = func(call, _ string) {
					if call == "observe" {
						passes++
					}
					if call == moment && passes == 2 {
						s.mu.Lock()
						s.store(s.reservations, ippool.NewReservation("kube-system", "", addressOf(1), "default/web", "net1"))
						s.mu.Unlock()
					}
				}
				r := s.reconciler(t)
				r.Options.Repair = true
				out, _ := run(t, r)
				same(t, "repaired", len(out.Repaired), 0)
				same(t, "not repaired", len(out.Unrepaired), 0)
				if moment == "hold" { // what is there already stays as it is, and the next pass finds it
					same(t, "writes", s.made("create", "patch"), []string{"create 10.0.0.1"})
					return
				}
				same(t, "writes", s.made("create", "patch"), []string{})
			})
		})
	}
}

// A sandbox of which the pool knows nothing: its entry is written back, under a
// name that no successor takes over if the pod is unknown too.
func TestRepairWritesAnEntryBack(t *testing.T) {
	for _, phantom := range []bool{false, true} {
		t.Run(fmt.Sprintf("phantom: %v", phantom), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.entry(bluePool, 9, "default/other", "box-9", true)
				s.pod("other", "o", 9)
				if !phantom {
					s.pod("web", "u", 1)
				}
				report := &v1alpha1.SandboxReport{Sandboxes: []v1alpha1.Sandbox{
					{ID: "box-9", Namespace: "default", Name: "other", UID: "o", State: v1alpha1.SandboxReady},
					{ID: "box-1", Namespace: "default", Name: "web", UID: "u", State: v1alpha1.SandboxReady,
						Addresses: []v1alpha1.Address{{IP: "10.0.0.1", IfName: "net1", Network: "wb", Range: "10.0.0.0/16"}}},
				}}
				report.Name = "worker-1"
				s.step = func(string, string) {
					s.mu.Lock()
					defer s.mu.Unlock()
					report.ObservedAt.Time = time.Now()
					s.reports = []*podstate.Report{{SandboxReport: report, Renewed: time.Now(), LeaseRenewed: time.Now(), Written: time.Now()}}
				}
				r := s.reconciler(t)
				r.Options.Repair = true
				out, took := run(t, r)
				same(t, "it took", took, time.Minute)
				same(t, "not repaired", len(out.Unrepaired), 0)
				entry, _ := entriesOf(s.pools[bluePool])["1"].(map[string]any)
				want := "default/web"
				if phantom {
					want = "default/web_u"
				}
				same(t, "podref", fmt.Sprint(entry["podref"]), want)
				same(t, "id and ifname", fmt.Sprint(entry["id"], entry["ifname"]), "box-1net1")
				if !slices.ContainsFunc(out.Repaired, func(f judge.Finding) bool { return strings.Contains(f.IP, "10.0.0.1") }) {
					t.Errorf("repaired is %v", out.Repaired)
				}
			})
		})
	}
}

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

func TestARepairThatAlwaysFailsGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 999, "default/other", "box-999", false)
		s.pod("other", "o", 999)
		report := &v1alpha1.SandboxReport{}
		report.Name = "worker-1"
		for i := 1; i <= 50; i++ {
			name := fmt.Sprint("web-", i)
			s.pod(name, "u", i)
			report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: fmt.Sprint("box-", i), Namespace: "default", Name: name, UID: "u", State: v1alpha1.SandboxReady,
				Addresses: []v1alpha1.Address{{IP: addressOf(i).String(), IfName: "net1", Network: "wb", Range: "10.0.0.0/16"}}})
		}
		report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: "box-999", Namespace: "default", Name: "other", UID: "o", State: v1alpha1.SandboxReady})
		s.step = func(string, string) { s.heard(report) }
		s.fault = func(call, _ string) (error, bool) {
			if call == "patch" {
				return errServer, false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.Repair = true
		out, took := run(t, r)
		t.Log(len(out.Unrepaired), took, len(s.holds))
		if len(s.holds) > 50 {
			t.Errorf("%d holds in %s, and nothing could be written", len(s.holds), took)
		}
	})
}

func TestRepairHoldsNoLeaseForAPausedPool(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.entry(bluePool, 1, "default/web", "box-1", false)
		s.pod("web", "u", 1)
		s.pools[bluePool].SetAnnotations(map[string]string{ippool.PausedAnnotation: "true"})
		time.Sleep(5 * time.Minute)
		r := s.reconciler(t)
		r.Options.Repair = true
		began := time.Now()
		for range 5 {
			if _, _, err := r.Pass(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		same(t, "calls", s.made("hold", "create", "patch"), []string{})
		same(t, "it took", time.Since(began), 5*time.Minute)
	})
}

// One busy Lease must not keep the loop from everything else.
func TestRepairDoesNotWaitForABusyLeaseAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.entry(bluePool, 1, "default/web", "box-1", false)
		s.pod("web", "u", 1)
		time.Sleep(5 * time.Minute)
		s.fault = func(call, _ string) (error, bool) {
			if call == "hold" {
				return reconciler.ErrLeaseBusy, false
			}
			return nil, false
		}
		r := s.reconciler(t)
		r.Options.Repair = true
		for range 2 {
			if _, _, err := r.Pass(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		same(t, "holds", fmt.Sprint(s.made("hold")), "[hold [whereabouts]]")
	})
}

// A thousand of either kind: holds and patches are counted, not findings.
func TestRepairWritesManyUnderOneHold(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		const n = 300
		report := &v1alpha1.SandboxReport{}
		report.Name = "worker-1"
		for i := 1; i <= n; i++ { // entries without a reservation, and sandboxes without an entry
			name, id := fmt.Sprint("web-", i), fmt.Sprint("box-", i)
			s.entry(bluePool, i, "default/"+name, id, false)
			s.pod(name, "u", i)
			report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: "lost-" + id, Namespace: "default", Name: "lost-" + name, UID: "u", State: v1alpha1.SandboxReady,
				Addresses: []v1alpha1.Address{{IP: addressOf(n + i).String(), IfName: "net1", Network: "wb", Range: "10.0.0.0/16"}}})
			report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: id, Namespace: "default", Name: name, UID: "u", State: v1alpha1.SandboxReady})
		}
		time.Sleep(5 * time.Minute)
		s.step = func(string, string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			report.ObservedAt.Time = time.Now()
			s.reports = []*podstate.Report{{SandboxReport: report, Renewed: time.Now(), LeaseRenewed: time.Now(), Written: time.Now()}}
		}
		r := s.reconciler(nil)
		r.Options.Repair, r.Options.AllowMassRepair = true, true // one node does not have so many
		out, _ := run(t, r)
		same(t, "not repaired", len(out.Unrepaired), 0)
		same(t, "entries and reservations written", len(out.Repaired), 3*n)
		same(t, "left", out.ToRepair, 0)
		same(t, "entries", len(entriesOf(s.pools[bluePool])), 2*n)
		same(t, "reservations", len(s.reservations), 2*n)
		same(t, "holds and patches", len(s.made("hold", "patch")), 2)
	})
}
