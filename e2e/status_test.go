//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func TestStatus_NamesEachFault(t *testing.T) {
	t.Parallel()
	i := newStatusStage(t)
	out := i.healthy(t, "at first")
	contains(t, "status", out.stdout, "0 errors, 0 warnings",
		"Deployment kube-system/ip-reconcile has 2 of 2 replicas ready", "is the lease holder",
		"The last pass succeeded", "The next is due at", "2 of 2 node agents have a fresh report", "admission policies",
		"RBAC allows ServiceAccount kube-system/ip-reconcile all that it needs", "1 allocation in 1 pool: none is stale")
	if strings.Contains(out.stdout, "–") {
		t.Errorf("something is not known in a healthy install:\n%s", out.stdout)
	}
	i.status(t, "-o", "json").exits(t, 0) // by the published schema
	for _, f := range statusFaults() {
		t.Run(f.name, func(t *testing.T) {
			undo := f.plant(t, i)
			var out *outcome
			said := within(2*time.Minute, 200*time.Millisecond, func() bool {
				out = i.status(t)
				return out.code == 1 && !slices.ContainsFunc(f.says,
					func(part string) bool { return !strings.Contains(screen(out.stdout), part) })
			})
			if !said {
				t.Errorf("the first screen does not say %q (exit code %d):\n%s", f.says, out.code, out.stdout)
			}
			for _, line := range strings.Split(out.stdout, "\n") {
				if (strings.HasPrefix(line, "✗") || strings.HasPrefix(line, "!")) && !f.may(line) {
					t.Errorf("it names another fault, too: %s", line)
				}
			}
			undo()
			i.healthy(t, "after "+f.name)
		})
	}
}

// screen is what a terminal of 24 lines shows first.
func screen(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return unwrapped(strings.Join(lines[:min(24, len(lines))], ""))
}

// status runs the real program as an administrator whose terminal has 100 columns.
func (i *statusStage) status(t testing.TB, more ...string) *outcome {
	t.Helper()
	// The leader's Lease is renewed as its elector does.
	lease, now := i.lease(t, kube.OwnLease), metav1.NewMicroTime(time.Now())
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.AcquireTime = ptr.To("ip-reconcile-0_1"), &now, &now
	try(i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Update(t.Context(), lease,
		metav1.UpdateOptions{})).must(t)
	check(t, i.one.renew())
	check(t, i.two.renew())
	return i.runStatus(t, i.Kubeconfig(), more...)
}

func (i *statusStage) healthy(t testing.TB, when string) *outcome {
	t.Helper()
	var out *outcome
	if !within(2*time.Minute, 200*time.Millisecond, func() bool { out = i.status(t); return out.code == 0 }) {
		t.Fatalf("%s it is not healthy (exit code %d):\n%s%s", when, out.code, out.stdout, out.stderr)
	}
	return out
}

// A fault is planted in a healthy installation and removed again. TestStatus_Situations has what status prints for all
// other input; these faults need an API server.
type fault struct {
	name  string
	plant func(t *testing.T, i *statusStage) (undo func())
	says  []string // on the first screen
}

// may reports whether the fault may cause a line.
func (f fault) may(line string) bool {
	return slices.ContainsFunc(f.says, func(part string) bool {
		return strings.Contains(unwrapped(line), part) || strings.Contains(part,
			strings.TrimPrefix(strings.TrimPrefix(line, "✗ "), "! "))
	})
}

func statusFaults() []fault {
	return []fault{
		{name: "no right to Leases", says: []string{"✗ RBAC forbids ServiceAccount kube-system/ip-reconcile to",
			"get, create, update leases in kube-system"},
			plant: func(t *testing.T, i *statusStage) func() {
				api := i.Client().RbacV1().ClusterRoles()
				role := try(api.Get(t.Context(), reconcilerName, metav1.GetOptions{})).must(t)
				before := role.Rules
				role.Rules = without(role.Rules, "leases")
				role = try(api.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
				return func() {
					role.Rules = before
					try(api.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
				}
			}},
		{name: "an agent whose report is not confirmed", says: []string{"✗ 1 of 2 node agents have a fresh report",
			"On worker-2 only addresses of finished pods are released", "ip-reconcile explain node/worker-2"},
			plant: func(t *testing.T, i *statusStage) func() {
				i.two.change(func() { i.two.lie = noID })
				return func() { i.two.change(func() { i.two.lie = "" }) }
			}},
		{name: "no admission policy", says: []string{"! The admission policy ip-reconcile-agent or its binding is missing",
			"apply -f deploy/agent/admission.yaml"},
			plant: func(t *testing.T, i *statusStage) func() {
				check(t, i.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(),
					"ip-reconcile-agent", metav1.DeleteOptions{}))
				return func() { i.mustKubectl(t, "apply", "-f", "../deploy/agent/admission.yaml") }
			}},
		{name: "no definition of reports", says: []string{"✗ The API server does not serve " +
			"sandboxreports.ip-reconcile.dev in v1alpha1: no agent can report", "--force-conflicts -f deploy/crds",
			"✗ The node agents' reports cannot be listed: the API server does not serve sandboxreports.ip-reconcile.dev",
			"✗ sandboxreports are unknown: the API server does not serve"},
			plant: func(t *testing.T, i *statusStage) func() {
				definition := i.crd(t, sandboxReports)
				i.removeCRD(t, sandboxReports)
				return func() {
					i.serves(t, sandboxReports, definition)
					i.writeReports(t)
				}
			}},
	}
}

// lease is a Lease in kube-system, created if it is missing.
func (i *statusStage) lease(t testing.TB, name string) *coordinationv1.Lease {
	t.Helper()
	api := i.Client().CoordinationV1().Leases(metav1.NamespaceSystem)
	l, err := api.Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		l, err = api.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
	}
	check(t, err)
	return l
}

// annotate writes an annotation of a Lease; undo writes what was there.
func (i *statusStage) annotate(t testing.TB, lease, name, value string) (undo func()) {
	t.Helper()
	write := func(value any) {
		annotations := map[string]any{"annotations": map[string]any{name: value}}
		patch := try(json.Marshal(map[string]any{"metadata": annotations})).must(t)
		try(i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Patch(t.Context(), lease, types.MergePatchType, patch,
			metav1.PatchOptions{})).must(t)
	}
	before, there := i.lease(t, lease).Annotations[name]
	write(value)
	return func() {
		if there {
			write(before)
		} else {
			write(nil)
		}
	}
}
