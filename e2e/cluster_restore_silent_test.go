//go:build cluster

package e2e

import (
	"testing"
	"time"
)

// Without --repair and a fence nothing keeps the address of a pod that a restore has lost: the next
// ADD gives it away. That is said; and what the restore brought back and is a leak is
// not freed before every node has reported again, since any of them may use it.
func TestARestoreWithoutRepairGivesAnAddressAwayAndReportsIt(t *testing.T) {
	t.Parallel()
	i := install(t, 2, "--repair=false", "--fence-timeout=0")
	check(t, i.CreateNAD(t.Context(), blue))
	kept, leaked := i.start(t, workload("kept", "worker-1", "blue")), i.start(t, workload("leaked", "worker-1", "blue"))
	i.leader(t)
	snapshot := try(i.cluster.Snapshot()).must(t)
	lost := i.start(t, workload("lost", "worker-1", "blue"))
	address := addressOn(t, lost, "net1")
	equal(t, "the address", address.String(), "10.1.0.3")
	check(t, i.DeletePod(t.Context(), leaked, 1))
	i.freed(t, time.Minute, "10.1.0.0-24", "2")
	revision := try(i.cluster.Revision(t.Context())).must(t)

	worker, silent := i.cluster.Worker("worker-1"), i.cluster.Worker("worker-2")
	check(t, silent.Freeze())
	i.restore(t, snapshot)
	check(t, i.DeletePod(t.Context(), leaked, 0))
	check(t, i.cluster.CatchUp(t.Context(), revision))
	newcomer := i.start(t, workload("newcomer", "worker-1", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1"), address)
	i.oracle.ignores(address)
	equal(t, "network namespaces with the address", len(try(worker.OnWire()).must(t)[address]), 2)
	v := i.leader(t)
	v.is(t, `ip_reconcile_findings{kind="Conflict"}`, 1)
	i.event(t, "Conflict", "IPPool", "10.1.0.0-24")
	// A sandbox may be ahead of its pod for a minute, and is inspected every 10 s.
	eventuallyWithin(t, 90*time.Second, "the phantom to be found", func() bool { return v.metric(`ip_reconcile_findings{kind="Phantom"}`) == 1 })
	i.event(t, "Phantom", "Node", "worker-1")
	equal(t, "the sandboxes, whose pods know nothing of it", i.sandbox(t, lost) != "" && i.sandbox(t, kept) != "", true)

	v.counts(t, `ip_reconcile_refused_total{reason="EtcdRestored"}`, 1)
	equal(t, "the leak's entry is there", i.contents(t)["10.1.0.0-24 2"] != "", true)
	check(t, silent.Thaw())
	t.Logf("the leak was freed %s after the other node was heard", i.freed(t, 30*time.Second, "10.1.0.0-24", "2").Round(time.Second))
	v.is(t, `ip_reconcile_released_total{reason="PodGone"}`, 2)
}
