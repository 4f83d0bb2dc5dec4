package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// retirable is a cluster with an empty pool to which no definition leads, one with a leak, and one that is defined.
const retirable = `apiVersion: v1
kind: Namespace
metadata: {name: kube-system, uid: 00000000-0000-4000-8000-000000000001}
---
apiVersion: v1
kind: Node
metadata: {name: worker-1, labels: {kubernetes.io/os: linux}}
status: {conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, uid: 00000000-0000-4000-8000-000000000002}
spec: {nodeName: worker-1, containers: [{name: main}]}
status: {phase: Running}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: kept, namespace: default}
spec: {config: '{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.7.0.0/24"}}'}
---
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata: {name: 10.7.0.0-24, namespace: kube-system, uid: 00000000-0000-4000-8000-000000000007, resourceVersion: "7"}
spec: {range: 10.7.0.0/24, allocations: {}}
---
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata: {name: 10.8.0.0-24, namespace: kube-system, uid: 00000000-0000-4000-8000-000000000008, resourceVersion: "7"}
spec: {range: 10.8.0.0/24, allocations: {}}
---
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata: {name: 10.9.0.0-24, namespace: kube-system, uid: 00000000-0000-4000-8000-000000000009, resourceVersion: "7"}
spec: {range: 10.9.0.0/24, allocations: {"1": {id: box-1, podref: default/gone, ifname: net1}}}
---
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: OverlappingRangeIPReservation
metadata: {name: 10.9.0.1, namespace: kube-system, creationTimestamp: "2026-11-20T09:00:00Z"}
spec: {podref: default/gone, ifname: net1}
`

// retirableIn is a folder with the cluster.
func retirableIn(t *testing.T) string {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cluster.yaml"), retirable)
	return dir
}

func TestRetire_OfASnapshot(t *testing.T) {
	dir := retirableIn(t)
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"pools retire 10.8.0.0-24":                     {0, "Pool kube-system/10.8.0.0-24 (10.8.0.0/24) would be deleted."},
		"pools retire 10.9.0.0/24":                     {0, "Its stale items are released first"},
		"pools retire 10.7.0.0-24":                     {1, "NetworkAttachmentDefinition default/kept leads to it"},
		"pools retire 10.7.0.0-24 10.8.0.0-24 -o name": {1, "kube-system/10.8.0.0-24\n"},
		"pools retire 10.0.0.0-24":                     {2, `no pool has the name or range "10.0.0.0-24"`},
		"plan --retire 10.9.0.0-24":                    {0, "would be deleted once it is empty"},
		"plan --retire 10.7.0.0-24":                    {2, "--retire kube-system/10.7.0.0-24: the pool is kept"},
		"pools --unused":                               {0, "ip-reconcile pools retire kube-system/10.8.0.0-24"},
	} {
		code, out, errs := run(t, append(strings.Fields(args), "--snapshot", dir, "--log-level", "error")...)
		if code != want.code || !strings.Contains(out+errs, want.says) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s%s", args, code, want.code, want.says, out, errs)
		}
	}
}

// While nodes are unknown, it is unknown which slices have none.
func TestRetire_SlicesWhileNodesAreUnknown(t *testing.T) {
	server, config, _ := planned(t)
	args := strings.Fields("pools retire --slices-without-node --yes --reconciler-namespace kube-system " +
		"--request-timeout 1s --kubeconfig " + config)
	if code, out, errs := run(t, args...); code != exitClean || !strings.Contains(errs, "No pool is the slice of a node") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	server.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		if q.Method != http.MethodGet || q.Resource != fakeapi.Nodes {
			return nil
		}
		a := fakeapi.Failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no")
		return &a
	}
	code, out, errs := run(t, args...)
	if code != exitUnresolved || !strings.Contains(errs, "is unknown") || strings.Contains(errs, "No pool is") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}

// What is stale elsewhere was not asked for, also if no pool is selected.
func TestRetire_NoPoolHasNoItems(t *testing.T) {
	dir := copySample(t)
	pauseEverything(t, dir)
	_, out, _ := run(t, "pools", "retire", "--slices-without-node", "-o", "json", "--snapshot", dir)
	var d view.RetireReport
	check(t, json.Unmarshal([]byte(out), &d))
	if len(d.Pools)+len(d.Failed) != 0 {
		t.Errorf("%d pools, and %d items are not released", len(d.Pools), len(d.Failed))
	}
}

