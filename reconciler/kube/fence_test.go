package kube_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

const shared = "kube-system/whereabouts"

var theShared = map[string][]string{"kube-system": {"whereabouts"}}

// raise raises a fence, which must stand within a second.
func raise(t *testing.T, f *kube.Fence, leases map[string][]string) {
	t.Helper()
	f.Raise(leases)
	stands(t, f)
}

func stands(t *testing.T, f *kube.Fence) {
	t.Helper()
	for range 100 {
		if !f.Since().IsZero() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the fence does not stand after a second: %v", f.State().Missing)
}

func TestFence_FollowerOnlyReads(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		leader, other := a.cluster(t, "leader").Fence(), a.cluster(t, "other").Fence()
		leader.Lead()
		raise(t, other, theShared)
		raise(t, leader, theShared)
		time.Sleep(2 * time.Second)
		before, theirs := a.written("leader"), a.written("other")
		time.Sleep(10 * time.Second)
		equal(t, "writes of the other", a.written("other")-theirs, 0)
		equal(t, "writes of the leader are about four a second", a.written("leader")-before > 36, true)
		for name, f := range map[string]*kube.Fence{"leader": leader, "other": other} {
			equal(t, name+": it stands", !f.Since().IsZero(), true)
		}

		// The leader ends, or dies, which is the same here.
		leader.Leave()
		gone := time.Now()
		for a.written("other") == theirs {
			time.Sleep(10 * time.Millisecond)
		}
		equal(t, "taken over within a second", time.Since(gone) < time.Second, true)
		equal(t, "the holder", a.holder(shared), kube.FenceHolder)
		other.Lower(t.Context())
		theirs = a.written("other")
		time.Sleep(5 * time.Second)
		equal(t, "writes of the other after its end", a.written("other")-theirs, 0)
	})
}

func TestFence_AgeAfterTakeover(t *testing.T) {
	for name, late := range map[string]time.Duration{"by a clock that is right": 0,
		"by clocks that are an hour apart": time.Hour} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				first, second := a.cluster(t, "first").Fence(), a.cluster(t, "second").Fence()
				raise(t, first, theShared)
				a.set(func() { a.late = late })
				time.Sleep(50 * time.Second)
				raise(t, second, theShared)
				first.Leave()
				time.Sleep(5 * time.Second)
				// the API server has whole seconds
				if age := second.State().Age; age < 54500*time.Millisecond || age > 57*time.Second {
					t.Errorf("after 55 s its age is %s", age)
				}
				second.Lower(t.Context())
			})
		})
	}
}

// The backup may have a Lease of a fence.
func TestFence_Abandoned(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		a.has(shared, kube.FenceHolder, time.Hour, func(l *coordinationv1.Lease) {
			l.Spec.AcquireTime = ptr.To(metav1.NewMicroTime(l.Spec.RenewTime.Add(-80 * time.Second)))
		})
		f := a.cluster(t, "us").Fence()
		raise(t, f, theShared)
		time.Sleep(time.Second)
		equal(t, "it is young", f.State().Age < 2*time.Second, true)
		f.Lower(t.Context())
	})
}

// A process that gets no processor for a while, or no answer, has kept the fence if nobody took the Lease meanwhile.
func TestFence_StandsOnAfterAGap(t *testing.T) {
	for name, isTaken := range map[string]bool{"in which nobody took the Lease": false, "in which an ADD had it": true} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				f := a.cluster(t, "us").Fence()
				f.Lead()
				raise(t, f, theShared)
				since := f.Since()
				time.Sleep(5 * time.Second)
				a.set(func() { a.fails = func(string, *http.Request) int { return -1 } })
				time.Sleep(6 * time.Second)
				equal(t, "it stands while nothing is renewed", !f.Since().IsZero(), false)
				if isTaken {
					a.has(shared, "", 0)
				}
				a.set(func() { a.fails = nil })
				time.Sleep(time.Second)
				stands(t, f)
				equal(t, "it has stood since it was raised", f.Since().Equal(since), !isTaken)
				f.Lower(t.Context())
			})
		})
	}
}

