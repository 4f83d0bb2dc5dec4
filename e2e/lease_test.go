package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// holder makes a Cluster that holds Leases under a name.
func (s *stage) holder(t *testing.T, identity string) *kube.Cluster {
	t.Helper()
	return try(kube.New(s.Config(), kube.Settings{
		Namespace: "kube-system", Identity: identity, Log: discard, Jitter: func(d time.Duration) time.Duration { return d },
	})).must(t)
}

// heldBy is who holds a Lease, "" if nobody does or there is none.
func (s *stage) heldBy(t *testing.T, name string) string {
	t.Helper()
	list := try(s.Client().CoordinationV1().Leases("kube-system").List(context.Background(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})).must(t)
	if len(list.Items) == 0 {
		return ""
	}
	return ptr.Deref(list.Items[0].Spec.HolderIdentity, "")
}

func TestALeaseIsTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")

	s.play(t, "with the other one for a pool that may be a node's slice", func(t *testing.T) {
		names := []string{"worker-1-10.1.0.0-24", "whereabouts"}
		check(t, s.holder(t, "us").Hold(t.Context(), "kube-system", names, func(context.Context, *reconciler.Hold) error {
			for _, name := range names {
				equal(t, "the holder of "+name, s.heldBy(t, name), "us")
			}
			return nil
		}))
		for _, name := range names {
			equal(t, "the holder of "+name+" afterwards", s.heldBy(t, name), "")
		}
	})

	s.play(t, "and none is while the first is somebody else's", func(t *testing.T) {
		s.lease(t, "busy", "somebody", time.Minute)
		stop := s.renewing(t, "busy")
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		leases := try(record(t.Context(), s.Dynamic().Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).Namespace("kube-system"))).must(t)
		err := s.holder(t, "us").Hold(ctx, "kube-system", []string{"busy", "mine"}, func(context.Context, *reconciler.Hold) error {
			t.Error("it was held although somebody else renews it")
			return nil
		})
		if !errors.Is(err, reconciler.ErrLeaseBusy) {
			t.Errorf("the error is %v", err)
		}
		check(t, leases.catchUp(t.Context()))
		for _, v := range leases.during("mine", 1, 1<<62) {
			if v.object != nil {
				t.Errorf("the Lease that was free was written: %v", v.object)
			}
		}
		stop()
	})

	s.play(t, "without another one that is somebody else's", func(t *testing.T) {
		s.lease(t, "busy-slice", "somebody", time.Minute)
		stop := s.renewing(t, "busy-slice")
		check(t, s.holder(t, "us").Hold(t.Context(), "kube-system", []string{"shared", "busy-slice", "free-slice"}, func(_ context.Context, h *reconciler.Hold) error {
			equal(t, "the Leases that are held", h.Leases, []string{"shared", "free-slice"})
			return nil
		}))
		stop()
	})

	s.play(t, "by a run, which takes what the pools need", func(t *testing.T) {
		red := network("red", harness.IPAM{"range": "10.1.0.0/24", "network_name": "red"})
		blue := simple("blue", "10.1.0.0/24")
		s.up(t, "worker-1", "web", blue, red).leak(t)
		leases := try(record(t.Context(), s.Dynamic().Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).Namespace("kube-system"))).must(t)
		s.run(t).exits(t, 0)
		check(t, leases.catchUp(t.Context()))
		for name, holds := range map[string]int{"whereabouts": 1, "red-10.1.0.0-24": 1} { // both pools under one hold
			var holders []string
			for _, v := range leases.during(name, 1, 1<<62) {
				if v.object != nil {
					spec, _ := v.object.Object["spec"].(map[string]any)
					holders = append(holders, fmt.Sprint(spec["holderIdentity"]))
				}
			}
			ours := len(slices.DeleteFunc(slices.Clone(holders), func(h string) bool { return len(h) < 12 || h[:12] != "ip-reconcile" }))
			if ours != holds || holders[len(holders)-1] != "" {
				t.Errorf("the holders of %s were %q, want ours %d times and nobody in the end", name, holders, holds)
			}
		}
	})
}

