package informers

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

func carrying(ip string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		status := fmt.Sprintf(`[{"name":"default/blue","interface":"net1","ips":[%q]}]`, ip)
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": status}
	}
}

func aNode(version string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: version},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func aNamespace(version, paused, acknowledged string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", ResourceVersion: version,
		Annotations: map[string]string{ippool.PausedAnnotation: paused, restore.AcknowledgedAnnotation: acknowledged}}}
}

func TestObserve_AnnotationsOfTheNamespace(t *testing.T) {
	b := parallelBench(t)
	b.source.lastFull = &facts.Observation{Paused: true, Acknowledged: "earlier"}
	equal(t, "acknowledged, by the last full pass", b.observe().Acknowledged, "earlier")
	b.sets(t, "namespaces", aNamespace("7", "false", "k3f7q2m9xa"))
	equal(t, "acknowledged", b.observe().Acknowledged, "k3f7q2m9xa")
	equal(t, "paused", b.observe().Paused, false)
}

// aLease was renewed some time ago, with a hash.
func aLease(version, name, hash string, ago time.Duration) *coordinationv1.Lease {
	at := metav1.NewTime(time.Now().Add(-ago))
	l := &coordinationv1.Lease{}
	l.Namespace, l.Name, l.ResourceVersion = "kube-system", name, version
	l.Annotations = map[string]string{v1alpha1.HashAnnotation: hash}
	fields := metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)
	l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &at, FieldsV1: fields}}
	return l
}

func aReport(version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ip-reconcile.dev/v1alpha1", "kind": "SandboxReport", "observedAt": "2026-11-20T10:00:00Z",
		"metadata": map[string]any{"name": "worker-1", "resourceVersion": version}}}
}

func aNAD(version, cidr string) *unstructured.Unstructured {
	config := fmt.Sprintf(`{"ipam":{"type":"whereabouts","range":%q}}`, cidr)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "spec": map[string]any{"config": config},
		"metadata": map[string]any{"namespace": "default", "name": "blue", "resourceVersion": version}}}
}

func TestAffectsVerdict(t *testing.T) {
	t.Parallel()
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }
	owner := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: ptr.To(true)}}
	}
	withIP := carrying("10.0.0.9")
	lease := func(version, hash string, ago time.Duration) client.Object {
		return aLease(version, "worker-1", hash, ago)
	}
	other := func(version string, ago time.Duration) client.Object { return aLease(version, "whereabouts", "", ago) }
	const isReady, isNotReady = corev1.ConditionTrue, corev1.ConditionFalse
	const nads, reports = "network-attachment-definitions", "sandboxreports"
	for name, tt := range map[string]struct {
		resource      string
		before, after client.Object // nil for a new or deleted object
		want          bool
	}{
		"new pod":                 {"pods", nil, aPod("web", "7"), true},
		"deleted pod":             {"pods", aPod("web", "7"), nil, true},
		"pod finishes":            {"pods", aPod("web", "7"), aPod("web", "8", finished), true},
		"label of a pod":          {"pods", aPod("web", "7"), aPod("web", "8", labelled), false},
		"owner of a pod":          {"pods", aPod("web", "7"), aPod("web", "8", owner), false},
		"pod gets an address":     {"pods", aPod("web", "7"), aPod("web", "8", withIP), true},
		"pod loses an address":    {"pods", aPod("web", "7", withIP), aPod("web", "8"), true},
		"node not Ready":          {"nodes", aNode("7", isReady), aNode("8", isNotReady), true},
		"same node":               {"nodes", aNode("7", isReady), aNode("8", isReady), false},
		"deleted node":            {"nodes", aNode("7", isReady), nil, true},
		"changed pool":            {"ippools", aPool("1", "web"), aPool("8", "other"), true},
		"deleted pool":            {"ippools", aPool("1", "web"), nil, true},
		"changed definition":      {nads, aNAD("7", "10.0.0.0/24"), aNAD("8", "10.9.0.0/24"), true},
		"changed report":          {reports, aReport("1"), aReport("8"), true},
		"deleted report":          {reports, aReport("1"), nil, true},
		"renewed Lease":           {"leases", lease("7", "abc", 20*time.Second), lease("8", "abc", 0), false},
		"renewed, expired Lease":  {"leases", lease("7", "abc", 2*time.Minute), lease("8", "abc", 0), true},
		"Lease with another hash": {"leases", lease("7", "abc", 20*time.Second), lease("8", "def", 0), true},
		"first Lease":             {"leases", nil, lease("8", "abc", 0), true},
		"Lease without a report":  {"leases", other("7", 2*time.Minute), other("8", 0), false},
		"paused by the namespace": {"namespaces", aNamespace("7", "false", ""), aNamespace("8", "true", ""), true},
		"acknowledged restore":    {"namespaces", aNamespace("7", "", ""), aNamespace("8", "", "2026-11-20T10:00:00Z"), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := parallelBench(t)
			b.sets(t, "ippools", aPool("1", "web"))
			b.sets(t, "sandboxreports", aReport("1")) // of worker-1
			if tt.before != nil {
				b.sets(t, tt.resource, tt.before)
			}
			b.changes = nil
			if tt.after != nil {
				b.sets(t, tt.resource, tt.after)
			} else {
				b.removes(t, tt.resource, tt.before)
			}
			equal(t, "affects a verdict", len(b.changes) > 0, tt.want)
		})
	}
}

