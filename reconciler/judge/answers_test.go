package judge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// It cannot be told which of the two the interface is, where no agent says.
func TestAnEditedDefinitionBesideALeftoverEntryCountsForBothWithoutAgents(t *testing.T) {
	red := Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-2", "net1"))
	edited := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))
	verdicts := func(nodes Part) (of, ofRed Outcome) {
		for _, it := range Judged(Observe(UsualPool, red, edited, carrier.pod, nodes), judge.Policy{}).Allocations {
			if it.Pool.Name == "10.0.0.0-24" {
				of = OutcomeOf(it)
			} else {
				ofRed = OutcomeOf(it)
			}
		}
		return of, ofRed
	}
	kept := Want(judge.InUse, judge.AddressOnPod, false, judge.NoSource)
	if of, ofRed := verdicts(Node("worker-1")); of != kept || ofRed != kept {
		t.Errorf("without agents: %v, and of the definition's pool %v", of, ofRed)
	}
	if of, ofRed := verdicts(ReportingWorker()); of != notCarried || ofRed != carried {
		t.Errorf("with agents: %v, and of the definition's pool %v", of, ofRed)
	}
	t.Run("and a reservation that stands alone", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", decision{judge.InUse, judge.AddressOnPod, false}, Pool("10.0.0.0-24", "10.0.0.0/24"), red, edited, carrier.pod, Node("worker-1"),
			Reservation("10.0.0.5", "default/web-0", LongAgo))
	})
}

// A tenant may write what it likes into the annotations of its own pod.
func TestWithAgentsATenantCannotMakeItsAddressLookFree(t *testing.T) {
	runs := Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))
	for says, annotated := range map[string]PodEdit{
		"the address is left out":       Carrying("10.0.0.77"),
		"there is no status":            NoNetworkStatus,
		"the status cannot be read":     NetworkStatus("nonsense"),
		"another definition is named":   CarryingOn("default/other", "net1", "10.0.0.5"),
		"it pretends to be a mirror":    MirrorOf("uid-9"),
		"the address is in another way": CarryingOn("default/wb", "net7", "10.0.0.6"),
	} {
		pod := UsualPod(annotated)
		static := NAD("other", `{"ipam":{"type":"static"}}`)
		for where, c := range map[string]Part{
			"its sandbox is listed":                            ReportingWorker(runs),
			"its sandbox is not ready":                         ReportingWorker(Sandbox("box-1", UsualUID, NotReady(nil))),
			"its sandbox is being set up":                      ReportingWorker(Attachment("box-1", UsualUID, time.Minute, nil)),
			"its node is not heard":                            All(Node("worker-1"), StaleReport("worker-1", runs)),
			"its node is not heard, and no report has it":      All(Node("worker-1"), StaleReport("worker-1"), Node("worker-2"), FreshReport("worker-2")),
			"its node has no agent, and others have":           All(Node("worker-1"), Node("worker-2"), FreshReport("worker-2")),
			"its node should have no agent, and others have":   All(Node("worker-1", WithoutAgent), Node("worker-2"), FreshReport("worker-2")),
			"the reports are there and may not be read":        All(Node("worker-1"), func(o *Observed) { o.ReportsUnreadable = true }),
			"a clone of its node has stopped it":               All(Node("worker-1"), StaleReport("worker-1", runs), Node("worker-2"), FreshReport("worker-2", Sandbox("box-1", UsualUID, NotReady(Closed)))),
			"another agent calls it gone, its own is silent":   All(Node("worker-1"), StaleReport("worker-1"), Node("worker-2"), FreshReport("worker-2", Gone("box-1", UsualUID))),
			"a clone of its node was booted again, its own is": All(Node("worker-1"), StaleReport("worker-1"), Node("worker-2", Booted("boot-2")), StaleReport("worker-2", runs)),
		} {
			t.Run(says+", and "+where, func(t *testing.T) { expectKept(t, UsualPool, static, pod, c) })
		}
	}
}

// It is there, though nobody knows what its field asks for.
func TestAReservationWithAnUnknownFieldCountsAsTheReservation(t *testing.T) {
	res := RawReservation("10.0.0.5", LongAgo, map[string]any{"podref": "default/web-0", "ifname": "net1", "ipamclaimref": "claim"})
	parts := []Part{UsualPool, res, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), carrier.pod, ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")))}
	for _, f := range Judged(Observe(parts...), judge.Policy{}).Findings {
		if f.Kind == judge.MissingReservation {
			t.Errorf("%s", f.Message)
		}
	}
	expectReservation(t, "10.0.0.5", decision{judge.Held, judge.UnknownField, false}, parts...)
	found := slices.ContainsFunc(Judged(Observe(append(parts[:1:1], parts[2:]...)...), judge.Policy{}).Findings, func(f judge.Finding) bool { return f.Kind == judge.MissingReservation })
	if !found {
		t.Error("without it none is missing: this shows nothing")
	}
}

// manyAddresses is a network-status of so many addresses of 10.9.0.0/16, in so
// many entries each.
func manyAddresses(entries ...int) PodEdit {
	var texts []string
	n := 0
	for i, count := range entries {
		var ips []string
		for range count {
			ips = append(ips, fmt.Sprintf("%q", fmt.Sprintf("10.9.%d.%d", n/250, n%250)))
			n++
		}
		texts = append(texts, fmt.Sprintf(`{"name":"default/wb","interface":"net%d","ips":[%s]}`, i+1, strings.Join(ips, ",")))
	}
	return NetworkStatus("[" + strings.Join(texts, ",") + "]")
}

func TestAtMost128AddressesOfANetworkStatusAreRead(t *testing.T) {
	Expect(t, notCarried, UsualPool, UsualPod(manyAddresses(128)), ReportingWorker())
	Expect(t, notCarried, UsualPool, UsualPod(manyAddresses(60, 68)), ReportingWorker())
	Expect(t, notKnown, UsualPool, UsualPod(manyAddresses(129)), ReportingWorker())
	Expect(t, notKnown, UsualPool, UsualPod(manyAddresses(80, 49)), ReportingWorker())
	o := Observe(UsualPod(manyAddresses(16000)))
	n := 0
	for _, i := range o.Pods[PodName("web-0")].Interfaces {
		n += len(i.Addresses)
	}
	if n > 128 {
		t.Errorf("%d addresses are kept of one pod", n)
	}
}