func TestAHoldEndsAfterFiveSecondsHoweverLongTheWorkTakes(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue := simple("blue", "10.1.0.0/24")
	s.up(t, "worker-2", "first", blue)

	s.play(t, "and a real ADD waits for it, and then succeeds", func(t *testing.T) {
		us := s.holder(t, "us")
		added := make(chan *pod, 1)
		err := us.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(ctx context.Context, _ *reconciler.Hold) error {
			go func() { added <- s.pending(t, "worker-1", "web", blue) }()
			select { // work that hangs
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
				t.Error("the hold does not end")
			}
			select {
			case <-added:
				t.Error("ADD did not wait for our hold")
			default:
			}
			return ctx.Err()
		})
		ended := time.Now()
		if !errors.Is(err, reconciler.ErrHoldSpent) {
			t.Errorf("the error is %v", err)
		}
		equal(t, "the holder afterwards is us", s.heldBy(t, "whereabouts") == "us", false)
		p := <-added
		t.Logf("ADD returned %d ms after the hold", time.Since(ended).Milliseconds())
		equal(t, "the address of the ADD", len(p.ips), 1)

		check(t, us.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
			if off := time.Since(ended); off < 4900*time.Millisecond { // as long as it was on
				t.Errorf("taken again after %s", off)
			}
			return nil
		}))
		t.Logf("the next hold came %d ms after the last one", time.Since(ended).Milliseconds())
	})

	s.play(t, "and nobody is kept out for longer", func(t *testing.T) {
		us, them := s.holder(t, "us"), s.holder(t, "them")
		holding := make(chan time.Time)
		go us.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(ctx context.Context, _ *reconciler.Hold) error {
			holding <- time.Now()
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
			return nil
		})
		began := <-holding
		check(t, them.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
			if after := time.Since(began); after > 8*time.Second { // 5 s, on a machine that is slow
				t.Errorf("it was held for %s", after)
			}
			return nil
		}))
	})
}

func TestWeWaitForWhoeverHoldsTheLease(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")

	s.play(t, "a real ADD that takes its time", func(t *testing.T) {
		slow := network("slow", harness.IPAM{"range": "10.1.0.0/24", "sleep_for_race": 2})
		added := make(chan *pod, 1)
		go func() { added <- s.pending(t, "worker-1", "web", slow) }()
		eventually(t, "ADD to hold the Lease", func() bool { return s.heldBy(t, "whereabouts") == "default/web" })
		check(t, s.holder(t, "us").Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
			equal(t, "entries and reservations at our turn", len(s.contents(t)), 2)
			return nil
		}))
		equal(t, "the address of the ADD", (<-added).ips, []string{"10.1.0.1"})
	})

	s.play(t, "as long as it is renewed", func(t *testing.T) {
		s.lease(t, "renewed", "somebody", time.Second)
		stop := s.renewing(t, "renewed")
		time.AfterFunc(4*time.Second, func() { stop() })
		check(t, s.holder(t, "us").Hold(t.Context(), "kube-system", []string{"renewed"}, func(context.Context, *reconciler.Hold) error {
			if after := time.Since(stop()); after < 1400*time.Millisecond {
				t.Errorf("taken %s after its last renewal", after)
			}
			return nil
		}))
	})

	s.play(t, "but not for one who has gone without giving it back", func(t *testing.T) {
		s.lease(t, "abandoned", "gone", time.Second)
		began := time.Now()
		check(t, s.holder(t, "us").Hold(t.Context(), "kube-system", []string{"abandoned"}, func(context.Context, *reconciler.Hold) error { return nil }))
		if took := time.Since(began); took < 1500*time.Millisecond {
			t.Errorf("it was taken over after %s", took)
		}
		equal(t, "transitions", *try(s.Client().CoordinationV1().Leases("kube-system").Get(t.Context(), "abandoned", metav1.GetOptions{})).must(t).Spec.LeaseTransitions, int32(1))
	})
}

