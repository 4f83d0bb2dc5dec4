package judge_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func keysOf[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// forged is what who may write pods and definitions in a namespace makes of their own pod, with
// the right to pods/status too, which the role edit does not have.
func forged() map[string]Part {
	elsewhere := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))
	return map[string]Part{
		"the pod is deleted by force":           Nothing,
		"its network-status has no address":     UsualPod(),
		"its network-status has another":        UsualPod(Carrying("10.0.0.6")),
		"its network-status is no JSON":         UsualPod(NetworkStatus("{")),
		"its network-status is removed":         UsualPod(NoNetworkStatus),
		"its definition maps elsewhere":         All(elsewhere, UsualPod(Carrying("10.0.0.5"))),
		"its definition is of no whereabouts":   All(NAD("wb", `{"type":"macvlan","ipam":{"type":"static"}}`), UsualPod(Carrying("10.0.0.5"))),
		"it is Failed":                          UsualPod(Phase("Failed")),
		"it is Succeeded, as kubelet writes it": UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Second)),
		"it is Terminating for days":            UsualPod(DeletedAgo(100 * time.Hour)),
		"it is Pending again":                   UsualPod(Phase("Pending")),
		"it calls itself a mirror":              UsualPod(MirrorOf(OtherUID)),
		"another pod has its name":              UsualPod(UID("uid-2"), Carrying("10.0.0.6")),
		"another of that name is elsewhere":     UsualPod(UID("uid-2"), OnNode("worker-2"), Phase("Succeeded"), StoppedByKubelet(time.Second)),
		"another calls itself its mirror":       UsualPod(UID("uid-2"), MirrorOf(UsualUID), OnNode("worker-2")),
	}
}

// With agents not even a pod's own user can have its address freed while it runs.
func TestWhatAUserWritesFreesNothingThatAFreshReportHas(t *testing.T) {
	nodes := All(Node("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	for how, sandbox := range mayHold() {
		for says, forgery := range forged() {
			t.Run(how+", and "+says, func(t *testing.T) {
				expectKept(t, UsualPool, nodes, FreshReport("worker-1", sandbox), forgery)
			})
		}
	}
}

// A report that is stale: the user's own address may be freed by a forged end of its containers, as
// TestFinishedWithoutAFreshReport has it, and by nothing else.
func TestWhatAUserWritesFreesNothingOfASilentNode(t *testing.T) {
	nodes := All(Node("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	for how, sandbox := range mayHold() {
		for says, forgery := range forged() {
			if says != "it is Succeeded, as kubelet writes it" {
				t.Run(how+", and "+says, func(t *testing.T) {
					expectKept(t, UsualPool, nodes, StaleReport("worker-1", sandbox), forgery)
				})
			}
		}
	}
}

// Without agents whoever may edit a pod, as the role edit may, cannot have its address released by what they write while
// the pod runs. What remains is the deletion by force, after which another pod may have the name, and a forged end, which
// takes the right to pods/status.
func TestWithoutAgentsWhatAUserWritesIntoItsPodReleasesNothing(t *testing.T) {
	released := []string{"the pod is deleted by force", "it is Succeeded, as kubelet writes it", "another of that name is elsewhere", "another calls itself its mirror"}
	for says, forgery := range forged() {
		if slices.Contains(released, says) {
			continue
		}
		for _, nodes := range []sandboxCase{noSource, noSourceNodes, noSourceDown} {
			t.Run(says+", and "+nodes.says, func(t *testing.T) { expectKept(t, UsualPool, nodes.parts, forgery) })
		}
	}
}

// By the flag an operator has such entries released as whereabouts' own reconciler does. It decides nothing where there
// are agents, and nothing else.
func TestTrustNetworkStatus(t *testing.T) {
	trust := judge.Policy{TrustNetworkStatus: true}
	notOnPod := Want(judge.Stale, judge.AddressNotOnPod, false, judge.NoSource)
	for _, nodes := range []sandboxCase{noSource, noSourceNodes} {
		ExpectUnder(t, trust, notOnPod, UsualPool, nodes.parts, UsualPod())
		ExpectUnder(t, trust, notOnPod, UsualPool, nodes.parts, UsualPod(Carrying("10.0.0.6")))
	}
	for _, r := range tableRows() {
		for _, p := range r.pods {
			for _, b := range r.sandboxes {
				it := AllocationOf(t, Judged(Observe(UsualPool, p.pod, b.parts), trust), "10.0.0.5")
				is := decision{it.Verdict, it.Reason, it.Proven}
				if want := (decision{r.verdict, r.reason, r.proven}); is != want && (b.state != judge.NoSource || r.reason != judge.AddressNotOnPod) {
					t.Errorf("%s whose sandbox %s: %v, and without the flag %v", p.says, b.says, is, want)
				}
			}
		}
	}
}

// A user of another namespace can have releases wait, by claiming addresses, and cause none: whatever
// pods and definitions are added, nothing that is kept is freed.
func TestPodsAndDefinitionsOfOthersFreeNothing(t *testing.T) {
	reports := map[string]Part{
		"no agents":        Nothing,
		"heard, and there": FreshReport("worker-1", Sandbox("box-1", UsualUID)),
		"heard, and not":   FreshReport("worker-1"),
		"silent":           StaleReport("worker-1", Sandbox("box-1", UsualUID)),
		"never heard":      FreshReport("worker-2"),
		"gone":             FreshReport("worker-1", Gone("box-1", UsualUID)),
	}
	for says, report := range reports {
		for phase, pod := range ownersPod() {
			t.Run(says+", and the pod is "+phase, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					cluster := All(anyPool(rt), Node("worker-1"), Node("worker-2"), report, pod)
					before := AllocationOf(t, Judged(Observe(cluster), judge.Policy{}), "10.0.0.5")
					after := AllocationOf(t, Judged(Observe(cluster, intruder(rt), definition(rt)), judge.Policy{}), "10.0.0.5")
					if before.Verdict != judge.Stale && after.Verdict == judge.Stale || !before.Proven && after.Proven {
						rt.Fatalf("%v, and with the intruder %v: %s", OutcomeOf(before), OutcomeOf(after), after.Message())
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
	return All(NAD("wb", WhereaboutsConfig("10.0.0.0/24", "worker-2")), Pool("worker-2-10.0.0.0-24", "10.0.0.0/24", UsualAllocation))
}

// intruder is a pod of another user that says that it has the address, and that it is another.
func intruder(t *rapid.T) Part {
	text := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	return Pod("intruder", UID("uid-9"), OnNode(text("on", "", "worker-1", "worker-2", "nowhere")),
		CarryingOn("default/"+text("by", "wb", "none", "mine"), "net1", "10.0.0.5"), MirrorOf(text("mirror of", UsualUID, OtherUID)))
}

// definition is one of another user's.
func definition(t *rapid.T) Part {
	text := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	return NAD("mine", WhereaboutsConfig(text("range", "10.0.0.0/24", "10.0.0.0/8", "192.0.2.0/24"), text("network", "", "red", "worker-2"),
		text("with", `"node_slice_size":"/24"`, `"node_slice_size":"/28"`, `"enable_overlapping_ranges":false`)))
}
