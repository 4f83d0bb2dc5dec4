//go:build slow

package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// start skips where the harness cannot run, and says how long a start takes.
func start(t *testing.T, flags ...string) *ControlPlane {
	t.Helper()
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	began := time.Now()
	c := StartControlPlane(t, flags...)
	t.Logf("the cluster was ready after %.1fs", time.Since(began).Seconds())
	return c
}

// try(f()).must(t) is the value of a call that may not fail; by itself try does nothing.
func try[T any](v T, err error) tried[T] { return tried[T]{v, err} }

type tried[T any] struct {
	value T
	err   error
}

// must ends the test t on an error, and no other.
func (r tried[T]) must(t *testing.T) T {
	t.Helper()
	check(t, r.err)
	return r.value
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// allocations are the entries of a pool as "key podref ifname id".
func allocations(t *testing.T, c *ControlPlane, pool string) []string {
	t.Helper()
	object, err := c.Dynamic().Resource(IPPools).Namespace("kube-system").Get(t.Context(), pool, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("%v; there are %v", err, names(t, c))
	}
	entries, _, err := unstructured.NestedMap(object.Object, "spec", "allocations")
	check(t, err)
	found := []string{}
	for key, e := range entries {
		entry := e.(map[string]any)
		found = append(found, fmt.Sprint(key, " ", entry["podref"], " ", entry["ifname"], " ", entry["id"]))
	}
	slices.Sort(found)
	return found
}

// names are those of all pools and reservations.
func names(t *testing.T, c *ControlPlane) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for kind, resource := range map[string]func() (*unstructured.UnstructuredList, error){
		"pools": func() (*unstructured.UnstructuredList, error) {
			return c.Dynamic().Resource(IPPools).List(t.Context(), metav1.ListOptions{})
		},
		"reservations": func() (*unstructured.UnstructuredList, error) {
			return c.Dynamic().Resource(Reservations).List(t.Context(), metav1.ListOptions{})
		},
	} {
		list, err := resource()
		check(t, err)
		for _, o := range list.Items {
			found[kind] = append(found[kind], o.GetName())
		}
	}
	return found
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestAddAndDel(t *testing.T) {
	t.Parallel()
	c, ctx := start(t), t.Context()
	n := NewNode(t, c, "worker-1")
	blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24", "range_start": "10.1.0.5"}}
	check(t, c.CreateNAD(ctx, blue))

	began := time.Now()
	p, err := n.Run(ctx, "default", "web-0", blue)
	check(t, err)
	t.Logf("the first pod took %d ms", time.Since(began).Milliseconds())
	id, address := p.Sandbox.ID, netip.MustParseAddr("10.1.0.5")

	equal(t, "result", Addresses(p.Results[0]), []netip.Addr{address})
	equal(t, "allocations", allocations(t, c, "10.1.0.0-24"), []string{"5 default/web-0 net1 " + id})
	reservation, err := c.Dynamic().Resource(Reservations).Namespace("kube-system").Get(ctx, "10.1.0.5", metav1.GetOptions{})
	check(t, err)
	equal(t, "reservation", reservation.Object["spec"], map[string]any{"podref": "default/web-0", "ifname": "net1"})
	configured, err := p.Sandbox.Addresses()
	check(t, err)
	equal(t, "configured addresses", configured["net1"], []netip.Addr{address})
	equal(t, "cache", try(filepath.Glob(n.CacheDir+"/results/*")).must(t), []string{n.CacheDir + "/results/blue-" + id + "-net1"})
	stdout, stderr, err := c.Kubectl(ctx, "get", "pod", "web-0", "-o", "jsonpath={.status.phase} {.metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/network-status}")
	if err != nil || !strings.HasPrefix(stdout, "Running [") || !strings.Contains(stdout, address.String()) {
		t.Errorf("kubectl says %q %q %v", stdout, stderr, err)
	}

	second := Attachment{Sandbox: try(n.NewSandbox()).must(t), Namespace: "default", Pod: "web-1", IfName: "net1", Network: blue}
	began = time.Now()
	_, err = n.Add(ctx, second)
	check(t, err)
	added := time.Since(began)
	check(t, n.Del(ctx, second))
	t.Logf("ADD took %d ms, DEL %d ms", added.Milliseconds(), (time.Since(began) - added).Milliseconds())

	check(t, n.Del(ctx, p.Attachments[0]))
	equal(t, "allocations after DEL", allocations(t, c, "10.1.0.0-24"), []string{})
	equal(t, "reservations after DEL", names(t, c)["reservations"], []string{})
	if on, err := p.Sandbox.Has(address); on || err != nil {
		t.Errorf("after DEL the address is configured: %v, %v", on, err)
	}
	check(t, p.Stop(ctx))
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	c, ctx := start(t), t.Context()
	n := NewNode(t, c, "worker-1")
	dual := Network{"default", "dual", IPAM{"ipRanges": []any{
		map[string]any{"range": "10.2.0.0/24"}, map[string]any{"range": "fd00:2::/64"},
	}}}
	red := Network{"default", "red", IPAM{"range": "10.2.0.0/24", "network_name": "red"}}
	alone := Network{"default", "alone", IPAM{"range": "10.3.0.0/24", "enable_overlapping_ranges": false}}
	sliced := Network{"default", "sliced", IPAM{"range": "10.4.0.0/16", "node_slice_size": "/24"}}

	slices := try(c.Dynamic().Resource(NodeSlicePools).Namespace("kube-system").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "NodeSlicePool",
		"metadata": map[string]any{"name": "sliced"},
		"spec":     map[string]any{"range": "10.4.0.0/16", "sliceSize": "/24"},
		"status":   map[string]any{"allocations": []any{map[string]any{"nodeName": "worker-1", "sliceRange": "10.4.7.0/24"}}},
	}}, metav1.CreateOptions{})).must(t)
	if _, ok := slices.Object["status"]; !ok {
		t.Fatal("the API server dropped the status of the NodeSlicePool")
	}

	p, err := n.Run(ctx, "default", "p", dual, red, alone, sliced)
	check(t, err)
	configured, err := p.Sandbox.Addresses()
	check(t, err)
	equal(t, "configured addresses", configured, map[string][]string{
		"net1": {"10.2.0.1", "fd00:2::1"}, "net2": {"10.2.0.1"}, "net3": {"10.3.0.1"}, "net4": {"10.4.7.1"},
	})
	equal(t, "objects", names(t, c), map[string][]string{
		"pools":        {"10.2.0.0-24", "10.3.0.0-24", "fd00-2---64", "red-10.2.0.0-24", "worker-1-10.4.7.0-24"},
		"reservations": {"10.2.0.1", "10.4.7.1", "fd00-2--1", "red-10.2.0.1"},
	})
	check(t, p.Stop(ctx))
	equal(t, "reservations after Stop", names(t, c)["reservations"], []string{})
}

