package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// explainItem writes an allocation or reservation with its evidence.
func (s *Screen) explainItem(e *explanation.Explanation, it explanation.Item) {
	s.gap()
	if it.Reservation != nil {
		s.Text("", fmt.Sprintf("%s in reservation %s (network %q)", it.Text(), it.Object(), it.Network()))
		s.fact("entry", fmt.Sprintf("podref %s, ifname %s", table.Dash(it.PodRef()), table.Dash(it.IfName())))
	} else {
		s.Text("", fmt.Sprintf("%s in pool %s (%s, key %q)", it.Text(), it.Object(), it.Pool.RangeText, it.Key()))
		s.fact("entry", fmt.Sprintf("podref %s, id %s, ifname %s", table.Dash(it.PodRef()), table.Dash(it.ContainerID()), table.Dash(it.IfName())))
	}
	if age := it.Age(e.Observation.Now); age > 0 {
		s.fact("known for", age.Round(time.Second).String()+", by this process")
	}
	if shared := it.SharesVerdictOf(); shared != nil {
		s.fact("verdict", fmt.Sprintf("%s: %s, shared with its allocation in %s", verdictOf(it.Item), it.Reason, shared.Object()))
	} else {
		s.fact("verdict", fmt.Sprintf("%s: %s", verdictOf(it.Item), it.Reason))
		s.evidence(it)
	}
	for _, text := range it.Release() {
		s.fact("release", text)
	}
	for _, r := range it.Related() {
		if it.Allocation != nil {
			s.fact("reservation", fmt.Sprintf("%s: %s, %s", r.Object(), r.Verdict, r.Reason))
		}
	}
	if it.Allocation != nil && len(it.Related()) == 0 {
		s.fact("reservation", "none")
	}
}

// verdictOf is a verdict, with how sure it is; when it is acted upon is said elsewhere.
func verdictOf(it *judge.Item) string {
	switch {
	case it.Verdict != judge.Stale:
		return it.Verdict.String()
	case it.Proven:
		return "Stale, proven"
	}
	return "Stale, unconfirmed"
}

func (s *Screen) evidence(it explanation.Item) {
	s.fact("because", it.Message())
	s.fact("rule", it.Rule())
	ev := it.Evidence()
	if ev == nil || ev.Problem != "" {
		return
	}
	s.fact("pod", aboutPod(ev))
	s.fact("sandbox", aboutSandbox(ev))
	s.fact("other claims", table.Dash(ev.Claimant))
}

func aboutPod(e *judge.Evidence) string {
	if e.Pod == nil {
		return "none by that name"
	}
	own := map[judge.Ownership]string{
		judge.OwnerUnknown: "not known whether the sandbox is its own", judge.ItsPod: "the sandbox is its own",
		judge.NotItsPod: "the sandbox is another pod's",
	}[e.Ownership]
	return fmt.Sprintf("%s on node %s, UID %s; %s; network-status %s; the address is %son it",
		e.Phase, table.Dash(e.Pod.Node), e.Pod.UID, own, strings.ToLower(explanation.NetworkStatus(e.Pod)), map[bool]string{true: "", false: "not "}[e.OnPod])
}

func aboutSandbox(e *judge.Evidence) string {
	text := e.Sandbox.String()
	if e.SandboxUID != "" {
		text += ", run for pod UID " + e.SandboxUID
	}
	if len(e.Nodes) > 0 {
		text += "; could run on " + several(e.Nodes)
	}
	if e.Sandbox == judge.NoFreshReport {
		text += "; no fresh report from " + several(e.WithoutReport)
	}
	return text
}

// several are names, the first of many.
func several(names []string) string {
	if more := len(names) - 10; more > 0 {
		return fmt.Sprintf("%s and %s", strings.Join(names[:10], ", "), Count(more, "more node"))
	}
	return strings.Join(names, ", ")
}
