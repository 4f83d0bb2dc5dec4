//go:build cluster

package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestAHundredAddressesThatWhereaboutsLostAreFreedAtOnce(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	stays := i.start(t, workload("stays", "worker-1", "blue"))
	const pods = 100
	began := time.Now()
	i.deployment(t, "web", pods, "blue")
	i.mustKubectl(t, "rollout", "status", "--timeout=600s", "deployment/web")
	t.Logf("%d pods were there after %.0fs", pods, time.Since(began).Seconds())
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, pods+1)
	before := i.contents(t)

	for _, w := range i.cluster.Workers {
		check(t, w.CutWhereabouts(true))
	}
	i.mustKubectl(t, "scale", "--replicas=0", "deployment/web")
	began = time.Now()
	// Each DEL waits for a minute. On a slow machine not all of them do so at the same time; the oracle sees to it
	// that no entry goes before its interface.
	v.counts(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 1)
	eventuallyWithin(t, patience, "the interfaces to go", func() bool { return len(i.onWire(t)) == 1 })
	t.Logf("the last interface went %.0fs after the scaling", time.Since(began).Seconds())
	began = time.Now()
	eventuallyWithin(t, patience, "all to be freed", func() bool { return len(i.contents(t)) == 2 })
	t.Logf("all was freed %.1fs after that", time.Since(began).Seconds())

	leaked := []string{}
	for place, entry := range before {
		if !strings.Contains(entry, `"default/stays"`) {
			leaked = append(leaked, place)
		}
	}
	i.lost(t, before, leaked...)
	v.is(t, "ip_reconcile_released_total", 2*pods)
	_, log, err := i.cluster.Worker(v.node).Output(v.pod)
	check(t, err)
	contains(t, "the leader's log", log, "reconciler run succeeded")
	relied := v.metric(`ip_reconcile_looks_total{result="untrusted"}`) == 0 // else full passes take the caches' place
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
	name, err := i.cluster.Asked(t.Context(), next, addressOn(t, stays, "net1"))
	check(t, err)
	equal(t, "who answers", name, stays.Name)
	i.asPod(t, "check").exits(t, 0)
}

// A sandbox whose DEL fails keeps its network namespace, and kubelet tries again. Of
// what it keeps nothing is freed, whatever becomes of the pod.
func TestASandboxWhoseDELFailsKeepsItsAddressUntilItIsClosed(t *testing.T) {
	t.Parallel()
	i := install(t, 1)
	check(t, i.CreateNAD(t.Context(), blue))
	pods := i.statefulSet(t, "web", 3, nil, "blue")
	stays := i.start(t, workload("stays", "", "blue"))
	worker, v := i.cluster.Worker("worker-1"), i.leader(t)
	before := i.contents(t)
	check(t, worker.LoseDELs(true))
	check(t, worker.FailDELs(true))
	i.mustKubectl(t, "scale", "--replicas=0", "statefulset/web")
	v.is(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 3)
	for _, p := range pods {
		contains(t, "kubelet", i.event(t, "FailedKillPod", "Pod", p.Name), "the link is busy")
	}
	equal(t, "addresses on the wire", len(i.onWire(t)), 4)
	i.lost(t, before)

	// Multus has no cache any more: without the pod it does nothing, and says that all
	// is well.
	forced := pods[0]
	check(t, i.DeletePod(t.Context(), forced, 0))
	address := addressOn(t, forced, "net1")
	began := time.Now()
	eventuallyWithin(t, 3*time.Minute, "the sandbox of "+forced.Name+" to be closed", func() bool { return !worker.Answers(t, address) })
	t.Logf("the pod that was deleted by force was off the wire after %.0fs", time.Since(began).Seconds())
	key := strings.TrimPrefix(address.String(), "10.1.0.")
	t.Logf("freed %.1fs after that", i.freed(t, 2*time.Minute, "10.1.0.0-24", key).Seconds())
	i.lost(t, before, "10.1.0.0-24 "+key, "reservation "+address.String())
	v.is(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 2)
	equal(t, "addresses on the wire", len(i.onWire(t)), 3)

	check(t, worker.FailDELs(false))
	began = time.Now()
	eventuallyWithin(t, 3*time.Minute, "kubelet to close the others", func() bool { return len(i.onWire(t)) == 1 })
	t.Logf("off the wire %.0fs after the plugin was repaired", time.Since(began).Seconds())
	began = time.Now()
	eventuallyWithin(t, 2*time.Minute, "their entries to be freed", func() bool { return len(i.contents(t)) == 2 })
	t.Logf("freed %.1fs after that", time.Since(began).Seconds())
	v.is(t, "ip_reconcile_released_total", 6)
	equal(t, "the sandbox of the other pod", i.sandbox(t, stays) != "", true)
	i.asPod(t, "check").exits(t, 0)
}

// onWire are the addresses of the network blue that are on the wire of any worker.
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
