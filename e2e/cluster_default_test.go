//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// The reconciler's own pods have their addresses from a pool that it works on, and it is
// told to wait for nothing: what keeps an address is what is seen of it.
func TestTheDefaultNetworkMayHaveItsAddressesFromWhereabouts(t *testing.T) {
	t.Parallel()
	i := readyBy(t, func() *harness.Cluster { return harness.StartClusterOnWhereabouts(t, 2) })
	i.deploy(t, "--confirm-after=0s", "--cron=@every 2s")
	check(t, i.CreateNAD(t.Context(), blue))
	i.statefulSet(t, "web", 3, nil, "blue")
	lost := i.start(t, workload("lost", "worker-2"))
	v, pool := i.leader(t), i.cluster.DefaultPool()
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 9)
	i.eachHasItsOwn(t, 6)
	before := i.contents(t)

	v.passes(t, v.metric(`ip_reconcile_passes_total{result="done"}`)+3)
	i.lost(t, before)
	out := i.run(t) // which waits for no confirmation
	out.exits(t, 0)
	equal(t, "addresses that a run freed", len(out.Released), 0)
	i.lost(t, before)
	i.eachHasItsOwn(t, 6)
	out = i.product(t, "check")
	out.exits(t, 0)
	equal(t, "the summary", fmt.Sprintf("%+v", out.Summary.counts), "{Pools:2 Allocations:9 InUse:9 Held:0 Stale:0 Reservations:9 Findings:0}")

	worker, address := i.cluster.Worker("worker-2"), addressOn(t, lost, "eth0")
	key := fmt.Sprint(address.As4()[3])
	check(t, worker.LoseDELs(true))
	check(t, i.DeletePod(t.Context(), lost, 1))
	eventually(t, "nobody to answer", func() bool { return !worker.Answers(t, address) })
	t.Logf("freed %s after that", i.freed(t, soon, pool, key))
	v.is(t, `ip_reconcile_released_total`, 2)
	i.lost(t, before, pool+" "+key, "reservation "+address.String())
	next := i.start(t, workload("next", "worker-1"))
	equal(t, "the next pod's address", addressOn(t, next, "eth0"), address)
	i.eachHasItsOwn(t, 6)
	i.product(t, "check").exits(t, 0)
}

// eachHasItsOwn checks that every running pod that is not on its node's network has an
// eth0 from the pool of the default network, that the pool says so, and that nobody
// else has its address.
func (i *installation) eachHasItsOwn(t *testing.T, pods int) {
	t.Helper()
	all := try(i.Client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})).must(t).Items
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
			continue // it is not the workload, and does not say its name
		}
		if name, err := i.cluster.Asked(t.Context(), asks, address); err != nil || name != p.Name {
			t.Errorf("at %s answers %q and not %s: %v", address, name, p.Name, err)
		}
	}
}
