package reconciler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// taintedAs is OutOfService with a value.
func taintedAs(value string) NodeEdit {
	return func(n *corev1.Node) {
		OutOfService(n)
		n.Spec.Taints[len(n.Spec.Taints)-1].Value = value
	}
}

// worker-2 was out of service at the time of the backup. It was repaired since, and runs a pod with the address.
func TestRestore_TaintOfTheBackup(t *testing.T) {
	back := Node("worker-2", NotReadyFor(hour), taintedAs("nodeshutdown"))
	leak := leakOn(2 * minute)
	restored := func(t *testing.T) *process {
		p := storing(t)
		p.pass(0, leakOn(0), Node("worker-2"), revision(100))
		p.WantRefused("the pass that shows it, with Nodes of before", plan.EtcdRestored, p.passOnce(minute, leakOn(0),
			Node("worker-2"), revision(90)))
		p.waits("the pass after it", 2*minute, leak, back, revision(91))
		return p
	}
	t.Run("however long, and the gate names it", func(t *testing.T) {
		p := restored(t)
		made := p.waits("days later", 3*day, leak, back, revision(92))
		wantDetail(t, made, "worker-2 (its out-of-service taint may be from the backup)")
		p.restarted().waits("in the process after it", 4*day, leak, back, revision(93))
	})
	t.Run("until it is removed and set again", func(t *testing.T) {
		p := restored(t)
		p.waits("removed", 3*minute, leak, Node("worker-2", NotReadyFor(hour)), revision(92))
		p.releases("set again", 4*minute, leak, back, revision(93))
		p.restarted().releases("in the process after it", 5*minute, leak, back, revision(94))
	})
	t.Run("until it is set as another", func(t *testing.T) {
		p := restored(t).restarted() // for which no pass had it removed
		p.releases("with another value", 3*minute, leak, Node("worker-2", NotReadyFor(hour),
			taintedAs("after-restore")), revision(92))
	})
	t.Run("until the Node is another object", func(t *testing.T) {
		p := restored(t)
		again := Node("worker-2", NotReadyFor(hour), func(n *corev1.Node) { n.UID = "recreated" }, taintedAs("nodeshutdown"))
		p.releases("recreated", 3*minute, leak, again, revision(92))
	})
	t.Run("until an operator acknowledges the restore", func(t *testing.T) {
		p := restored(t)
		p.pass(3*minute, leak, back, p.acknowledged(), revision(92))
		p.releases("acknowledged", 4*minute, leak, back, p.acknowledged(), revision(93))
	})
	t.Run("if only an agent reports the restore", func(t *testing.T) {
		p := newProcess(t, atOnce)
		reported := leakReported(minute, 2*minute)
		p.waits("reported", 3*minute, reported, back)
		p.waits("later", hour, reported, back)
	})
	t.Run("and a second restore brings it back again", func(t *testing.T) {
		p := restored(t)
		p.pass(3*minute, leak, Node("worker-2", NotReadyFor(hour)), revision(92))
		p.releases("set again", 4*minute, leak, back, revision(93))
		p.pass(5*minute, leak, back, revision(80))
		p.waits("restored again", 6*minute, leakOn(6*minute), back, revision(81))
	})
}

// A node with the taint reports, and the restore is settled. When the node becomes unreachable, it does not count as
// dead.
func TestRestore_TaintOnRunningNode(t *testing.T) {
	usual := All(UsualPool, Node("worker-1"), written("worker-1", 2*minute))
	runs := func(write int) Part {
		return All(Node("worker-2", taintedAs("nodeshutdown")), written("worker-2", 2*minute, Sandbox("box-1", UsualUID)))
	}
	unreachable := All(Node("worker-2", NotReadyFor(minute), taintedAs("nodeshutdown")), StaleReport("worker-2",
		Sandbox("box-1", UsualUID)))
	for says, isAcknowledged := range map[string]bool{"": false,
		"also where the restore was acknowledged for the sake of another": true} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			more := All()
			if isAcknowledged {
				more = p.acknowledged()
			}
			p.RestoreStore = &memoryStore{}
			p.seesRestore(usual, runs(0))
			p.pass(2*minute, usual, runs(2), revision(91))
			p.pass(3*minute, usual, runs(2), more, revision(92))
			for _, p := range []*process{p, p.restarted()} {
				made := p.pass(hour, usual, unreachable, more, revision(93))
				if len(made.Release) > 0 {
					t.Error("what it runs is released")
				}
				j := Judged(p.next, facts.Policy{})
				if it := AllocationOf(t, j, "10.0.0.5"); it.Reason != judge.NodeUnreachable {
					t.Errorf("judged %v", RulingOf(it))
				}
				if notes := strings.Join(j.Notes(), "\n"); !strings.Contains(notes,
					"the out-of-service taint of worker-2 may come from etcd's backup") {
					t.Errorf("the notes are %s", notes)
				}
			}
		})
	}
}

func TestRestore_TaintWithoutAgents(t *testing.T) {
	ending := All(UsualPool, UsualPod(DeletedAgo(0)))
	dead := Node("worker-1", NotReadyFor(hour), OutOfService)
	p := newProcess(t, atOnce)
	p.releases("before", 0, ending, dead, revision(100))
	p.pass(minute, ending, dead, revision(90))
	if made := p.pass(2*minute, ending, dead, revision(91)); len(made.Release) > 0 {
		t.Error("released because of the taint of the backup")
	}
	p.pass(3*minute, ending, dead, p.acknowledged(), revision(92))
	p.releases("acknowledged", 4*minute, ending, dead, p.acknowledged(), revision(93))
}

