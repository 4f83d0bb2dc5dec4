//go:build !slow && !cluster

package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const protectingPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: protect}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [whereabouts.cni.cncf.io], apiVersions: ["*"], operations: [UPDATE], resources: [ippools]}]
  validations: [{expression: "size(object.spec.allocations) >= size(oldObject.spec.allocations)", message: nobody frees here}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: protect}
spec: {policyName: protect, validationActions: [Deny]}
`

// protectPools has a policy deny that entry 1 is removed, and returns its file.
func (s *stage) protectPools(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "policy.yaml")
	check(t, os.WriteFile(file, []byte(protectingPolicy), 0o600))
	s.mustKubectl(t, "apply", "-f", file)
	eventually(t, "the policy to be in force", func() bool {
		_, err := s.of(harness.IPPools).Patch(t.Context(), "10.1.0.0-24", types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/allocations/1"}]`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	return file
}

// It answers with 422, as a patch of which a test fails is answered.
func TestAPolicyThatDeniesReleasesIsNoLostRace(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	leak := s.up(t, "worker-1", "leak", blue).leak(t)
	file := s.protectPools(t)
	before, log := s.contents(t), s.AuditLog()
	try(log.Next()).must(t)
	out := s.run(t)
	out.exits(t, 1)
	contains(t, "what is said", out.message(at(leak)), "nobody frees here")
	equal(t, "entries and reservations", slices.Sorted(maps.Keys(s.contents(t))), slices.Sorted(maps.Keys(before)))
	equal(t, "deletes and creates of the reservation", len(try(log.Next()).must(t)), 2)
	s.mustKubectl(t, "delete", "-f", file)
}

// The alert IPReconcileWritesDenied stays for as long as writes are denied: each try counts.
func TestServeCountsEachWriteThatIsDenied(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.up(t, "worker-1", "leak", blue).leak(t)
	file := s.protectPools(t)
	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "0s", "--pool-metrics=false")
	v.counts(t, `ip_reconcile_denied_writes_total`, 3)
	equal(t, "series of pools", v.metric(`ip_reconcile_pool_addresses`), 0)
	v.is(t, `ip_reconcile_release_seconds_count{proof="unconfirmed"}`, 0)
	s.mustKubectl(t, "delete", "-f", file)
	s.freed(t, time.Minute, "10.1.0.0-24", "1")
	v.is(t, `ip_reconcile_release_seconds_count{proof="unconfirmed"}`, 1)
	v.is(t, `ip_reconcile_candidates`, 0)
}
