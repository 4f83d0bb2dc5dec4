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
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func carrying(ip string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": fmt.Sprintf(`[{"name":"default/blue","interface":"net1","ips":[%q]}]`, ip)}
	}
}

func aNode(version string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: version},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func aNamespace(version, paused string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", ResourceVersion: version,
		Annotations: map[string]string{"ip-reconcile.dev/paused": paused}}}
}

// acknowledging is the namespace in which an operator has acknowledged a restore.
func acknowledging(version, at string) *corev1.Namespace {
	n := aNamespace(version, "false")
	n.Annotations[judge.AcknowledgedAnnotation] = at
	return n
}

func TestWhatAnOperatorSaysWithTheNamespaceIsObserved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	b.source.last = &judge.Observation{Paused: true, Acknowledged: at.Add(time.Hour)}
	equal(t, "acknowledged, by the last full pass", b.observe().Acknowledged, at.Add(time.Hour))
	b.sets(t, "namespaces", acknowledging("7", "2026-11-20T10:00:00Z"))
	equal(t, "acknowledged", b.observe().Acknowledged, at)
	equal(t, "paused", b.observe().Paused, false)
	b.sets(t, "namespaces", acknowledging("8", "soon"))
	equal(t, "what cannot be read", b.observe().Acknowledged, time.Time{})
}

// aLease was renewed that long ago, with a hash.
func aLease(version, name, hash string, ago time.Duration) *coordinationv1.Lease {
	at := metav1.NewTime(time.Now().Add(-ago))
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, ResourceVersion: version,
		Annotations:   map[string]string{v1alpha1.HashAnnotation: hash},
		ManagedFields: []metav1.ManagedFieldsEntry{{Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)}}}}
}

func aReport(version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "ip-reconcile.dev/v1alpha1", "kind": "SandboxReport",
		"metadata": map[string]any{"name": "worker-1", "resourceVersion": version}, "observedAt": "2026-11-20T10:00:00Z"}}
}

func aNAD(version, config string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": map[string]any{"namespace": "default", "name": "blue", "resourceVersion": version}, "spec": map[string]any{"config": config}}}
}

// TestWhichChangesAffectAVerdict: there is a report of worker-1.
func TestWhichChangesAffectAVerdict(t *testing.T) {
	t.Parallel()
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"of": "no-interest"} }
	adopted := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: ptr.To(true)}}
	}
	for name, tt := range map[string]struct {
		resource      string
		before, after client.Object // nil: it is new, it is deleted
		want          bool
	}{
		"a new pod":                                      {"pods", nil, aPod("web", "7"), true},
		"a pod that goes":                                {"pods", aPod("web", "7"), nil, true},
		"a pod that finishes":                            {"pods", aPod("web", "7"), aPod("web", "8", finished), true},
		"a pod that gets a label":                        {"pods", aPod("web", "7"), aPod("web", "8", labelled), false},
		"a pod that a controller adopts":                 {"pods", aPod("web", "7"), aPod("web", "8", adopted), false},
		"a pod that comes to carry a pool's address":     {"pods", aPod("other", "7"), aPod("other", "8", carrying("10.0.0.9")), true},
		"a pod that carries a pool's address and goes":   {"pods", aPod("other", "7", carrying("10.0.0.9")), nil, true},
		"a pod that loses a pool's address":              {"pods", aPod("other", "7", carrying("10.0.0.9")), aPod("other", "8"), true},
		"a node that is not Ready any more":              {"nodes", aNode("7", corev1.ConditionTrue), aNode("8", corev1.ConditionFalse), true},
		"a node that is the same again":                  {"nodes", aNode("7", corev1.ConditionTrue), aNode("8", corev1.ConditionTrue), false},
		"a node that goes":                               {"nodes", aNode("7", corev1.ConditionTrue), nil, true},
		"a pool that changes":                            {"ippools", aPool("1", "web"), aPool("8", "other"), true},
		"a pool that goes":                               {"ippools", aPool("1", "web"), nil, true},
		"a definition that changes":                      {"network-attachment-definitions", aNAD("7", `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`), aNAD("8", `{"ipam":{"type":"whereabouts","range":"10.9.0.0/24"}}`), true},
		"a report that changes":                          {"sandboxreports", aReport("1"), aReport("8"), true},
		"a report that goes":                             {"sandboxreports", aReport("1"), nil, true},
		"the Lease of a report that is renewed":          {"leases", aLease("7", "worker-1", "abc", 20*time.Second), aLease("8", "worker-1", "abc", 0), false},
		"the Lease of a report that was too old":         {"leases", aLease("7", "worker-1", "abc", 2*time.Minute), aLease("8", "worker-1", "abc", 0), true},
		"the Lease of a report with another hash":        {"leases", aLease("7", "worker-1", "abc", 20*time.Second), aLease("8", "worker-1", "def", 0), true},
		"the first Lease of a report":                    {"leases", nil, aLease("8", "worker-1", "abc", 0), true},
		"the Lease of something else":                    {"leases", aLease("7", "whereabouts", "", 2*time.Minute), aLease("8", "whereabouts", "", 0), false},
		"the reconciler's namespace, which is paused":    {"namespaces", aNamespace("7", "false"), aNamespace("8", "true"), true},
		"the reconciler's namespace, which acknowledges": {"namespaces", aNamespace("7", ""), acknowledging("8", "2026-11-20T10:00:00Z"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sets(t, "ippools", aPool("1", "web"))
			b.sets(t, "sandboxreports", aReport("1"))
			if tt.before != nil {
				b.sets(t, tt.resource, tt.before)
			}
			b.changed = nil
			if tt.after != nil {
				b.sets(t, tt.resource, tt.after)
			} else {
				b.removes(t, tt.resource, tt.before)
			}
			equal(t, "affects a verdict", len(b.changed) > 0, tt.want)
		})
	}
}

