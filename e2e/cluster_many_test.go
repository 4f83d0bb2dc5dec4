//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// Passes follow each other without a pause, and half of all DELs are lost, so a released address may belong to a
// successor. Unconfirmed verdicts are confirmed as early as possible. An agent reports a sandbox some seconds after its
// ADD has stored the allocation.
func TestCluster_NoReleaseDuringCreation(t *testing.T) {
	t.Parallel()
	i := install(t, 2, "--cron=@every 1s", "--confirm-after=0s")
	check(t, i.CreateNAD(t.Context(), simple("red", "10.2.0.0/24")))
	check(t, i.cluster.Worker("worker-2").LoseDELs(true))
	v, pools, began := i.leader(t), i.record(t, harness.IPPools), time.Now()
	passes := v.metric(`ip_reconcile_passes_total{result="done"}`)

	i.rolls(t, func() { t.Logf("all pods were there after %.0fs", time.Since(began).Seconds()) })
	const held = 2 * 2 * (inSet + inDeployment) // allocations and reservations
	if !within(3*time.Minute, time.Second, func() bool { return len(i.contents(t)) == held }) {
		t.Errorf("%d entries and reservations, want %d", len(i.contents(t)), held)
	}
	check(t, pools.catchUp(t.Context()))
	took, given := time.Since(began), 0
	for _, pool := range []string{"10.1.0.0-24", "10.2.0.0-24"} {
		ids := map[string]bool{}
		for _, version := range pools.during(pool, 0, math.MaxUint64) {
			for key, e := range entriesOf(version.object) {
				ids[fmt.Sprint(key, e["id"])] = true
			}
		}
		given += len(ids)
	}
	passes = v.metric(`ip_reconcile_passes_total{result="done"}`) - passes
	released := v.metric("ip_reconcile_released_total")
	t.Logf("%d ADDs, %d entries taken over, %.0f passes, %.0f entries and reservations released, in %.0fs", given,
		pools.takenOver(), passes, released, took.Seconds())
	if given < 2*(inSet+inDeployment)*(rolls+1) || released < inSet+inDeployment || passes < 10 {
		t.Error("that was too little to show anything")
	}
	i.allAnswer(t)
}

// Each pod has two networks, and each workload is rolled once.
const inSet, inDeployment, rolls = 12, 24, 1

// rolls creates a StatefulSet and a Deployment and rolls them. It calls there when all pods run.
func (i *installation) rolls(t *testing.T, there func()) {
	t.Helper()
	rolledOut := func() {
		t.Helper()
		i.rolled(t, "deployment/web", "statefulset/db")
		there()
	}
	i.statefulSet(t, "db", inSet, func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
			MaxUnavailable: ptr.To(intstr.FromInt32(inSet / 4))}
	}, "blue", "red")
	i.deployment(t, "web", inDeployment, "blue", "red")
	rolledOut()
	for range rolls {
		i.mustKubectl(t, "rollout", "restart", "deployment/web", "statefulset/db")
		rolledOut()
	}
}

// allAnswer checks every pod of the namespace "default": it runs, has its allocations and reservations, and answers at
// its addresses.
func (i *installation) allAnswer(t testing.TB) {
	t.Helper()
	stored := i.contents(t)
	pods := try(i.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})).must(t).Items
	for n := range pods {
		p := &pods[n]
		equal(t, "the phase of "+p.Name, p.Status.Phase, corev1.PodRunning)
		id := i.sandbox(t, p)
		for ifName, pool := range map[string]string{"net1": "10.1.0.0-24", "net2": "10.2.0.0-24"} {
			a := addressOn(t, p, ifName)
			entry := map[string]string{}
			json.Unmarshal([]byte(stored[pool+" "+strings.TrimPrefix(a.String(), pool[:len("10.1.0.")])]), &entry)
			equal(t, fmt.Sprintf("the entry of %s for %s", a, p.Name), entry, map[string]string{"id": id, "podref": "default/" +
				p.Name, "ifname": ifName})
			contains(t, "the reservation of "+a.String(), stored["reservation "+a.String()], `"default/`+p.Name+`"`)
			i.answers(t, &pods[0], a, p)
		}
	}
}

