//go:build !slow && !cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A fault is planted in an installation that is healthy, and taken away again.
type fault struct {
	name  string
	plant func(t *testing.T, i *statusStage) (undo func())
	says  []string // on the first screen
	// also are parts of other lines that it brings with it.
	also []string
}

// may reports whether a line is one that the fault brings.
func (f fault) may(line string) bool {
	return slices.ContainsFunc(slices.Concat(f.says, f.also), func(part string) bool {
		return strings.Contains(unwrapped(line), part) || strings.Contains(part, strings.TrimPrefix(strings.TrimPrefix(line, "✗ "), "! "))
	})
}

func faults() []fault {
	return slices.Concat(faultsOfTheReconciler(), faultsOfAgents(), gates(), faultsBeside())
}

func faultsOfTheReconciler() []fault {
	return []fault{
		{name: "a Deployment with no replica ready", says: []string{"✗ Deployment kube-system/ip-reconcile has none of its 2 replicas ready", "get pods -l app.kubernetes.io/name=ip-reconcile"},
			plant: func(t *testing.T, i *statusStage) func() {
				i.readyReplicas(t, 0)
				return func() { i.readyReplicas(t, 2) }
			}},
		{name: "no leader", says: []string{"✗ No replica leads"},
			plant: func(t *testing.T, i *statusStage) func() {
				i.leads(t, noLeader)
				return i.annotate(t, kube.OwnLease, "test/fault", "no leader")
			}},
		{name: "a pass that is overdue", says: []string{"✗ The last pass was 3d ago", "overdue since", "logs deployment/ip-reconcile"},
			plant: func(t *testing.T, i *statusStage) func() {
				last := time.Now().Add(-72 * time.Hour).UTC().Format(time.RFC3339)
				return i.annotate(t, kube.PassLease, kube.PassAnnotation, fmt.Sprintf(`{"at":%q,"result":"Succeeded","took":"1s","succeeded":%q}`, last, last))
			}},
		{name: "a pass that failed", says: []string{"✗ The pass at", "failed (list IPPools: on fire); none has succeeded before"},
			plant: func(t *testing.T, i *statusStage) func() {
				return i.annotate(t, kube.PassLease, kube.PassAnnotation, `{"at":"2026-11-20T10:00:00Z","result":"Failed","took":"1s","message":"list IPPools: on fire"}`)
			}},
		{name: "a schedule that cannot be parsed", says: []string{`✗ The schedule in key cron-expression of ConfigMap kube-system/whereabouts-config cannot be used: "every day"`, "edit configmap whereabouts-config"},
			plant: func(t *testing.T, i *statusStage) func() {
				api := i.Client().CoreV1().ConfigMaps(metav1.NamespaceSystem)
				try(api.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "whereabouts-config"}, Data: map[string]string{"cron-expression": "every day"}}, metav1.CreateOptions{})).must(t)
				return func() { check(t, api.Delete(t.Context(), "whereabouts-config", now())) }
			}},
		{name: "agents that are newer than the reconciler", says: []string{"✗ The agents (0.2.0) are newer than the reconciler (0.1.0)", "set image deployment/ip-reconcile ip-reconcile=set-your-image.invalid/ip-reconcile:0.2.0"},
			plant: func(t *testing.T, i *statusStage) func() {
				image := func(tag string) {
					i.mustKubectl(t, "-n", "kube-system", "set", "image", "daemonset/ip-reconcile-agent", "agent=set-your-image.invalid/ip-reconcile:"+tag)
				}
				image("0.2.0")
				return func() { image("0.1.0") }
			}},
		{name: "no right to Leases", says: []string{"✗ ServiceAccount kube-system/ip-reconcile may not", "get, create, update leases in kube-system (nothing is released)"}, plant: withoutRight("leases")},
		{name: "no right to pods", says: []string{"✗ ServiceAccount kube-system/ip-reconcile may not", "list pods (nothing is judged)"}, plant: withoutRight("pods")},
	}
}

