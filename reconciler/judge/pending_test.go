package judge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// stoppedAgo is a stopped sandbox of the usual pod that was created so long ago.
func stoppedAgo(id string, ago time.Duration) ReportEdit {
	return Sandbox(id, UsualUID, NotReady(Closed), CreatedAgo(ago))
}

// TestVerdict_PendingWithItsNetwork has the usual pod Pending, and the usual allocation names an ended sandbox, box-1.
func TestVerdict_PendingWithItsNetwork(t *testing.T) {
	two := func(ifName string) Part {
		return Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", ifName),
			Alloc("6", "default/web-0", "box-2", ifName))
	}
	runs := Sandbox("box-2", UsualUID, with6)
	isPending := UsualPod(Phase("Pending"))
	released := Want(judge.Stale, judge.SandboxReplaced, false, judge.Gone)
	stopped := Want(judge.Stale, judge.SandboxReplaced, false, judge.Stopped)
	kept := Want(judge.InUse, judge.PodPending, false, judge.Gone)
	claimed := Want(judge.Held, judge.ClaimedByOther, false, judge.Absent)
	expectRulings(t, Nothing, []rulingCase{
		{"a running sandbox has another address", released, []Part{two("net1"), isPending, ReportingWorker(gone1, runs)}},
		{"and the first one is listed as stopped", stopped, []Part{two("net1"), isPending,
			ReportingWorker(stoppedAgo("box-1", 2*time.Hour), runs)}},
		{"and no report gave the first one a UID", released, []Part{two("net1"), isPending,
			ReportingWorker(Gone("box-1", NoUID), runs)}},
		{"and its status has the other address, too", released, []Part{two("net1"), UsualPod(Phase("Pending"),
			Carrying("10.0.0.6")), ReportingWorker(gone1, runs)}},

		{"the running sandbox got the address, and the allocation has the first ID", kept, []Part{UsualPool, isPending,
			ReportingWorker(gone1, Sandbox("box-2", UsualUID, with5))}},
		{"an address of the running sandbox cannot be read", kept, []Part{UsualPool, isPending,
			ReportingWorker(gone1, Sandbox("box-2", UsualUID, WithAddress("nonsense", "")))}},
		{"the running sandbox may have more addresses", kept, []Part{two("net1"), isPending,
			ReportingWorker(gone1, Sandbox("box-2", UsualUID, with6, Unread))}},
		{"the running sandbox has the interface without a known address", kept, []Part{two("net1"), isPending,
			ReportingWorker(gone1, Sandbox("box-2", UsualUID, WithAddress("10.1.0.6", ""), func(b *v1alpha1.Sandbox) {
				b.Addresses[0].IfName, b.Interfaces = "net2", []string{"eth0", "net1"}
			}))}},
		{"the addresses of the running sandbox are unknown", kept, []Part{two("net1"), isPending,
			ReportingWorker(gone1, Sandbox("box-2", UsualUID, Unread))}},
		{"the running sandbox has no addresses, and no allocation", kept, []Part{UsualPool, isPending,
			ReportingWorker(gone1, Sandbox("box-2", UsualUID))}},
		{"the network-status has the address", kept, []Part{two("net1"), UsualPod(Phase("Pending"), Carrying("10.0.0.5")),
			ReportingWorker(gone1, runs)}},
		{"another sandbox that is not closed has the address", kept, []Part{two("net1"), isPending, ReportingWorker(gone1,
			runs, Sandbox("box-3", UsualUID, NotReady(Open), with5))}},
		{"another sandbox that is not closed is unread", kept, []Part{two("net1"), isPending, ReportingWorker(gone1, runs,
			Sandbox("box-3", UsualUID, NotReady(nil), Unread))}},
		{"an ADD of the pod is in progress", kept, []Part{two("net1"), isPending, ReportingWorker(gone1, runs,
			Attachment("box-3", UsualUID, time.Minute, nil))}},
		{"an ADD that names no pod is in progress", kept, []Part{two("net1"), isPending, ReportingWorker(gone1, runs,
			func(r *podstate.Report) {
				r.Attachments = append(r.Attachments, v1alpha1.Attachment{ID: "box-3", Since: metav1.NewTime(Now)})
			})}},
		{"the running sandbox is an earlier pod's", kept, []Part{two("net1"), isPending,
			ReportingWorker(gone1, Sandbox("box-2", OtherUID, with6))}},
		{"the report of the pod's node is expired", Want(judge.InUse, judge.PodPending, false, judge.NoFreshReport),
			[]Part{two("net1"), isPending, Node("worker-1"), StaleReport("worker-1", gone1, runs)}},
		{"another node reports the end", Want(judge.InUse, judge.PodPending, false, judge.Gone), []Part{two("net1"),
			UsualPod(Phase("Pending"), OnNode("worker-2")), ReportingWorker(gone1), Node("worker-2"),
			FreshReport("worker-2", runs)}},
		{"the first sandbox may run", Want(judge.InUse, judge.PodPending, false, judge.NotReady), []Part{two("net1"),
			isPending, ReportingWorker(Sandbox("box-1", UsualUID, NotReady(nil)), runs)}},

		{"a younger sandbox has its own allocation", stopped, []Part{two("net1"), isPending,
			ReportingWorker(stoppedAgo("box-1", 2*time.Hour), Sandbox("box-2", UsualUID, NotReady(Open)))}},
		{"and the allocations name no interface", stopped, []Part{two(""), isPending,
			ReportingWorker(stoppedAgo("box-1", 2*time.Hour), Sandbox("box-2", UsualUID))}},
		{"a running sandbox has its own allocation, and the first one is gone", released, []Part{two(""), isPending,
			ReportingWorker(gone1, Sandbox("box-2", UsualUID))}},
		{"an older sandbox has its own allocation", Want(judge.InUse, judge.PodPending, false, judge.Stopped),
			[]Part{two("net1"), isPending, ReportingWorker(stoppedAgo("box-1", time.Minute),
				Sandbox("box-2", UsualUID, NotReady(Open)))}},
		{"a sandbox that is not ready has its own allocation, and the first one ended later", kept, []Part{two("net1"),
			isPending, ReportingWorker(gone1, Sandbox("box-2", UsualUID, NotReady(Open), CreatedAgo(2*time.Hour)))}},
		{"it is not known when the first one was created", Want(judge.InUse, judge.PodPending, false, judge.Stopped),
			[]Part{two("net1"), isPending, ReportingWorker(Sandbox("box-1", UsualUID, NotReady(Closed),
				func(b *v1alpha1.Sandbox) { b.CreatedAt = metav1.Time{} }), Sandbox("box-2", UsualUID, NotReady(Open)))}},
		{"the younger sandbox has ended, too", Want(judge.InUse, judge.PodPending, false, judge.Stopped),
			[]Part{two("net1"), isPending, ReportingWorker(stoppedAgo("box-1", 2*time.Hour), stoppedAgo("box-2", time.Hour))}},
		{"the younger sandbox has an allocation of another interface", Want(judge.InUse, judge.PodPending, false,
			judge.Stopped), []Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"),
			Alloc("6", "default/web-0", "box-2", "net2")), isPending,
			ReportingWorker(stoppedAgo("box-1", 2*time.Hour), Sandbox("box-2", UsualUID, NotReady(Open)))}},
		{"the younger sandbox has an allocation in another pool", Want(judge.InUse, judge.PodPending, false, judge.Stopped),
			[]Part{UsualPool, Pool("blue-10.0.0.0-24", "10.0.0.0/24", Alloc("6", "default/web-0", "box-2", "net1")), isPending,
				ReportingWorker(stoppedAgo("box-1", 2*time.Hour), Sandbox("box-2", UsualUID, NotReady(Open)))}},
		{"the younger sandbox carries the address", Want(judge.InUse, judge.PodPending, false, judge.Stopped),
			[]Part{two("net1"), isPending, ReportingWorker(stoppedAgo("box-1", 2*time.Hour),
				Sandbox("box-2", UsualUID, NotReady(Open), with5))}},

		// Without the first sandbox in any report.
		{"Absent, and a sandbox of the pod carries the address", claimed, []Part{UsualPool, isPending,
			ReportingWorker(Sandbox("box-2", UsualUID, with5))}},
		{"Absent, and a sandbox of the pod may carry the address", claimed, []Part{UsualPool, wb,
			UsualPod(Phase("Pending"), NoNetworkStatus, Requesting("wb")), ReportingWorker(Sandbox("box-2", UsualUID, Unread))}},
		{"Absent, but for a closed attachment, and the pod carries the address", claimed, []Part{UsualPool,
			UsualPod(Phase("Pending"), Carrying("10.0.0.5")),
			ReportingWorker(Attachment("box-1", UsualUID, time.Hour, Closed))}},
	})
}