func TestFence_WaitsForHolders(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		a.has(shared, "default/web-0", 0)
		f := a.cluster(t, "us").Fence()
		f.Lead()
		began := time.Now()
		f.Raise(map[string][]string{"kube-system": {"whereabouts", "worker-1-10.0.0.0-24"}, "other": {"whereabouts"}})
		for range 4 { // it is renewed for 4 s
			time.Sleep(time.Second)
			a.has(shared, "default/web-0", 0)
			if !f.Since().IsZero() {
				t.Fatal("it stands while an ADD is in progress")
			}
			equal(t, "missing", f.State().Missing, []string{shared})
			equal(t, "the holder of another one", a.holder("other/whereabouts"), kube.FenceHolder)
		}
		a.has(shared, "", 0)
		stands(t, f)
		since := f.Since()
		equal(t, "it stands", !since.IsZero(), true)
		if since.Before(time.Now()) || since.Sub(began) > 6*time.Second {
			t.Errorf("since %s after it was raised", since.Sub(began))
		}
		f.Lower(t.Context())
		for _, name := range []string{shared, "kube-system/worker-1-10.0.0.0-24", "other/whereabouts"} {
			equal(t, name+" in the end", a.holder(name), "")
		}
	})
}

func TestFence_LeaderLowers(t *testing.T) {
	t.Run("and nobody takes the Lease", func(t *testing.T) { theLeaderLowers(t, nil, "") })
	t.Run("and an ADD takes it at once", func(t *testing.T) {
		theLeaderLowers(t, func(a *leaseAPI) { a.has(shared, "default/web-0", 0) }, "default/web-0")
	})
	t.Run("and an ADD has had it before the other reads it", func(t *testing.T) {
		theLeaderLowers(t, func(a *leaseAPI) { a.has(shared, "", 0) }, "") // with more transitions
	})
}

func theLeaderLowers(t *testing.T, then func(a *leaseAPI), holder string) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		leader, other := a.cluster(t, "leader").Fence(), a.cluster(t, "other").Fence()
		leader.Lead()
		raise(t, other, theShared)
		raise(t, leader, theShared)
		time.Sleep(2 * time.Second)
		leader.Lower(t.Context())
		if then != nil {
			then(a)
		}
		time.Sleep(time.Second)
		equal(t, "ended by a peer", other.State().IsEndedByPeer, true)
		equal(t, "the holder", a.holder(shared), holder)
		other.Lower(t.Context())
	})
}

func TestFence_LeaderTakesLeaseAgain(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		leader, other := a.cluster(t, "leader").Fence(), a.cluster(t, "other").Fence()
		leader.Lead()
		raise(t, leader, theShared)
		time.Sleep(time.Second)
		other.Lead()
		raise(t, other, theShared) // and writes last
		other.Lower(t.Context())
		time.Sleep(time.Second)
		equal(t, "the holder", a.holder(shared), kube.FenceHolder)
		equal(t, "ended by a peer", leader.State().IsEndedByPeer, false)
		leader.Lower(t.Context())
	})
}

// A person runs recover beside serve, whose fence still waits for a node. recover raises the same fence, finds nothing
// more to write, and ends. An ADD that waits for the Lease, and retries every half second, must not get it.
func TestFence_SharedWithRecover(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		serve, command := a.cluster(t, "serve").Fence(), a.cluster(t, "recover").Fence()
		serve.Lead()
		raise(t, serve, theShared)
		time.Sleep(10 * time.Second)
		command.Lead()
		raise(t, command, theShared)
		time.Sleep(15 * time.Second)
		since := serve.Since()
		command.LowerUnlessShared(t.Context())
		for range 10 {
			equal(t, "the holder", a.holder(shared), kube.FenceHolder)
			time.Sleep(100 * time.Millisecond)
		}
		equal(t, "the fence of serve stands on", serve.Since().Equal(since), true)
		serve.Lower(t.Context())
		equal(t, "the holder when serve has ended it", a.holder(shared), "")
	})
}

