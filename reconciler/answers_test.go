package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// It cannot be told which of the two the interface is, where no agent says.
func TestAnEditedDefinitionBesideALeftoverEntryCountsForBothWithoutAgents(t *testing.T) {
	red := aPool("red-10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-0", "box-2", "net1"})
	edited := aNAD("wb", whereabouts("10.0.0.0/24", "red"))
	verdicts := func(nodes part) (of, ofRed outcome) {
		for _, it := range judged(observe(usualPool, red, edited, carrier.pod, nodes), judge.Policy{}).Allocations {
			if it.Pool.Name == "10.0.0.0-24" {
				of = outcomeOf(it)
			} else {
				ofRed = outcomeOf(it)
			}
		}
		return of, ofRed
	}
	kept := outcome{judge.InUse, judge.AddressOnPod, false, judge.NoSource}
	if of, ofRed := verdicts(aNode("worker-1")); of != kept || ofRed != kept {
		t.Errorf("without agents: %v, and of the definition's pool %v", of, ofRed)
	}
	if of, ofRed := verdicts(onWorker()); of != notCarried || ofRed != carried {
		t.Errorf("with agents: %v, and of the definition's pool %v", of, ofRed)
	}
	t.Run("and a reservation that stands alone", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", resOutcome{judge.InUse, judge.AddressOnPod, false}, aPool("10.0.0.0-24", "10.0.0.0/24"), red, edited, carrier.pod, aNode("worker-1"),
			aReservation("10.0.0.5", "default/web-0", old))
	})
}

// A tenant may write what it likes into the annotations of its own pod.
func TestWithAgentsATenantCannotMakeItsAddressLookFree(t *testing.T) {
	runs := box("box-1", its1, holding("10.0.0.5", ""))
	for says, annotated := range map[string]podEdit{
		"the address is left out":       carrying("10.0.0.77"),
		"there is no status":            noStatusAtAll,
		"the status cannot be read":     status("nonsense"),
		"another definition is named":   attached("default/other", "net1", "10.0.0.5"),
		"it pretends to be a mirror":    mirrorOf("uid-9"),
		"the address is in another way": attached("default/wb", "net7", "10.0.0.6"),
	} {
		pod := web(annotated)
		static := aNAD("other", `{"ipam":{"type":"static"}}`)
		for where, c := range map[string]part{
			"its sandbox is listed":                            onWorker(runs),
			"its sandbox is not ready":                         onWorker(box("box-1", its1, notReady(nil))),
			"its sandbox is being set up":                      onWorker(attachment("box-1", its1, time.Minute, nil)),
			"its node is not heard":                            all(aNode("worker-1"), staleReport("worker-1", runs)),
			"its node is not heard, and no report has it":      all(aNode("worker-1"), staleReport("worker-1"), aNode("worker-2"), freshReport("worker-2")),
			"its node has no agent, and others have":           all(aNode("worker-1"), aNode("worker-2"), freshReport("worker-2")),
			"its node should have no agent, and others have":   all(aNode("worker-1", noAgentRuns), aNode("worker-2"), freshReport("worker-2")),
			"the reports are there and may not be read":        all(aNode("worker-1"), func(o *observed) { o.ReportsUnreadable = true }),
			"a clone of its node has stopped it":               all(aNode("worker-1"), staleReport("worker-1", runs), aNode("worker-2"), freshReport("worker-2", box("box-1", its1, notReady(closed)))),
			"another agent calls it gone, its own is silent":   all(aNode("worker-1"), staleReport("worker-1"), aNode("worker-2"), freshReport("worker-2", gone("box-1", its1))),
			"a clone of its node was booted again, its own is": all(aNode("worker-1"), staleReport("worker-1"), aNode("worker-2", booted("boot-2")), staleReport("worker-2", runs)),
		} {
			t.Run(says+", and "+where, func(t *testing.T) { expectKept(t, usualPool, static, pod, c) })
		}
	}
}

// It is there, though nobody knows what its field asks for.
func TestAReservationWithAnUnknownFieldCountsAsTheReservation(t *testing.T) {
	res := rawReservation("10.0.0.5", old, map[string]any{"podref": "default/web-0", "ifname": "net1", "ipamclaimref": "claim"})
	scene := []part{usualPool, res, aNAD("wb", whereabouts("10.0.0.0/24", "")), carrier.pod, onWorker(box("box-1", its1, holding("10.0.0.5", "")))}
	for _, f := range judged(observe(scene...), judge.Policy{}).Findings {
		if f.Kind == judge.MissingReservation {
			t.Errorf("%s", f.Message)
		}
	}
	expectReservation(t, "10.0.0.5", resOutcome{judge.Held, judge.UnknownField, false}, scene...)
	found := slices.ContainsFunc(judged(observe(append(scene[:1:1], scene[2:]...)...), judge.Policy{}).Findings, func(f judge.Finding) bool { return f.Kind == judge.MissingReservation })
	if !found {
		t.Error("without it none is missing: this shows nothing")
	}
}

// manyAddresses is a network-status of so many addresses of 10.9.0.0/16, in so
// many entries each.
func manyAddresses(entries ...int) podEdit {
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
	return status("[" + strings.Join(texts, ",") + "]")
}

func TestAtMost64AddressesOfANetworkStatusAreRead(t *testing.T) {
	expect(t, notCarried, usualPool, web(manyAddresses(64)), onWorker())
	expect(t, notCarried, usualPool, web(manyAddresses(30, 34)), onWorker())
	expect(t, notKnown, usualPool, web(manyAddresses(65)), onWorker())
	expect(t, notKnown, usualPool, web(manyAddresses(40, 25)), onWorker())
	o := observe(web(manyAddresses(16000)))
	n := 0
	for _, i := range o.Pods[podName("web-0")].Interfaces {
		n += len(i.Addresses)
	}
	if n > 64 {
		t.Errorf("%d addresses are kept of one pod", n)
	}
}
