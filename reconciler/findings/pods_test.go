package findings_test

import (
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// The usual pod, and its sandbox, in the usual range.
var (
	carrier            = UsualPod(Carrying("10.0.0.5"))
	terminating        = UsualPod(DeletedAgo(-30 * time.Second))
	terminatingCarrier = UsualPod(DeletedAgo(-30*time.Second), Carrying("10.0.0.5"))
	succeeded          = UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Hour)) // stopped by kubelet
	runner             = Pod("web-7", UID("uid-7"), OnNode("worker-2"))

	with5 = WithAddress("10.0.0.5", "")
	box1  = Sandbox("box-1", UsualUID, with5)
	web7  = Sandbox("box-7", "uid-7", OfPod("web-7"), with5)
	boxA  = Sandbox("box-1", "uid-a", OfPod("a"), with5)
	boxB  = Sandbox("box-2", "uid-b", OfPod("b"), with5)

	empty = Pool("10.0.0.0-24", "10.0.0.0/24")
	here  = NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	nodes = All(Node("worker-1"), Node("worker-2"))
)

// sliceOf is a node's slice of 10.0.0.0/24, the first one.
func sliceOf(node string, allocs ...Allocation) Part {
	return Pool(node+"-10.0.0.0-28", "10.0.0.0/28", allocs...)
}
