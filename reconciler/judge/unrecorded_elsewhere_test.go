package judge_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func at(ip, ifName, cidr, network string) SandboxEdit {
	return func(b *v1alpha1.Sandbox) {
		b.Addresses = append(b.Addresses, v1alpha1.Address{IP: ip, IfName: ifName, Network: "wb", Range: cidr, NetworkName: network})
	}
}

func poolIn(ns string, part Part) Part {
	return func(o *Observed) {
		part(o)
		o.Pools[len(o.Pools)-1].Namespace = ns
	}
}

// What one pool records for the very interface no other lacks.
func TestWhatIsRecordedAnywhereIsNotUnrecorded(t *testing.T) {
	reporting := ReportingWorker(Sandbox("box-1", UsualUID, at("10.0.0.5", "net1", "10.0.0.0/24", "")))
	both := ReportingWorker(Sandbox("box-1", UsualUID, at("10.0.0.5", "net1", "10.0.0.0/24", "red"), at("10.0.0.5", "net2", "10.0.0.0/24", "blue")))
	for name, c := range map[string]struct {
		found   int
		cluster []Part
	}{
		"whereabouts was moved to another namespace": {0, []Part{
			UsualPool, poolIn("whereabouts-old", Pool("10.0.0.0-24", "10.0.0.0/24")), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")),
			UsualPod(Carrying("10.0.0.5")), reporting}},
		"the slice was another node's before": {0, []Part{
			Pool("worker-1-10.0.0.0-26", "10.0.0.0/26"), Pool("worker-2-10.0.0.0-26", "10.0.0.0/26", Alloc("5", "default/web-0", "box-1", "net1")),
			NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/26"`)), Node("worker-1"), Node("worker-2"), FreshReport("worker-1"),
			UsualPod(Carrying("10.0.0.5"), OnNode("worker-2")), FreshReport("worker-2", Sandbox("box-1", UsualUID, at("10.0.0.5", "net1", "10.0.0.0/24", "")))}},
		"the network's name is in whereabouts.conf alone": {0, []Part{
			Pool("red-10.0.0.0-24", "10.0.0.0/24", UsualAllocation), Pool("10.0.0.0-24", "10.0.0.0/24"), UsualPod(Carrying("10.0.0.5")), reporting}},
		"another interface has the address in another network": {1, []Part{
			Pool("red-10.0.0.0-24", "10.0.0.0/24", UsualAllocation), Pool("blue-10.0.0.0-24", "10.0.0.0/24"), UsualPod(Carrying("10.0.0.5")), both}},
		"nowhere": {1, []Part{Pool("10.0.0.0-24", "10.0.0.0/24"), UsualPod(Carrying("10.0.0.5")), reporting}},
	} {
		if found := FindingsOf(judge.Unrecorded, c.cluster...); len(found) != c.found {
			t.Errorf("%s: %d findings, want %d: %+v", name, len(found), c.found, found)
		}
	}
}
