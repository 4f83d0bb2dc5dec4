package screen

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Explain writes all that is known of one address.
func (s *Screen) Explain(addr netip.Addr, j *report.Report) {
	if len(j.Allocations)+len(j.Reservations) == 0 {
		s.Line("%s is recorded in no pool and has no reservation.", addr)
		for _, text := range usage.Unrecorded(j.Judgement, addr) {
			s.Text("", text)
		}
	}
	for _, it := range j.Allocations {
		s.Line("%s in pool %s (%s, key %q)", it.Text(), it.Object(), it.Pool.RangeText, it.Key())
		s.fact("entry", fmt.Sprintf("podref %s, id %s, ifname %s", table.Dash(it.PodRef()), table.Dash(it.ContainerID()), table.Dash(it.IfName())))
		s.verdict(it)
		for _, r := range it.Related() {
			s.fact("reservation", fmt.Sprintf("%s: %s, %s", r.Object(), r.Verdict, r.Reason))
		}
		if len(it.Related()) == 0 {
			s.fact("reservation", "none")
		}
		s.Line("")
	}
	for _, it := range j.Reservations {
		s.Line("%s in reservation %s (network %q)", it.Text(), it.Object(), it.Network())
		s.fact("entry", fmt.Sprintf("podref %s, ifname %s", table.Dash(it.PodRef()), table.Dash(it.IfName())))
		if len(it.Related()) > 0 {
			s.fact("verdict", fmt.Sprintf("%s: %s, shared with its allocation in %s", it.Verdict, it.Reason, it.Related()[0].Object()))
		} else {
			s.verdict(it)
		}
		s.Line("")
	}
	s.Findings("FINDINGS", j.Findings)
	for _, text := range j.Notes() {
		s.Text("Note: ", text)
	}
}

func (s *Screen) verdict(it *judge.Item) {
	kind := it.Verdict.String()
	if it.Verdict == judge.Stale {
		kind += map[bool]string{true: ", proven (freed at once)", false: ", unconfirmed (freed when judged so for --confirm-after)"}[it.Proven]
	}
	s.fact("verdict", fmt.Sprintf("%s: %s", kind, it.Reason))
	s.fact("because", it.Message())
	s.fact("rule", it.Rule())
	if e := it.Evidence(); e != nil && e.Problem == "" {
		s.fact("pod", aboutPod(e))
		s.fact("sandbox", aboutSandbox(e))
		s.fact("other claims", table.Dash(e.Claimant))
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
		e.Phase, table.Dash(e.Pod.Node), e.Pod.UID, own, status, map[bool]string{true: "", false: "not "}[e.OnPod])
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

func (s *Screen) fact(name, text string) { s.Text(fmt.Sprintf("  %-13s ", name), text) }