// playFiftyLeaks comes first in its cluster: the leader's log has nothing of others.
func (i *installation) playFiftyLeaks(t *testing.T) {
	stays := i.start(t, workload("stays", "worker-1", "blue"))
	const pods = 50
	began := time.Now()
	i.deployment(t, "many", pods, "blue")
	i.rolled(t, "deployment/many")
	t.Logf("%d pods were there after %.0fs", pods, time.Since(began).Seconds())
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, pods+1)
	before := i.contents(t)

	for _, w := range i.cluster.Workers {
		check(t, w.CutWhereabouts(true))
	}
	i.mustKubectl(t, "scale", "--replicas=0", "deployment/many")
	began = time.Now()
	// Each DEL waits for a minute. On a slow machine they do not all wait at the same time. The oracle checks that no
	// allocation is removed before its interface.
	v.counts(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 1)
	eventuallyWithin(t, patience, "the interfaces to go", func() bool { return len(i.onWire(t)) == 1 })
	t.Logf("the last interface went %.0fs after the scaling", time.Since(began).Seconds())
	began = time.Now()
	eventuallyWithin(t, patience, "all to be released", func() bool { return len(i.contents(t)) == 2 })
	t.Logf("all was released %.1fs after that", time.Since(began).Seconds())

	leaked := []string{}
	for place, entry := range before {
		if !strings.Contains(entry, `"default/stays"`) {
			leaked = append(leaked, place)
		}
	}
	i.checkReleased(t, before, leaked...)
	v.is(t, "ip_reconcile_released_total", 2*pods)
	_, log, err := i.cluster.Worker(v.node).Output(v.pod)
	check(t, err)
	contains(t, "the leader's log", log, "reconciler run succeeded")
	// else full passes replace cache passes
	relied := v.metric(`ip_reconcile_cache_passes_total{result="unverified"}`) == 0
	for line := range strings.Lines(log) {
		if relied && strings.Contains(line, "reconciler run succeeded") && !strings.Contains(line, " released=0 ") {
			t.Errorf("a full pass released what an agent's report should have: %s", line)
		}
	}
	for _, w := range i.cluster.Workers {
		check(t, w.CutWhereabouts(false))
	}
	next := i.start(t, workload("next", "worker-2", "blue"))
	equal(t, "the next pod's address", addressOn(t, next, "net1").String(), "10.1.0.2")
	i.answers(t, next, addressOn(t, stays, "net1"), stays)
	i.asPod(t, "check").exits(t, 0)
	i.mustKubectl(t, "delete", "deployment/many")
}

// A sandbox whose DEL fails keeps its network namespace, and kubelet retries. None of its addresses is released,
// whatever happens to the pod.
func (i *installation) playFailingDELs(t *testing.T) {
	pods := i.statefulSet(t, "web", 3, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "worker-1"}
	}, "blue")
	stays := i.start(t, workload("stays", "", "blue"))
	worker, v := i.cluster.Worker("worker-1"), i.leader(t)
	released := v.from("ip_reconcile_released_total")
	before := i.contents(t)
	check(t, worker.LoseDELs(true))
	check(t, worker.FailDELs(true))
	i.mustKubectl(t, "scale", "--replicas=0", "statefulset/web")
	v.is(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 3)
	for _, p := range pods {
		contains(t, "kubelet", i.event(t, "FailedKillPod", "Pod", p.Name), "the link is busy")
	}
	equal(t, "addresses on the wire", len(i.onWire(t)), 4)
	i.checkReleased(t, before)

	// Multus has lost its cache: without the pod it does nothing and reports success.
	forced := pods[0]
	check(t, i.DeletePod(t.Context(), forced, 0))
	address := addressOn(t, forced, "net1")
	began := time.Now()
	eventuallyWithin(t, 3*time.Minute, "the sandbox of "+forced.Name+" to be closed",
		func() bool { return !worker.Answers(t, address) })
	t.Logf("the pod that was deleted by force was off the wire after %.0fs", time.Since(began).Seconds())
	key := strings.TrimPrefix(address.String(), "10.1.0.")
	t.Logf("released %.1fs after that", i.waitReleased(t, 2*time.Minute, "10.1.0.0-24", key).Seconds())
	i.checkReleased(t, before, "10.1.0.0-24 "+key, "reservation "+address.String())
	v.is(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 2)
	equal(t, "addresses on the wire", len(i.onWire(t)), 3)

	check(t, worker.FailDELs(false))
	began = time.Now()
	eventuallyWithin(t, 3*time.Minute, "kubelet to close the others", func() bool { return len(i.onWire(t)) == 1 })
	t.Logf("off the wire %.0fs after the plugin was repaired", time.Since(began).Seconds())
	began = time.Now()
	eventuallyWithin(t, 2*time.Minute, "their entries to be released", func() bool { return len(i.contents(t)) == 2 })
	t.Logf("released %.1fs after that", time.Since(began).Seconds())
	released(t, 6)
	equal(t, "the sandbox of the other pod", i.sandbox(t, stays) != "", true)
	i.asPod(t, "check").exits(t, 0)
}

// onWire are the addresses of the network blue that an interface of any worker has.
func (i *installation) onWire(t testing.TB) map[netip.Addr]bool {
	t.Helper()
	found := map[netip.Addr]bool{}
	for a := range try(i.holders()).must(t) {
		if netip.MustParsePrefix("10.1.0.0/24").Contains(a) {
			found[a] = true
		}
	}
	return found
}
