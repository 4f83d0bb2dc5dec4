package reconciler

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan/plantest"
)

// What was held for hours must not be released in the first pass after a source was unknown for two seconds.
func TestHistory_UnknownSourceRestartsTheWait(t *testing.T) {
	for says, unknown := range map[string]Part{
		"nodes":   NodesUnknown,
		"reports": ReportsUnknown("forbidden"),
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, quarter)
			p.pass(0, unconfirmed)
			if made := p.pass(14*minute, unconfirmed, unknown); len(made.Release) > 0 {
				t.Fatal("released while a source was unknown")
			}
			p.WantRefused("15 minutes after the first pass", plan.AwaitingConfirmation, p.pass(15*minute, unconfirmed))
			p.WantRefused("a second too early", plan.AwaitingConfirmation, p.pass(30*minute-time.Second, unconfirmed))
			p.releases("15 minutes after all was known again", 30*minute, unconfirmed)
		})
	}
	t.Run("definitions, of which the verdict needs none", func(t *testing.T) {
		definitionsUnknown := func(o *Observed) {
			o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("forbidden"))
		}
		p := newProcess(t, quarter)
		p.pass(0, unconfirmed)
		p.pass(14*minute, unconfirmed, definitionsUnknown)
		p.WantRefused("15 minutes after the first pass", plan.AwaitingConfirmation, p.pass(15*minute, unconfirmed))
		p.releases("15 minutes after they became unknown", 29*minute, unconfirmed)
	})
	t.Run("held for hours", func(t *testing.T) {
		p := newProcess(t, quarter)
		silent := All(UsualPool, ReportingNode("worker-1"), Node("worker-2"))
		p.pass(0, silent)
		p.pass(3*hour, silent)
		p.pass(3*hour+2*time.Second, silent, NodesUnknown)
		reported := All(UsualPool, ReportingNode("worker-1"), ReportingNode("worker-2"))
		p.WantRefused("as soon as all report", plan.AwaitingConfirmation, p.pass(3*hour+4*time.Second, reported))
	})
}

// A node that lacked a report and is gone without one has proved nothing: the wait begins again.
func TestHistory_LostNodeRestartsTheWait(t *testing.T) {
	waiting := All(UsualPool, ReportingNode("worker-1"))
	t.Run("it never reported", func(t *testing.T) {
		p := newProcess(t, quarter)
		for at := time.Duration(0); at <= 3*hour; at += hour {
			if made := p.pass(at, waiting, Node("worker-2")); len(made.Release) > 0 {
				t.Fatalf("released after %s beside a silent node", at)
			}
		}
		gone := 3*hour + minute
		for _, later := range []time.Duration{0, 8 * time.Second, 41 * time.Second, 14 * minute} {
			if made := p.pass(gone+later, waiting); len(made.Release) > 0 {
				t.Fatalf("released %s after the Node object was gone", later)
			}
		}
		p.releases("15 minutes after", gone+15*minute, waiting)
	})
	t.Run("its Node object is there again", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, waiting, Node("worker-2"))
		p.pass(hour, waiting)
		if made := p.pass(hour+8*time.Second, waiting, Node("worker-2")); len(made.Release)+len(made.Refused) > 0 {
			t.Errorf("it is Stale beside a silent node: %s", plantest.Refusals(made))
		}
	})
	t.Run("it joined after the item was observed", func(t *testing.T) {
		joined := func(after time.Duration) NodeEdit {
			return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(Now.Add(after)) }
		}
		p := newProcess(t, quarter)
		p.pass(0, waiting)
		p.pass(2*minute, waiting, Node("worker-2", joined(minute)))
		p.pass(3*minute, waiting)
		p.releases("15 minutes after it was observed", 15*minute, waiting)
		p = newProcess(t, quarter)
		p.pass(0, waiting, Node("worker-2", joined(-hour)))
		p.pass(2*minute, waiting, Node("worker-2", joined(minute))) // recreated by its kubelet
		p.pass(3*minute, waiting)
		p.WantRefused("recreated, and gone", plan.AwaitingConfirmation, p.pass(17*minute, waiting))
	})
	t.Run("it reported after the item was observed", func(t *testing.T) {
		p := newProcess(t, quarter)
		p.pass(0, waiting, ReportingNode("worker-2"))
		p.pass(10*minute, waiting, ReportingNode("worker-2"))
		p.pass(12*minute, waiting, Node("worker-2"), ReportRenewed("worker-2", 2*minute))
		p.pass(16*minute, waiting, ReportRenewed("worker-2", 6*minute))
		p.releases("once the Node object was gone for its quarantine", 16*minute+memory.NodeQuarantine, waiting)
	})
}
