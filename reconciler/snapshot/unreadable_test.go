package snapshot_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
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

// An object that cannot be decoded is there: a pod taken for one that is gone would have its address given away, and
// "no report" would mean "no agents".
func TestUnreadable_ReportedAndExisting(t *testing.T) {
	const reportKind, leaseKind = "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\n",
		"apiVersion: coordination.k8s.io/v1\nkind: Lease\n"
	badReport := func(o *facts.Observation) bool {
		r := o.Reports.Or(nil)
		return len(r) == 1 && r[0].Name == "w1" && r[0].ConfirmedAt.IsZero()
	}
	noReports := func(o *facts.Observation) bool { return !o.Reports.IsKnown() }
	for title, c := range map[string]struct {
		text string
		says []string
		is   func(o *facts.Observation) bool
	}{
		"a pod": {"apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: a, uid: pod-a}\nspec: {containers: 5}\n" +
			"status: {phase: Failed}\n",
			[]string{"other.yaml", "Pod", "default/a", ": spec.containers is a number"}, func(o *facts.Observation) bool {
				want := &podstate.Pod{NamespacedName: name("default", "a"), UID: "pod-a", Phase: podstate.Live,
					Status: podstate.StatusUnreadable, Contradiction: o.Unreadable[0]}
				return reflect.DeepEqual(o.Pods[want.NamespacedName], want)
			}},
		"a node": {"apiVersion: v1\nkind: Node\nmetadata: {name: w1, labels: {a: b}}\nspec: {taints: x}\n" +
			"status: {conditions: [{type: Ready, status: \"True\"}]}\n",
			[]string{"other.yaml", "Node", "w1"}, func(o *facts.Observation) bool {
				return reflect.DeepEqual(o.Nodes.Or(nil)["w1"], &podstate.Node{Name: "w1", Labels: map[string]string{"a": "b"}})
			}},
		"a report's field": {reportKind + "metadata: {name: w1}\nobservedAt: \"2026-11-20T11:59:30Z\"\nsandboxes: 5\n",
			[]string{"other.yaml", "SandboxReport", ": sandboxes is a number"}, badReport},
		"a report's name": {reportKind + "metadata: {}\nobservedAt: \"2026-11-20T11:59:30Z\"\n",
			[]string{"other.yaml", "SandboxReport"}, noReports},
		"a report's time": {reportKind + "metadata: {name: w1}\nobservedAt: yesterday\n",
			[]string{"other.yaml", "SandboxReport"}, badReport},
		"a Lease": {leaseKind + "metadata: {namespace: x, name: w1}\nspec: {renewTime: yesterday}\n",
			[]string{"Lease", "x/w1"}, nil},
		"an object's kind": {"metadata: {namespace: default}\n", []string{"other.yaml", "no kind"}, nil},
		"the own namespace": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: ip-reconcile, annotations: [a, b]}\n",
			[]string{"Namespace"}, func(o *facts.Observation) bool { return o.Paused }},
	} {
		o := observeFile(t, c.text)
		saysUnreadable(t, o.Unreadable, c.says...)
		if c.is != nil && !c.is(o) {
			t.Errorf("%s: %+v", title, o)
		}
	}
}

func TestUnreadable_PoolsReservationsAndNADs(t *testing.T) {
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
	sound, nad := poolNamed(t, o, "10.0.0.0-24"), o.NADs.Or(nil)[name("default", "nad")]
	if sound.Problem != "" || len(sound.Allocations) != 2 {
		t.Errorf("the sound pool: %q, %d entries", sound.Problem, len(sound.Allocations))
	}
	if poolNamed(t, o, "broken").Problem == "" || reservationNamed(t, o, "10.0.0.5").Problem == "" || nad == nil ||
		nad.Problem == "" {
		t.Error("something broken has no problem")
	}
}

// Every pod has a UID, and a pod that ran has a node. Without them another pod's report would seem to be about it.
func TestUnreadable_PodWithoutWhatEveryPodHas(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: a, uid: u, annotations: " +
		`{k8s.v1.cni.cncf.io/network-status: '[{"name":"x","interface":"net1","ips":["10.0.0.6"]}]'}}` + "\n"
	web := name("default", "a")
	for name, c := range map[string]struct{ spec, status, says string }{
		"no status":            {"{}", "{phase: Pending}", ""},
		"failed before a node": {"{}", "{phase: Failed}", ""},
		"it runs":              {"{}", "{phase: Running}", "spec.nodeName is missing"},
		"it ended":             {"{}", "{phase: Succeeded}", "spec.nodeName is missing"},
		"a host's address":     {"{}", "{phase: Pending, hostIP: 192.0.2.1}", "spec.nodeName is missing"},
		"an address":           {"{}", "{podIPs: [{ip: 10.244.0.5}]}", "spec.nodeName is missing"},
		"a container":          {"{}", "{phase: Failed, containerStatuses: [{name: c}]}", "spec.nodeName is missing"},
		"its start":            {"{}", `{startTime: "2026-11-20T11:00:00Z"}`, "spec.nodeName is missing"},
		"it was scheduled":     {"{}", `{conditions: [{type: PodScheduled, status: "True"}]}`, "spec.nodeName is missing"},
		"it was not":           {"{}", `{conditions: [{type: PodScheduled, status: "False"}]}`, ""},
		"it has a node":        {"{nodeName: w1}", "{phase: Running}", ""},
	} {
		text := pod + "spec: " + c.spec + "\nstatus: " + c.status + "\n"
		o := observeFile(t, text)
		p := o.Pods[web]
		if (p.Contradiction != "") != (c.says != "") || !strings.Contains(p.Contradiction, c.says) || p.MayCarryAny() {
			t.Errorf("%s: %q; want %q", name, p.Contradiction, c.says)
		}
		o = observeFile(t, strings.Replace(text, "uid: u, ", "", 1))
		if p := o.Pods[web]; !strings.Contains(p.Contradiction, "metadata.uid is missing") {
			t.Errorf("%s, without a UID: %q", name, p.Contradiction)
		}
		if got := judgetest.AssessAlone(o, facts.Policy{}).Allocations[0]; got.Verdict != judge.Held {
			t.Errorf("%s, without a UID: %s", name, got.Message())
		}
	}
}