// The question has what is deleted, and anything but a yes deletes nothing.
func TestRetire_AsksOnATerminal(t *testing.T) {
	for answer, want := range asking {
		std, shown := terminalWith(t, answer)
		o, r := asker(t, retirableIn(t), std)
		checked, err := r.Check(t.Context())
		check(t, err)
		a := checked.Assessment
		pools, err := namedPools(a, []string{"10.8.0.0-24", "10.7.0.0-24"})
		check(t, err)
		planned := r.PlanRetirement(a, pools)
		can, _ := reconciler.CanBeRetired(planned)
		d := view.NewRetireReport(view.PlannedResult(checked, r.Plan(t.Context(), a)), planned, false)
		err = o.askToRetire(t.Context(), d, len(can))
		before, after, isAsked := strings.Cut(shown(), "\nDelete 1 pool? [y/N] ")
		no := "Nothing was deleted.\n"
		if (err == nil) != want || !isAsked || want && after != "" || !want && after != no ||
			!strings.Contains(before, "10.8.0.0-24 (10.8.0.0/24) can be deleted") ||
			!strings.Contains(before, "10.7.0.0-24 (10.7.0.0/24) is kept") {
			t.Errorf("%q: %v:\n%s", answer, err, shown())
		}
	}
}

// planned is an API server with the cluster of retirable, a kubeconfig for it, and a plan to retire the pool with the
// leak.
func planned(t *testing.T) (server *fakeapi.Client, config, file string) {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	resources := map[string]string{"Namespace": fakeapi.Namespaces, "Node": fakeapi.Nodes, "Pod": fakeapi.Pods,
		"NetworkAttachmentDefinition": fakeapi.NADs, "IPPool": fakeapi.Pools,
		"OverlappingRangeIPReservation": fakeapi.Reservations}
	server = &fakeapi.Client{Server: fakeapi.NewServer()}
	for text := range strings.SplitSeq(retirable, "---\n") {
		text, err := yaml.YAMLToJSON([]byte(text))
		check(t, err)
		o := unstructured.Unstructured{Object: fakeapi.Decode(text)}
		server.Put(fakeapi.At(resources[o.GetKind()], o.GetNamespace(), o.GetName()), o.Object, server.Now(), "somebody")
	}
	api := httptest.NewServer(server)
	t.Cleanup(api.Close)
	config, file = kubeconfigOf(t, api.URL), filepath.Join(t.TempDir(), "plan.json")
	code, out, errs := run(t, "plan", "--retire", "10.9.0.0-24", "--output-file", file, "--kubeconfig", config,
		"--reconciler-namespace", "kube-system")
	if code != exitClean {
		t.Fatalf("plan: exit code %d:\n%s%s", code, out, errs)
	}
	return server, config, file
}

// apply prints what it has released, whatever becomes of the pools, and what became of each item in the end.
func TestApply_ReportsAllReleases(t *testing.T) {
	for name, c := range map[string]struct {
		// instead answers a request instead of the API server, with the number of patches of pools before.
		instead func(q *fakeapi.Request, patches int) bool
		code    int
		want    []string
	}{
		"nothing fails": {func(*fakeapi.Request, int) bool { return false }, exitClean,
			[]string{"Released 1 item. 0 items not released.", "10.9.0.0/24) is deleted."}},
		"the cluster cannot be read after the releases": {func(q *fakeapi.Request, patches int) bool {
			return patches > 0 && q.Method == http.MethodGet && q.Resource == fakeapi.Pods && q.Name == ""
		}, exitFailed, []string{"Released 1 item. 0 items not released.", "10.9.0.0/24) is kept.",
			"no pool was deleted: "}},
		"what is refused is released with the pool": {func(q *fakeapi.Request, patches int) bool {
			return patches == 1 && q.Method == http.MethodPatch && q.Resource == fakeapi.Pools
		}, exitClean, []string{"Released 1 item. 0 items not released.", "10.9.0.0/24) is deleted."}},
	} {
		t.Run(name, func(t *testing.T) {
			server, config, file := planned(t)
			patches := 0
			server.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
				if q.Method == http.MethodPatch && q.Resource == fakeapi.Pools {
					patches++
				}
				if !c.instead(q, patches) {
					return nil
				}
				a := fakeapi.Failure(http.StatusForbidden, metav1.StatusReasonForbidden, "a webhook says no")
				return &a
			}
			code, out, errs := run(t, "apply", "-f", file, "--yes", "--kubeconfig", config, "--confirm-after", "0s",
				"--reconciler-namespace", "kube-system", "--request-timeout", "1s")
			for _, want := range append(c.want, "10.9.0.1") {
				if !strings.Contains(out+errs, want) || code != c.code || strings.Contains(out, "NOT RELEASED") {
					t.Errorf("exit code %d, want %d with %q:\n%s%s", code, c.code, want, out, errs)
				}
			}
		})
	}
}
