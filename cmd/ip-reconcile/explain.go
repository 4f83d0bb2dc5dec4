package main

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// explain writes all that is known of one address.
func (t *table) explain(addr netip.Addr, j *judge.Judgement) {
	if len(j.Allocations)+len(j.Reservations) == 0 {
		t.line("%s is recorded in no pool and has no reservation.", addr)
		for _, p := range j.Observation.Pools {
			if p.Problem == "" && p.Range.Contains(addr) {
				t.line("It is an address of pool %s (%s).", p.Ref(), p.RangeText)
			}
		}
	}
	for _, it := range j.Allocations {
		t.line("%s in pool %s (%s, key %q)", it.Text(), it.Object(), it.Pool.RangeText, it.Key())
		t.fact("entry", fmt.Sprintf("podref %s, id %s, ifname %s", dash(it.PodRef()), dash(it.ContainerID()), dash(it.IfName())))
		t.verdict(it)
		for _, r := range it.Related() {
			t.fact("reservation", fmt.Sprintf("%s: %s, %s", r.Object(), r.Verdict, r.Reason))
		}
		if len(it.Related()) == 0 {
			t.fact("reservation", "none")
		}
		t.line("")
	}
	for _, it := range j.Reservations {
		t.line("%s in reservation %s (network %q)", it.Text(), it.Object(), it.Network())
		t.fact("entry", fmt.Sprintf("podref %s, ifname %s", dash(it.PodRef()), dash(it.IfName())))
		if len(it.Related()) > 0 {
			t.fact("verdict", fmt.Sprintf("%s: %s, shared with its allocation in %s", it.Verdict, it.Reason, it.Related()[0].Object()))
		} else {
			t.verdict(it)
		}
		t.line("")
	}
	t.findings(j.Findings)
	t.notes(j)
}

func (t *table) verdict(it *judge.Item) {
	kind := it.Verdict.String()
	if it.Verdict == judge.Stale {
		kind += map[bool]string{true: ", proven (freed at once)", false: ", unconfirmed (freed when judged so for --confirm-after)"}[it.Proven]
	}
	t.fact("verdict", fmt.Sprintf("%s: %s", kind, it.Reason))
	t.fact("because", it.Message())
	t.fact("rule", it.Rule())
	if e := it.Evidence(); e != nil && e.Problem == "" {
		t.fact("pod", aboutPod(e))
		t.fact("sandbox", aboutSandbox(e))
		t.fact("other claims", dash(e.Claimant))
	}
}

func aboutPod(e *judge.Evidence) string {
	if e.Pod == nil {
		return "none by that name"
	}
	status := map[podstate.NetworkStatus]string{
		podstate.StatusMissing: "missing", podstate.StatusUnreadable: "not readable", podstate.StatusReadable: "readable",
	}[e.Pod.Status]
	own := map[judge.Ownership]string{
		judge.OwnerUnknown: "not known whether the sandbox is its own", judge.ItsPod: "the sandbox is its own",
		judge.NotItsPod: "the sandbox is another pod's",
	}[e.Ownership]
	return fmt.Sprintf("%s on node %s, UID %s; %s; network-status %s; the address is %son it",
		e.Phase, dash(e.Pod.Node), e.Pod.UID, own, status, map[bool]string{true: "", false: "not "}[e.OnPod])
}

func aboutSandbox(e *judge.Evidence) string {
	text := e.Sandbox.String()
	if e.SandboxUID != "" {
		text += ", run for pod UID " + e.SandboxUID
	}
	if len(e.Nodes) > 0 {
		text += "; could run on " + strings.Join(e.Nodes, ", ")
	}
	if e.Sandbox == judge.NoFreshReport {
		text += "; not heard: " + strings.Join(e.WithoutReport, ", ")
	}
	return text
}

func (t *table) fact(name, text string) { t.wrapped(fmt.Sprintf("  %-13s ", name), text) }