// unscheduled is the usual pod as the scheduler leaves it where no node fits.
func unscheduled(edits ...PodEdit) Part {
	return UsualPod(append([]PodEdit{Phase("Pending"), OnNode(""), NoNetworkStatus, func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
	}}, edits...)...)
}

// TestVerdict_NeverBound judges the allocation of a pod before, of the name of one that was never bound to a node.
func TestVerdict_NeverBound(t *testing.T) {
	down := All(Node("worker-1", NotReadyFor(time.Hour)), Node("worker-2"))
	expectRulings(t, All(UsualPool, unscheduled()), []rulingCase{
		{"without agents", Want(judge.Stale, judge.PodGone, false, judge.NoSource), []Part{Node("worker-1")}},
		{"without agents, and a node is not Ready", Want(judge.Held, judge.NodeUnreachable, false, judge.NoSource),
			[]Part{down}},
		{"no report has the sandbox", Want(judge.Stale, judge.PodGone, false, judge.Absent), []Part{ReportingWorker()}},
		{"the sandbox has ended", Want(judge.Stale, judge.PodGone, true, judge.Gone),
			[]Part{ReportingWorker(Gone("box-1", OtherUID))}},
		{"the sandbox runs", Want(judge.Held, judge.PhantomPod, false, judge.Ready),
			[]Part{ReportingWorker(Sandbox("box-1", OtherUID))}},
		{"the sandbox may run", Want(judge.Held, judge.SandboxNotReady, false, judge.NotReady),
			[]Part{ReportingWorker(Sandbox("box-1", OtherUID, NotReady(nil)))}},
		{"a node has no fresh report", unreported, []Part{Node("worker-1"), StaleReport("worker-1")}},
		// etcd brought back the pod as it was before it was bound.
		{"the sandbox that ended was its own", Want(judge.InUse, judge.PodPending, false, judge.Gone),
			[]Part{ReportingWorker(gone1)}},
		{"a node runs a sandbox of the pod", Want(judge.Stale, judge.PodReplaced, false, judge.Absent),
			[]Part{ReportingWorker(Sandbox("box-2", UsualUID, with6))}},
	})
	for says, edit := range map[string]PodEdit{
		"its condition is missing":       func(p *corev1.Pod) { p.Status.Conditions = nil },
		"its condition says that it is":  func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue },
		"kubelet has written an address": PodIPs("10.244.0.9"),
		"kubelet has written its start":  func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: Now} },
		"kubelet has written a container": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1)
		},
		"it is bound":        OnNode("worker-1"),
		"its UID is missing": UID(""),
	} {
		t.Run("not where "+says, func(t *testing.T) {
			Expect(t, Want(judge.InUse, judge.PodPending, false, judge.NoSource), UsualPool, unscheduled(edit), Node("worker-1"))
		})
	}
}

