package reconciler

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Finished counts before terminating, terminating before Pending, Pending
// before live: the same sandbox, and the verdict tells which one was taken.
func TestWhichPhaseCounts(t *testing.T) {
	deleted := deletedAgo(10 * time.Second)
	for says, c := range map[string]struct {
		pod  part
		want outcome
	}{
		"a Failed pod that is being deleted is finished":    {web(phaseIs("Failed"), deleted), outcome{judge.Stale, judge.PodFinished, true, judge.Gone}},
		"a Succeeded pod that is being deleted is finished": {web(phaseIs("Succeeded"), deleted), outcome{judge.Stale, judge.PodFinished, true, judge.Gone}},
		"a Pending pod that is being deleted is terminating": {
			web(phaseIs("Pending"), deleted), outcome{judge.Stale, judge.SandboxStopped, true, judge.Gone}},
		"a Running pod that is being deleted is terminating": {web(deleted), outcome{judge.Stale, judge.SandboxStopped, true, judge.Gone}},
		"a Pending pod is Pending":                           {web(phaseIs("Pending")), outcome{judge.InUse, judge.PodPending, false, judge.Gone}},
		"a Pending pod is not asked for its addresses":       {web(phaseIs("Pending"), carrying("10.0.0.5")), outcome{judge.InUse, judge.PodPending, false, judge.Gone}},
		"a Running pod is live":                              {web(), outcome{judge.Stale, judge.SandboxReplaced, true, judge.Gone}},
		"a pod of phase Unknown is live":                     {web(phaseIs("Unknown")), outcome{judge.Stale, judge.SandboxReplaced, true, judge.Gone}},
	} {
		t.Run(says, func(t *testing.T) { expect(t, c.want, usualPool, c.pod, onWorker(gone("box-1", its1))) })
	}
}

// Where two rows would match, the one that stands first in the table counts.
func TestTheFirstRowWins(t *testing.T) {
	for says, c := range map[string]struct {
		parts []part
		want  outcome
	}{
		"a READY sandbox beats an address that the pod does not carry": {
			[]part{web(), onWorker(box("box-1", its1))}, outcome{judge.InUse, judge.SandboxReady, false, judge.Ready}},
		"a READY sandbox of another pod beats the address being on the pod": {
			[]part{web(carrying("10.0.0.5")), onWorker(box("box-1", others))}, outcome{judge.Held, judge.PhantomPod, false, judge.Ready}},
		"a READY sandbox of another pod beats the pod being Pending": {
			[]part{pending.pod, onWorker(box("box-1", others))}, outcome{judge.Held, judge.PhantomPod, false, judge.Ready}},
		"a READY sandbox beats kubelet's word that the pod was stopped": {
			[]part{succeeded.pod, onWorker(box("box-1", its1))}, outcome{judge.Held, judge.TerminalButRunning, false, judge.Ready}},
		"the address being on the pod beats a stopped sandbox": {
			[]part{carrier.pod, onWorker(box("box-1", its1, notReady(closed)))}, outcome{judge.InUse, judge.AddressOnPod, false, judge.Stopped}},
		"the address being on the pod beats the stopped sandbox of an earlier pod": {
			[]part{carrier.pod, onWorker(box("box-1", others, notReady(closed)))}, outcome{judge.InUse, judge.AddressOnPod, false, judge.Stopped}},
		"the address being on the pod beats a dead node": {
			[]part{carrier.pod, diedWithNode(its1).parts}, outcome{judge.InUse, judge.AddressOnPod, false, judge.NodeDead}},
		"the address being on the pod beats an attachment": {
			[]part{carrier.pod, onWorker(attachment("box-1", its1, time.Minute, nil))}, outcome{judge.InUse, judge.AddressOnPod, false, judge.Attached}},
		"being Pending beats an attachment": {
			[]part{pending.pod, onWorker(attachment("box-1", its1, time.Minute, nil))}, outcome{judge.InUse, judge.PodPending, false, judge.Attached}},
		"an attachment beats the pod being finished": {
			[]part{succeeded.pod, onWorker(attachment("box-1", its1, time.Minute, nil))}, outcome{judge.Held, judge.AttachedReason, false, judge.Attached}},
		"a dead node beats the pod being stuck": {
			[]part{stuck.pod, diedWithNode(its1).parts}, outcome{judge.Stale, judge.NodeDeadReason, true, judge.NodeDead}},
		"a dead node beats kubelet's word that the pod was stopped": {
			[]part{succeeded.pod, diedWithNode(its1).parts}, outcome{judge.Stale, judge.NodeDeadReason, true, judge.NodeDead}},
		"an unreachable node beats the pod being stuck": {
			[]part{stuck.pod, noSourceDown.parts}, outcome{judge.Held, judge.NodeUnreachable, false, judge.NoSource}},
	} {
		t.Run(says, func(t *testing.T) { expect(t, c.want, append([]part{usualPool}, c.parts...)...) })
	}
}

