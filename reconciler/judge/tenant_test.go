package judge_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A user of another namespace can have releases wait, by claiming addresses, and cause none: whatever
// pods and definitions are added, nothing that is held is released.
func TestPodsAndDefinitionsOfOthersReleaseNothing(t *testing.T) {
	reports := map[string]Part{
		"no agents":                       Nothing,
		"a fresh report with the sandbox": FreshReport("worker-1", box1),
		"a fresh report without it":       FreshReport("worker-1"),
		"an expired report":               StaleReport("worker-1", box1),
		"no report":                       FreshReport("worker-2"),
		"gone":                            FreshReport("worker-1", gone1),
	}
	for says, report := range reports {
		for phase, pod := range ownersPod() {
			t.Run(says+", and the pod is "+phase, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					cluster := All(anyPool(rt), Node("worker-1"), Node("worker-2"), report, pod)
					before := usualIn(t, cluster)
					after := usualIn(t, cluster, intruder(rt), definition(rt))
					if before.Verdict != judge.Stale && after.Verdict == judge.Stale || !before.Proven && after.Proven {
						rt.Fatal(Wrong(after, fmt.Sprint("what it was without the intruder: ", RulingOf(before))))
					}
				})
			})
		}
	}
}

// tenantChange is anything that a tenant may write of its own pod, whose sandbox is box-t, and of its own definitions.
func tenantChange(t *rapid.T) Part {
	oneOf := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	entry := func() string {
		return fmt.Sprintf(`{"name":%q,"interface":"net1"%s}`,
			oneOf("network", "default/wb", "default/mine", "default/none", "garbage", "other/x"),
			oneOf("ips", "", `,"ips":[]`, `,"ips":["192.0.2.7"]`, `,"ips":["10.0.0.5"]`))
	}
	edits := []PodEdit{UID("uid-t"), OnNode("worker-2"), CreatedLongAgo,
		Phase(corev1.PodPhase(oneOf("phase", "Running", "Pending", "Failed", "Unknown")))}
	switch oneOf("status", "none", "garbage", "entries") {
	case "none":
		edits = append(edits, NoNetworkStatus)
	case "garbage":
		edits = append(edits, NetworkStatus("{"))
	default:
		edits = append(edits, NetworkStatus("["+entry()+","+entry()+"]"))
	}
	edits = append(edits, Requesting(oneOf("requests", "mine", "none", "wb", "wb, none", "{")))
	pod := Pod("tenant", edits...)
	if rapid.Bool().Draw(t, "pod deleted") {
		pod = Nothing
	}
	config := oneOf("definition", "", "{", `{"type":"multus","clusterNetwork":"default/wb"}`,
		WhereaboutsConfig("10.0.0.0/24", ""), WhereaboutsConfig("192.0.2.0/24", "tenant-net"),
		WhereaboutsConfig("0.0.0.0/0", ""),
		`{"type":"own","in":{"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}}`)
	if rapid.Bool().Draw(t, "definition deleted") {
		return pod
	}
	return All(pod, NAD("mine", config))
}

// Whatever a tenant writes, another's item is judged alike while the agent knows the networks of the tenant's sandbox
// from its files: their addresses are held, or not, and no others.
func TestATenantChangesNothingForOthers(t *testing.T) {
	tenantNet := v1alpha1.Network{Range: "192.0.2.0/24", NetworkName: "tenant-net"}
	for says, c := range map[string]struct {
		edit SandboxEdit
		held bool // the item's network is one of the sandbox's
	}{
		"another network, unread": {edit: func(b *v1alpha1.Sandbox) {
			b.AddressesUnread, b.MayCarry = true, []v1alpha1.Network{tenantNet}
		}},
		"another network, with its address": {edit: func(b *v1alpha1.Sandbox) {
			b.Addresses = []v1alpha1.Address{{IP: "192.0.2.7", IfName: "net1", Range: "192.0.2.0/24", NetworkName: "tenant-net"}}
		}},
		"the item's network, unread": {held: true, edit: func(b *v1alpha1.Sandbox) {
			b.AddressesUnread, b.MayCarry = true, []v1alpha1.Network{tenantNet, {Range: "10.0.0.0/24"}}
		}},
		"the item's address": {held: true, edit: func(b *v1alpha1.Sandbox) {
			b.Addresses = []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net1", Range: "10.0.0.0/24"}}
		}},
	} {
		for of, others := range map[string]Part{
			"a sandbox that has ended": FreshReport("worker-1", gone1),
			"no sandbox":               FreshReport("worker-1"),
		} {
			t.Run(says+", and an item of "+of, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					it := usualIn(t, UsualPool, wb, Node("worker-1"), Node("worker-2"), others,
						FreshReport("worker-2", Sandbox("box-t", "uid-t", OfPod("tenant"), c.edit)), tenantChange(rt))
					if (it.Verdict == judge.Held) != c.held || (it.Verdict == judge.Stale) == c.held {
						rt.Fatal(Wrong(it, fmt.Sprint("held: ", c.held)))
					}
				})
			})
		}
	}
}

// anyPool is the usual pool, or one whose network is named like a node.
func anyPool(t *rapid.T) Part {
	if rapid.Bool().Draw(t, "usual pool") {
		return UsualPool
	}
	return All(NAD("wb", WhereaboutsConfig("10.0.0.0/24", "worker-2")), Pool("worker-2-10.0.0.0-24", "10.0.0.0/24",
		UsualAllocation))
}

// intruder is a pod of another user that says that it has the address, and that it is another.
func intruder(t *rapid.T) Part {
	text := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	return Pod("intruder", UID("uid-9"), OnNode(text("on", "", "worker-1", "worker-2", "nowhere")),
		CarryingOn("default/"+text("by", "wb", "none", "mine"), "net1", "10.0.0.5"),
		MirrorOf(text("mirror of", UsualUID, OtherUID)))
}

// definition is one of another user's.
func definition(t *rapid.T) Part {
	text := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	return NAD("mine", WhereaboutsConfig(text("range", "10.0.0.0/24", "10.0.0.0/8", "192.0.2.0/24"),
		text("network", "", "red", "worker-2"),
		text("with", `"node_slice_size":"/24"`, `"node_slice_size":"/28"`, `"enable_overlapping_ranges":false`)))
}