func TestObserve_ForgetsWhatIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 200 {
		b.sets(t, "pods", aPod(fmt.Sprint("web-", i), "7"))
		b.removes(t, "pods", aPod(fmt.Sprint("web-", i), "8"))
	}
	b.sets(t, "pods", aPod("other", "9001"))
	b.fullPass(t)
	equal(t, "pods", len(b.observe().Pods), 1)
	equal(t, "changes that are noted", len(b.source.changedSince), 0)
}

// sandboxReport is worker-1's, with a sandbox.
func sandboxReport(id string) *item {
	r := &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Sandboxes: []v1alpha1.Sandbox{{ID: id}}}
	return &item{NamespacedName: types.NamespacedName{Name: "worker-1"}, ResourceVersion: "7", parsed: &report{SandboxReport: r, hash: podstate.Hash(r)}}
}

// An agent writes its report and then the Lease with its hash. A pass in
// between must not find the node without a fresh report.
func TestObserve_NodesReportIsFreshWhileItsAgentWrites(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	writes := func(id string) *report {
		r := sandboxReport(id)
		must(t, b.source.store(reportResource).Add(r))
		return r.parsed.(*report)
	}
	check := func(what, id string, isFresh bool) {
		t.Helper()
		o := b.observe()
		if r := o.Reports[0]; r.Sandboxes[0].ID != id || r.IsFresh(o.Now) != isFresh {
			t.Errorf("%s: sandbox %s, fresh %v; want %s, %v", what, r.Sandboxes[0].ID, r.IsFresh(o.Now), id, isFresh)
		}
	}
	one := writes("box-1")
	check("before its Lease", "box-1", false)
	b.sets(t, "leases", aLease("2", "worker-1", one.hash, 0))
	check("with its Lease", "box-1", true)
	writes("box-2")
	check("the next one, before its Lease", "box-1", true)
	three := writes("box-3")
	check("and one more", "box-1", true)
	b.sets(t, "leases", aLease("5", "worker-1", three.hash, 0))
	check("its Lease", "box-3", true)
	four := writes("box-4")
	four.previousSince = four.previousSince.Add(-leaseDelay)
	check("a Lease that does not come", "box-4", false)
}

func TestObserve_ReportThatIsGoneIsMissedForAWhile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	missed := func(what string, nodes ...string) {
		t.Helper()
		equal(t, what, slices.Sorted(maps.Keys(b.observe().MissingReports)), nodes)
		equal(t, what+", by a full pass", slices.Sorted(maps.Keys(b.fullPass(t).MissingReports)), nodes)
	}
	missed("of none")
	b.sets(t, reportResource, aReport("7"))
	b.api.has(reportResource, aReport("7"))
	missed("of one that is there")
	b.removes(t, reportResource, aReport("8"))
	b.api.has(reportResource)
	missed("of one that is gone", "worker-1")
	b.lists(t, reportResource, aReport("9"))
	b.lists(t, reportResource)
	missed("of one that the next list lacks", "worker-1")
	b.source.missed["worker-1"] = b.source.Now().Add(-missedFor - time.Minute)
	missed("ten minutes later")

	b.sets(t, reportResource, aReport("9"))
	b.source.reset()
	missed("in caches that are rebuilt", "worker-1") // no event says that it is gone
	b.sets(t, reportResource, aReport("10"))
	missed("and that is there again")
}