// Where no other process keeps the fence of recover, ADDs need not wait until it expires.
func TestFence_LowerUnlessShared(t *testing.T) {
	const lowered = 20*time.Second + 125*time.Millisecond // between two renewals, which follow each other in 250 ms
	for name, c := range map[string]struct {
		before func(t *testing.T, a *leaseAPI)
		want   string
	}{
		"nobody else has had it": {func(*testing.T, *leaseAPI) {}, ""},
		"serve has died, and its fence has been kept since": {func(t *testing.T, a *leaseAPI) {
			died := a.cluster(t, "serve").Fence()
			raise(t, died, theShared)
			died.Leave()
		}, ""},
		"a replica raises it at this moment": {func(_ *testing.T, a *leaseAPI) {
			time.AfterFunc(lowered-time.Millisecond, func() { a.has(shared, kube.FenceHolder, 0) })
		}, kube.FenceHolder},
		"the answers to its last renewals are lost": {func(_ *testing.T, a *leaseAPI) { // whose they are is unknown
			time.AfterFunc(lowered-500*time.Millisecond, func() { a.set(func() { a.lost = func() bool { return true } }) })
		}, kube.FenceHolder},
	} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				c.before(t, a)
				command := a.cluster(t, "recover").Fence()
				command.Lead()
				began := time.Now()
				raise(t, command, theShared)
				time.Sleep(time.Until(began.Add(lowered)))
				command.LowerUnlessShared(t.Context())
				equal(t, "the holder", a.holder(shared), c.want)
			})
		})
	}
}

func TestFence_Hold(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		c := a.cluster(t, "us")
		f := c.Fence()
		f.Lead()
		raise(t, f, theShared)
		time.Sleep(time.Second)
		began := time.Now()
		check(t, c.Hold(t.Context(), "kube-system", []string{"red-10.1.0.0-24", "whereabouts"}, func(
			ctx context.Context, s apply.Session) error {
			equal(t, "it began at once", time.Since(began), time.Duration(0))
			equal(t, "the Leases", s.Leases(), []string{"whereabouts"})
			equal(t, "it is bounded", s.Until().IsZero(), true)
			for range 100 { // for much longer than a hold
				time.Sleep(100 * time.Millisecond)
				if !s.IsOpen() || ctx.Err() != nil {
					t.Fatalf("nothing may be written after %s", time.Since(began))
				}
			}
			a.set(func() { a.fails = func(string, *http.Request) int { return -1 } })
			time.Sleep(time.Second)
			equal(t, "writes may go out while nothing is renewed", s.IsOpen(), false)
			a.set(func() { a.fails = nil })
			time.Sleep(time.Second)
			equal(t, "writes may go out again", s.IsOpen(), true)
			return nil
		}))
		began = time.Now()
		check(t, holdShared(t, c, nothing))
		equal(t, "the next hold waits for", time.Since(began), time.Duration(0))
		check(t, c.Hold(t.Context(), "other", []string{"whereabouts"}, func(_ context.Context, s apply.Session) error {
			equal(t, "a hold of what is not under the fence is bounded", s.Until().IsZero(), false)
			return nil
		}))

		go func() {
			time.Sleep(3 * time.Second)
			f.Lower(context.Background())
		}()
		err := holdShared(t, c, func(ctx context.Context, s apply.Session) error {
			<-ctx.Done()
			equal(t, "writes may go out when the fence is over", s.IsOpen(), false)
			return ctx.Err()
		})
		equal(t, "the error", errors.Is(err, apply.ErrHoldSpent), true)
		time.Sleep(time.Second)
		began = time.Now()
		check(t, holdShared(t, c, nothing))
		if off := time.Since(began); off < 10*time.Second || off > 31*time.Second { // for as long as it was on
			t.Errorf("the Leases were yielded for %s after the fence", off)
		}
	})
}

// A process that has raised no fence leads while another replica keeps one. It must work under that fence, as long as
// the fence can be renewed.
func TestFence_HoldUnderThatOfAPeer(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		peer, c := a.cluster(t, "peer").Fence(), a.cluster(t, "us")
		joined := 0
		hold := func() (time.Duration, error) {
			began := time.Now()
			err := holdShared(t, c, nothing)
			return time.Since(began), err
		}
		raise(t, peer, theShared)
		raised := time.Now()
		if took, err := hold(); took < 30*time.Second || !errors.Is(err, apply.ErrLeaseBusy) || joined != 0 {
			t.Errorf("a command waits for its turn: %v after %s", err, took)
		}
		c.OnPeerFence = func() { joined++ }
		took, err := hold()
		equal(t, "it joins at once", took < time.Second && joined == 1 && errors.Is(err, apply.ErrLeaseBusy), true)
		c.Fence().Lead()
		raise(t, c.Fence(), theShared)
		took, err = hold()
		check(t, err)
		equal(t, "it works at once", took < time.Second && joined == 1, true)
		c.Fence().Leave()

		time.Sleep(time.Until(raised.Add(91 * time.Second))) // nobody renews it any more
		if _, err = hold(); joined != 1 {
			t.Errorf("it joined a fence that has ended: %v", err)
		}
		peer.Lower(t.Context())
	})
}

