package reconciler_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// at lets something happen before the pass of a minute, counted from the first.
func (s *simulator) at(happen map[int]func()) {
	passes := -1
	s.step = func(call, _ string) {
		if call == "observe" {
			if passes++; happen[passes] != nil {
				happen[passes]()
			}
		}
	}
}

func TestARunPassesEveryMinuteUntilAllIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		out, took := run(t, r)
		same(t, "it took", took, 15*time.Minute)
		same(t, "passes", len(s.made("observe")), 16)
		same(t, "holds", len(s.holds), 1)
		same(t, "released", len(out.Released), 4)
		same(t, "stored", len(s.stored()), 0)
	})
}

func TestAContradictionRestartsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		s.at(map[int]func(){
			7: func() { s.pod("gone-1", "back", 1) }, // and it carries the address
			9: func() { s.noPod("gone-1") },
		})
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		// At the seventh minute nothing waits, so the run ends; a second one, of
		// the same process, goes on with what it saw.
		_, took := run(t, r)
		same(t, "the first run took", took, 7*time.Minute)
		time.Sleep(time.Minute)
		run(t, r)
		time.Sleep(time.Minute)
		began := time.Now()
		out, _ := run(t, r)
		same(t, "released", len(out.Released), 2)
		same(t, "after the pod was gone for", time.Since(began), 15*time.Minute)
	})
}

// A contradiction in the second check alone counts as well.
func TestAContradictionInTheRecheckRestartsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		s.step = func(call, _ string) {
			switch call {
			case "freshening":
				s.pod("gone-1", "back", 1)
			case "observe":
				s.noPod("gone-1")
			}
		}
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		out, _ := run(t, r)
		same(t, "released", len(out.Released), 2) // the other one
		s.step = nil
		s.noPod("gone-1")
		began := time.Now()
		out, _ = run(t, r)
		same(t, "released by the next run", len(out.Released), 2)
		same(t, "which took", time.Since(began), 15*time.Minute)
	})
}

// What was released is in the result at the end, and is not judged again.
func TestTwoConfirmedAtDifferentTimesAreBothReleasedAndTheRunEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		s.at(map[int]func(){3: func() { s.entry(bluePool, 2, "default/gone-2", "box-2", true) }})
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		began := time.Now()
		out, err := r.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "it took", time.Since(began), 18*time.Minute)
		same(t, "released", len(out.Released), 4)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "holds", len(s.holds), 2)
		same(t, "allocations in the result", len(out.Allocations), 2)
	})
}

func TestARunThatIsStoppedWhileItWaitsReportsWhatItLeft(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 3)
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		began := time.Now()
		out, err := r.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "it took", time.Since(began), 150*time.Second)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.AwaitingConfirmation: 3})
		same(t, "writes", s.made("delete", "patch", "hold"), []string{})
	})
}

// What is proven does not wait for what is not.
func TestWhatIsProvenGoesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		report := &v1alpha1.SandboxReport{Gone: []v1alpha1.Gone{{ID: "box-1", UID: "uid-1"}}}
		report.Name = "worker-1"
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 15 * time.Minute
		s.step = func(string, string) { // heard in every pass
			s.mu.Lock()
			defer s.mu.Unlock()
			report.ObservedAt.Time = time.Now()
			s.reports = []*podstate.Report{{SandboxReport: report, Renewed: time.Now(), LeaseRenewed: time.Now(), Written: time.Now()}}
		}
		began := time.Now()
		out, took := run(t, r)
		same(t, "the first hold came after", s.holds[0].began.Sub(began), time.Duration(0))
		same(t, "entries per hold", s.removedPerHold(), []int{1, 1})
		same(t, "it took", took, 15*time.Minute)
		same(t, "released", len(out.Released), 4)
	})
}

// A pass of a long-running process frees 30 of 100, the next 30 more: together
// they are more than half of what there was at first.
func TestTheBreakerCountsOverPasses(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		for i := range 100 {
			s.entry(bluePool, i+1, fmt.Sprintf("default/gone-%d", i+1), fmt.Sprintf("box-%d", i+1), true)
			if i >= 30 {
				s.pod(fmt.Sprintf("gone-%d", i+1), "u", i+1)
			}
		}
		r := s.reconciler(t)
		out, _ := run(t, r)
		same(t, "released by the first pass", len(out.Released), 60)
		for i := 30; i < 60; i++ {
			s.noPod(fmt.Sprintf("gone-%d", i+1))
		}
		time.Sleep(50 * time.Minute)
		out, _ = run(t, r)
		same(t, "refused by the second", refusalCounts(out), map[reconciler.Refusal]int{reconciler.Breaker: 30})
		same(t, "released by the second", len(out.Released), 0)
		time.Sleep(10*time.Minute + time.Second)
		out, _ = run(t, r)
		same(t, "released an hour after the first", len(out.Released), 60)
		same(t, "refused by then", refusalCounts(out), map[reconciler.Refusal]int{})
	})
}

// aNetwork lets findings know that the pool's network uses reservations.
func (s *simulator) aNetwork() {
	s.nads[types.NamespacedName{Namespace: "default", Name: "wb"}] = &ippool.NAD{Namespace: "default", Name: "wb",
		Networks: []ippool.Network{{Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, Overlapping: true}}}
}

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
