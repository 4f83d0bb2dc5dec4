package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

var (
	sandboxReports = schema.GroupVersionResource{Group: "ip-reconcile.dev", Version: "v1alpha1",
		Resource: "sandboxreports"}
	crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// A stage is a cluster for the subtests of one test, which run one after the other and leave nothing behind.
type stage struct {
	*harness.ControlPlane
	nodes    map[string]*harness.Node
	programs build // shipped unless set
}

// newStage starts a cluster as whereabouts alone has it, with Ready nodes of these names: no node agents, and no
// SandboxReports served.
func newStage(t *testing.T, nodes ...string) *stage {
	t.Helper()
	s := newStageWithReports(t, nodes...)
	s.removeCRD(t, sandboxReports)
	return s
}

// newStageWithReports is newStage where the API serves SandboxReports.
func newStageWithReports(t *testing.T, nodes ...string) *stage {
	t.Helper()
	if why := harness.Unsupported(); why != "" {
		t.Skip(why)
	}
	s := &stage{ControlPlane: planes.Start(t), nodes: map[string]*harness.Node{}, programs: shipped}
	for _, name := range nodes {
		s.nodes[name] = harness.NewNode(t, s.ControlPlane, name)
	}
	try(s.CreatePod(t.Context(), metav1.NamespaceSystem, bystander, "")).must(t)
	return s
}

// withRaceDetector makes the stage run the product with the race detector, for tests with much concurrency.
func (s *stage) withRaceDetector() *stage {
	s.programs = raced
	return s
}

// bystander is a pod without networks: no cluster with allocations is without pods, and the product rejects an empty
// list.
const bystander = "bystander"

func (s *stage) removeCRD(t *testing.T, r schema.GroupVersionResource) {
	t.Helper()
	check(t, s.Dynamic().Resource(crds).Delete(t.Context(), r.Resource+"."+r.Group, metav1.DeleteOptions{}))
	eventually(t, "the CRD "+r.Resource+" to be gone", func() bool {
		_, err := s.Dynamic().Resource(r).List(t.Context(), metav1.ListOptions{})
		_, err2 := s.Client().Discovery().ServerResourcesForGroupVersion(r.GroupVersion().String())
		return apierrors.IsNotFound(err) && (apierrors.IsNotFound(err2) || r.Group != sandboxReports.Group)
	})
}

// crd returns the CRD of a resource, ready to be created again.
func (s *stage) crd(t testing.TB, r schema.GroupVersionResource) *unstructured.Unstructured {
	t.Helper()
	crd := try(s.Dynamic().Resource(crds).Get(context.Background(), r.Resource+"."+r.Group, metav1.GetOptions{})).must(t)
	crd.SetResourceVersion("")
	crd.SetUID("")
	unstructured.RemoveNestedField(crd.Object, "status")
	return crd
}

// serves creates a CRD and waits until the API server accepts objects of it.
func (s *stage) serves(t testing.TB, r schema.GroupVersionResource, crd *unstructured.Unstructured) {
	t.Helper()
	try(s.Dynamic().Resource(crds).Create(context.Background(), crd, metav1.CreateOptions{})).must(t)
	eventually(t, r.Resource+" to be served", func() bool {
		_, err := s.Dynamic().Resource(r).List(context.Background(), metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) &&
			!apierrors.IsServiceUnavailable(err) {
			t.Error(err)
		}
		return err == nil
	})
}

// changedCRD changes the definition of a resource; undo changes it back.
func (s *stage) changedCRD(
	t testing.TB, r schema.GroupVersionResource, change func(spec map[string]any),
) (undo func()) {
	t.Helper()
	api, name := s.Dynamic().Resource(crds), r.Resource+"."+r.Group
	update := func(change func(*unstructured.Unstructured)) {
		t.Helper()
		crd := try(api.Get(t.Context(), name, metav1.GetOptions{})).must(t)
		change(crd)
		try(api.Update(t.Context(), crd, metav1.UpdateOptions{})).must(t)
	}
	var before any
	update(func(crd *unstructured.Unstructured) {
		before = crd.DeepCopy().Object["spec"]
		change(crd.Object["spec"].(map[string]any))
	})
	return func() { update(func(crd *unstructured.Unstructured) { crd.Object["spec"] = before }) }
}

// anotherVersion adds a version to a definition, and serves the first one still or not.
func anotherVersion(served bool) func(spec map[string]any) {
	return func(spec map[string]any) {
		versions := spec["versions"].([]any)
		first := versions[0].(map[string]any)
		another := (&unstructured.Unstructured{Object: first}).DeepCopy().Object
		another["name"], another["storage"] = "v1beta1", false
		first["served"] = served
		spec["versions"] = append(versions, another)
	}
}

// play runs a subtest and then removes what it created.
func (s *stage) play(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Cleanup(func() { s.clear(t) })
		f(t)
	})
}

