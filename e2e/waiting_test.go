//go:build !slow && !cluster

package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// fullEvent waits until a pod's only Event that its pool is full matches a pattern, and returns that Event.
func (p *pod) fullEvent(t *testing.T, pattern string) (event corev1.Event) {
	t.Helper()
	re := regexp.MustCompile("^" + pattern + "$")
	eventually(t, "an Event "+pattern+" on "+p.Name, func() bool {
		list := try(p.s.Client().CoreV1().Events(p.Namespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: "reason=IPPoolFull,involvedObject.uid=" + string(p.UID)})).must(t).Items
		if len(list) > 1 {
			t.Fatalf("%d Events on %s", len(list), p.Name)
		}
		if len(list) == 1 {
			event = list[0]
		}
		return re.MatchString(event.Message)
	})
	return event
}

// TestServe_TellsThePodThatWaits has a pod whose ADD fails because its range is full, and one that merely starts.
func TestServe_TellsThePodThatWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	small, roomy := simple("small", "10.2.0.0/30"), simple("roomy", "10.3.0.0/30")
	check(t, s.CreateNAD(t.Context(), small))
	check(t, s.CreateNAD(t.Context(), roomy))
	kubeconfig := s.applied(t, overlay(t, "", []string{"deployment"}, nil, ""))

	s.up(t, "worker-1", "one", small)
	two := s.up(t, "worker-1", "two", small)
	s.up(t, "worker-1", "three", roomy)
	starting := s.pending(t, "worker-1", "starting").annotate(t, "k8s.v1.cni.cncf.io/networks", roomy.Name).
		age(t, time.Minute)
	waiting := s.waits(t, "waiting", small)

	v := s.serve(t, kubeconfig)
	first := waiting.fullEvent(t, `Pool 10\.2\.0\.0/30 is full: nothing is stale: widen the range`)
	equal(t, "its type and source", first.Type+" "+first.Source.Component, "Warning ip-reconcile")
	described := s.mustKubectl(t, "describe", "pod", "waiting")
	if !regexp.MustCompile(`Warning +IPPoolFull +\S+ +ip-reconcile +Pool 10\.2\.0\.0/30 is full: nothing`).
		MatchString(described) {
		t.Errorf("kubectl describe pod:\n%s", described)
	}
	v.stop(t)

	// Another process, as after a change of the leader, updates the same Event.
	two.leak(t)
	v = s.serve(t, kubeconfig)
	next := waiting.fullEvent(t,
		`Pool 10\.2\.0\.0/30 is full: 1 address is stale, the next is released at \d\d:\d\d:\d\d UTC if every pass agrees`)
	equal(t, "the Event", next.UID, first.UID)
	equal(t, "Events on a pod that merely starts", len(try(s.Client().CoreV1().Events("default").List(t.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(starting.UID)})).must(t).Items), 0)
	v.stop(t)

	// Without permission to write events a process works, and says once what is missing.
	s.loses(t, kubeconfig, schema.GroupVersionResource{Resource: "events"}, "create")
	late := s.waits(t, "late", small)
	v = s.serve(t, kubeconfig)
	v.said(t, `msg="Cannot write Events on pods that wait for an address" error=".*forbidden`)
	waiting.fullEvent(t, `.*1 address is stale.*`) // an Event that exists is only patched
	equal(t, "Events on the pod that came late", len(try(s.Client().CoreV1().Events("default").List(t.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(late.UID)})).must(t).Items), 0)
	v.is(t, `ip_reconcile_pool_waiting_pods`, 2)
}

var ipamClaims = schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1alpha1", Resource: "ipamclaims"}

// claimCRD is a minimal form of k8snetworkplumbingwg/ipamclaims, artifacts/k8s.cni.cncf.io_ipamclaims.yaml.
func claimCRD() *unstructured.Unstructured { return openCRD(ipamClaims, "IPAMClaim") }

