package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// at lets something happen before the passes of some numbers, from 0.
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

func TestRun_WaitsForConfirmation(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		r := s.confirming(t)
		out, took := run(t, r)
		same(t, "it took", took, 15*time.Minute)
		same(t, "passes", len(s.made("observe")), 16)
		same(t, "holds", len(s.holds), 1)
		same(t, "released", len(out.Released), 4)
		same(t, "stored", len(s.stored()), 0)
	})
}

// A contradiction in the second check counts, too.
func TestRun_SecondCheckContradicts(t *testing.T) {
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
		r := s.confirming(t)
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

// The final result has what earlier passes released.
func TestRun_TwoConfirmations(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		s.at(map[int]func(){2: func() { s.pod("gone-2", "", 2) }, 3: func() { s.noPod("gone-2") }})
		r := s.confirming(t)
		out, took := run(t, r)
		same(t, "it took", took, 18*time.Minute)
		same(t, "released", len(out.Released), 4)
		same(t, "refused", refusalCounts(out), nil)
		same(t, "holds", len(s.holds), 2)
		same(t, "allocations in the result", len(out.Allocations), 2)
	})
}

// A run waits neither for leaks nor for findings that appear after its first pass.
func TestRun_EndsUnderChurn(t *testing.T) {
	for name, tt := range map[string]struct {
		appears func(s *simulator, n int) // before each pass
		took    time.Duration
		done    int
		refused refusals
	}{
		"leaks": {func(s *simulator, n int) {
			s.noPod(fmt.Sprint("web-", n))
		}, 15 * time.Minute, 2, refusals{plan.AwaitingConfirmation: 15}},
		"findings": {func(s *simulator, n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.api.Delete(fakeapi.At(fakeapi.Reservations, "kube-system", addressOf(1+n).String()))
		}, time.Minute, 1, nil},
	} {
		inBubble(t, name, func(t *testing.T, s *simulator) {
			s.aNetwork()
			for n := range 200 {
				web := fmt.Sprint("web-", n)
				s.entry(bluePool, 1+n, "default/"+web, fmt.Sprint("box-", n), true)
				s.pod(web, "u", 1+n)
			}
			time.Sleep(5 * time.Minute) // of younger pods nothing is missing
			passes := 0
			s.before("observe", func() { tt.appears(s, passes); passes++ })
			r := s.reconciler(t)
			r.Options.ConfirmAfter, r.Options.Repair = 15*time.Minute, true
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			began := time.Now()
			out, err := r.Run(ctx)
			check(t, err)
			same(t, "it took", time.Since(began), tt.took)
			same(t, "released and repaired", len(out.Released)+len(out.Repaired), tt.done)
			same(t, "refused", refusalCounts(out), tt.refused)
			for _, x := range out.Refused {
				same(t, "detail", x.Detail, "not confirmed when the run ended; run again")
			}
		})
	}
}

func TestRun_MaxWait(t *testing.T) {
	for most, want := range map[time.Duration]int{30 * time.Minute: 1, 2 * time.Hour: 0, 0: 0} {
		bubble(t, func(t *testing.T, s *simulator) {
			s.leaks(bluePool, 1)
			time.Sleep(time.Hour)
			r := s.reconciler(t)
			r.Options.ConfirmAfter, r.MaxWait = time.Hour, most
			began := time.Now()
			out, err := r.Run(t.Context())
			same(t, "error", err, nil)
			same(t, "refused", len(out.Refused), want)
			if took := time.Since(began); want > 0 && took > most {
				t.Errorf("it waited %s", took)
			}
			if want > 0 {
				same(t, "when", out.Refused[0].At(), time.Time{})
			}
		})
	}
}

func TestRun_EndedWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		time.Sleep(time.Hour)
		r := s.reconciler(t)
		r.Options.ConfirmAfter = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		out, err := r.Run(ctx)
		same(t, "error", err, nil)
		same(t, "refused", refusalCounts(out), refusals{plan.AwaitingConfirmation: 1})
		same(t, "writes", s.made("delete", "patch", "hold"), []string{})
		same(t, "when", out.Refused[0].At(), time.Time{})
		same(t, "detail", out.Refused[0].Detail, "not confirmed when the run ended; run again")
	})
}

func TestRun_DryRun(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 3)
		r := s.reconciler(t)
		r.Options.DryRun, r.Options.Repair, r.Options.ConfirmAfter = true, true, time.Hour
		out, took := run(t, r)
		same(t, "calls", s.made("hold", "fresh", "refresh", "delete", "patch", "create"), []string{})
		same(t, "refused", refusalCounts(out), map[plan.Refusal]int{plan.AwaitingConfirmation: 3})
		same(t, "it took", took, time.Duration(0))
		r.Options.ConfirmAfter = 0
		out, _ = run(t, r)
		same(t, "writes", s.made("hold", "delete", "patch", "create"), []string{})
		same(t, "refused", refusalCounts(out), map[plan.Refusal]int{plan.DryRunRefusal: 3})
	})
}

// Before the next pass etcd's revision exceeds the known one.
func TestRun_SecondCheckDetectsRestore(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		s.setReport(goneOn("worker-1", v1alpha1.Gone{ID: "box-1", UID: "uid-1"}))
		time.Sleep(time.Second)
		s.api.Revision = 100
		s.step = func(call, _ string) {
			if call == "fresh" {
				s.api.Revision = 1
			}
		}
		r, next := s.reconciler(t), s.reconciler(t)
		r.RestoreStore, next.RestoreStore = &keptRestores{}, &keptRestores{}
		for _, says := range []string{"the pass that shows it", "the next process", "the next pass"} {
			if r, next = next, r; says == "the next process" {
				r.RestoreStore = &keptRestores{next.RestoreStore.(*keptRestores).text}
			}
			out := pass(t, r)
			same(t, says, refusalCounts(out), map[plan.Refusal]int{plan.EtcdRestored: 1})
			s.step, s.api.Revision = nil, 200
		}
	})
}

// keptRestores is a StateStore in memory.
type keptRestores struct{ text string }

func (k *keptRestores) Update(_ context.Context, change func(string) (string, error)) error {
	text, err := change(k.text)
	if err == nil {
		k.text = text
	}
	return err
}

// serve's liveness probe fails after ten minutes without progress. While requests hang no page of a LIST is progress.
func TestExecutor_Progress(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1000)
		s.takes["refresh"] = time.Minute // 2 tries of 30 s, kube.Cluster.call
		s.fault = func(call, _ string) (error, bool) {
			if call == "refresh" {
				return errServer, false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		last, longest := time.Now(), time.Duration(0)
		r.Progress = func(string) { longest, last = max(longest, time.Since(last)), time.Now() }
		_, took := run(t, r)
		longest = max(longest, time.Since(last))
		if longest > 10*time.Minute {
			t.Errorf("no progress for %s of %s", longest, took)
		} else {
			t.Logf("at most %s of %s without progress", longest, took)
		}
	})
}
