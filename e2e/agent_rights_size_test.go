//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	nodeagent "github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// agentsWriteNoMoreThanTheyNeed checks the bounds on reports and Leases. With one token anybody can write as often as
// the API server answers, and etcd keeps all of it until it compacts.
func (s *stage) agentsWriteNoMoreThanTheyNeed(t *testing.T, one *visitor, reports, own thing) {
	long := func(n int) string { return strings.Repeat("x", n) }
	sandboxes := func(n int, name string) func(u *unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			var all []any
			for i := range n {
				all = append(all, map[string]any{"id": fmt.Sprint(i), "state": "Ready", "name": name})
			}
			u.Object["sandboxes"] = all
		}
	}
	owner := func(n int) func(u *unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: long(n), UID: "any"}})
		}
	}
	forged := func(u *unstructured.Unstructured) {
		fields := u.GetManagedFields()
		text := `{"f:spec":{"f:` + long(1<<20) + `":{}}}`
		u.SetManagedFields(append(fields, metav1.ManagedFieldsEntry{Manager: "forged",
			Operation:  metav1.ManagedFieldsOperationUpdate,
			APIVersion: u.GetAPIVersion(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(text)}))
	}
	holder := func(n int) func(u *unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			check(t, unstructured.SetNestedField(u.Object, long(n), "spec", "holderIdentity"))
		}
	}
	full := try(json.Marshal(largeReport(500, 2))).must(t)
	t.Logf("the report of 500 pods with two addresses each, and of 500 that ended, has %d bytes", len(full))
	dense := try(json.Marshal(largeReport(120, 42))).must(t)
	t.Logf("of the 655360 bytes that agents write at most, a dense report has %d", len(dense))
	write := func(text []byte) func(u *unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			var content map[string]any
			check(t, json.Unmarshal(text, &content))
			delete(content, "metadata")
			maps.Copy(u.Object, content)
		}
	}
	checkTrials(t, "as much as it needs", []trial{
		{"a report of 500 pods with two addresses each, and of as many that ended", one, reports.put("worker-1",
			write(full)), ""},
		{"a report with as many addresses as agents write", one, reports.put("worker-1", write(dense)), ""},
		{"a Lease with an annotation of 10 KiB", one, own.put("worker-1", func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{"note": long(10 << 10)})
		}), ""},
	})
	checkTrials(t, "more than that is refused", []trial{
		{"a report of 1.2 MB", one, reports.put("worker-1", sandboxes(4000, long(253))), tooLarge},
		{"a report of 900 KB in names of four bytes a letter", one, reports.put("worker-1",
			sandboxes(900, strings.Repeat("𝕏", 250))), tooLarge},
		{"a report with an owner of a megabyte", one, reports.put("worker-1", owner(1<<20)), tooLarge},
		{"a report with managedFields of a megabyte", one, reports.put("worker-1", forged), tooLarge},
		{"a Lease of a megabyte", one, own.put("worker-1", holder(1<<20)), tooLarge},
		{"a Lease of 17 KiB", one, own.put("worker-1", holder(17<<10)), tooLarge},
		{"a Lease with managedFields of a megabyte", one, own.put("worker-1", forged), tooLarge},
		{"a report with a name of 254", one, reports.put("worker-1", sandboxes(1, long(254))), invalidLength},
	})
	check(t, reports.put("worker-1", sandboxes(1, "web-0"))(t.Context(), one))
}

