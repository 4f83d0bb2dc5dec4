//go:build !slow && !cluster

package e2e

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

var ipamClaims = schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1alpha1", Resource: "ipamclaims"}

// claimCRD is a minimal form of k8snetworkplumbingwg/ipamclaims, artifacts/k8s.cni.cncf.io_ipamclaims.yaml.
func claimCRD() *unstructured.Unstructured {
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "ipamclaims.k8s.cni.cncf.io"},
		"spec": map[string]any{"group": "k8s.cni.cncf.io", "scope": "Namespaced",
			"names": map[string]any{"kind": "IPAMClaim", "listKind": "IPAMClaimList", "plural": "ipamclaims",
				"singular": "ipamclaim"},
			"versions": []any{map[string]any{"name": "v1alpha1", "served": true, "storage": true,
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
