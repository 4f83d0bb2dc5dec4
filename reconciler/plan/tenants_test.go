package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A pod that a tenant binds to a node that does not exist, and deletes, makes nothing Stale that was Held.
func TestPlan_ADeletedClaimantOnANodeThatNeverWasReleasesNothing(t *testing.T) {
	held := All(UsualPool, ReportingWorker(), UsualPod(NoNetworkStatus))
	p := newProcess(t, quarter)
	p.pass(0, held, Pod("tenant", UID("uid-t"), OnNode("nowhere"), Phase("Pending"), Carrying("10.0.0.5")))
	for _, after := range []time.Duration{time.Minute, 17 * time.Minute} {
		made := p.pass(after, held)
		for _, it := range made.Release {
			t.Errorf("after %v: %s", after, Wrong(it, judge.Held))
		}
		for _, x := range made.Refused {
			t.Errorf("after %v: refused %s: %s", after, x.Why, Wrong(x.Item, judge.Held))
		}
	}
}

// Nor does a tenant decide how much is remembered.
func TestPlan_NodesThatNeverWereAreNotRemembered(t *testing.T) {
	p := newProcess(t, quarter)
	for i := range 200 {
		p.pass(time.Duration(i)*time.Second, unconfirmed, Pod("tenant", UID("uid-t"), OnNode(fmt.Sprint("node-", i)),
			Phase("Pending"), Carrying("10.0.0.5")))
	}
	it := p.pass(300*time.Second, unconfirmed).Refused[0].Item
	if n := len(p.Of(it.ID()).CarriedOn); n > 0 {
		t.Errorf("%d nodes are remembered", n)
	}
}

// The cluster has no KubeVirt, so VirtualMachineInstances are not served. A tenant has a pod that is being deleted,
// with an allocation, and again and again a pod that calls itself a virt-launcher. So guests are an unknown source, and
// then one on which nothing depends. It has no pod on the network of others, and those do not wait again.
func TestPlan_ATenantsLauncherDoesNotStartTheWaitOfOthersAgain(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "team-a/web-0", "box-1", "net1"))
	mine := Pool("red-10.9.0.0-24", "10.9.0.0/24", Alloc("9", "default/mine", "box-9", "net1"))
	base := All(pool, mine, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), NAD("red", WhereaboutsConfig("10.9.0.0/24",
		"red")), GuestsUnknown,
		ReportingWorker(Sandbox("box-9", "uid-t", OfPod("mine"), AddressIn("10.9.0.9", "net1", "10.9.0.0/24", "red"))),
		Pod("mine", UID("uid-t"), DeletedAgo(-100*time.Hour), CarryingOn("default/red", "net1", "10.9.0.9")))
	launcher := Pod("launcher", UID("uid-l"), Phase("Pending"), OnNode(""), NoNetworkStatus, Launcher("vmi-1", ""))
	p := newProcess(t, quarter)
	released := 0
	for minute := range 120 {
		part := Nothing
		if minute%10 == 9 {
			part = launcher
		}
		released += len(p.passAndRelease(time.Duration(minute)*time.Minute, base, part).Release)
	}
	if released == 0 {
		t.Error("the address of team-a/web-0 is not released within two hours")
	}
}
