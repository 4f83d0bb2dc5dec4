//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// playInstalled comes first in its cluster: nothing was judged there before.
func (i *installation) playInstalled(t *testing.T) {
	check(t, i.CreateNAD(t.Context(), simple("red", "10.2.0.0/24")))
	pods := i.statefulSet(t, "web", 3, nil, "blue", "red")
	before := i.contents(t)
	equal(t, "entries and reservations", len(before), 12)
	v := i.leader(t)

	listed := 0
	for _, p := range pods {
		id := i.sandbox(t, p)
		r := i.reported(t, p.Spec.NodeName, "the sandbox of "+p.Name, func(r *v1alpha1.SandboxReport) bool {
			return stateIn(r, id) == "Ready"
		})
		for _, s := range r.Sandboxes {
			if s.ID == id {
				listed += len(s.Addresses)
				equal(t, "the UID", s.UID, string(p.UID))
			}
		}
		for _, ifName := range []string{"net1", "net2"} {
			i.answers(t, pods[0], addressOn(t, p, ifName), p)
		}
	}
	equal(t, "addresses in the reports", listed, 6)
	for _, w := range i.cluster.Workers {
		i.fresh(t, w.Name)
		node := try(i.Client().CoreV1().Nodes().Get(t.Context(), w.Name, metav1.GetOptions{})).must(t)
		equal(t, "the boot id in the report", i.report(t, w.Name).BootID, node.Status.NodeInfo.BootID)
	}

	out := i.asPod(t, "check")
	out.exits(t, 0)
	equal(t, "the summary", fmt.Sprintf("%+v", out.Summary.counts),
		"{Pools:2 Allocations:6 InUse:6 Held:0 Stale:0 Reservations:6 Findings:0}")
	for place, verdict := range out.verdicts() {
		equal(t, place, verdict, "InUse SandboxReady")
	}
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 6)
	v.is(t, `ip_reconcile_nodes{state="Fresh"}`, 2)
	i.checkReleased(t, before)
	equal(t, "who has the pool", fmt.Sprint(i.usage(t, "10.1.0.0-24").Workloads), "[{default/StatefulSet/web 3}]")

	check(t, i.Client().AppsV1().StatefulSets("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventuallyWithin(t, 20*time.Second, "the entries to be gone", func() bool { return len(i.contents(t)) == 0 })
}

// playFullPool starts four pods for the two addresses of a pool.
func (i *installation) playFullPool(t *testing.T) {
	const pool = "10.3.0.0-29"
	check(t, i.CreateNAD(t.Context(), network("tiny", harness.IPAM{"range": "10.3.0.0/29", "range_end": "10.3.0.2"})))
	running := []string{"first", "second"}
	for _, name := range running {
		i.start(t, workload(name, "", "tiny"))
	}
	waiting := []string{"default/third", "default/fourth"}
	for _, p := range []*corev1.Pod{workload("third", "", "tiny"), workload("fourth", "", "default/tiny@net5")} {
		try(i.Client().CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})).must(t)
	}
	waits := func() []string {
		u := i.usage(t, pool)
		equal(t, "usable, used and free", fmt.Sprint(u.Usable, u.Used, u.Free), "2 2 0")
		slices.Sort(u.Waiting)
		return u.Waiting
	}
	slices.Sort(waiting)
	began := time.Now()
	eventuallyWithin(t, time.Minute, "both pods to be reported", func() bool { return slices.Equal(waits(), waiting) })
	t.Logf("both were reported %s after they were created", time.Since(began).Round(time.Second))
	i.makesPending(t, "IPReconcilePoolFull")
	i.leader(t).is(t, `ip_reconcile_pool_addresses{alerts="on",pool="kube-system/`+pool+`",state="free"}`, 0)

	i.mustKubectl(t, "delete", "pod", "first")
	began = time.Now()
	eventuallyWithin(t, 2*time.Minute, "one of them to start", func() bool {
		return len(i.usage(t, pool).Waiting) == 1 &&
			i.usage(t, pool).Used == 2
	})
	t.Logf("one had started %s after another pod was deleted", time.Since(began).Round(time.Second))
	i.mustKubectl(t, "delete", "pod", "second", "third", "fourth")
	eventuallyWithin(t, 20*time.Second, "its entries to be gone", func() bool { return i.usage(t, pool).Used == 0 })
	equal(t, "pods that wait", len(i.usage(t, pool).Waiting), 0)
}

