//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestRBAC_WhereaboutsAccount(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	upstream := upstreamRules(t)
	// cast starts what every account judges, and returns what is to be released.
	cast := func(t *testing.T) (leaked, pending, live *pod) {
		check(t, s.CreateNAD(t.Context(), blue))
		leaked = s.up(t, "worker-1", "leaked", blue).leak(t)
		return leaked, s.pending(t, "worker-1", "pending", blue), s.up(t, "worker-2", "live", blue)
	}
	frees := func(t *testing.T, kubeconfig string, more ...string) *outcome {
		leaked, pending, live := cast(t)
		before := s.contents(t)
		out := s.productAs(t, kubeconfig, append([]string{"run", "--confirm-after", "0"}, more...)...)
		out.exits(t, 0)
		out.expect(t, at(leaked), "Stale PodGone", at(pending), "InUse PodPending", at(live), "InUse AddressOnPod")
		s.checkReleased(t, before, stored(leaked)...)
		return out
	}

	s.play(t, "in the form of v0.9.4", func(t *testing.T) {
		frees(t, s.account(t, "v0.9.4", upstream))
	})

	s.play(t, "in the form of v0.8.1, with pods listed by name", func(t *testing.T) {
		out := frees(t, s.account(t, "v0.8.1-and-nodes", without(upstream, "pods", "get")), "--log-level", "debug")
		contains(t, "the log", out.stderr, "Getting pods is forbidden; listing them by name")
	})

	s.play(t, "in the form of v0.8.1, which may not list nodes", func(t *testing.T) {
		kubeconfig := s.account(t, "v0.8.1", without(without(upstream, "pods", "get"), "nodes", "list", "watch"))
		leaked, pending, live := cast(t)
		before := s.contents(t)
		out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0")
		out.exits(t, 0)
		out.expect(t, at(leaked), "Held NodesUnknown", at(pending), "InUse PodPending", at(live), "InUse AddressOnPod")
		s.checkReleased(t, before)
		text := product(t, "run", "--confirm-after", "0", "--without-pause", "--reconciler-namespace", "kube-system",
			"--agents=auto", "--kubeconfig", kubeconfig)
		text.exits(t, 0)
		equal(t, "how often a note says that nodes are unknown", strings.Count(text.stdout+text.stderr,
			"Note: cannot list nodes: forbidden"), 1)
	})

	s.play(t, "but for its Leases nothing is released", func(t *testing.T) {
		kubeconfig := s.account(t, "no-leases", without(upstream, "leases"))
		leaked, _, _ := cast(t)
		before, leases := s.contents(t), s.leases(t)
		forecast := s.productAs(t, kubeconfig, "check", "--confirm-after", "0")
		// which the account may not read either
		equal(t, "what check says before", forecast.judged(at(leaked)).Refusal, "Paused")
		equal(t, "what check says to who has the right", s.product(t, "check", "--confirm-after",
			"0").judged(at(leaked)).Refusal, "")
		asked := product(t, "run", "--kubeconfig", kubeconfig)
		asked.exits(t, 2)
		contains(t, "a run that is not told whose pause counts", asked.stderr, "--reconciler-namespace")
		out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0")
		out.exits(t, 1)
		equal(t, "failed", places(out.Failed), at(leaked))
		contains(t, "what is said", out.judged(at(leaked)).Message, "grant get, create and update on leases",
			"--without-lease", "kube-system")
		s.checkReleased(t, before)
		s.productAs(t, kubeconfig, "run", "--confirm-after", "0", "--without-lease").exits(t, 0)
		s.checkReleased(t, before, stored(leaked)...)
		equal(t, "versions of Leases", s.leases(t), leases)
	})

}

