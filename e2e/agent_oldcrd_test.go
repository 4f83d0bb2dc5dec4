//go:build slow

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
)

// TestAnAgentWithAnOlderCRDSaysSoAndVouchesForNothing: Helm never upgrades CRDs, and
// the API server would drop what an older one does not know without an error.
func TestAnAgentWithAnOlderCRDSaysSoAndVouchesForNothing(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	name := sandboxReports.Resource + "." + sandboxReports.Group
	crd := try(s.Dynamic().Resource(crds).Get(t.Context(), name, metav1.GetOptions{})).must(t)
	const field = "/spec/versions/0/schema/openAPIV3Schema/properties/machine"
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	check(t, err)
	machine, there, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "machine")
	check(t, err)
	equal(t, "the field is in the CRD", there, true)
	change := func(op map[string]any) {
		t.Helper()
		text := try(json.Marshal([]map[string]any{op})).must(t)
		try(s.Dynamic().Resource(crds).Patch(t.Context(), name, types.JSONPatchType, text, metav1.PatchOptions{})).must(t)
	}
	change(map[string]any{"op": "remove", "path": field})
	s.stores(t, "machine", false)

	n := newFakeNode(t, "worker-1", critest.Containerd)
	n.Set(n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"))
	a := n.agent(t, s.Kubeconfig())
	eventually(t, "the agent to say why", func() bool {
		said := a.stderr.String()
		return strings.Contains(said, "unknown field") && strings.Contains(said, "machine") && strings.Contains(said, "deploy/crds")
	})
	_, err = s.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "worker-1", metav1.GetOptions{})
	equal(t, "there is no Lease", apierrors.IsNotFound(err), true)

	change(map[string]any{"op": "add", "path": field, "value": machine})
	s.stores(t, "machine", true)
	eventuallyWithin(t, time.Minute, "the report to have it", func() bool {
		r := s.report(t, "worker-1")
		return r != nil && r.Machine.MachineID != ""
	})
	s.fresh(t, "worker-1")
	a.stop(t)
}

// stores waits until the API server keeps a field of reports, or drops it.
func (s *stage) stores(t testing.TB, field string, want bool) {
	t.Helper()
	eventually(t, "the API server to know, or not to know, "+field, func() bool {
		probe := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": sandboxReports.GroupVersion().String(), "kind": "SandboxReport", "metadata": map[string]any{"name": "probe"},
			"observedAt": "2026-11-20T10:00:00Z", field: map[string]any{"machineID": "m"},
		}}
		stored := try(s.Dynamic().Resource(sandboxReports).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})).must(t)
		_, there := stored.Object[field]
		return there == want
	})
}