// The reconciler's own pods have addresses from a pool that it reconciles, and it waits for no confirmation: only
// evidence keeps an address.
func TestInstall_DefaultNetworkByWhereabouts(t *testing.T) {
	t.Parallel()
	i := readyOn(t, 2, true)
	i.deploy(t, "--confirm-after=0s", "--cron=@every 2s")
	i.statefulSet(t, "web", 3, nil, "blue")
	lost := i.start(t, workload("lost", "worker-2"))
	v, pool := i.leader(t), i.cluster.DefaultPool()
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 9)
	i.eachHasItsOwn(t, 6)
	before := i.contents(t)

	v.passes(t, v.metric(`ip_reconcile_passes_total{result="done"}`)+3)
	i.checkReleased(t, before)
	out := i.run(t) // which waits for no confirmation
	out.exits(t, 0)
	equal(t, "addresses that a run released", len(out.Released), 0)
	i.checkReleased(t, before)
	i.eachHasItsOwn(t, 6)
	out = i.product(t, "check")
	out.exits(t, 0)
	equal(t, "the summary", fmt.Sprintf("%+v", out.Summary.counts),
		"{Pools:2 Allocations:9 InUse:9 Held:0 Stale:0 Reservations:9 Findings:0}")

	worker, address := i.cluster.Worker("worker-2"), addressOn(t, lost, "eth0")
	key := fmt.Sprint(address.As4()[3])
	check(t, worker.LoseDELs(true))
	check(t, i.DeletePod(t.Context(), lost, 1))
	i.ends(t, worker, address)
	t.Logf("released %s after that", i.waitReleased(t, soon, pool, key))
	v.is(t, `ip_reconcile_released_total`, 2)
	i.checkReleased(t, before, pool+" "+key, "reservation "+address.String())
	next := i.start(t, workload("next", "worker-1"))
	equal(t, "the next pod's address", addressOn(t, next, "eth0"), address)
	i.eachHasItsOwn(t, 6)
	i.product(t, "check").exits(t, 0)
}

// eachHasItsOwn checks every running pod that is not on its node's network: its eth0 has an address from the pool of
// the default network, the pool records it, and nobody else has it.
func (i *installation) eachHasItsOwn(t *testing.T, pods int) {
	t.Helper()
	all := try(i.Client().CoreV1().Pods("").List(t.Context(),
		metav1.ListOptions{FieldSelector: "status.phase=Running"})).must(t).Items
	all = slices.DeleteFunc(all, func(p corev1.Pod) bool { return p.Spec.HostNetwork })
	equal(t, "pods", len(all), pods)
	slices.SortFunc(all, func(a, b corev1.Pod) int { return strings.Compare(a.Namespace, b.Namespace) })
	entries, inPool, asks := i.contents(t), 0, &all[0]
	for place := range entries {
		if strings.HasPrefix(place, i.cluster.DefaultPool()) {
			inPool++
		}
	}
	equal(t, "entries", inPool, pods)
	for _, p := range all {
		address := addressOn(t, &p, "eth0")
		equal(t, "the podIP of "+p.Name, p.Status.PodIP, address)
		place := fmt.Sprint(i.cluster.DefaultPool(), " ", address.As4()[3])
		contains(t, place, entries[place], i.sandbox(t, &p), p.Namespace+"/"+p.Name)
		equal(t, "network namespaces with "+address.String(), len(try(i.holders()).must(t)[address]), 1)
		if p.Namespace != asks.Namespace {
			continue // not the workload: it does not report its name
		}
		i.answers(t, asks, address, &p)
	}
}

// playWhereaboutsDeployment is for a cluster without agents and their CRD, in which the pod "stays" runs on worker-1.
func (i *installation) playWhereaboutsDeployment(t *testing.T) {
	check(t, i.cluster.ImportImage(t.Context(), productImage, shipped.program(t, "ip-reconcile"),
		shipped.program(t, "ip-reconciler")))
	i.mustKubectl(t, "apply", "-f", harness.UpstreamManifest(t, "daemonset-install.yaml"), "-f",
		harness.UpstreamManifest(t, "reconciler-deployment.yaml"))
	// the plugin is installed, and its image cannot be pulled
	i.mustKubectl(t, "delete", "-n", "kube-system", "daemonset/whereabouts")
	lost := i.start(t, workload("lost", "worker-2", "blue"))
	before := i.contents(t)

	// As in deploy/whereabouts, with an image that cannot be pulled.
	i.mustKubectl(t, "patch", "-n", "kube-system", "deployment/whereabouts-reconciler", "--type=json",
		"-p", `[{"op": "replace", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Never"},
			{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"kubernetes.io/hostname": "worker-1"}}]`)
	i.mustKubectl(t, "set", "image", "-n", "kube-system", "deployment/whereabouts-reconciler", "whereabouts-reconciler="+
		productImage)
	i.rolledOut(t, "deployment/whereabouts-reconciler")
	i.checkReleased(t, before)

	i.cluster.Worker("worker-2").PowerOff()
	i.mustKubectl(t, "wait", "--for=condition=Ready=Unknown", "--timeout=60s", "node/worker-2")
	i.checkReleased(t, before)
	i.outOfService(t, "worker-2")
	t.Logf("released %s after the taint", i.waitReleased(t, soon, "10.1.0.0-24", "2"))
	i.checkReleased(t, before, entryAndReservation(2)...)
	eventually(t, "the controllers to remove its pod", func() bool {
		_, err := i.Client().CoreV1().Pods("default").Get(t.Context(), lost.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