// largeReport has this many running sandboxes, each with addresses, and as many that ended.
func largeReport(sandboxes, addresses int) *v1alpha1.SandboxReport {
	r := &v1alpha1.SandboxReport{ObservedAt: metav1.NewTime(time.Now()), Runtime: v1alpha1.Runtime{Name: "containerd",
		Version: "2.4.2"}}
	closed := true
	for i := range 2 * sandboxes {
		b := v1alpha1.Sandbox{
			ID: fmt.Sprintf("%064x", i), Namespace: "team-of-some-name", Name: fmt.Sprintf("deployment-5d5b9c8f7d-%05d", i),
			UID:   fmt.Sprintf("00000000-0000-4000-8000-%012d", i),
			State: v1alpha1.SandboxReady, CreatedAt: metav1.NewTime(time.Now()),
			NetNS: fmt.Sprintf("/var/run/netns/cni-00000000-0000-4000-8000-%012d", i),
		}
		if i >= sandboxes {
			b.State, b.NetworkClosed = v1alpha1.SandboxNotReady, &closed
			r.Gone = append(r.Gone, v1alpha1.Gone{ID: fmt.Sprintf("%064x", sandboxes+i), UID: b.UID, Since: b.CreatedAt})
		} else {
			for a := range addresses {
				b.Addresses = append(b.Addresses, v1alpha1.Address{IP: fmt.Sprintf("10.%d.%d.%d", a, i/250, i%250),
					IfName: fmt.Sprint("net", a), Network: "storage-network", Range: "10.0.0.0/16", NetworkName: "blue"})
			}
		}
		r.Sandboxes = append(r.Sandboxes, b)
	}
	return r
}

// onlyAgentsConfirmReports checks that an account with write access to all Leases, as whereabouts has, cannot make a
// silent node look alive.
func (s *stage) onlyAgentsConfirmReports(t *testing.T, in string, reports, own thing) {
	all := []string{"*"}
	try(s.Client().RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "confirm"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: all},
			{APIGroups: []string{sandboxReports.Group}, Resources: all, Verbs: all},
		},
	}, metav1.CreateOptions{})).must(t)
	const elsewhere = "elsewhere"
	s.namespace(t, elsewhere)
	s.serviceAccount(t, elsewhere, agentName)
	s.binds(t, "confirm", "confirm",
		rbacv1.Subject{Kind: "ServiceAccount", Namespace: in, Name: reconcilerName}, rbacv1.Subject{Kind: "ServiceAccount",
			Namespace: elsewhere, Name: agentName},
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "writers"},
	)
	account := func(namespace, name string) *visitor {
		return s.as(t, "system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+
			namespace)
	}
	whereabouts, reconciler, namesake := account(metav1.NamespaceSystem, "whereabouts"), account(in, reconcilerName),
		s.inPod(t, elsewhere, agentName, "worker-1")
	writer, collector, namespaces := s.as(t, "writer", "writers"), account(metav1.NamespaceSystem,
		"generic-garbage-collector"), account(metav1.NamespaceSystem, "namespace-controller")
	admin, others := newVisitor(t, s.Config(), ""), thing{leasesResource, elsewhere, newLease}
	for _, v := range []*visitor{reconciler, namesake, writer} {
		eventually(t, "the rights to be there", func() bool {
			err := reports.dryRun("worker-7")(t.Context(), v)
			return err == nil || !strings.Contains(err.Error(), noRight)
		})
	}
	checkTrials(t, "nobody else confirms a report", []trial{
		{"whereabouts renews a node's Lease", whereabouts, own.update("worker-1"), onlyAgents},
		{"whereabouts patches a node's Lease", whereabouts, own.merge("worker-1"), onlyAgents},
		{"whereabouts applies a node's Lease", whereabouts, own.apply("worker-1"), onlyAgents},
		{"whereabouts creates a Lease of its own there", whereabouts, own.create("whereabouts"), onlyAgents},
		{"the reconciler renews a node's Lease", reconciler, own.update("worker-1"), onlyAgents},
		{"the reconciler writes a report", reconciler, reports.update("worker-1"), onlyAgents},
		{"somebody with every right to them creates a Lease", writer, own.create("worker-7"), onlyAgents},
		{"somebody with every right to them writes a report", writer, reports.merge("worker-1"), onlyAgents},
		{"somebody with every right to them applies a report", writer, reports.apply("worker-7"), onlyAgents},
		{"an account of the agents' name in another namespace renews a node's Lease", namesake, own.update("worker-1"),
			onlyAgents},
		{"an account of the agents' name in another namespace writes its node's report", namesake, reports.update("worker-1"),
			onlyAgents},
	})
	// Agents that were moved there without their policies would write like this.
	store := try(nodeagent.NewAPIStore(configOf(t, namesake.kubeconfig), "worker-1", own.namespace)).must(t)
	if err := store.CheckPolicy(t.Context()); err == nil {
		t.Error("an agent in a namespace that the policies do not name takes itself for guarded")
	} else {
		contains(t, "what it says", err.Error(), onlyAgents, elsewhere)
	}
	checkTrials(t, "all else is not changed", []trial{
		{"whereabouts writes its own Lease where it belongs", whereabouts, others.create("whereabouts"), ""},
		{"an account of the agents' name in another namespace writes any Lease", namesake, others.create("worker-2"), ""},
		{"an administrator renews a Lease", admin, own.update("worker-1"), ""},
		{"an administrator writes a report", admin, reports.put("worker-1",
			func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/kept"}) }), ""},
		{"the garbage collector removes a finalizer", collector, reports.patch("worker-1", "application/merge-patch+json",
			`{"metadata":{"finalizers":null}}`), ""},
		{"an administrator makes a report", admin, reports.create("worker-7"), ""},
		{"an administrator makes a Lease", admin, own.create("worker-7"), ""},
		{"the garbage collector deletes a report", collector, reports.delete("worker-7"), ""},
		{"the namespace controller deletes a Lease", namespaces, own.delete("worker-7"), ""},
		{"an administrator makes another report", admin, reports.create("worker-8"), ""},
		{"an administrator makes another Lease", admin, own.create("worker-8"), ""},
		{"the reconciler deletes the report of a node that is gone", reconciler, reports.delete("worker-8"), ""},
		{"the reconciler deletes the Lease of a node that is gone", reconciler, own.delete("worker-8"), ""},
	})
	check(t, s.Client().RbacV1().ClusterRoleBindings().Delete(t.Context(), "confirm", metav1.DeleteOptions{}))
}

// headers keeps the headers of the last answer.
type headers struct {
	http.RoundTripper
	last http.Header
}

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.RoundTripper.RoundTrip(r)
	if err == nil {
		h.last = answer.Header
	}
	return answer, err
}

