//go:build cluster

package e2e

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// whereabouts gives a successor of the same name the entry of the pod that was deleted
// by force and runs on, so both have one address. Nobody can undo that from outside;
// it is said, and the entry stays for who is left.
func TestASuccessorThatSharesAnAddressIsReportedAndKeepsIt(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	asks := i.start(t, workload("asks", "", "blue"))
	old := i.statefulSet(t, "db", 1, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Args = []string{"-stubborn"}
		s.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(int64(600)) // the test ends it
	}, "blue")[0]
	address, id := addressOn(t, old, "net1"), i.sandbox(t, old)
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)

	check(t, i.DeletePod(t.Context(), old, 600))
	i.killing(t, old)
	v.is(t, `ip_reconcile_allocations{reason="Terminating",verdict="Held"}`, 1)
	check(t, i.DeletePod(t.Context(), old, 0))
	eventually(t, "another pod of that name", func() bool {
		p, err := i.Client().CoreV1().Pods("default").Get(t.Context(), "db-0", metav1.GetOptions{})
		return err == nil && p.UID != old.UID
	})
	next := i.running(t, "db-0")[0]
	equal(t, "the successor's address", addressOn(t, next, "net1"), address)
	i.oracle.ignores(address)
	v.is(t, `ip_reconcile_findings{kind="Conflict"}`, 1)
	i.event(t, "Conflict", "IPPool", "10.1.0.0-24")
	conflict := i.asPod(t, "check").found("Conflict")
	if len(conflict) != 1 || conflict[0].IP != address.String() || !slices.Contains(conflict[0].ContainerIDs, id) {
		t.Errorf("the conflict: %+v", conflict)
	}
	equal(t, "network namespaces with the address", len(try(i.holders()).must(t)[address]), 2)
	before := i.contents(t)

	worker := i.cluster.Worker(old.Spec.NodeName)
	check(t, worker.KillContainers(t.Context(), id))
	eventually(t, "the old sandbox to end", func() bool {
		_, err := worker.SandboxOf(t.Context(), string(old.UID))
		return err != nil
	})
	v.is(t, `ip_reconcile_findings{kind="Conflict"}`, 0)
	i.lost(t, before)
	i.waitReported(t, next)
	out := i.asPod(t, "check")
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 "+address.String(), "InUse SandboxReady")
	name, err := i.cluster.Asked(t.Context(), asks, address)
	check(t, err)
	equal(t, "who answers", name, next.Name)
}
