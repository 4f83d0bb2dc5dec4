package informers

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
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
	b.watchEvent("namespaces", acknowledging("7", "2026-11-20T10:00:00Z"))
	o := b.session.view.observe(&judge.Observation{Paused: true})
	equal(t, "acknowledged", o.Acknowledged, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	equal(t, "paused", o.Paused, false)
	b.watchEvent("namespaces", acknowledging("8", "soon"))
	equal(t, "what cannot be read", b.session.view.observe(o).Acknowledged, time.Time{})
}

func TestWithoutANamespaceWatchTheLastFullPassSaysWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	equal(t, "acknowledged", newBench(t).session.view.observe(&judge.Observation{Acknowledged: at}).Acknowledged, at)
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
		"a definition that is written as it was":         {"network-attachment-definitions", aNAD("7", `{"type":"macvlan"}`), aNAD("8", `{"type":"macvlan"}`), false},
		"a report that changes":                          {"sandboxreports", aReport("1"), aReport("8"), true},
		"a report that goes":                             {"sandboxreports", aReport("1"), nil, true},
		"the Lease of a report that is renewed":          {"leases", aLease("7", "worker-1", "abc", 20*time.Second), aLease("8", "worker-1", "abc", 0), false},
		"the Lease of a report that was too old":         {"leases", aLease("7", "worker-1", "abc", 2*time.Minute), aLease("8", "worker-1", "abc", 0), true},
		"the Lease of a report with another hash":        {"leases", aLease("7", "worker-1", "abc", 20*time.Second), aLease("8", "worker-1", "def", 0), true},
		"the first Lease of a report":                    {"leases", nil, aLease("8", "worker-1", "abc", 0), true},
		"the Lease of something else":                    {"leases", aLease("7", "whereabouts", "", 2*time.Minute), aLease("8", "whereabouts", "", 0), false},
		"the reconciler's namespace, which is paused":    {"namespaces", aNamespace("7", "false"), aNamespace("8", "true"), true},
		"the reconciler's namespace, which acknowledges": {"namespaces", aNamespace("7", ""), acknowledging("8", "2026-11-20T10:00:00Z"), true},
		"the reconciler's namespace, written as it was":  {"namespaces", aNamespace("7", "true"), aNamespace("8", "true"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.watchEvent("ippools", aPool("1", "web"))
			b.watchEvent("sandboxreports", aReport("1"))
			var was *item
			if tt.before != nil {
				was = b.watchEvent(tt.resource, tt.before)
			}
			b.changed = nil
			if tt.after != nil {
				b.watchEvent(tt.resource, tt.after)
			} else {
				b.session.view.remove(tt.resource, was)
			}
			equal(t, "affects a verdict", len(b.changed) > 0, tt.want)
		})
	}
}

func TestView_ForgetsWhatIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 200 {
		b.session.view.remove("pods", b.watchEvent("pods", aPod(fmt.Sprint("web-", i), "7")))
	}
	b.watchEvent("pods", aPod("other", "9001"))
	b.fullPass(t)
	equal(t, "pods", len(b.session.view.objects["pods"]), 1)
	equal(t, "changes that are noted", len(b.session.view.changedSince), 0)
}
