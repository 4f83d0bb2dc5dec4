package snapshot_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func saysUnreadable(t *testing.T, texts []string, words ...string) {
	t.Helper()
	if len(texts) != 1 {
		t.Errorf("unreadable: %q; want one sentence", texts)
		return
	}
	for _, word := range words {
		if !strings.Contains(texts[0], word) {
			t.Errorf("%q does not say %q", texts[0], word)
		}
	}
}

// A pod that cannot be decoded is there: taken for one that is gone, its
// address would be given away.
func TestAPodThatCannotBeDecodedIsALivePodOfWhichNothingElseIsKnown(t *testing.T) {
	o := observeFile(t, "apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: a, uid: pod-a}\nspec: {containers: 5}\nstatus: {phase: Failed}\n")
	saysUnreadable(t, o.Unreadable, "other.yaml", "Pod", "default/a")
	p := o.Pods[name("default", "a")]
	if p == nil {
		t.Fatal("the pod is absent")
	}
	equal(t, "phase", p.Phase, podstate.Live)
	equal(t, "status", p.Status, podstate.StatusUnreadable)
	equal(t, "UID", p.UID, "pod-a")
}

func TestANodeThatCannotBeDecodedIsThereAndNotReady(t *testing.T) {
	o := observeFile(t, "apiVersion: v1\nkind: Node\nmetadata: {name: w1, labels: {kubernetes.io/os: linux}}\nspec: {taints: x}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}\n")
	saysUnreadable(t, o.Unreadable, "other.yaml", "Node", "w1")
	n := o.Nodes["w1"]
	if n == nil {
		t.Fatal("the node is absent")
	}
	equal(t, "ready", n.Ready, false)
	equal(t, "dead", n.Dead(), false)
	equal(t, "label", n.Labels["kubernetes.io/os"], "linux")
}

// "No report" would mean "no agents", and then the API alone decides. A report
// that is there and cannot be read must not have that effect.
func TestAReportThatCannotBeDecodedIsNotNoReport(t *testing.T) {
	for title, text := range map[string]string{
		"a field of the wrong type": "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\nmetadata: {name: w1}\nobservedAt: \"2026-11-20T11:59:30Z\"\nsandboxes: 5\n",
		"no name":                   "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\nmetadata: {}\nobservedAt: \"2026-11-20T11:59:30Z\"\n",
		"a time that is none":       "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\nmetadata: {name: w1}\nobservedAt: yesterday\n",
	} {
		t.Run(title, func(t *testing.T) {
			o := observeFile(t, text)
			saysUnreadable(t, o.Unreadable, "other.yaml", "SandboxReport")
			equal(t, "reports", len(o.Reports), 0)
			equal(t, "reports could not be read", o.ReportsUnreadable, true)
		})
	}
}

func TestALeaseThatCannotBeDecodedIsReported(t *testing.T) {
	o := observeFile(t, "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {namespace: x, name: w1}\nspec: {renewTime: yesterday}\n")
	saysUnreadable(t, o.Unreadable, "Lease", "x/w1")
}

func TestAnObjectWithoutAKindIsReported(t *testing.T) {
	saysUnreadable(t, observeFile(t, "metadata: {namespace: default, name: a}\n").Unreadable, "other.yaml", "no kind")
}

func TestPoolsReservationsAndNADsThatCannotBeReadStopNothing(t *testing.T) {
	o := observeFile(t, `
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata: {namespace: kube-system, name: broken}
spec: {range: 10.0.0.0, allocations: [1]}
---
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: OverlappingRangeIPReservation
metadata: {namespace: kube-system, name: 10.0.0.5}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {namespace: default, name: nad}
spec: {config: "{"}
`)
	if p := poolNamed(t, o, "broken"); p.Problem == "" {
		t.Error("the broken pool has no problem")
	}
	if p := poolNamed(t, o, "10.0.0.0-24"); p.Problem != "" || len(p.Allocations) != 2 {
		t.Errorf("the sound pool: %q, %d entries", p.Problem, len(p.Allocations))
	}
	if r := reservationNamed(t, o, "10.0.0.5"); r.Problem == "" {
		t.Error("the broken reservation has no problem")
	}
	if n := o.NADs[name("default", "nad")]; n == nil || n.Problem == "" {
		t.Errorf("the broken NAD: %+v", n)
	}
}