func TestObserve_ForgetsDeletedObjects(t *testing.T) {
	b := parallelBench(t)
	for i := range 200 {
		b.sets(t, "pods", aPod(fmt.Sprint("web-", i), "7"))
		b.removes(t, "pods", aPod(fmt.Sprint("web-", i), "8"))
	}
	b.sets(t, "pods", aPod("other", "9001"))
	b.fullPass(t)
	equal(t, "pods", len(b.observe().Pods), 1)
	equal(t, "recorded changes", len(b.source.changes), 0)
}

// sandboxReport is worker-1's report of one sandbox.
func sandboxReport(id string) *item {
	r := &v1alpha1.SandboxReport{Sandboxes: []v1alpha1.Sandbox{{ID: id}}}
	r.Name = "worker-1"
	return &item{NamespacedName: types.NamespacedName{Name: "worker-1"}, ResourceVersion: "7",
		parsed: &report{SandboxReport: r, hash: podstate.Hash(r)}}
}

// An agent writes its report and then the Lease with its hash. The node has a fresh report in between.
func TestObserve_ReportIsFreshWhileTheAgentWrites(t *testing.T) {
	b := parallelBench(t)
	writes := func(id string) *report {
		r := sandboxReport(id)
		must(t, b.source.store(reportResource).Add(r))
		return r.parsed.(*report)
	}
	check := func(what, id string, isFresh bool) {
		t.Helper()
		o := b.observe()
		if r := o.Reports.Or(nil)[0]; r.Sandboxes[0].ID != id || r.IsFresh(o.Now) != isFresh {
			t.Errorf("%s: sandbox %s, fresh %v; want %s, %v", what, r.Sandboxes[0].ID, r.IsFresh(o.Now), id, isFresh)
		}
	}
	one := writes("box-1")
	check("before the Lease", "box-1", false)
	b.sets(t, "leases", aLease("2", "worker-1", one.hash, 0))
	check("with the Lease", "box-1", true)
	equal(t, "version of the Lease, as restores need it", b.observe().Reports.Or(nil)[0].LeaseVersion, "2")
	writes("box-2")
	check("second report, before the Lease", "box-1", true)
	three := writes("box-3")
	check("third report, before the Lease", "box-1", true)
	b.sets(t, "leases", aLease("5", "worker-1", three.hash, 0))
	check("Lease of the third report", "box-3", true)
	four := writes("box-4")
	four.previousSince = four.previousSince.Add(-leaseDelay)
	check("without a new Lease", "box-4", false)
}

func TestObserve_MissingReports(t *testing.T) {
	b := parallelBench(t)
	missing := func(what string, nodes ...string) {
		t.Helper()
		equal(t, what, slices.Sorted(maps.Keys(b.observe().MissingReports)), nodes)
		equal(t, what+", by a full pass", slices.Sorted(maps.Keys(b.fullPass(t).MissingReports)), nodes)
	}
	missing("without a report")
	b.sets(t, reportResource, aReport("7"))
	b.api.has(reportResource, aReport("7"))
	missing("with a report")
	b.removes(t, reportResource, aReport("8"))
	b.api.has(reportResource)
	missing("deleted", "worker-1")
	b.lists(t, reportResource, aReport("9"))
	b.lists(t, reportResource)
	missing("not in the next list", "worker-1")
	b.source.missing["worker-1"] = b.source.Now().Add(-missingPeriod - time.Minute)
	missing("ten minutes later")

	b.sets(t, reportResource, aReport("9"))
	b.source.reset()
	missing("in rebuilt caches", "worker-1")
	b.sets(t, reportResource, aReport("10"))
	b.api.has(reportResource, aReport("10"))
	missing("recreated")
	b.api.has(reportResource)
	equal(t, "lost by a restore that the watch does not show", slices.Collect(maps.Keys(b.fullPass(t).MissingReports)),
		[]string{"worker-1"})
}
