//go:build cluster

package e2e

import (
	"net/netip"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodThatARestoreOfEtcdHasLostKeepsItsAddress(t *testing.T) {
	t.Parallel()
	i := install(t, 2) // with --repair, as it ships
	check(t, i.CreateNAD(t.Context(), blue))
	kept := i.start(t, workload("kept", "worker-1", "blue"))
	i.leader(t)
	snapshot := try(i.cluster.Snapshot()).must(t)
	lost := i.start(t, workload("lost", "worker-1", "blue"))
	address, id, worker := addressOn(t, lost, "net1"), i.sandbox(t, lost), i.cluster.Worker("worker-1")
	equal(t, "the address", address.String(), "10.1.0.2")
	revision := try(i.cluster.Revision(t.Context())).must(t)

	i.restore(t, snapshot)
	began := time.Now()
	if _, err := i.Client().CoreV1().Pods("default").Get(t.Context(), lost.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the API knows the pod: %v", err)
	}
	equal(t, "its sandbox", i.sandbox(t, lost), id)
	check(t, i.cluster.CatchUp(t.Context(), revision))

	eventuallyWithin(t, time.Minute, "its entry to be back", func() bool { return i.contents(t)["10.1.0.0-24 2"] != "" })
	t.Logf("its entry was back %.1fs after the restore", time.Since(began).Seconds())
	v := i.leader(t)
	// A sandbox may be ahead of its pod for a minute, and is inspected every 10 s.
	eventuallyWithin(t, 90*time.Second, "the phantom to be found", func() bool { return v.metric(`ip_reconcile_findings{kind="Phantom"}`) == 1 })
	t.Logf("found %.1fs after the restore", time.Since(began).Seconds())
	i.event(t, "Phantom", "IPPool", "10.1.0.0-24")
	out := i.asPod(t, "check")
	if found := out.found("Phantom"); len(found) != 1 || found[0].IP != address.String() || found[0].Node != "worker-1" {
		t.Errorf("phantoms: %+v", found)
	}
	equal(t, "addresses that no pool has", len(out.found("Unrecorded")), 0)
	v.is(t, `ip_reconcile_fences_total{outcome="Settled"}`, 1)
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	newcomer := i.start(t, workload("newcomer", "worker-2", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1").String(), "10.1.0.3")
	name, err := i.cluster.Asked(t.Context(), newcomer, address)
	equal(t, "who answers at the phantom's address", name, lost.Name)
	check(t, err)

	// Not even a pod of its name gets it.
	entry, other := i.contents(t)["10.1.0.0-24 2"], i.cluster.Worker("worker-2")
	namesake := i.start(t, workload(lost.Name, "worker-2", "blue"))
	equal(t, "the namesake's address", addressOn(t, namesake, "net1").String(), "10.1.0.4")
	equal(t, "the phantom's entry", i.contents(t)["10.1.0.0-24 2"], entry)
	for _, a := range []netip.Addr{address, addressOn(t, namesake, "net1")} {
		equal(t, a.String()+" is on the phantom's and on the namesake's node", []bool{worker.Answers(t, a), other.Answers(t, a)}, []bool{a == address, a != address})
		name, err := i.cluster.Asked(t.Context(), newcomer, a)
		equal(t, "who answers at "+a.String(), name, lost.Name)
		check(t, err)
	}
	i.waitReported(t, kept, newcomer, namesake)
	out = i.asPod(t, "check")
	out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "Held PhantomPod",
		"10.1.0.0-24 10.1.0.3", "InUse SandboxReady", "10.1.0.0-24 10.1.0.4", "InUse SandboxReady")

	// A kubelet that starts again ends what the API does not know.
	check(t, worker.LoseDELs(true))
	worker.Kubelet.Kill()
	check(t, worker.StartKubelet())
	eventuallyWithin(t, time.Minute, "nobody to answer", func() bool { return !worker.Answers(t, address) })
	t.Logf("freed %s after that", i.freed(t, soon, "10.1.0.0-24", "2"))
	i.asPod(t, "check").expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.4", "InUse SandboxReady")
	equal(t, "the sandbox of the pod that was kept", i.sandbox(t, kept) != "", true)
}
