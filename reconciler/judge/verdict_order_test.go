package judge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func TestStuckTerminatingBeginsFiveMinutesAfterTheDeletionTimestamp(t *testing.T) {
	for _, c := range []struct {
		ago    time.Duration
		reason judge.Reason
	}{
		{-time.Hour, judge.Terminating}, {0, judge.Terminating}, {5*time.Minute - time.Second, judge.Terminating},
		{5*time.Minute + time.Second, judge.StuckTerminating},
	} {
		t.Run(fmt.Sprintf("%v after it, the reason is %s", c.ago, c.reason), func(t *testing.T) {
			pod := UsualPod(DeletedAgo(c.ago))
			Expect(t, Want(judge.Held, c.reason, false, judge.Ready), UsualPool, pod, runs(UsualUID).parts)
			Expect(t, Want(judge.Held, c.reason, false, judge.NoSource), UsualPool, pod, noSource.parts)
			notReadyReason := c.reason
			if c.reason == judge.Terminating {
				notReadyReason = judge.SandboxNotReady
			}
			Expect(t, Want(judge.Held, notReadyReason, false, judge.NotReady), UsualPool, pod, isNotReady(UsualUID).parts)
		})
	}
}

// A static pod's object in the API has another UID than the runtime knows.
func TestAMirrorPodIsKnownByItsAnnotation(t *testing.T) {
	mirror := UsualPod(UID("uid-of-the-mirror"), MirrorOf("uid-of-the-static-pod"))
	expectRulings(t, All(UsualPool, mirror), []rulingCase{
		{"its running sandbox is its own", Want(judge.InUse, judge.SandboxReady, false, judge.Ready),
			[]Part{ReportingWorker(Sandbox("box-1", "uid-of-the-static-pod"))}},
		{"its stopped sandbox was not an earlier pod's", Want(judge.Stale, judge.SandboxReplaced, true, judge.Stopped),
			[]Part{ReportingWorker(Sandbox("box-1", "uid-of-the-static-pod", NotReady(Closed)))}},
		{"another sandbox is not its own", Want(judge.Held, judge.PhantomPod, false, judge.Ready),
			[]Part{ReportingWorker(Sandbox("box-1", "uid-of-an-earlier-one"))}},
	})
}

// A finished pod on a node without a fresh report: only the status that kubelet wrote counts, and only where the last
// report does not contradict it.
func TestFinishedWithoutAFreshReport(t *testing.T) {
	released := Want(judge.Stale, judge.PodFinished, false, judge.NoFreshReport)
	done := func(ago time.Duration) Part { return UsualPod(Phase("Succeeded"), StoppedByKubelet(ago)) }
	for _, c := range []struct {
		says string
		pod  Part
		last []ReportEdit // of the last report
		want Ruling
	}{
		{"kubelet stopped it, and the last report says stopped", done(time.Hour), []ReportEdit{stopped1}, released},
		{"kubelet stopped it before the last report said not ready", done(time.Hour),
			[]ReportEdit{Sandbox("box-1", UsualUID, NotReady(nil))}, unreported},
		{"kubelet stopped it after the last report said not ready", done(time.Minute),
			[]ReportEdit{Sandbox("box-1", UsualUID, NotReady(nil))}, released},
		{"kubelet stopped it before the last report had it attached", done(time.Hour),
			[]ReportEdit{Attachment("box-1", UsualUID, time.Minute, nil)}, unreported},
		{"kubelet stopped it, and no report has the id", done(time.Hour), nil, released},
		{"kubelet stopped it after the last report said READY", done(time.Minute), []ReportEdit{box1}, released},
		{"kubelet stopped it before the last report said READY", done(time.Hour), []ReportEdit{box1}, unreported},
		{"a container runs", finished.pod, nil, unreported},
	} {
		t.Run(c.says, func(t *testing.T) {
			Expect(t, c.want, UsualPool, Node("worker-1"), c.pod, StaleReport("worker-1", c.last...))
		})
	}
}