// A node that joins after a restore, and is deleted before it reports, need not report.
func TestRestore_NodeJoinsAndLeaves(t *testing.T) {
	for known, want := range map[bool]bool{false: true, true: false} {
		p := storing(t)
		before := All()
		if known { // the restore lost it, and its kubelet registers it again
			before = All(Node("spot"), FreshReport("spot"))
		}
		p.pass(0, leakOn(0), revision(100), before)
		p.pass(time.Minute, leakOn(0), revision(90))
		joined := Node("spot", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(Now.Add(2 * time.Minute)) })
		p.pass(2*time.Minute, leakOn(2*time.Minute), joined, revision(100))
		made := p.pass(5*time.Minute, leakOn(2*time.Minute), revision(101))
		if released := len(made.Release) > 0; released != want {
			t.Errorf("known before the restore %v, gone since: released %v", known, released)
		}
	}
}

// The same, and when it leaves Nodes cannot be listed for a moment. Where they cannot be listed in the pass that
// detects the restore, a node that the next one lists may have run before it: if its Node is deleted, it is missing.
func TestRestore_NodeLeavesWhileNodesAreUnknown(t *testing.T) {
	for says, c := range map[string]struct {
		unknownAt, listedAt time.Duration
		want                bool
	}{
		"when it leaves":                   {unknownAt: 3 * minute, listedAt: 2 * minute, want: true},
		"when the restore shows":           {unknownAt: minute, listedAt: minute + time.Second, want: false},
		"before, and it joined afterwards": {unknownAt: minute, listedAt: 2 * minute, want: true},
	} {
		t.Run(says, func(t *testing.T) {
			p, made := storing(t), (*plan.Plan)(nil)
			for i, after := range []time.Duration{0, minute, minute + time.Second, 2 * minute, 3 * minute, 6 * minute} {
				parts := All(leakOn(min(after, 2*minute)), revision([]uint64{100, 90, 91, 92, 93, 94}[i]))
				if after == c.unknownAt {
					parts = All(parts, NodesUnknown)
				}
				if after == c.listedAt {
					parts = All(parts, Node("spot"))
				}
				made = p.passOnce(after, parts)
			}
			if released := len(made.Release) > 0; released != c.want {
				t.Errorf("released %v", released)
			}
		})
	}
}

// The API server's times have whole seconds: a node of the second of the restore may have joined after it.
func TestRestore_NodeJoinsInTheSameSecond(t *testing.T) {
	for age, want := range map[time.Duration]bool{0: true, time.Second: false} {
		p := storing(t)
		p.pass(0, leakOn(0), revision(100))
		joined := Node("spot", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(Now.Add(time.Minute - age)) })
		p.pass(time.Minute, leakOn(0), joined, revision(90))
		p.pass(2*time.Minute, leakOn(2*time.Minute), joined, revision(100))
		made := p.pass(5*time.Minute, leakOn(2*time.Minute), revision(101))
		if released := len(made.Release) > 0; released != want {
			t.Errorf("created %s before the restore was detected: released %v", age, released)
		}
	}
}

// A Node that neither the last pass before the restore nor the one that detects it has had has joined since. Machines
// that join and leave between two passes hold nothing.
func TestRestore_NodesJoinInTurn(t *testing.T) {
	p := storing(t)
	p.pass(0, leakOn(0), revision(100))
	p.passOnce(time.Minute, leakOn(0), revision(90))
	for i := range 4 {
		at := time.Duration(2+25*i) * time.Minute
		p.pass(at, leakOn(2*time.Minute), Node(fmt.Sprint("spot-", i)), revision(uint64(200+10*i)))
		p.releases(fmt.Sprint("machine ", i, " is gone again"), at+5*time.Minute, leakOn(2*time.Minute),
			revision(uint64(201+10*i)))
	}
}

// In the pass that detects a restore every node is awaited, however young its report is: two API servers' clocks differ
// by less than the report must be younger than the pass.
func TestRestore_DetectingPassAwaitsEveryNode(t *testing.T) {
	const young = minute + v1alpha1.MaxClockDifference - time.Second
	p := newProcess(t, atOnce)
	both := func(after time.Duration) Part {
		at := RenewedAt(Now.Add(after))
		return All(UsualPool, Node("worker-1"), written("worker-1", after, Gone("box-1", UsualUID), at), Node("worker-2"),
			written("worker-2", after, at))
	}
	p.pass(0, both(0), revision(100))
	p.pass(minute, both(young), revision(90))
	state := p.Process.Known.Status(Judged(p.next, facts.Policy{}).Judgement)
	if got := strings.Join(state.Awaiting, ", "); got != "worker-1, worker-2" {
		t.Errorf("awaited are %q", got)
	}
}

// A report that cannot be read says nothing since the restore: the gate says so, and an operator can end the wait.
func TestRestore_UnreadReport(t *testing.T) {
	unread := func(o *Observed) {
		for i, r := range o.Reports.Or(nil) {
			if r.Name == "worker-2" {
				o.Reports.Or(nil)[i] = podstate.UnreadReport(r.Name, r.UID, r.ResourceVersion)
			}
		}
	}
	p := storing(t)
	p.seesRestore(leakBeside("worker-2", 0))
	made := p.waits("it cannot be read", 2*minute, leakBeside("worker-2", 2*minute), unread, revision(91))
	wantDetail(t, made, "worker-2 (its report cannot be read)")
	p = p.restarted()
	p.waits("in the process after it", hour, leakBeside("worker-2", hour), unread, revision(92))
	kept := *p.RestoreStore.(*memoryStore)
	acknowledging := p.restarted()
	acknowledging.releases("acknowledged", 2*hour, leakBeside("worker-2", 2*hour), unread, p.acknowledged(), revision(93))
	p.RestoreStore = &kept
	p.releases("it can be read again", 2*hour, leakBeside("worker-2", 2*hour), revision(93))
}