// docs/explain/threat-model.md assumes this of everybody who may edit a namespace.
func TestRBAC_RoleEdit(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	for user, namespace := range map[string]string{"tenant": metav1.NamespaceDefault, "editor": metav1.NamespaceSystem} {
		try(s.Client().RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "edit"},
			// The rules that edit is aggregated from; the controller that does that does not run.
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}, metav1.CreateOptions{})).must(t)
	}
	tenant, editor := s.as(t, "tenant"), s.as(t, "editor")
	pods := thing{podsResource, metav1.NamespaceDefault, newMirror}
	own := thing{leasesResource, metav1.NamespaceSystem, newLease}
	for who, try := range map[*visitor]attempt{tenant: pods.dryRun("mine"), editor: own.dryRun("mine")} {
		eventually(t, "the rights to be there", func() bool {
			err := try(t.Context(), who)
			return err == nil || !strings.Contains(err.Error(), noRight)
		})
	}
	reports, freshness := thing{sandboxReports, "", newReport}, thing{leasesResource, harness.LeaseNamespace, newLease}
	checkTrials(t, "a tenant may", []trial{
		{"create a pod that calls itself a mirror of another", tenant, pods.create("mine"), ""},
		{"write its network-status", tenant, pods.patch("mine", types.MergePatchType,
			`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}`), ""},
		{"keep it by a finalizer", tenant, pods.patch("mine", types.MergePatchType,
			`{"metadata":{"finalizers":["example.com/keep"]}}`), ""},
	})
	checkTrials(t, "it is forbidden", []trial{
		{"a pod's status", tenant, pods.patch("mine", types.MergePatchType, `{"status":{"phase":"Failed"}}`, "status"),
			noRight},
		{"a pod of another namespace", tenant, thing{podsResource, metav1.NamespaceSystem, newMirror}.create("mine"),
			noRight},
		{"a report", tenant, reports.create("worker-1"), noRight},
		{"the Lease that makes a report fresh", tenant, freshness.create("worker-1"), noRight},
		{"a pool", tenant, thing{r: harness.IPPools, namespace: metav1.NamespaceSystem}.merge("10.0.0.0-24"), noRight},
		{"a reservation", tenant, thing{r: harness.Reservations, namespace: metav1.NamespaceSystem}.delete("10.9.0.1"),
			noRight},
		{"whereabouts' Lease", tenant, own.create("whereabouts"), noRight},
		{"a node's taints", tenant, thing{r: nodesResource}.merge("worker-1"), noRight},
	})
	checkTrials(t, "an editor of kube-system may", []trial{
		{"write whereabouts' Lease", editor, own.create("whereabouts"), ""},
		{"write the Lease that keeps what is known of restores", editor, own.create("ip-reconcile-restore"), ""},
	})
	checkTrials(t, "an editor of kube-system is forbidden", []trial{
		{"the Lease that makes a report fresh", editor, freshness.create("worker-1"), noRight},
		{"a report", editor, reports.create("worker-1"), noRight},
	})
}

// newMirror is a pod that pretends to be the mirror of a static pod. The API server requires such a pod to be bound to
// a node.
var newMirror = objects(podsResource, "Pod", map[string]any{
	"metadata": map[string]any{"annotations": map[string]any{"kubernetes.io/config.mirror": "the UID of another"}},
	"spec": map[string]any{"nodeName": "worker-1", "containers": []any{map[string]any{"name": "app",
		"image": "e2e.invalid/none"}}},
})

func TestReports_BoundedByTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	admin := newVisitor(t, s.Config(), "")
	for what, c := range map[string]struct {
		sandboxes, id, name int // bytes
		says                string
	}{
		"4,000 sandboxes":       {4000, 4, 0, ""},
		"one more":              {4001, 4, 0, "must have at most 4000 items"},
		"4,000 of a KiB each":   {4000, 4, 1024, "too large"},
		"an id of 129 bytes":    {1, 129, 0, "Too long: may not be"},
		"an id of 128 as usual": {1, 128, 0, ""},
	} {
		var all []any
		for i := range c.sandboxes {
			all = append(all, map[string]any{"id": fmt.Sprintf("%0*d", c.id, i), "state": "Ready", "name": strings.Repeat("x",
				c.name)})
		}
		fields := map[string]any{"observedAt": "2026-11-20T10:00:00Z", "sandboxes": all}
		err := thing{sandboxReports, "", objects(sandboxReports, "SandboxReport", fields)}.dryRun("worker-1")(t.Context(),
			admin)
		switch {
		case c.says == "":
			check(t, err)
		case err == nil:
			t.Errorf("%s: it was taken", what)
		default:
			contains(t, what, err.Error(), c.says)
		}
	}
}
