package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

var errServer = errors.New("the API server does not answer")

// bubble runs a test on a simulator with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T, s *simulator)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulator()
		f(t, s)
		if len(s.late) > 0 {
			t.Errorf("written when the hold was nearly over: %v", s.late)
		}
	})
}

// leaks makes entries of pods that are gone, with their reservations.
func (s *simulator) leaks(pool string, n int) {
	s.entry(pool, 1, "default/gone-1", "box-1", true)
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.pools[pool].DeepCopy()
	entries := u.Object["spec"].(map[string]any)["allocations"].(map[string]any)
	for i := 2; i <= n; i++ {
		name := fmt.Sprintf("default/gone-%d", i)
		entries[fmt.Sprint(i)] = map[string]any{"id": fmt.Sprintf("box-%d", i), "podref": name, "ifname": "net1"}
		s.store(s.reservations, ippool.NewReservation("kube-system", networkOf(pool), addressOf(i), name, "net1"))
	}
	s.store(s.pools, u)
}

// run makes a pass and returns how long it took by the bubble's clock.
func run(t *testing.T, r *reconciler.Reconciler) (*reconciler.Result, time.Duration) {
	t.Helper()
	began := time.Now()
	out, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out, time.Since(began)
}

// refusalCounts counts the refused items by their reason.
func refusalCounts(out *reconciler.Result) map[reconciler.Refusal]int {
	counts := map[reconciler.Refusal]int{}
	for _, x := range out.Refused {
		counts[x.Why]++
	}
	return counts
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAReservationGoesBeforeItsEntryUnderTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", len(s.stored()), 0)
		same(t, "released", len(out.Released), 4)
		calls := s.made("hold", "fresh", "delete", "patch", "create")
		same(t, "the last call", calls[len(calls)-1], "patch 10.0.0.0-16")
		same(t, "the first two", calls[:2], []string{"hold [whereabouts]", "fresh "})
	})
}

func TestWhatNeverFitsIntoAHoldIsLeftAsItWas(t *testing.T) {
	for name, slow := range map[string]string{"the recheck": "fresh", "the patch": "patch"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.leaks(bluePool, 3)
				before := s.stored()
				s.takes[slow] = 11 * time.Second
				out, took := run(t, s.reconciler(t))
				same(t, "stored", s.stored(), before)
				same(t, "released", len(out.Released), 0)
				same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.WriteFailed: 3})
				if took > 2*time.Minute {
					t.Errorf("it took %s to give up", took)
				}
			})
		})
	}
}

func TestAPoolThatAlwaysConflictsGivesUpAndOthersDoNot(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		s.leaks(redPool, 2)
		s.step = func(call, object string) {
			if call == "patch" && object == bluePool {
				s.mu.Lock()
				s.store(s.pools, s.pools[bluePool].DeepCopy())
				s.mu.Unlock()
			}
		}
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, bluePool + " 2": true, "reservation 10.0.0.1": true, "reservation 10.0.0.2": true})
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.Changed: 2})
		if n := len(s.made("patch")); n > 20 {
			t.Errorf("%d patches were sent", n)
		}
	})
}

func TestWithoutTheLeaseNothingIsWritten(t *testing.T) {
	for err, reason := range map[error]reconciler.Refusal{
		reconciler.ErrLeaseBusy: reconciler.LeaseBusy, reconciler.ErrLeaseForbidden: reconciler.NoLease,
		reconciler.ErrLeaseFailed: reconciler.WriteFailed, errServer: reconciler.WriteFailed,
	} {
		t.Run(err.Error(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.leaks(bluePool, 1500) // more than a batch
				s.fault = func(call, _ string) (error, bool) {
					if call == "hold" {
						return fmt.Errorf("hold: %w", err), false
					}
					return nil, false
				}
				r := s.reconciler(nil)
				r.Options.AllowMassRelease = true
				out, _ := run(t, r)
				same(t, "writes", s.made("delete", "patch", "create"), []string{})
				same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reason: 1500})
			})
		})
	}
}

// A Lease that gets busy after some were released leaves the others, and all
// reservations that belong to them.
func TestWhatWasReleasedBeforeTheLeaseGotBusyCounts(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1500)
		s.fault = func(call, _ string) (error, bool) {
			if call == "hold" && len(s.holds) > 0 {
				return reconciler.ErrLeaseBusy, false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		out, _ := run(t, r)
		same(t, "stored", len(s.stored()), 1000)
		same(t, "released", len(out.Released), 2000)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.LeaseBusy: 500})
	})
}

func TestAPatchThatFailsForGoodPutsTheReservationsBack(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("the run is being stopped: %v", stopped), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.leaks(bluePool, 3)
				before := s.stored()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s.fault = func(call, _ string) (error, bool) {
					if call == "patch" {
						if stopped {
							cancel()
						}
						return errServer, false
					}
					return nil, false
				}
				out, err := s.reconciler(t).Run(ctx)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "stored", s.stored(), before)
				same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.WriteFailed: 3})
			})
		})
	}
}

// The answer to a write may be lost whether it was done or not.
func TestALostAnswerIsNeitherAReleaseNorAFailureUntilReadAgain(t *testing.T) {
	for _, write := range []string{"patch", "delete"} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, done: %v", write, done), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *simulator) {
					s.leaks(bluePool, 1)
					lost := false
					s.fault = func(call, _ string) (error, bool) {
						if call != write || lost {
							return nil, false
						}
						lost = true
						return errServer, done
					}
					out, _ := run(t, s.reconciler(t))
					same(t, "stored", s.stored(), map[string]bool{})
					same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
					same(t, "released", len(out.Released), 2)
				})
			})
		}
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 3)
		r := s.reconciler(t)
		r.Options.DryRun, r.Options.Repair, r.Options.ConfirmAfter = true, true, time.Hour
		out, took := run(t, r)
		same(t, "calls", s.made("hold", "fresh", "refresh", "delete", "patch", "create"), []string{})
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.AwaitingConfirmation: 3})
		same(t, "it took", took, time.Duration(0))
		r.Options.ConfirmAfter = 0
		out, _ = run(t, r)
		same(t, "writes", s.made("hold", "delete", "patch", "create"), []string{})
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.DryRunRefusal: 3})
	})
}

// Nothing is released by what was read before and after etcd was restored.
func TestAnEtcdRestoreBeforeTheRecheckReleasesNothing(t *testing.T) {
	for _, moment := range []string{"refresh", "fresh"} {
		t.Run("before the "+moment, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.leaks(bluePool, 3)
				before := s.stored()
				s.step = func(call, _ string) {
					if call == moment {
						s.mu.Lock()
						s.revision = 1
						s.mu.Unlock()
					}
				}
				out, _ := run(t, s.reconciler(t))
				same(t, "stored", s.stored(), before)
				same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.EtcdRestored: 3})
				same(t, "writes", s.made("delete", "patch"), []string{})
			})
		})
	}
}

// The pod that has come back in between is asked about last, so that an entry
// which was read belongs to a pod that is known.
func TestAPodThatAppearsDuringTheRecheckIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		s.step = func(call, _ string) {
			if call == "freshening" {
				s.pod("gone-1", "another")
			}
		}
		out, _ := run(t, s.reconciler(t))
		same(t, "released", len(out.Released), 0)
		same(t, "writes", s.made("delete", "patch"), []string{})
		if !slices.ContainsFunc(out.Allocations, func(it *judge.Item) bool { return strings.Contains(it.PodRef(), "gone-1") }) {
			t.Error("the entry is not in the result")
		}
	})
}
