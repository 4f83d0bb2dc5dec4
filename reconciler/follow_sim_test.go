package reconciler_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// What is followed comes again and again in a busy cluster: a finding that waits
// for its minute must not begin again each time.
func TestWhatIsFollowedDoesNotPutARepairOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.entry(bluePool, 1, "default/web", "box-1", false)
		s.pod("web", "u", 1)
		time.Sleep(5 * time.Minute)
		r := s.reconciler(t)
		r.Options.Repair = true
		out, until, err := r.Pass(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		other := map[types.NamespacedName]*podstate.Pod{{Namespace: "default", Name: "other"}: nil}
		for now := time.Now(); now.Before(until); now = time.Now() {
			time.Sleep(5 * time.Second)
			r.Follow(t.Context(), out.Judgement, &judge.Live{Now: time.Now(), Pods: other}, nil)
		}
		if out, _, err = r.Pass(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		same(t, "repaired", len(out.Repaired), 1)
	})
}

func TestWhatIsFollowedIsReleasedAfterTheSecondCheck(t *testing.T) {
	for name, back := range map[string]bool{"and it is gone": false, "and it is back": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.aNetwork()
				s.entry(bluePool, 1, "default/web", "box-1", true)
				s.entry(bluePool, 2, "default/other", "box-2", true)
				s.pod("web", "u", 1)
				s.pod("other", "u", 2)
				time.Sleep(5 * time.Minute)
				r := s.reconciler(t)
				out, _, err := r.Pass(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				gone := types.NamespacedName{Namespace: "default", Name: "web"}
				if !back {
					s.mu.Lock()
					delete(s.pods, gone)
					s.mu.Unlock()
				}
				changes := &judge.Live{Now: time.Now(), Pods: map[types.NamespacedName]*podstate.Pod{gone: nil}}
				done := r.Follow(t.Context(), out.Judgement, changes, nil)
				want := 2 // the entry and its reservation
				if back {
					want = 0
				}
				same(t, "released", len(done.Released), want)
				same(t, "entries left", len(entriesOf(s.pools[bluePool])), 2-want/2)
			})
		})
	}
}

// pass is a run, or a pass whose changes are then followed, and what was released.
func (w *randomCluster) pass(r *reconciler.Reconciler, follow bool) ([]*judge.Item, error) {
	if !follow {
		out, err := r.Run(context.Background())
		if err != nil {
			return nil, err
		}
		return out.Released, nil
	}
	before, err := w.List(context.Background())
	if err != nil {
		return nil, err
	}
	out, _, err := r.Pass(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	released := out.Released
	for range 3 {
		time.Sleep(30 * time.Second) // what is not confirmed waits to be confirmed
		now, err := w.List(context.Background())
		if err != nil {
			return nil, err
		}
		done := r.Follow(context.Background(), out.Judgement, changesOf(before, now), nil).Released
		released, w.followed = append(released, done...), w.followed+len(done)
		before = now
	}
	return released, nil
}

// changesOf has every object of either observation.
func changesOf(before, now *judge.Observation) *judge.Live {
	live := &judge.Live{Now: now.Now, Pods: map[types.NamespacedName]*podstate.Pod{}, Pools: map[types.NamespacedName]*ippool.Pool{}, Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	for _, o := range []*judge.Observation{before, now} {
		is := o == now
		for name, p := range o.Pods {
			if live.Pods[name] = nil; is {
				live.Pods[name] = p
			}
		}
		for _, p := range o.Pools {
			name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
			if live.Pools[name] = nil; is {
				live.Pools[name] = p
			}
		}
		for _, p := range o.Reservations {
			name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
			if live.Reservations[name] = nil; is {
				live.Reservations[name] = p
			}
		}
	}
	return live
}
