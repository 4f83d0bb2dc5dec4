//go:build !slow && !cluster

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
		began, ended := uint64(0), uint64(1<<62) // from when on and until when both were held, under one hold
		for _, name := range []string{"whereabouts", "red-10.1.0.0-24"} {
			taken, given := uint64(0), uint64(0)
			for _, v := range leases.during(name, 1, 1<<62) {
				if v.object == nil {
					continue
				}
				spec, _ := v.object.Object["spec"].(map[string]any)
				switch holder := fmt.Sprint(spec["holderIdentity"]); {
				case strings.HasPrefix(holder, "ip-reconcile"):
					taken = cmp.Or(taken, v.revision)
				case taken > 0:
					given = cmp.Or(given, v.revision)
				}
			}
			if taken == 0 || given == 0 {
				t.Errorf("%s was taken at %d and given back at %d", name, taken, given)
			}
			equal(t, "the holder of "+name+" afterwards", s.heldBy(t, name), "")
			began, ended = max(began, taken), min(ended, given)
		}
		if began >= ended {
			t.Errorf("both were taken by %d, and one was given back at %d", began, ended)
		}
	})
}

func TestWeWaitForWhoeverHoldsTheLease(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")

	s.play(t, "a real ADD that takes its time", func(t *testing.T) {
		slow := network("slow", harness.IPAM{"range": "10.1.0.0/24", "sleep_for_race": 2})
		added := make(chan *pod, 1)
		go func() {
			defer close(added) // an ADD that fails ends this goroutine
			added <- s.pending(t, "worker-1", "web", slow)
		}()
		eventually(t, "ADD to hold the Lease", func() bool { return s.heldBy(t, "whereabouts") == "default/web" })
		check(t, s.holder(t, "us").Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
			equal(t, "entries and reservations at our turn", len(s.contents(t)), 2)
			return nil
		}))
		if p := <-added; p != nil {
			equal(t, "the address of the ADD", p.ips, []string{"10.1.0.1"})
		}
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
				sent := time.Now() // others see it before the answer is here
				if _, err = leases.Update(context.Background(), l, metav1.UpdateOptions{}); err == nil {
					last = sent
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