func TestStuckTerminatingBeginsFiveMinutesAfterTheDeletionTimestamp(t *testing.T) {
	for _, c := range []struct {
		ago    time.Duration
		reason judge.Reason
	}{
		{-time.Hour, judge.Terminating}, {0, judge.Terminating}, {5*time.Minute - time.Second, judge.Terminating}, {5*time.Minute + time.Second, judge.StuckTerminating},
	} {
		t.Run(fmt.Sprintf("%v after it, the reason is %s", c.ago, c.reason), func(t *testing.T) {
			pod := web(deletedAgo(c.ago))
			expect(t, outcome{judge.Held, c.reason, false, judge.Ready}, usualPool, pod, runs(its1).parts)
			expect(t, outcome{judge.Held, c.reason, false, judge.NoSource}, usualPool, pod, noSource.parts)
			notReadyReason := c.reason
			if c.reason == judge.Terminating {
				notReadyReason = judge.SandboxNotReady
			}
			expect(t, outcome{judge.Held, notReadyReason, false, judge.NotReady}, usualPool, pod, isNotReady(its1).parts)
		})
	}
}

// A static pod's object in the API has another UID than the runtime knows.
func TestAMirrorPodIsKnownByItsAnnotation(t *testing.T) {
	mirror := web(uid("uid-of-the-mirror"), mirrorOf("uid-of-the-static-pod"))
	t.Run("its running sandbox is its own", func(t *testing.T) {
		expect(t, outcome{judge.InUse, judge.SandboxReady, false, judge.Ready}, usualPool, mirror, onWorker(box("box-1", "uid-of-the-static-pod")))
	})
	t.Run("its stopped sandbox was not an earlier pod's", func(t *testing.T) {
		expect(t, outcome{judge.Stale, judge.SandboxReplaced, true, judge.Stopped}, usualPool, mirror, onWorker(box("box-1", "uid-of-the-static-pod", notReady(closed))))
	})
	t.Run("another sandbox is not its own", func(t *testing.T) {
		expect(t, outcome{judge.Held, judge.PhantomPod, false, judge.Ready}, usualPool, mirror, onWorker(box("box-1", "uid-of-an-earlier-one")))
	})
}

// A finished pod on an unheard node, or without agents: only kubelet's word
// counts, and on an unheard node only where the last report does not contradict it.
func TestFinishedWithoutAFreshReport(t *testing.T) {
	freed, unheard := outcome{judge.Stale, judge.PodFinished, false, judge.NoFreshReport}, outcome{judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport}
	bare, running := outcome{judge.Stale, judge.PodFinished, false, judge.NoSource}, outcome{judge.Held, judge.TerminalButRunning, false, judge.NoSource}
	done := func(ago time.Duration, edits ...podEdit) part {
		return web(append([]podEdit{phaseIs("Succeeded"), stoppedByKubelet(ago)}, edits...)...)
	}
	for _, c := range []struct {
		says    string
		pod     part
		last    []content // of the last report
		want    outcome
		without outcome // agents
	}{
		{"kubelet stopped it, and the last report says stopped", done(time.Hour), []content{box("box-1", its1, notReady(closed))}, freed, bare},
		{"kubelet stopped it before the last report said not ready", done(time.Hour), []content{box("box-1", its1, notReady(nil))}, unheard, bare},
		{"kubelet stopped it after the last report said not ready", done(time.Minute), []content{box("box-1", its1, notReady(nil))}, freed, bare},
		{"kubelet stopped it before the last report had it attached", done(time.Hour), []content{attachment("box-1", its1, time.Minute, nil)}, unheard, bare},
		{"kubelet stopped it, and no report has the id", done(time.Hour), nil, freed, bare},
		{"kubelet stopped it after the last report said READY", done(time.Minute), []content{box("box-1", its1)}, freed, bare},
		{"kubelet stopped it before the last report said READY", done(time.Hour), []content{box("box-1", its1)}, unheard, bare},
		{"kubelet stopped it, but it is said to be Ready", done(time.Hour, readyAllTheSame), nil, unheard, running},
		{"a container runs", finished.pod, nil, unheard, running},
		{"a container of the spec has no status", done(time.Hour, oneMoreContainer), nil, unheard, running},
		{"an ephemeral container runs", done(time.Hour, ephemeralRuns), nil, unheard, running},
	} {
		t.Run(c.says, func(t *testing.T) {
			expect(t, c.want, usualPool, aNode("worker-1"), c.pod, staleReport("worker-1", c.last...))
		})
		t.Run(c.says+", without agents", func(t *testing.T) { expect(t, c.without, usualPool, aNode("worker-1"), c.pod) })
	}
}

