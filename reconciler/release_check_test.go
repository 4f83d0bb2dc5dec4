package reconciler_test

import (
	"context"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// beforeHold does something once, when whereabouts' Lease is first asked for.
func (s *simulator) beforeHold(do func()) {
	done := false
	s.step = func(call, _ string) {
		if call == "hold" && !done {
			done = true
			do()
		}
	}
}

// An ADD of a successor takes the entry over and needs its reservation.
func TestAnEntryThatWasRewrittenKeepsItsReservation(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		s.beforeHold(func() { s.entry(bluePool, 1, "default/gone-1", "box-new", false) })
		out, _, err := s.reconciler(t).Pass(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "deleted", s.made("delete"), []string{"delete 10.0.0.2"})
		same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, "reservation 10.0.0.1": true})
		same(t, "released", len(out.Released), 2)
	})
}

// What may be released now is the reservation alone, and what it belongs to may not.
func TestAReservationForWhichAnEntryHasAppearedStays(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 9, "default/gone-9", "box-9", false)
		s.store(s.reservations, ippool.NewReservation("kube-system", networkOf(bluePool), addressOf(1), "default/gone-1", "net1"))
		time.Sleep(5 * time.Minute)
		s.beforeHold(func() { s.entry(bluePool, 1, "default/gone-1", "box-1", false) })
		if _, _, err := s.reconciler(t).Pass(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		same(t, "deleted", s.made("delete"), []string{})
	})
}

// Whoever waits for the Lease for long waits with what its reports said before.
func TestASandboxThatAppearsWhileTheLeaseIsWaitedForIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		time.Sleep(5 * time.Minute)
		s.heard(goneOn("worker-1", v1alpha1.Gone{ID: "box-1", UID: "uid-1"}))
		s.takes["hold"] = 6 * time.Second
		runs := goneOn("worker-1")
		runs.Sandboxes = []v1alpha1.Sandbox{{ID: "box-1", UID: "uid-1", Namespace: "default", Name: "gone-1", State: v1alpha1.SandboxReady}}
		s.beforeHold(func() { s.heard(runs) })
		if _, _, err := s.reconciler(t).Pass(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		same(t, "holds", len(s.holds), 1)
		same(t, "writes", s.made("delete", "patch"), []string{})
	})
}

func TestAnEntryStaysWhileItsReservationCannotBeDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		s.fault = func(call, object string) (error, bool) {
			if call == "delete" && object == "10.0.0.1" {
				return errServer, false
			}
			return nil, false
		}
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, "reservation 10.0.0.1": true})
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.WriteFailed: 1})
	})
}

// The Lease may be somebody else's when a write arrives that begins in the hold's last second.
func TestNothingIsWrittenWhenTheSecondCheckHasTakenAllOfTheHold(t *testing.T) {
	for _, reserved := range []bool{true, false} {
		bubble(t, func(t *testing.T, s *simulator) {
			s.entry(bluePool, 1, "default/gone-1", "box-1", reserved)
			s.takes["fresh"] = 4200 * time.Millisecond
			before := s.stored()
			out, _ := run(t, s.reconciler(t))
			same(t, "writes", s.made("delete", "patch"), []string{})
			same(t, "stored", s.stored(), before)
			same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.WriteFailed: 1})
		})
	}
}

// pausedLater is paused by the operator while a release is tried again.
type pausedLater struct {
	*simulator
	paused bool
}

func (p *pausedLater) Relist(ctx context.Context, before *judge.Observation) (*judge.Observation, error) {
	o, err := p.simulator.Relist(ctx, before)
	if err == nil {
		o.Paused = p.paused
	}
	return o, err
}

// What was begun is undone, and no ADD waits for it.
func TestAPauseEndsARelease(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		before := s.stored()
		p := &pausedLater{simulator: s}
		s.takes["patch"] = 6 * time.Second
		s.fault = func(call, _ string) (error, bool) {
			if call == "patch" {
				p.paused = true
				return errServer, false
			}
			return nil, false
		}
		r := s.reconciler(t)
		r.Source = p
		out, _ := run(t, r)
		same(t, "holds", len(s.holds), 1)
		same(t, "stored", s.stored(), before)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.Paused: 1})
	})
}

// By the next pass etcd is past the revision that was known before.
func TestARestoreThatOnlyTheSecondCheckShowedIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		s.heard(goneOn("worker-1", v1alpha1.Gone{ID: "box-1", UID: "uid-1"}))
		time.Sleep(time.Second)
		s.revision = 100
		s.step = func(call, _ string) {
			if call == "fresh" {
				s.revision = 1
			}
		}
		r, next := s.reconciler(t), s.reconciler(t)
		r.Restores, next.Restores = &keptRestores{}, &keptRestores{}
		for _, says := range []string{"the pass that shows it", "the next process", "the next pass"} {
			if r, next = next, r; says == "the next process" {
				r.Restores = &keptRestores{next.Restores.(*keptRestores).text}
			}
			out, _, err := r.Pass(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			same(t, says, refusalCounts(out), map[reconciler.Refusal]int{reconciler.EtcdRestored: 1})
			s.step, s.revision = nil, 200
		}
	})
}

// keptRestores is what processes keep of restores.
type keptRestores struct{ text string }

func (k *keptRestores) Amend(_ context.Context, change func(string) (string, error)) error {
	text, err := change(k.text)
	if err == nil {
		k.text = text
	}
	return err
}