func (s *stage) clear(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	namespaces := try(s.Client().CoreV1().Namespaces().List(ctx, metav1.ListOptions{})).must(t)
	for _, ns := range namespaces.Items {
		check(t, s.Client().CoreV1().Pods(ns.Name).DeleteCollection(ctx, now,
			metav1.ListOptions{FieldSelector: "metadata.name!=" + bystander}))
		for _, r := range []schema.GroupVersionResource{harness.IPPools, harness.Reservations, harness.NodeSlicePools,
			harness.NADs} {
			if err := s.Dynamic().Resource(r).Namespace(ns.Name).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil &&
				!apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}
}

// product runs the product on the stage as the admin; -o json is added.
func (s *stage) product(t testing.TB, args ...string) *outcome {
	t.Helper()
	return s.productAs(t, s.Kubeconfig(), args...)
}

// productAs is product as an account with few permissions, which must state what RBAC hides from a command that writes.
func (s *stage) productAs(t testing.TB, kubeconfig string, args ...string) *outcome {
	t.Helper()
	if args[0] == "run" && kubeconfig != s.Kubeconfig() {
		args = append(slices.Clone(args), "--without-pause")
		if !slices.Contains(args, "--reconciler-namespace") {
			args = append(args, "--reconciler-namespace", metav1.NamespaceSystem)
		}
		args = append(args, "--agents=auto")
	}
	return s.beginProduct(t, append(args, "-o", "json", "--kubeconfig", kubeconfig)...).wait()
}

// beginProduct is begin for the programs of the stage.
func (s *stage) beginProduct(t testing.TB, args ...string) *command {
	t.Helper()
	return beginProgram(t, s.programs.program(t, "ip-reconcile"), args...)
}

// run is product("run --confirm-after 0") with more flags.
func (s *stage) run(t testing.TB, more ...string) *outcome {
	t.Helper()
	return s.product(t, append([]string{"run", "--confirm-after", "0"}, more...)...)
}

// judges is run that exits with 0 and has these verdicts on places.
func (s *stage) judges(t testing.TB, pairs ...string) *outcome {
	t.Helper()
	out := s.run(t)
	out.exits(t, 0)
	out.expect(t, pairs...)
	return out
}

// contents are all allocations and reservations as stored, by "<pool> <key>" and "reservation <name>". Pools of all
// namespaces are in one, since tests have them in kube-system.
type contents map[string]string

func (s *stage) contents(t testing.TB) contents {
	t.Helper()
	c := contents{}
	ctx := context.Background()
	for _, p := range try(s.Dynamic().Resource(harness.IPPools).List(ctx, metav1.ListOptions{})).must(t).Items {
		entries, _, _ := unstructured.NestedMap(p.Object, "spec", "allocations")
		for key, e := range entries {
			c[p.GetName()+" "+key] = string(try(json.Marshal(e)).must(t))
		}
	}
	for _, r := range try(s.Dynamic().Resource(harness.Reservations).List(ctx, metav1.ListOptions{})).must(t).Items {
		c["reservation "+r.GetName()] = string(r.GetUID()) + " " + string(try(json.Marshal(r.Object["spec"])).must(t))
	}
	return c
}

// withoutUIDs is the content of reservations without their identity.
func (c contents) withoutUIDs() contents {
	c = maps.Clone(c)
	for place, text := range c {
		if strings.HasPrefix(place, "reservation ") {
			_, c[place], _ = strings.Cut(text, " ")
		}
	}
	return c
}

// checkReleased checks that exactly these places are gone since and that nothing else changed.
func (s *stage) checkReleased(t testing.TB, before contents, places ...string) {
	t.Helper()
	want := maps.Clone(before)
	for _, p := range places {
		if _, there := want[p]; !there {
			t.Errorf("%q was not there at all", p)
		}
		delete(want, p)
	}
	after := s.contents(t)
	if maps.Equal(after, want) {
		return
	}
	for _, p := range slices.Sorted(maps.Keys(before)) {
		switch got, still := after[p]; {
		case still && slices.Contains(places, p):
			t.Errorf("%q was not released: %s", p, got)
		case !still && !slices.Contains(places, p):
			t.Errorf("%q was released: %s", p, before[p])
		case still && got != before[p]:
			t.Errorf("%q was changed: %s, before %s", p, got, before[p])
		}
	}
	for _, p := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[p]; !was {
			t.Errorf("%q is new: %s", p, after[p])
		}
	}
}