// --unreachable-node-timeout is off by default; where an operator sets it, it
// counts from when the node stopped being Ready.
func TestUnreachableNodeTimeout(t *testing.T) {
	hour := judge.Policy{UnreachableNodeTimeout: time.Hour}
	down := func(d time.Duration) part {
		return all(aNode("worker-1", notReadyFor(d)), staleReport("worker-1", box("box-1", its1)))
	}
	held := outcome{judge.Held, judge.NodeUnreachable, false, judge.NoFreshReport}
	stale := outcome{judge.Stale, judge.NodeUnreachable, false, judge.NoFreshReport}
	t.Run("off by default, however long the node has been away", func(t *testing.T) {
		expect(t, held, usualPool, down(1000*time.Hour))
	})
	t.Run("held before the time", func(t *testing.T) { expectUnder(t, hour, held, usualPool, down(59*time.Minute)) })
	t.Run("stale, unconfirmed, after the time", func(t *testing.T) { expectUnder(t, hour, stale, usualPool, down(61*time.Minute)) })
	t.Run("held where nothing tells since when", func(t *testing.T) {
		expectUnder(t, hour, held, usualPool, aNode("worker-1", func(n *nodeObject) { n.Status.Conditions = nil }), staleReport("worker-1", box("box-1", its1)))
	})
	t.Run("held while one of the nodes in question is Ready", func(t *testing.T) {
		expectUnder(t, hour, outcome{judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport}, usualPool,
			aNode("worker-1", notReadyFor(2*time.Hour)), aNode("worker-2"), staleReport("worker-1"), staleReport("worker-2"))
	})
	t.Run("held while one of the nodes in question went away later", func(t *testing.T) {
		expectUnder(t, hour, held, usualPool,
			aNode("worker-1", notReadyFor(2*time.Hour)), aNode("worker-2", notReadyFor(time.Minute)), staleReport("worker-1"), staleReport("worker-2"))
	})
	t.Run("a terminating pod without agents", func(t *testing.T) {
		expectUnder(t, hour, outcome{judge.Stale, judge.NodeUnreachable, false, judge.NoSource}, usualPool, terminating.pod, aNode("worker-1", notReadyFor(2*time.Hour)))
		expectUnder(t, hour, outcome{judge.Held, judge.NodeUnreachable, false, judge.NoSource}, usualPool, terminating.pod, aNode("worker-1", notReadyFor(time.Minute)))
	})
	t.Run("an address that the pod carries stays in use", func(t *testing.T) {
		expectUnder(t, hour, outcome{judge.InUse, judge.AddressOnPod, false, judge.NoFreshReport}, usualPool, carrier.pod, down(2*time.Hour))
	})
}

// The whole cross product: everything gets a verdict with a sentence, nothing
// that may hold its address is ever stale, and nothing is proven but by a word
// that proves it.
func TestEveryCombinationHasAVerdict(t *testing.T) {
	pods := []who{nobody, pending, live, carrier, unknown, terminating, carrierEnds, stuck, finished, succeeded, finishedDel,
		{"a live pod without a network-status", web(noStatusAtAll)},
		{"a terminating Pending pod", web(phaseIs("Pending"), deletedAgo(0))}}
	boxes := []what{isAbsent, noSource, noSourceNodes, noSourceDown}
	for _, u := range []string{its1, others, unsaid} {
		boxes = append(boxes, runs(u), isNotReady(u), hasStopped(u), isAttached(u), isGone(u), diedWithNode(u), lostItsNode(u), isUnheard(u), isUnreachable(u))
	}
	seenStates := map[judge.Sandbox]bool{}
	for _, policy := range []judge.Policy{{}, {UnreachableNodeTimeout: time.Minute}, {AgentsRequired: true}} {
		for _, p := range pods {
			for _, b := range boxes {
				name := fmt.Sprintf("%s whose sandbox %s, under %+v", p.says, b.says, policy)
				o := observe(usualPool, p.pod, b.parts)
				it := allocation(t, judged(o, policy), "10.0.0.5")
				state := it.Evidence().Sandbox
				seenStates[state] = true
				if it.Verdict != judge.InUse && it.Verdict != judge.Held && it.Verdict != judge.Stale || it.Reason == 0 || it.Message() == "" || it.Rule() == "" || it.Reason == judge.NoRule {
					t.Errorf("%s: no verdict: %+v", name, it.Judged)
				}
				if it.Verdict == judge.Stale && (state == judge.Ready || state == judge.NotReady || state == judge.Attached) {
					t.Errorf("%s: stale (%s) although its address may be in use", name, it.Reason)
				}
				if it.Proven && (it.Verdict != judge.Stale || state != judge.Stopped && state != judge.Gone && state != judge.NodeDead) {
					t.Errorf("%s: proven with sandbox %s", name, state)
				}
				if it.Verdict == judge.Stale && o.Pods[podName("web-0")] != nil && it.Evidence().OnPod && it.Evidence().Phase == podstate.Live {
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

func (w what) isNoSource() bool { return w.state == judge.NoSource }
