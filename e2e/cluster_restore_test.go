//go:build cluster

package e2e

import (
	"net/netip"
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

func TestRestore_LostPodKeepsItsAddress(t *testing.T) {
	t.Parallel()
	i := installScraped(t, 2) // with --repair, as in the manifests
	kept := i.start(t, workload("kept", "worker-1", "blue"))
	i.leader(t)
	snapshot := try(i.cluster.Snapshot()).must(t)
	lost := i.start(t, workload("lost", "worker-1", "blue"))
	address, id, worker := addressOn(t, lost, "net1"), i.sandbox(t, lost), i.cluster.Worker("worker-1")
	equal(t, "the address", address.String(), "10.1.0.2")
	revision := try(i.cluster.Revision(t.Context())).must(t)

	i.restore(t, snapshot)
	began := time.Now()
	if _, err := i.Client().CoreV1().Pods("default").Get(t.Context(), lost.Name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the API knows the pod: %v", err)
	}
	equal(t, "its sandbox", i.sandbox(t, lost), id)
	check(t, i.cluster.CatchUp(t.Context(), revision))

	eventuallyWithin(t, time.Minute, "its entry to be back", func() bool { return i.contents(t)["10.1.0.0-24 2"] != "" })
	t.Logf("its entry was back %.1fs after the restore", time.Since(began).Seconds())
	v := i.leader(t)
	// A sandbox may exist a minute before its pod, and the node is inspected every 10 s.
	v.is(t, `ip_reconcile_findings{kind="Phantom"}`, 1)
	t.Logf("found %.1fs after the restore", time.Since(began).Seconds())
	i.event(t, "Phantom", "IPPool", "10.1.0.0-24")
	out := i.asPod(t, "check")
	if found := out.found("Phantom"); len(found) != 1 || found[0].IP != address.String() || found[0].Node != "worker-1" {
		t.Errorf("phantoms: %+v", found)
	}
	equal(t, "addresses that no pool has", len(out.found("Unrecorded")), 0)
	v.is(t, `ip_reconcile_fences_total{outcome="Settled"}`, 1)
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	newcomer := i.next(t, "newcomer", "worker-2", "10.1.0.3")
	i.answers(t, newcomer, address, lost)

	// Even a pod of the same name does not get the address.
	entry, other := i.contents(t)["10.1.0.0-24 2"], i.cluster.Worker("worker-2")
	namesake := i.start(t, workload(lost.Name, "worker-2", "blue"))
	equal(t, "the namesake's address", addressOn(t, namesake, "net1").String(), "10.1.0.4")
	equal(t, "the phantom's entry", i.contents(t)["10.1.0.0-24 2"], entry)
	for _, a := range []netip.Addr{address, addressOn(t, namesake, "net1")} {
		equal(t, a.String()+" is on the phantom's and on the namesake's node", []bool{worker.Answers(t, a),
			other.Answers(t, a)}, []bool{a == address, a != address})
		i.answers(t, newcomer, a, lost)
	}
	i.waitReported(t, kept, newcomer, namesake)
	out = i.asPod(t, "check")
	out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "Held PhantomPod",
		"10.1.0.0-24 10.1.0.3", "InUse SandboxReady", "10.1.0.0-24 10.1.0.4", "InUse SandboxReady")

	// A kubelet that restarts ends pods that the API does not have.
	check(t, worker.LoseDELs(true))
	worker.Kubelet.Kill()
	check(t, worker.StartKubelet())
	i.ends(t, worker, address)
	t.Logf("released %s after that", i.waitReleased(t, soon, "10.1.0.0-24", "2"))
	i.asPod(t, "check").expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.4",
		"InUse SandboxReady")
	equal(t, "the sandbox of the pod that was kept", i.sandbox(t, kept) != "", true)
	i.checkAlerts(t, t.Name())
}