func TestFence_ForbiddenNamespace(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		a.forbid("/namespaces/closed/")
		f := a.cluster(t, "us").Fence()
		raise(t, f, map[string][]string{"kube-system": {"whereabouts"}, "closed": {"whereabouts"}})
		equal(t, "missing", f.State().Missing, []string{"closed/whereabouts"})
		f.Lower(t.Context())
		alone := a.cluster(t, "us").Fence()
		alone.Raise(map[string][]string{"closed": {"whereabouts"}})
		time.Sleep(5 * time.Second)
		equal(t, "it stands on nothing", !alone.Since().IsZero(), false)
		alone.Lower(t.Context())
	})
}

// A report from before a moment without the fence proves nothing.
func TestFence_Interrupted(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		f := a.cluster(t, "us").Fence()
		f.Lead()
		raise(t, f, theShared)
		before := f.Since()
		time.Sleep(10 * time.Second)
		a.has(shared, "default/web-0", 0, func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = ptr.To(int32(9)) })
		time.Sleep(500 * time.Millisecond)
		equal(t, "it stands", !f.Since().IsZero(), false)
		a.has(shared, "", 0, func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = ptr.To(int32(9)) })
		time.Sleep(time.Second)
		since := f.Since()
		equal(t, "it stands again", !since.IsZero(), true)
		equal(t, "since later", since.Sub(before) > 9*time.Second, true)

		// So short that the Lease has no holder when it is read.
		time.Sleep(10 * time.Second)
		a.has(shared, "", 0, func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = ptr.To(int32(20)) })
		time.Sleep(time.Second)
		again := f.Since()
		equal(t, "it stands again", !again.IsZero(), true)
		equal(t, "since later", again.Sub(since) > 9*time.Second, true)
		f.Lower(t.Context())
	})
}

// The process that raised it may hang.
func TestFence_EndsAfter90Seconds(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		first, second := a.cluster(t, "first").Fence(), a.cluster(t, "second").Fence()
		raise(t, first, theShared)
		time.Sleep(60 * time.Second)
		raise(t, second, theShared)
		time.Sleep(28 * time.Second)
		equal(t, "it stands after 88 s", !second.Since().IsZero(), true)
		time.Sleep(4 * time.Second)
		a.Lock()
		last := a.lease(shared).Spec.RenewTime.Time
		a.Unlock()
		equal(t, "renewed after 92 s", time.Since(last) > time.Second, true)
		equal(t, "it stands", !second.Since().IsZero(), false)
		first.Lower(t.Context())
		second.Lower(t.Context())
	})
}

// recover --yes lowers the fence at its end. When the fence is 90 s old, the remaining repairs are written as without
// one.
func TestFence_OldFenceAllowsHolds(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		c := a.cluster(t, "recover")
		f := c.Fence()
		f.Lead()
		raise(t, f, theShared)
		time.Sleep(100 * time.Second)
		err := holdShared(t, c, nothing)
		if err != nil {
			t.Errorf("the Lease has been free for ten seconds (holder %q), and: %v", a.holder(shared), err)
		}
		f.Lower(t.Context())
	})
}

// An API server that has just started answers 403 while its caches of roles are incomplete.
func TestFence_ForbiddenForAWhile(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		a.forbid("/namespaces/late/")
		f := a.cluster(t, "us").Fence()
		raise(t, f, map[string][]string{"kube-system": {"whereabouts"}, "late": {"whereabouts"}})
		time.Sleep(20 * time.Second)
		a.set(func() { a.fails = nil })
		allowed := time.Now()
		time.Sleep(2 * time.Second)
		since := f.Since()
		if !since.IsZero() && since.Before(allowed) {
			t.Errorf("it stands since %s before the Lease of the other namespace was held", allowed.Sub(since))
		}
		f.Lower(t.Context())
	})
}