// --unreachable-node-timeout is off by default; where an operator sets it, it
// counts from when the node stopped being Ready.
func TestUnreachableNodeTimeout(t *testing.T) {
	hour := facts.Policy{UnreachableNodeTimeout: time.Hour}
	down := func(d time.Duration) Part {
		return All(Node("worker-1", NotReadyFor(d)), StaleReport("worker-1", box1))
	}
	held := Want(judge.Held, judge.NodeUnreachable, false, judge.NoFreshReport)
	stale := Want(judge.Stale, judge.NodeUnreachable, false, judge.NoFreshReport)
	t.Run("off by default, however long the node has been away", func(t *testing.T) {
		Expect(t, held, UsualPool, down(1000*time.Hour))
	})
	t.Run("held before the time", func(t *testing.T) { ExpectUnder(t, hour, held, UsualPool, down(59*time.Minute)) })
	t.Run("stale, unconfirmed, after the time", func(t *testing.T) {
		ExpectUnder(t, hour, stale, UsualPool, down(61*time.Minute))
	})
	t.Run("held where it is not known since when", func(t *testing.T) {
		ExpectUnder(t, hour, held, UsualPool, Node("worker-1", withoutReadyCondition), StaleReport("worker-1", box1))
	})
	t.Run("held while one of the nodes in question is Ready", func(t *testing.T) {
		ExpectUnder(t, hour, unreported, UsualPool,
			Node("worker-1", NotReadyFor(2*time.Hour)), Node("worker-2"), StaleReport("worker-1"), StaleReport("worker-2"))
	})
	t.Run("held while one of the nodes in question went away later", func(t *testing.T) {
		ExpectUnder(t, hour, held, UsualPool, Node("worker-1", NotReadyFor(2*time.Hour)),
			Node("worker-2", NotReadyFor(time.Minute)), StaleReport("worker-1"), StaleReport("worker-2"))
	})
	t.Run("a terminating pod without agents", func(t *testing.T) {
		ExpectUnder(t, hour, Want(judge.Stale, judge.NodeUnreachable, false, judge.NoSource), UsualPool, terminating.pod,
			Node("worker-1", NotReadyFor(2*time.Hour)))
		ExpectUnder(t, hour, Want(judge.Held, judge.NodeUnreachable, false, judge.NoSource), UsualPool, terminating.pod,
			Node("worker-1", NotReadyFor(time.Minute)))
	})
	t.Run("a pod that is gone without agents", func(t *testing.T) {
		ExpectUnder(t, hour, Want(judge.Stale, judge.NodeUnreachable, false, judge.NoSource), UsualPool,
			Node("worker-1", NotReadyFor(2*time.Hour)), Node("worker-2"))
		ExpectUnder(t, hour, Want(judge.Held, judge.NodeUnreachable, false, judge.NoSource), UsualPool,
			Node("worker-1", NotReadyFor(time.Minute)), Node("worker-2"))
	})
	t.Run("an address that the pod carries stays in use", func(t *testing.T) {
		ExpectUnder(t, hour, Want(judge.InUse, judge.AddressOnPod, false, judge.NoFreshReport), UsualPool, carrier.pod,
			down(2*time.Hour))
	})
}

// The whole cross product: everything gets a verdict with a sentence, nothing that may hold its address is ever stale,
// and only a sandbox state that proves an end is proven.
func TestEveryCombinationHasAVerdict(t *testing.T) {
	pods := []podCase{noPod, pending, live, carrier, terminating, terminatingCarrier, stuckTerminating, finished,
		succeeded, finishedAndDeleted, {"a live pod without a network-status", UsualPod(NoNetworkStatus)},
		{"a terminating Pending pod", UsualPod(Phase("Pending"), DeletedAgo(0))}}
	sandboxes := []sandboxCase{isAbsent, noSource, noSourceNodes, noSourceDown}
	for _, u := range []string{UsualUID, OtherUID, NoUID} {
		sandboxes = append(sandboxes, runs(u), isNotReady(u), hasStopped(u), isAttached(u), isGone(u), diedWithNode(u),
			lostItsNode(u), hasNoFreshReport(u), isUnreachable(u))
	}
	seenStates := map[judge.Sandbox]bool{}
	for _, policy := range []facts.Policy{{}, {UnreachableNodeTimeout: time.Minute}, {AgentsRequired: true},
		{TrustNetworkStatus: true}} {
		for _, p := range pods {
			for _, b := range sandboxes {
				name := fmt.Sprintf("%s whose sandbox %s, under %+v", p.says, b.says, policy)
				o := Observe(UsualPool, p.pod, b.parts)
				it := AllocationOf(t, Judged(o, policy), "10.0.0.5")
				state := it.Evidence().Sandbox
				seenStates[state] = true
				if it.Verdict != judge.InUse && it.Verdict != judge.Held && it.Verdict != judge.Stale || it.Reason == "" ||
					it.Message() == "" || it.Rule() == "" || it.Reason == judge.NoRule {
					t.Errorf("%s: no verdict: %+v", name, it.Decision)
				}
				if it.Verdict == judge.Stale && (state == judge.Ready || state == judge.NotReady || state == judge.Attached) {
					t.Errorf("%s: stale (%s) although its address may be in use", name, it.Reason)
				}
				if it.Proven && (it.Verdict != judge.Stale || state != judge.Stopped && state != judge.Gone &&
					state != judge.NodeDead) {
					t.Errorf("%s: proven with sandbox %s", name, state)
				}
				if it.Verdict == judge.Stale && o.Pods[PodName("web-0")] != nil && it.Evidence().OnPod &&
					it.Evidence().Phase == podstate.Live {
					t.Errorf("%s: stale although the live pod carries the address", name)
				}
				if !b.isNoSource() && state != b.state {
					t.Errorf("%s: sandbox %s", name, state)
				}
			}
		}
	}
	for s := judge.Ready; s <= judge.NoSource; s++ {
		if !seenStates[s] {
			t.Errorf("no combination had the sandbox %s", s)
		}
	}
}

func (w sandboxCase) isNoSource() bool { return w.state == judge.NoSource }
