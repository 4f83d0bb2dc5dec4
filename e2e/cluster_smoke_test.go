//go:build cluster

package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

func TestWhatRunsIsSeenByNodeAgentsAndKept(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	check(t, i.CreateNAD(t.Context(), simple("red", "10.2.0.0/24")))
	pods := i.statefulSet(t, "web", 3, nil, "blue", "red")
	before := i.contents(t)
	equal(t, "entries and reservations", len(before), 12)
	v := i.leader(t)

	listed := 0
	for _, p := range pods {
		id := i.sandbox(t, p)
		r := i.reported(t, p.Spec.NodeName, "the sandbox of "+p.Name, func(r *v1alpha1.SandboxReport) bool { return stateIn(r, id) == "Ready" })
		for _, s := range r.Sandboxes {
			if s.ID == id {
				listed += len(s.Addresses)
				equal(t, "the UID", s.UID, string(p.UID))
			}
		}
		for _, ifName := range []string{"net1", "net2"} {
			name, err := i.cluster.Asked(t.Context(), pods[0], addressOn(t, p, ifName))
			if err != nil || name != p.Name {
				t.Errorf("at %s of %s answers %q: %v", ifName, p.Name, name, err)
			}
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
	equal(t, "the summary", fmt.Sprintf("%+v", out.Summary.counts), "{Pools:2 Allocations:6 InUse:6 Held:0 Stale:0 Reservations:6 Findings:0}")
	for place, verdict := range out.verdicts() {
		equal(t, place, verdict, "InUse SandboxReady")
	}
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 6)
	v.is(t, `ip_reconcile_nodes{state="Fresh"}`, 2)
	i.lost(t, before)
	equal(t, "who has the pool", fmt.Sprint(i.usage(t, "10.1.0.0-24").Workloads), "[{default/StatefulSet/web 3}]")
	i.playFullPool(t)

	check(t, i.Client().AppsV1().StatefulSets("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventuallyWithin(t, 20*time.Second, "the entries to be gone", func() bool { return len(i.contents(t)) == 0 })
}