// withoutRight takes a resource out of the reconciler's ClusterRole.
func withoutRight(resource string) func(*testing.T, *statusStage) func() {
	return func(t *testing.T, i *statusStage) func() {
		api := i.Client().RbacV1().ClusterRoles()
		role := try(api.Get(t.Context(), reconcilerName, metav1.GetOptions{})).must(t)
		before := role.Rules
		role.Rules = without(role.Rules, resource)
		role = try(api.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
		return func() {
			role.Rules = before
			try(api.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
		}
	}
}

func faultsOfAgents() []fault {
	return []fault{
		{name: "an agent whose report is not confirmed", says: []string{"✗ 1 of 2 node agents have a fresh report", "worker-2 (its Lease is for another report)", "--field-selector spec.nodeName=worker-2"},
			plant: func(t *testing.T, i *statusStage) func() {
				i.two.change(func() { i.two.lie = noID })
				return func() { i.two.change(func() { i.two.lie = "" }) }
			}},
		{name: "a node without an agent", says: []string{"✗ 2 of 3 node agents have a fresh report", "worker-3 (has no report)"},
			plant: func(t *testing.T, i *statusStage) func() {
				node := try(i.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3", Labels: map[string]string{"kubernetes.io/os": "linux"}}}, metav1.CreateOptions{})).must(t)
				return func() { check(t, i.Client().CoreV1().Nodes().Delete(t.Context(), node.Name, now())) }
			}},
		{name: "no admission policy", says: []string{"! The admission policy ip-reconcile-agent or ip-reconcile-reports, or its binding, is missing", "apply -f deploy/agent/admission.yaml"},
			plant: func(t *testing.T, i *statusStage) func() {
				check(t, i.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "ip-reconcile-agent", now()))
				return func() { i.mustKubectl(t, "apply", "-f", "../deploy/agent/admission.yaml") }
			}},
		{name: "no policy for all others", says: []string{"! The admission policy ip-reconcile-agent or ip-reconcile-reports, or its binding, is missing"},
			plant: func(t *testing.T, i *statusStage) func() {
				check(t, i.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "ip-reconcile-reports", now()))
				return func() { i.mustKubectl(t, "apply", "-f", "../deploy/agent/admission.yaml") }
			}},
		{name: "an admission policy that only audits", says: []string{"! The admission policy ip-reconcile-agent or ip-reconcile-reports, or its binding, is missing or does not deny"},
			plant: func(t *testing.T, i *statusStage) func() {
				try(i.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Patch(t.Context(), "ip-reconcile-agent",
					types.MergePatchType, []byte(`{"spec":{"validationActions":["Audit"]}}`), metav1.PatchOptions{})).must(t)
				return func() { i.mustKubectl(t, "apply", "-f", "../deploy/agent/admission.yaml") }
			}},
		{name: "an old definition of reports", says: []string{"✗ CustomResourceDefinition sandboxreports.ip-reconcile.dev is older than this version: it lacks machine", "--force-conflicts -f deploy/crds"},
			plant: func(t *testing.T, i *statusStage) func() {
				const field = "/spec/versions/0/schema/openAPIV3Schema/properties/machine"
				machine, there, err := unstructured.NestedMap(firstVersion(t, i.definition(t, sandboxReports)), "schema", "openAPIV3Schema", "properties", "machine")
				check(t, err)
				equal(t, "the field is there", there, true)
				change := func(op map[string]any) {
					text := try(json.Marshal([]map[string]any{op})).must(t)
					try(i.Dynamic().Resource(crds).Patch(t.Context(), "sandboxreports.ip-reconcile.dev", types.JSONPatchType, text, metav1.PatchOptions{})).must(t)
				}
				change(map[string]any{"op": "remove", "path": field})
				return func() { change(map[string]any{"op": "add", "path": field, "value": machine}) }
			}},
		{name: "no definition of reports", says: []string{"✗ CustomResourceDefinition sandboxreports.ip-reconcile.dev is missing", "-f deploy/crds"}, also: []string{"0 of 2 node agents have a fresh report"},
			plant: withoutDefinition(sandboxReports)},
	}
}

func gates() []fault {
	return []fault{
		{name: "everything paused", says: []string{"! Everything is paused by the annotation on namespace kube-system", "kubectl annotate namespace kube-system ip-reconcile.dev/paused-"},
			plant: func(t *testing.T, i *statusStage) func() {
				i.pauseAll(t, "true")
				return func() { i.pauseAll(t, "") }
			}},
		{name: "a pool paused", says: []string{"! 1 pool paused by annotation: kube-system/10.1.0.0-24", "kubectl annotate ippools.whereabouts.cni.cncf.io -n kube-system 10.1.0.0-24 ip-reconcile.dev/paused-"},
			plant: func(t *testing.T, i *statusStage) func() {
				i.patch(t, harness.IPPools, "10.1.0.0-24", pausing("true"))
				return func() { i.patch(t, harness.IPPools, "10.1.0.0-24", pausing("")) }
			}},
		{name: "a restore of etcd that is not settled", says: []string{"✗ etcd was restored at", "nothing is freed until these nodes have written their SandboxReport since: worker-1, worker-2"},
			plant: func(t *testing.T, i *statusStage) func() {
				eventually(t, "the next second", func() bool { return time.Now().Nanosecond() < int(100*time.Millisecond) })
				return i.annotate(t, kube.RestoreLease, kube.RestoreAnnotation, fmt.Sprintf(`{"restored":%q,"why":"a revision ran backwards"}`, time.Now().UTC().Format(time.RFC3339)))
			}},
		{name: "a breaker that has tripped", says: []string{"✗ The breaker has tripped: 30 unconfirmed releases within an hour, of 40 allocations", "ip-reconcile run --dry-run"},
			plant: func(t *testing.T, i *statusStage) func() {
				return i.annotate(t, kube.OwnLease, kube.ReleasedAnnotation, fmt.Sprintf(`[{"at":%q,"count":30,"of":40}]`, time.Now().UTC().Format(time.RFC3339)))
			}},
		{name: "the fence", says: []string{"! The fence stands: pods that start or end wait"}, plant: holding(kube.FenceHolder, time.Second)},
		{name: "whereabouts' Lease held for long", says: []string{"✗ worker-1/stuck holds whereabouts' Lease kube-system/whereabouts for 10m"}, plant: holding("worker-1/stuck", 10*time.Minute)},
	}
}

// holding is a holder of whereabouts' Lease.
func holding(holder string, age time.Duration) func(*testing.T, *statusStage) func() {
	return func(t *testing.T, i *statusStage) func() {
		api := i.Client().CoordinationV1().Leases(metav1.NamespaceSystem)
		lease := i.lease(t, "whereabouts")
		renew := func(ctx context.Context) (err error) {
			lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(3)),
				AcquireTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-age))), RenewTime: ptr.To(metav1.NewMicroTime(time.Now()))}
			lease, err = api.Update(ctx, lease, metav1.UpdateOptions{})
			return err
		}
		check(t, renew(t.Context()))
		ctx, stop := context.WithCancel(t.Context())
		var renewing sync.WaitGroup
		renewing.Go(func() { // status takes a holder for dead that does not renew for 10 s
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
					if err := renew(context.WithoutCancel(ctx)); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
		return func() {
			stop()
			renewing.Wait()
			lease.Spec.HolderIdentity = ptr.To("")
			try(api.Update(t.Context(), lease, metav1.UpdateOptions{})).must(t)
		}
	}
}

