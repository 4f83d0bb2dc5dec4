package reconciler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A node that joins after a restore, and is deleted before it reports, need not report.
func TestRestore_NodeJoinsAndLeaves(t *testing.T) {
	for known, want := range map[bool]bool{false: true, true: false} {
		p := newProcess(t, atOnce)
		p.RestoreStore = &memoryStore{}
		before := All()
		if known { // the restore lost it, and its kubelet registers it again
			before = All(Node("spot"), FreshReport("spot"))
		}
		p.pass(0, leakOn(0), revision(100), before)
		p.pass(time.Minute, leakOn(0), revision(90))
		joined := Node("spot", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(Now.Add(2 * time.Minute)) })
		p.pass(2*time.Minute, leakOn(2*time.Minute), joined, revision(100))
		plan := p.pass(5*time.Minute, leakOn(2*time.Minute), revision(101))
		if released := len(plan.Release) > 0; released != want {
			t.Errorf("known before the restore %v, gone since: released %v", known, released)
		}
	}
}

// The API server's times have whole seconds: a node of the second of the restore may have joined after it.
func TestRestore_NodeJoinsInTheSameSecond(t *testing.T) {
	for age, want := range map[time.Duration]bool{0: true, time.Second: false} {
		p := newProcess(t, atOnce)
		p.RestoreStore = &memoryStore{}
		p.pass(0, leakOn(0), revision(100))
		joined := Node("spot", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(Now.Add(time.Minute - age)) })
		p.pass(time.Minute, leakOn(0), joined, revision(90))
		p.pass(2*time.Minute, leakOn(2*time.Minute), joined, revision(100))
		plan := p.pass(5*time.Minute, leakOn(2*time.Minute), revision(101))
		if released := len(plan.Release) > 0; released != want {
			t.Errorf("created %s before the restore was detected: released %v", age, released)
		}
	}
}

// A Node that neither the last pass before the restore nor the first one after it had has joined since.
func TestRestore_NodesJoinInTurn(t *testing.T) {
	p := newProcess(t, atOnce)
	p.RestoreStore = &memoryStore{}
	p.pass(0, leakOn(0), revision(100))
	p.pass(time.Minute, leakOn(0), revision(90))
	p.pass(2*time.Minute, leakOn(2*time.Minute), Node("spot-0"), revision(100)) // perhaps of the backup
	p.pass(3*time.Minute, leakOn(2*time.Minute), revision(101))
	for i := 1; i <= 3; i++ {
		at := time.Duration(i) * 25 * time.Minute
		p.pass(at, leakOn(2*time.Minute), Node(fmt.Sprint("spot-", i)), revision(uint64(200+10*i)))
		released := len(p.pass(at+5*time.Minute, leakOn(2*time.Minute), revision(uint64(201+10*i))).Release) > 0
		if released != (i == 3) { // an hour after the first one was deleted
			t.Errorf("machine %d: released %v", i, released)
		}
	}
}
