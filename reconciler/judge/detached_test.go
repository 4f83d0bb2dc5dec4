package judge_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A hot-unplug whose DEL was lost: the pod runs on without net2. Whatever leaves room for the interface keeps
// the entry in use.
func TestAnInterfaceThatWasDetachedIsALeak(t *testing.T) {
	const (
		net1 = `[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true},{"name":"default/wb","interface":"net1","ips":["10.0.0.6"]}`
		net2 = `,{"name":"default/wb","interface":"net2"}]`
	)
	usual := Sandbox("box-1", UsualUID, OfPod("vm"), WithAddress("10.0.0.6", ""))
	onNet2 := func(b *v1alpha1.Sandbox) { b.Addresses[len(b.Addresses)-1].IfName = "net2" }
	for says, c := range map[string]struct {
		pod     []PodEdit
		ifName  string
		reports Part
		stale   bool
	}{
		"detached":                             {ifName: "net2", reports: ReportingWorker(usual), stale: true},
		"the status has it without an address": {pod: []PodEdit{NetworkStatus(net1 + net2)}, ifName: "net2", reports: ReportingWorker(usual)},
		"the status has one without a name":    {pod: []PodEdit{NetworkStatus(net1 + `,{"name":"default/wb"}]`)}, ifName: "net2", reports: ReportingWorker(usual)},
		"a network that the pod asks for has no status": {pod: []PodEdit{Carrying("10.0.0.6"), func(p *corev1.Pod) {
			p.Annotations["k8s.v1.cni.cncf.io/networks"] = "wb, wb"
		}}, ifName: "net2", reports: ReportingWorker(usual)},
		"the status cannot be read":               {pod: []PodEdit{NetworkStatus(net1)}, ifName: "net2", reports: ReportingWorker(usual)},
		"the pod is being deleted":                {pod: []PodEdit{Carrying("10.0.0.6"), DeletedAgo(-1)}, ifName: "net2", reports: ReportingWorker(usual)},
		"an entry of before interfaces had names": {ifName: "", reports: ReportingWorker(usual)},
		"not all addresses are known": {ifName: "net2", reports: ReportingWorker(
			Sandbox("box-1", UsualUID, OfPod("vm"), WithAddress("10.0.0.6", ""), func(b *v1alpha1.Sandbox) { b.AddressesUnread = true }))},
		"no address is known": {ifName: "net2", reports: ReportingWorker(Sandbox("box-1", UsualUID, OfPod("vm")))},
		"the sandbox has the address": {ifName: "net2", reports: ReportingWorker(
			Sandbox("box-1", UsualUID, OfPod("vm"), WithAddress("10.0.0.6", ""), WithAddress("10.0.0.5", "")))},
		"the sandbox has the interface": {ifName: "net2", reports: ReportingWorker(
			Sandbox("box-1", UsualUID, OfPod("vm"), WithAddress("10.0.0.6", ""), WithAddress("10.0.0.7", ""), onNet2))},
		"another node's agent says that it is gone": {ifName: "net2", stale: true,
			reports: All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1", usual), FreshReport("worker-2", Gone("box-1", UsualUID)))},
		"another node's agent lists it, too": {ifName: "net2", reports: All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1", usual), FreshReport("worker-2", usual))},
		"another node's agent reports it":    {ifName: "net2", reports: All(Node("worker-1"), Node("worker-2"), FreshReport("worker-2", usual))},
	} {
		t.Run(says, func(t *testing.T) {
			edits := c.pod
			if edits == nil {
				edits = []PodEdit{Carrying("10.0.0.6")}
			}
			j := Judged(Observe(
				Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/vm", "box-1", c.ifName), Alloc("6", "default/vm", "box-1", "net1")),
				NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pod("vm", edits...), c.reports), judge.Policy{})
			for _, it := range j.Allocations {
				stale := it.Key() == "5" && c.stale
				if (it.Verdict == judge.Stale) != stale || it.Proven {
					t.Errorf("%s is %s, proven %v: %s", it.Key(), it.Verdict, it.Proven, it.Message())
				}
			}
		})
	}
}