func faultsBeside() []fault {
	return []fault{
		{name: "whereabouts' own CronJob", says: []string{"✗ CronJob openshift-multus/ip-reconciler runs whereabouts' own /ip-reconciler", `patch cronjob ip-reconciler -p '{"spec":{"suspend":true}}'`},
			plant: func(t *testing.T, i *statusStage) func() {
				const namespace = "openshift-multus"
				_, err := i.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
				check(t, err)
				template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{
					{Name: "whereabouts", Image: "example.com/whereabouts:v0.5.4", Command: []string{"/ip-reconciler", "-log-level=verbose"}},
				}}}
				try(i.Client().BatchV1().CronJobs(namespace).Create(t.Context(), &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "ip-reconciler"},
					Spec: batchv1.CronJobSpec{Schedule: "*/15 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}, metav1.CreateOptions{})).must(t)
				return func() { check(t, i.Client().BatchV1().CronJobs(namespace).Delete(t.Context(), "ip-reconciler", now())) }
			}},
		{name: "a second Deployment of ours", says: []string{"✗ 2 reconcilers of ip-reconcile are deployed", "Deployment default/ip-reconcile", "kubectl -n default delete deployment/ip-reconcile"},
			plant: func(t *testing.T, i *statusStage) func() {
				d := try(i.Client().AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), reconcilerName, metav1.GetOptions{})).must(t)
				d.ObjectMeta = metav1.ObjectMeta{Name: d.Name, Labels: d.Labels}
				api := i.Client().AppsV1().Deployments(metav1.NamespaceDefault)
				try(api.Create(t.Context(), d, metav1.CreateOptions{})).must(t)
				return func() { check(t, api.Delete(t.Context(), reconcilerName, now())) }
			}},
		// The last one: the pools go with it.
		{name: "no definition of whereabouts' pools", says: []string{"✗ CustomResourceDefinition ippools.whereabouts.cni.cncf.io is missing: nothing can be judged"}, plant: withoutDefinition(harness.IPPools)},
	}
}