// openCRD is a CRD of a namespaced kind that keeps every field.
func openCRD(r schema.GroupVersionResource, kind string) *unstructured.Unstructured {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": r.GroupResource().String()},
		"spec": map[string]any{"group": r.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": r.Resource,
				"singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{"name": r.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": open}}}}}}
}

// poolsKeepClaims makes the CRD of IPPools keep ipamclaimref, as whereabouts pull request 742 does.
func (s *stage) poolsKeepClaims(t *testing.T) {
	t.Helper()
	_, err := s.Dynamic().Resource(crds).Patch(t.Context(), "ippools.whereabouts.cni.cncf.io", types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/allocations/`+
			`additionalProperties/properties/ipamclaimref","value":{"type":"string"}}]`), metav1.PatchOptions{})
	check(t, err)
	entries := map[string]any{"5": map[string]any{"podref": "default/x", "id": noID, "ipamclaimref": "a/b"}}
	eventually(t, "the API server to keep ipamclaimref", func() bool {
		s.pool(t, "10.9.0.0-24", "10.9.0.0/24", entries)
		pool := try(s.of(harness.IPPools).Get(t.Context(), "10.9.0.0-24", metav1.GetOptions{})).must(t)
		check(t, s.of(harness.IPPools).Delete(t.Context(), "10.9.0.0-24", metav1.DeleteOptions{}))
		_, kept, _ := unstructured.NestedString(pool.Object, "spec", "allocations", "5", "ipamclaimref")
		return kept
	})
}

// A stopped machine keeps its address while its IPAMClaim may exist.
func TestMachines_IPAMClaims(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.poolsKeepClaims(t)
	claimed := entry("default/virt-launcher-vm-1-x7k2p", noID)
	claimed["ipamclaimref"] = "default/vm-1.storage"
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"5": claimed})
	const place = "10.1.0.0-24 10.1.0.5"
	before := s.contents(t)
	held := func(says, kubeconfig, want string) {
		t.Helper()
		out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0", "--reconciler-namespace", "kube-system")
		equal(t, says, out.judged(place).verdict(), want)
		s.checkReleased(t, before)
	}
	held("without the CRD", s.Kubeconfig(), "Held ClaimUnknown")
	s.serves(t, ipamClaims, claimCRD())
	create := func(name string) {
		claim := objects(ipamClaims, "IPAMClaim", map[string]any{"spec": map[string]any{"network": "wb", "interface": "net1"},
			"status": map[string]any{"ips": []any{"10.1.0.5/24"}}})(name)
		claims := s.Dynamic().Resource(ipamClaims).Namespace(metav1.NamespaceDefault)
		try(claims.Create(t.Context(), claim, metav1.CreateOptions{})).must(t)
	}
	create("vm-1.storage")
	held("while the claim exists", s.Kubeconfig(), "Held Claimed")
	check(t, s.Dynamic().Resource(ipamClaims).Namespace(metav1.NamespaceDefault).Delete(t.Context(), "vm-1.storage",
		metav1.DeleteOptions{}))
	rules := append(upstreamRules(t), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"},
		Verbs: []string{"get"}})
	held("where listing claims is forbidden", s.account(t, "without-claims", rules), "Held ClaimUnknown")
	rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{ipamClaims.Group},
		Resources: []string{ipamClaims.Resource}, Verbs: []string{"list"}})
	// The list is empty, which is an answer, and the second check needs a GET.
	held("where getting claims is forbidden", s.account(t, "without-get", rules), "Stale ClaimGone")
	rules[len(rules)-1].Verbs = []string{"get", "list"}
	out := s.productAs(t, s.account(t, "with-claims", rules), "run", "--confirm-after", "0", "--reconciler-namespace",
		"kube-system")
	out.expect(t, place, "Stale ClaimGone")
	s.checkReleased(t, before, "10.1.0.0-24 5")
}