// of are the objects of a kind in the namespace of whereabouts.
func (s *stage) of(r schema.GroupVersionResource) dynamic.ResourceInterface {
	return s.Dynamic().Resource(r).Namespace(metav1.NamespaceSystem)
}

// patch merges into one of whereabouts' objects; a null removes.
func (s *stage) patch(t testing.TB, r schema.GroupVersionResource, name, merge string) {
	t.Helper()
	_, err := s.of(r).Patch(context.Background(), name, types.MergePatchType, []byte(merge), metav1.PatchOptions{})
	check(t, err)
}

// pool writes a pool by hand: allocations by key, each as {"podref": …}.
func (s *stage) pool(t testing.TB, name, cidr string, entries map[string]any) {
	t.Helper()
	pool := objects(harness.IPPools, "IPPool", map[string]any{"spec": map[string]any{"range": cidr,
		"allocations": entries}})(name)
	try(s.of(harness.IPPools).Create(t.Context(), pool, metav1.CreateOptions{})).must(t)
}

// reserves creates reservations for a pod.
func reserves(podRef string) func(name string) *unstructured.Unstructured {
	return objects(harness.Reservations, "OverlappingRangeIPReservation",
		map[string]any{"spec": map[string]any{"podref": podRef}})
}

// unreserve deletes a reservation by hand.
func (s *stage) unreserve(t testing.TB, name string) {
	t.Helper()
	check(t, s.of(harness.Reservations).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// reservation writes a reservation by hand, with an age.
func (s *stage) reservation(t testing.TB, name, podRef string, age time.Duration) {
	t.Helper()
	try(s.of(harness.Reservations).Create(t.Context(), reserves(podRef)(name), metav1.CreateOptions{})).must(t)
	if age > 0 {
		s.age(t, harness.Reservations, name, age)
	}
}

// entry is an allocation written by hand.
func entry(podRef, id string) map[string]any {
	return map[string]any{"podref": podRef, "id": id, "ifname": "net1"}
}

// noID is a container id that no sandbox has.
const noID = "00000000000000000000000000000000000000000000000000000000000000ff"

func keys(c contents) []string { return slices.Sorted(maps.Keys(c)) }

// pausing is the merge patch that sets the annotation; "" removes it.
func pausing(value string) string {
	if value == "" {
		return `{"metadata":{"annotations":{"ip-reconcile.dev/paused":null}}}`
	}
	return `{"metadata":{"annotations":{"ip-reconcile.dev/paused":"` + value + `"}}}`
}

// pauseAll sets the annotation on the reconciler's own namespace.
func (s *stage) pauseAll(t testing.TB, value string) {
	t.Helper()
	try(s.Client().CoreV1().Namespaces().Patch(t.Context(), metav1.NamespaceSystem, types.MergePatchType,
		[]byte(pausing(value)), metav1.PatchOptions{FieldManager: "kubectl-annotate"})).must(t)
}

// slices writes what the node slice controller writes: pairs of node and slice.
func (s *stage) slices(t *testing.T, name string, pairs ...string) {
	t.Helper()
	var allocations []any
	for i := 0; i < len(pairs); i += 2 {
		allocations = append(allocations, map[string]any{"nodeName": pairs[i], "sliceRange": pairs[i+1]})
	}
	try(s.of(harness.NodeSlicePools).Create(t.Context(), objects(harness.NodeSlicePools, "NodeSlicePool", map[string]any{
		"spec":   map[string]any{"range": "10.4.0.0/16", "sliceSize": "/24"},
		"status": map[string]any{"allocations": allocations},
	})(name), metav1.CreateOptions{})).must(t)
}

// backup copies etcd's data and returns a function that restores it: a plain restore, after which resourceVersions run
// backwards.
func (s *stage) backup(t testing.TB) (restore func()) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "backup")
	s.offline(t, func() { check(t, os.CopyFS(kept, os.DirFS(s.EtcdData()))) })
	return func() {
		t.Helper()
		s.offline(t, func() {
			check(t, os.RemoveAll(s.EtcdData()))
			check(t, os.CopyFS(s.EtcdData(), os.DirFS(kept)))
		})
	}
}

// offline stops the control plane, acts, and starts it again.
func (s *stage) offline(t testing.TB, do func()) {
	t.Helper()
	s.StopAPI()
	s.StopEtcd()
	do()
	check(t, s.StartEtcd())
	check(t, s.StartAPI(t.Context()))
}

func (s *stage) outOfService(t testing.TB, node string) {
	t.Helper()
	s.mustKubectl(t, "taint", "node", node, corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute")
}