// lease writes a Lease that somebody holds, who is gone when it has not been renewed for
// so long.
func (s *stage) lease(t *testing.T, name, holder string, duration time.Duration) {
	t.Helper()
	try(s.Client().CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(duration.Seconds())), LeaseTransitions: ptr.To(int32(0)),
			RenewTime: ptr.To(metav1.NowMicro())},
	}, metav1.CreateOptions{})).must(t)
	t.Cleanup(func() {
		_ = s.Client().CoordinationV1().Leases("kube-system").Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

// renewing renews a Lease as its holder would, until it is stopped or somebody else
// has it; stop returns when it was renewed last.
func (s *stage) renewing(t *testing.T, name string) (stop func() time.Time) {
	done, ended := make(chan struct{}), make(chan time.Time, 1)
	leases := s.Client().CoordinationV1().Leases("kube-system")
	holder := *try(leases.Get(t.Context(), name, metav1.GetOptions{})).must(t).Spec.HolderIdentity
	go func() {
		for last := time.Now(); ; {
			l, err := leases.Get(context.Background(), name, metav1.GetOptions{})
			if err == nil && *l.Spec.HolderIdentity == holder {
				l.Spec.RenewTime = ptr.To(metav1.NowMicro())
				if _, err = leases.Update(context.Background(), l, metav1.UpdateOptions{}); err == nil {
					last = time.Now()
				}
			}
			if err != nil && !apierrors.IsConflict(err) {
				t.Error(err)
			}
			select {
			case <-done:
				ended <- last
				return
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	return sync.OnceValue(func() time.Time { close(done); return <-ended })
}

func TestWithoutTheRightToTheLeaseNothingIsHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.up(t, "worker-1", "web", simple("blue", "10.1.0.0/24")).leak(t)
	before := s.contents(t)
	for name, verbs := range map[string][]string{"none": {"list"}, "read": {"get"}, "no-update": {"get", "create"}} {
		kubeconfig := s.account(t, name, []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs},
			{APIGroups: []string{"whereabouts.cni.cncf.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "namespaces"}, Verbs: []string{"get", "list"}},
		})
		c := try(kube.New(try(clientcmd.BuildConfigFromFlags("", kubeconfig)).must(t), kube.Settings{
			Namespace: "kube-system", Identity: "us", Log: discard, Jitter: func(d time.Duration) time.Duration { return d },
		})).must(t)
		err := c.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
			t.Errorf("%s: held", name)
			return nil
		})
		if !errors.Is(err, reconciler.ErrLeaseForbidden) {
			t.Errorf("%s: the error is %v", name, err)
		}
		out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0")
		out.exits(t, 1)
		equal(t, "released", places(out.Released), "")
		s.lost(t, before)
	}
}

// TestADDsAreNotStarved measures ADDs while runs go over a pool that leaks all
// the time, and without them.
func TestADDsAreNotStarved(t *testing.T) {
	s := newStage(t, "worker-1", "worker-2")
	blue := simple("blue", "10.1.0.0/16")
	try(productBinary()).must(t) // building it takes longer than what is measured
	const adds = 41
	n := 0
	measure := func(enough func() bool) (times []time.Duration) {
		for len(times) < adds || !enough() {
			n++
			began := time.Now()
			s.pending(t, "worker-1", fmt.Sprint("p-", n), blue)
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		return times
	}
	alone := measure(func() bool { return true })
	var freed atomic.Int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			for k := range 10 {
				s.patch(t, harness.IPPools, "10.1.0.0-16", fmt.Sprintf(`{"spec":{"allocations":{"%d":{"id":"%s","ifname":"net1","podref":"default/gone-%d-%d"}}}}`, 5000+k, noID, i, k))
			}
			freed.Add(int64(len(s.run(t, "--allow-mass-release").Released)))
		}
	}()
	beside := measure(func() bool { return freed.Load() >= 20 || t.Failed() })
	close(done)
	<-ended
	t.Logf("ADD alone: median %d ms, longest %d ms; beside runs that freed %d addresses: median %d ms, longest %d ms",
		median(alone).Milliseconds(), longest(alone).Milliseconds(), freed.Load(), median(beside).Milliseconds(), longest(beside).Milliseconds())
	// An ADD gives up after two minutes; a loaded machine must not fail this.
	if longest(beside) > time.Minute {
		t.Error("ADDs take too long beside runs")
	}
}

func median(sorted []time.Duration) time.Duration  { return sorted[len(sorted)/2] }
func longest(sorted []time.Duration) time.Duration { return sorted[len(sorted)-1] }