func TestManyPods(t *testing.T) {
	t.Parallel()
	c := start(t)
	const pods = 40
	nodes := []*Node{NewNode(t, c, "worker-1"), NewNode(t, c, "worker-2")}
	blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/16"}}
	running := make([]*RunningPod, pods)
	began := time.Now()
	check(t, each(pods, func(i int) (err error) {
		running[i], err = nodes[i%2].Run(t.Context(), "default", fmt.Sprint("p-", i), blue)
		return err
	}))
	t.Logf("%d pods at once came in %.1fs", pods, time.Since(began).Seconds())
	equal(t, "allocations", len(allocations(t, c, "10.1.0.0-16")), pods)
	seen := map[string]bool{}
	for _, p := range running {
		seen[try(p.Sandbox.Addresses()).must(t)["net1"][0].String()] = true
	}
	equal(t, "distinct addresses", len(seen), pods)
	began = time.Now()
	check(t, each(pods, func(i int) error { return running[i].Stop(t.Context()) }))
	t.Logf("and went in %.1fs", time.Since(began).Seconds())
	equal(t, "allocations at the end", allocations(t, c, "10.1.0.0-16"), []string{})
}

// each does something n times at once.
func each(n int, do func(int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	c, ctx := start(t), t.Context()
	n := NewNode(t, c, "worker-1")
	blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
	before := try(n.Run(ctx, "default", "before", blue)).must(t)

	c.StopAPI()
	c.StopEtcd()
	check(t, os.CopyFS(c.Dir()+"/backup", os.DirFS(c.EtcdData())))
	check(t, c.StartEtcd())
	check(t, c.StartAPI(ctx))
	after := try(n.Run(ctx, "default", "after", blue)).must(t)
	equal(t, "allocations", len(allocations(t, c, "10.1.0.0-24")), 2)

	c.StopAPI()
	c.StopEtcd()
	check(t, os.RemoveAll(c.EtcdData()))
	check(t, os.CopyFS(c.EtcdData(), os.DirFS(c.Dir()+"/backup")))
	check(t, c.StartEtcd())
	check(t, c.StartAPI(ctx))
	equal(t, "allocations after the restore", allocations(t, c, "10.1.0.0-24"), []string{"1 default/before net1 " + before.Sandbox.ID})
	if on, err := after.Sandbox.Has(netip.MustParseAddr("10.1.0.2")); !on || err != nil {
		t.Errorf("the phantom has its address: %v, %v", on, err)
	}

	c.StopEtcd() // and the API server lives on
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := n.Run(short, "default", "never", blue); err == nil {
		t.Error("a pod was made without etcd")
	}
	began := time.Now()
	check(t, c.StartEtcd())
	check(t, c.WaitReady(ctx))
	t.Logf("the API server found etcd again in %.1fs", time.Since(began).Seconds())
	try(n.Run(ctx, "default", "later", blue)).must(t)
}

func TestDeletePod(t *testing.T) {
	t.Parallel()
	c, ctx := start(t), t.Context()
	pod := try(c.CreatePod(ctx, "default", "p", "worker-1")).must(t)
	pod = try(c.SetRunning(ctx, pod, NetworkStatus{Name: "cbr0", IPs: []string{"10.0.0.1"}, Default: true})).must(t)
	equal(t, "podIP", pod.Status.PodIP, "10.0.0.1")
	check(t, c.DeletePod(ctx, pod, 30))
	pod, err := c.Client().CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp == nil {
		t.Fatalf("a graceful deletion left %v, %v", pod.DeletionTimestamp, err)
	}
	check(t, c.DeletePod(ctx, pod, 0))
	if _, err := c.Client().CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a forced deletion: %v", err)
	}
}

