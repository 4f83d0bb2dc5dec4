package judge_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// controlledBy gives a pod a controller.
func controlledBy(apiVersion, kind string) PodEdit {
	return func(p *corev1.Pod) {
		isController := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "web",
			Controller: &isController}}
	}
}

func withoutReadyCondition(n *corev1.Node) { n.Status.Conditions = nil }

func TestFindings_NodeNotReady(t *testing.T) {
	two := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"),
		Alloc("6", "default/web-1", "box-2", "net1"))
	for _, c := range []struct {
		says  string
		want  []string // parts of the message; none for no finding
		parts []Part
	}{
		{"one of three nodes", []string{"worker-2 has not been Ready since 2026-11-20T09:00:00Z, so", "are held: 2. ",
			"the out-of-service taint or deleting the Node releases them"},
			[]Part{Node("worker-1"), Node("worker-2", NotReadyFor(time.Hour)), Node("worker-3")}},
		{"its condition is missing", []string{"worker-2 has not been Ready since an unknown time, because its Node has no " +
			"condition Ready", "an out-of-service taint does not"},
			[]Part{Node("worker-1"), Node("worker-2", withoutReadyCondition)}},
		{"its condition is missing, and it has the taint", []string{"no condition Ready"},
			[]Part{Node("worker-1"), Node("worker-2", OutOfService, withoutReadyCondition)}},
		{"the node of a terminating pod", []string{"are held: 1. "}, []Part{Node("worker-1", NotReadyFor(time.Hour)),
			Pod("web-0", DeletedAgo(time.Hour)), Pod("web-1", OnNode("worker-2"), Carrying("10.0.0.6")), Node("worker-2")}},
		{"every node is Ready", nil, []Part{Node("worker-1"), Node("worker-2")}},
		{"it is out of service", nil, []Part{Node("worker-1"), dead2}},
		{"the pods run elsewhere", nil, []Part{Node("worker-1"), Node("worker-2", NotReadyFor(time.Hour)),
			Pod("web-0", Carrying("10.0.0.5")), Pod("web-1", Carrying("10.0.0.6"))}},
		{"an agent reports", nil, []Part{Node("worker-1"), FreshReport("worker-1"),
			Node("worker-2", NotReadyFor(time.Hour))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			found := FindingsOf(findings.NodeNotReady, append([]Part{two}, c.parts...)...)
			if len(c.want) == 0 && len(found) != 0 || len(c.want) > 0 && len(found) != 1 {
				t.Fatalf("got %+v", found)
			}
			for _, text := range c.want {
				if !strings.Contains(found[0].Message, text) {
					t.Errorf("%q lacks %q", found[0].Message, text)
				}
			}
		})
	}
}

// Without agents a pod whose name is given once ran on the node where it was observed, and on no other.
func TestAGonePodThatWasObservedElsewhereIsNotHeldByAnotherNode(t *testing.T) {
	ofReplicaSet := controlledBy("apps/v1", "ReplicaSet")
	nodes := All(Node("worker-1"), Node("worker-2", NotReadyFor(time.Hour)))
	held := Want(judge.Held, judge.NodeUnreachable, false, judge.NoSource)
	gone := Want(judge.Stale, judge.PodGone, false, judge.NoSource)
	for _, c := range []struct {
		says  string
		want  Ruling
		parts []Part
	}{
		{"on a Ready node", gone, []Part{afterPassOver(UsualPool, UsualPod(ofReplicaSet)), nodes}},
		{"a virtual machine's, on a Ready node", gone, []Part{afterPassOver(UsualPool,
			UsualPod(controlledBy("kubevirt.io/v1", "VirtualMachineInstance"))), nodes}},
		{"on the node that is not Ready", held, []Part{afterPassOver(UsualPool,
			UsualPod(ofReplicaSet, OnNode("worker-2"))), nodes}},
		{"never", held, []Part{afterPassOver(UsualPool), nodes}},
		{"not bound", held, []Part{afterPassOver(UsualPool, UsualPod(ofReplicaSet, OnNode(""))), nodes}},
		{"by another allocation", held, []Part{afterPassOver(Pool("10.0.0.0-24", "10.0.0.0/24",
			Alloc("5", "default/web-0", "box-0", "net1")), UsualPod(ofReplicaSet)), nodes}},
		{"of a StatefulSet, whose names are given again", held, []Part{afterPassOver(UsualPool,
			UsualPod(controlledBy("apps/v1", "StatefulSet"))), nodes}},
		{"of a controller of another API group", held, []Part{afterPassOver(UsualPool,
			UsualPod(controlledBy("example.com/v1", "ReplicaSet"))), nodes}},
		{"without a controller", held, []Part{afterPassOver(UsualPool, UsualPod()), nodes}},
		{"and another pod carried the address on the node that is not Ready", held, []Part{afterPassOver(UsualPool,
			UsualPod(ofReplicaSet, Phase("Failed")), ReportingWorker(), Node("worker-2"),
			Pod("web-1", UID("uid-2"), OnNode("worker-2"), Carrying("10.0.0.5"))), nodes,
			func(o *Observed) { o.Past = withoutReports{o.Past} }}},
	} {
		t.Run(c.says, func(t *testing.T) {
			o := Observe(append([]Part{UsualPool}, c.parts...)...)
			first := RulingOf(AllocationOf(t, Judged(o, facts.Policy{}), "10.0.0.5")) // the pass that finds it gone
			if known, isKnown := o.Past.(reconciler.Known); isKnown {
				o.Past = known.After(Judged(o, facts.Policy{}).Judgement)
			}
			if got := RulingOf(AllocationOf(t, Judged(o, facts.Policy{}), "10.0.0.5")); got != c.want || first != c.want {
				t.Errorf("got %v and then %v, want %v", first, got, c.want)
			}
		})
	}
}

// withoutReports forgets that reports were observed.
type withoutReports struct{ Past }

func (withoutReports) SawReports() bool { return false }