// withoutDefinition deletes a CustomResourceDefinition, and creates it again with its objects.
func withoutDefinition(r schema.GroupVersionResource) func(*testing.T, *statusStage) func() {
	return func(t *testing.T, i *statusStage) func() {
		definition, objects := i.definition(t, r), try(i.Dynamic().Resource(r).List(t.Context(), metav1.ListOptions{})).must(t)
		i.removeCRD(t, r)
		return func() {
			definition.SetResourceVersion("")
			definition.SetUID("")
			unstructured.RemoveNestedField(definition.Object, "status")
			try(i.Dynamic().Resource(crds).Create(t.Context(), definition, metav1.CreateOptions{})).must(t)
			eventually(t, "the CRD "+r.Resource+" to be served", func() bool {
				_, err := i.Dynamic().Resource(r).List(t.Context(), metav1.ListOptions{})
				return err == nil
			})
			for _, o := range objects.Items {
				o.SetResourceVersion("")
				eventually(t, o.GetName()+" to be there again", func() bool {
					_, err := i.Dynamic().Resource(r).Namespace(o.GetNamespace()).Create(t.Context(), &o, metav1.CreateOptions{})
					return err == nil || apierrors.IsAlreadyExists(err)
				})
			}
		}
	}
}

func (i *statusStage) definition(t testing.TB, r schema.GroupVersionResource) *unstructured.Unstructured {
	t.Helper()
	return try(i.Dynamic().Resource(crds).Get(t.Context(), r.Resource+"."+r.Group, metav1.GetOptions{})).must(t)
}

func firstVersion(t testing.TB, definition *unstructured.Unstructured) map[string]any {
	t.Helper()
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	check(t, err)
	return versions[0].(map[string]any)
}

// lease is a Lease in kube-system, which is made where it is missing.
func (i *statusStage) lease(t testing.TB, name string) *coordinationv1.Lease {
	t.Helper()
	api := i.Client().CoordinationV1().Leases(metav1.NamespaceSystem)
	l, err := api.Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		l, err = api.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	}
	check(t, err)
	return l
}

// annotate writes an annotation of a Lease; undo writes what was there.
func (i *statusStage) annotate(t testing.TB, lease, name, value string) (undo func()) {
	t.Helper()
	write := func(value any) {
		patch := try(json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}})).must(t)
		try(i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Patch(t.Context(), lease, types.MergePatchType, patch, metav1.PatchOptions{})).must(t)
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