// Without --repair and a fence nothing keeps the address of a pod that a restore lost: the next ADD assigns it to
// another pod, which is reported. A leak that the restore brought back is held until every node has reported again,
// since any node may use the address.
func TestRestore_WithoutRepairReportsADuplicate(t *testing.T) {
	t.Parallel()
	i := install(t, 3, "--repair=false", "--fence-timeout=0")
	kept, leaked := i.start(t, workload("kept", "worker-1", "blue")), i.start(t, workload("leaked", "worker-1", "blue"))
	i.leader(t)
	snapshot := try(i.cluster.Snapshot()).must(t)
	lost := i.start(t, workload("lost", "worker-1", "blue"))
	address := addressOn(t, lost, "net1")
	equal(t, "the address", address.String(), "10.1.0.3")
	check(t, i.DeletePod(t.Context(), leaked, 1))
	i.waitReleased(t, time.Minute, "10.1.0.0-24", "2")
	revision := try(i.cluster.Revision(t.Context())).must(t)

	worker, silent := i.cluster.Worker("worker-1"), i.cluster.Worker("worker-2")
	check(t, silent.Freeze())
	check(t, worker.Kubelet.Freeze()) // if it listed its pods again, it would end the pod that the backup lacks
	i.restore(t, snapshot)
	check(t, i.DeletePod(t.Context(), leaked, 0))
	check(t, i.cluster.CatchUp(t.Context(), revision))
	newcomer := i.start(t, workload("newcomer", "worker-3", "blue"))
	equal(t, "the newcomer's address", addressOn(t, newcomer, "net1"), address)
	i.oracle.ignores(address)
	for _, w := range []*harness.Worker{worker, i.cluster.Worker("worker-3")} {
		equal(t, "network namespaces of "+w.Name+" with the address", len(try(w.OnWire()).must(t)[address]), 1)
	}
	v := i.leader(t)
	v.is(t, `ip_reconcile_findings{kind="Conflict"}`, 1)
	i.event(t, "Conflict", "IPPool", "10.1.0.0-24")
	// A sandbox may exist a minute before its pod, and the node is inspected every 10 s.
	v.is(t, `ip_reconcile_findings{kind="Phantom"}`, 1)
	i.event(t, "Phantom", "Node", "worker-1")
	equal(t, "the sandboxes, whose pods know nothing of it", i.sandbox(t, lost) != "" && i.sandbox(t, kept) != "", true)

	v.counts(t, `ip_reconcile_refused_total{reason="EtcdRestored"}`, 1)
	equal(t, "the leak's entry is there", i.contents(t)["10.1.0.0-24 2"] != "", true)
	check(t, silent.Thaw())
	t.Logf("the leak was released %s after the other node reported", i.waitReleased(t, soon, "10.1.0.0-24",
		"2").Round(time.Second))
	v.is(t, `ip_reconcile_released_total{reason="PodGone"}`, 2)
}

// Nobody knows what runs on a node whose agent is down, and a fence cannot wait for it for ever. Only the addresses on
// that node are at risk, and that is reported.
func TestRestore_AgentDownEndangersItsNodeOnly(t *testing.T) {
	t.Parallel()
	const pods = 5 // on each worker
	i := installScraped(t, 2)
	kept := i.start(t, workload("kept", "worker-2", "blue"))
	i.waitReported(t, kept)
	i.leader(t)
	i.agentsOn(t, `"worker-1"`)
	snapshot := try(i.cluster.Snapshot()).must(t)
	known := i.running(t, i.create(t, "known", "worker-1", pods)...)
	unknown := i.running(t, i.create(t, "unknown", "worker-2", pods)...)
	i.waitReported(t, known...)
	atRisk := i.excuse(t, unknown...)

	var names []string
	done := i.restores(t, snapshot, func() { names = i.create(t, "newcomer", "", 2*pods) })
	newcomers := i.runningWithin(t, 5*time.Minute, names...)
	done().stands(t)
	contains(t, "the event", i.event(t, "FenceTimedOut", "Pod", ""), "work remains",
		"nodes that have not reported since the restore: worker-2")
	i.makesPending(t, "IPReconcileRestorePending")
	out := i.asPod(t, "check")
	contains(t, "the notes", out.stderr, "until these nodes report: worker-2")
	equal(t, "the entry of the pod that the backup has on that node",
		podOf(try(i.entries(t.Context())).must(t)[addressOn(t, kept, "net1")]), "default/kept")
	twice := i.sharing(t, atRisk, append(newcomers, known...)...)
	t.Logf("%d of %d addresses that nobody knew of were assigned again", len(twice), len(atRisk))

	i.agentsOn(t, "null")
	i.waitReported(t, unknown...)
	i.conflictsAre(t, twice)
	i.makesPending(t, "IPReconcileAddressInConflict")
	eventuallyWithin(t, 3*time.Minute, "the others to have entries", func() bool {
		entries := try(i.entries(t.Context())).must(t)
		return !slices.ContainsFunc(atRisk, func(a netip.Addr) bool { return entries[a] == "" })
	})
	i.checkAlerts(t, t.Name())
}