func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	c, ctx := start(t), t.Context()
	NewNode(t, c, "worker-1")
	try(c.Client().CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}, metav1.CreateOptions{})).must(t)
	pod := try(c.Client().CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec:       corev1.PodSpec{NodeName: "worker-1", ServiceAccountName: "agent", Containers: []corev1.Container{{Name: "main", Image: "e2e.invalid/none"}}},
	}, metav1.CreateOptions{})).must(t)
	for kubeconfig, node := range map[string][]string{
		c.KubeconfigFor(t, "default", "agent"): nil,
		c.KubeconfigForPod(t, pod):             {"worker-1"},
	} {
		client := try(kubernetes.NewForConfig(try(clientcmd.BuildConfigFromFlags("", kubeconfig)).must(t))).must(t)
		who := try(client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authv1.SelfSubjectReview{}, metav1.CreateOptions{})).must(t).Status.UserInfo
		equal(t, "user", who.Username, "system:serviceaccount:default:agent")
		equal(t, "node of the token", who.Extra["authentication.kubernetes.io/node-name"], node)
		if _, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing pods without the right to: %v", err)
		}
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	c, ctx := start(t), t.Context()
	n := NewNode(t, c, "worker-1")
	for _, ready := range []bool{true, false, true} {
		check(t, n.SetReady(ctx, ready))
		node := try(c.Client().CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})).must(t)
		equal(t, "conditions", len(node.Status.Conditions), 1)
		equal(t, "ready", node.Status.Conditions[0].Status == corev1.ConditionTrue, ready)
		equal(t, "taints", len(node.Spec.Taints), 0)
	}
}

func TestTwoClusters(t *testing.T) {
	t.Parallel()
	for _, c := range []*ControlPlane{start(t), start(t)} {
		try(NewNode(t, c, "worker-1").Run(t.Context(), "default", "p", Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}})).must(t)
		equal(t, "allocations", len(allocations(t, c, "10.1.0.0-24")), 1)
	}
}

func TestUpstream(t *testing.T) {
	t.Parallel()
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	for _, path := range []string{filepath.Join(Upstream(t), "ip-control-loop"), UpstreamManifest(t, "daemonset-install.yaml")} {
		_, err := os.Stat(path)
		check(t, err)
	}
}