// launcher creates a running virt-launcher pod that carries an address (kubevirt,
// pkg/virt-controller/services/template.go). Without an owner only its labels are those of the machine.
func (s *stage) launcher(t *testing.T, name, node, migration, ip string, vmi types.UID, owned bool) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": string(vmi)}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "compute", Image: "e2e.invalid/none"}}}}
	if migration != "" {
		p.Labels["kubevirt.io/migrationJobUID"] = migration
	}
	if isController := true; owned {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance",
			Name: "vm-1", UID: vmi, Controller: &isController}}
	}
	p = try(s.Client().CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), p, metav1.CreateOptions{})).must(t)
	return try(s.SetRunning(t.Context(), p, harness.NetworkStatus{Name: "default/blue", Interface: "net1",
		IPs: []string{ip}})).must(t)
}

// The two pods of a live migration are no Conflict, and the address that the guest keeps after it is held (kubevirt
// issue 13709).
func TestMachines_LiveMigration(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2", "worker-3")
	check(t, s.CreateNAD(t.Context(), simple("blue", "10.1.0.0/24")))
	// A minimal form of kubevirt, pkg/virt-operator/resource/generate/components/crds.go, NewVirtualMachineInstanceCrd.
	s.serves(t, podstate.GuestResource, openCRD(podstate.GuestResource, "VirtualMachineInstance"))
	vmis := s.Dynamic().Resource(podstate.GuestResource).Namespace(metav1.NamespaceDefault)
	// The fields are those of kubevirt, staging/src/kubevirt.io/api/core/v1/types.go, VirtualMachineInstanceStatus.
	vmi := try(vmis.Create(t.Context(), objects(podstate.GuestResource, "VirtualMachineInstance", map[string]any{
		"spec": map[string]any{"networks": []any{map[string]any{"name": "net",
			"multus": map[string]any{"networkName": "blue"}}}},
		"status": map[string]any{"interfaces": []any{map[string]any{"name": "net", "ipAddress": "10.1.0.5"}}},
	})("vm-1"), metav1.CreateOptions{})).must(t)
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"5": entry("default/virt-launcher-vm-1-a", noID),
		"6": entry("default/virt-launcher-vm-1-b", noID)})
	const place = "10.1.0.0-24 10.1.0.5"
	before := s.contents(t)
	conflicts := func(says string, want int) {
		t.Helper()
		equal(t, says, len(s.product(t, "check").found("Conflict")), want)
	}

	source := s.launcher(t, "virt-launcher-vm-1-a", "worker-1", "", "10.1.0.5", vmi.GetUID(), true)
	target := s.launcher(t, "virt-launcher-vm-1-b", "worker-2", "migration-1", "10.1.0.5", vmi.GetUID(), true)
	conflicts("conflicts of a migration", 0)
	forged := s.launcher(t, "forged", "worker-3", "migration-2", "10.1.0.5", vmi.GetUID(), false)
	conflicts("conflicts with a pod that only has the labels", 1)
	check(t, s.DeletePod(t.Context(), forged, 0))
	conflicts("conflicts after that", 0)

	try(s.SetRunning(t.Context(), target, harness.NetworkStatus{Name: "default/blue", Interface: "net1",
		IPs: []string{"10.1.0.6"}})).must(t)
	check(t, s.DeletePod(t.Context(), source, 0))
	out := s.run(t)
	out.expect(t, place, "Held GuestAddress")
	equal(t, "findings of the guest", len(out.found("GuestAddress")), 1)
	s.checkReleased(t, before)
	try(vmis.Patch(t.Context(), "vm-1", types.MergePatchType,
		[]byte(`{"status":{"interfaces":[{"name":"net","ipAddress":"10.1.0.6"}]}}`), metav1.PatchOptions{})).must(t)
	s.run(t)
	s.checkReleased(t, before, "10.1.0.0-24 5")
	// No release depends on the guest any more, and its addresses are read all the same.
	equal(t, "may the pool stay as it is", s.poolCheck(t, 0, "10.1.0.0-24", "--new-range", "10.1.0.0/24").Answer, "Safe")
}