// The backup is older than the reconciler. Its pods are ended like all that the API does not have. Only the agents
// report what happened, until an operator recovers by hand.
func TestRestore_LosesTheReconciler(t *testing.T) {
	t.Parallel()
	const pods = 6
	i := install(t, 2)
	i.mustKubectl(t, "delete", "deployment", "-n", "kube-system", "ip-reconcile", "--cascade=foreground")
	snapshot := try(i.cluster.Snapshot()).must(t)
	i.deploy(t)
	i.leader(t)
	phantoms := i.running(t, i.create(t, "phantom", "", pods)...)
	i.waitReported(t, phantoms...)
	atRisk := i.excuse(t, phantoms...)

	var names []string
	done := i.restores(t, snapshot, func() { names = i.create(t, "early", "", pods/2) })
	early := i.runningWithin(t, 4*time.Minute, names...)
	done()
	if _, err := i.Client().AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), "ip-reconcile",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the reconciler is there: %v", err)
	}
	for _, w := range i.cluster.Workers {
		eventually(t, "the agent on "+w.Name+" to note that etcd was restored", func() bool {
			lease, err := i.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), w.Name,
				metav1.GetOptions{})
			return err == nil && lease.Annotations[v1alpha1.RestoreAnnotation] != ""
		})
	}
	twice := i.sharing(t, atRisk, early...)
	t.Logf("%d of %d addresses were assigned again before anybody recovered", len(twice), len(atRisk))

	i.waitReported(t, early...)
	product(t, "recover", "--yes", "--kubeconfig", i.Kubeconfig())
	later := i.running(t, i.create(t, "later", "", pods)...)
	i.apart(t, later...)
	equal(t, "shared by those that came after that", len(i.sharing(t, nil, append(later, phantoms...)...)), 0)
	i.conflictsAre(t, twice)
}

// agentsOn runs agents on one worker alone, or on all for null.
func (i *installation) agentsOn(t *testing.T, worker string) {
	t.Helper()
	i.mustKubectl(t, "patch", "daemonset", "-n", "kube-system", "ip-reconcile-agent", "-p",
		`{"spec":{"template":{"spec":{"nodeSelector":{"`+corev1.LabelHostname+`":`+worker+`}}}}}`)
	i.rolledOut(t, "daemonset/ip-reconcile-agent")
}

// excuse makes the oracle excuse the addresses of pods.
func (i *installation) excuse(t *testing.T, pods ...*corev1.Pod) (atRisk []netip.Addr) {
	t.Helper()
	for _, p := range pods {
		atRisk = append(atRisk, addressOn(t, p, "net1"))
		i.oracle.ignores(addressOn(t, p, "net1"))
	}
	return atRisk
}

// sharing are those of the addresses at risk that one of the pods also has. No two of the pods may have the same.
func (i *installation) sharing(t *testing.T, atRisk []netip.Addr, pods ...*corev1.Pod) (twice []netip.Addr) {
	t.Helper()
	on := map[netip.Addr]string{}
	for _, p := range pods {
		a := addressOn(t, p, "net1")
		if other := on[a]; other != "" {
			t.Errorf("%s and %s both have %s", other, p.Name, a)
		}
		if on[a] = p.Name; slices.Contains(atRisk, a) {
			twice = append(twice, a)
		}
	}
	slices.SortFunc(twice, netip.Addr.Compare)
	return twice
}

// conflictsAre waits until check reports a conflict for exactly these addresses.
func (i *installation) conflictsAre(t *testing.T, twice []netip.Addr) {
	t.Helper()
	var want []string
	for _, a := range twice {
		want = append(want, a.String())
	}
	var found []string
	within(time.Minute, time.Second, func() bool {
		found = nil
		for _, f := range i.product(t, "check").found("Conflict") {
			found = append(found, f.IP)
		}
		slices.Sort(found)
		slices.Sort(want)
		return slices.Equal(found, want)
	})
	equal(t, "addresses that are in conflict", strings.Join(found, " "), strings.Join(want, " "))
}