func (s *stage) agentsHaveAPriorityLevelOfTheirOwn(t *testing.T, one *visitor) {
	schema := try(s.Client().FlowcontrolV1().FlowSchemas().Get(t.Context(), agentName, metav1.GetOptions{})).must(t)
	level := try(s.Client().FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), agentName,
		metav1.GetOptions{})).must(t)
	config, seen := configOf(t, one.kubeconfig), &headers{}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { seen.RoundTripper = rt; return seen })
	client := try(kubernetes.NewForConfig(config)).must(t)
	is := func(who rest.Interface, path string) func() bool {
		return func() bool {
			who.Get().AbsPath(path).Do(t.Context())
			return seen.last.Get("X-Kubernetes-PF-FlowSchema-UID") == string(schema.UID) &&
				seen.last.Get("X-Kubernetes-PF-PriorityLevel-UID") == string(level.UID)
		}
	}
	for _, path := range []string{
		"/apis/ip-reconcile.dev/v1alpha1/sandboxreports/worker-1", "/api/v1/nodes/worker-1",
		// Without a FlowSchema of their own, Leases in kube-system share the priority of leader election.
		"/apis/coordination.k8s.io/v1/namespaces/ip-reconcile-node-lease/leases/worker-1",
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/any",
	} {
		eventuallyWithin(t, 20*time.Second, "the request for "+path+" to be of the agents' level",
			is(client.CoreV1().RESTClient(), path))
	}
}