func TestFindings_PendingLeak(t *testing.T) {
	allocs, ended := make([]Allocation, 0, 3), make([]ReportEdit, 0, 3)
	for i := range 3 {
		id := fmt.Sprint("box-", i)
		allocs, ended = append(allocs, Alloc(fmt.Sprint(i+1), "default/web-0", id, "")), append(ended, Gone(id, UsualUID))
	}
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", allocs...)
	found := FindingsOf(findings.PendingLeak, pool, UsualPod(Phase("Pending")), ReportingWorker(ended...))
	if len(found) != 1 || found[0].IP != "10.0.0.1,10.0.0.2,10.0.0.3" || found[0].Node != "worker-1" ||
		!slices.Equal(found[0].Pods, []string{"default/web-0"}) ||
		!strings.HasPrefix(found[0].Message, "default/web-0 is Pending and has 3 allocations in pool kube-system/") {
		t.Errorf("got %+v", found)
	}
	for says, parts := range map[string][]Part{
		"the pod runs":  {pool, UsualPod(), ReportingWorker(ended...)},
		"one has ended": {pool, UsualPod(Phase("Pending")), ReportingWorker(ended[0])},
		"they are released": {pool, UsualPod(Phase("Pending")),
			ReportingWorker(ended[0], ended[1], Sandbox("box-2", UsualUID))},
		"there is no report": {pool, UsualPod(Phase("Pending")), Node("worker-1")},
	} {
		if found := FindingsOf(findings.PendingLeak, parts...); len(found) != 0 {
			t.Errorf("%s: got %+v", says, found)
		}
	}
}
