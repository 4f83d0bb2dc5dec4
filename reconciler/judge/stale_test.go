package judge

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// eachEvidence calls f for every combination of what the table reads. There are millions, so f gets the same Evidence,
// with the same pod, each time.
func eachEvidence(f func(e *Evidence)) {
	e, pod, itsNode := &Evidence{}, &podstate.Pod{}, []string{"worker-1"}
	for phase := podstate.None; phase <= podstate.Finished; phase++ {
		for sandbox := Ready; sandbox <= NoSource; sandbox++ {
			for owner := OwnerUnknown; owner <= NotItsPod; owner++ {
				for bits := range 1 << 16 {
					bit := func(i int) bool { return bits>>i&1 != 0 }
					if bit(15) && (phase != podstate.Pending || sandbox != Stopped && sandbox != Gone || bit(2)) {
						continue // see judging.pendingNetwork
					}
					*pod = podstate.Pod{Node: "worker-1", Phase: phase, StoppedByKubelet: bit(0)}
					if bit(1) {
						pod.Status = podstate.StatusReadable
					}
					*e = Evidence{Phase: phase, Pod: pod, Ownership: owner, OnPod: bit(2), StatusTrusted: bit(3),
						Detached: bit(4), nodeSet: nodeSet{Sandbox: sandbox, WithoutReport: itsNode,
							UnreachableTimedOut: bit(5), Unreachable: bit(5)}, HasContradictingReport: bit(6), Recent: bit(7),
						Deleting: bit(8), LongAlone: bit(9),
						Unproven: bit(10), AgentMayNotKnow: bit(11)}
					if phase == podstate.None {
						e.Pod = nil
						if e.OnPod || owner != OwnerUnknown || bit(0) || bit(1) {
							continue
						}
					}
					if e.Detached && (e.OnPod || phase != podstate.Live || sandbox != Ready || !bit(1)) {
						continue // see Index.detached
					}
					if bit(15) {
						e.NetworkComplete, e.Superseded = bit(0), !bit(0) || bit(1)
					}
					if bit(12) || bit(13) {
						e.Rival, e.RivalUnread, e.RivalIsGuest = "somebody", bit(12) && bit(13), !bit(12)
					}
					if bit(14) {
						e.Problem = ippool.Malformed
					}
					f(e)
				}
			}
		}
	}
}

// inShort is the evidence without what is not so.
func inShort(e *Evidence) string {
	text, _ := json.Marshal(e.testimony())
	return string(text)
}

// firstRow is the row that matches the evidence, whether or not its proof holds.
func firstRow(e *Evidence) *rule {
	return &rules[slices.IndexFunc(rules, func(r rule) bool { return !r.overrules && r.matches(e) })]
}

func TestNothingIsStaleThatMayBeInUse(t *testing.T) {
	stale, examples := 0, map[string]bool{}
	eachEvidence(func(e *Evidence) {
		j := decide(e)
		row, does, told := firstRow(e), "RELEASES an address, although", false
		tell := func(does, says string) { // one example of each is enough
			if what := fmt.Sprintf("row %s %s %s", row.id, does, says); !examples[what] {
				examples[what] = true
				t.Errorf("%s:\n%s", what, inShort(e))
			}
			told = true
		}
		never := func(holds bool, says string) {
			if holds {
				tell(does, says)
			}
		}
		switch {
		case j.Verdict == Stale:
			stale++
		case j.Reason == NoRule && row.verdict == Stale:
			does = "says Stale, which stale.go alone refuses:"
			defer func() { never(!told, "its proof is missing") }()
		case j.Reason == NoRule:
			tell("holds an address", "that no row is for")
			return
		default:
			return
		}
		never(e.Problem != "", "what it rests on could not be read")
		never(e.Rival != "", "somebody else carries the address")
		never(e.OnPod && e.Phase == podstate.Live, "the running pod carries the address")
		never(e.Sandbox == Ready, "the sandbox runs")
		never(e.Sandbox == NotReady || e.Sandbox == Attached, "the sandbox may run")
		never(e.Phase == podstate.Pending && e.Ownership != NotItsPod && e.Sandbox != Absent &&
			!(e.NetworkComplete || e.Superseded), "the pod may be getting the address")
		never(e.Phase == podstate.Pending && e.OnPod && (e.NetworkComplete || e.Superseded), "the Pending pod carries it")
		never(e.Recent || e.Deleting, "an ADD may just have made the reservation, or it is being deleted")
		kubelet := e.Phase == podstate.Finished && e.Pod.StoppedByKubelet
		never(e.Sandbox == NoFreshReport && !e.UnreachableTimedOut && !e.LongAlone && (!kubelet || e.HasContradictingReport ||
			e.Ownership == NotItsPod), "a node that could run it has no fresh report")
		never(e.Sandbox == NoSource && e.Phase == podstate.Live && !e.StatusTrusted,
			"no report shows what the running pod has")
		never(e.Sandbox == NoSource && e.Phase == podstate.Terminating && !e.UnreachableTimedOut,
			"no report shows whether the pod that is being deleted runs")
		never(e.Sandbox == NoSource && e.Phase == podstate.Finished && !kubelet,
			"no report shows that the finished pod's containers have stopped")
		ended := e.Sandbox == Stopped || e.Sandbox == Gone || e.Sandbox == NodeDead
		never(j.Proven && (!ended || e.Unproven || e.AgentMayNotKnow), "that is proven")
	})
	if stale < 10_000 {
		t.Errorf("only %d combinations are stale", stale)
	}
}

// An IPAMClaim makes nothing Stale that would not be without it, and holds what would be. Only one that is known to be
// missing leaves it Stale, and unconfirmed.
func TestAnIPAMClaimReleasesNothing(t *testing.T) {
	stale, failed := 0, 0
	with := &Evidence{}
	eachEvidence(func(e *Evidence) {
		without := decide(e)
		for _, claim := range []IPAMClaimState{ClaimExists, ClaimMissing, ClaimNotRead, "OfTomorrow"} {
			if failed > 2 {
				return
			}
			*with = *e
			with.IPAMClaim = claim
			j, want := decide(with), without
			if without.Verdict == Stale {
				stale++
				want = Decision{Verdict: Held, Reason: Claimed}
				if claim == ClaimNotRead || claim == "OfTomorrow" {
					want.Reason = ClaimUnknown
				} else if claim == ClaimMissing {
					want = Decision{Verdict: Stale, Reason: ClaimGone}
				}
			} else if without.overruledBy != nil && claim != ClaimMissing {
				want = Decision{Verdict: Held, Reason: j.Reason} // two rows hold it
			}
			if j.Verdict != want.Verdict || j.Reason != want.Reason || j.Proven != want.Proven {
				failed++
				t.Errorf("row %s, with a claim that is %q: %s, %s, proven %v; without one %s, %s:\n%s", firstRow(e).id, claim,
					j.Verdict, j.Reason, j.Proven, without.Verdict, without.Reason, inShort(e))
			}
		}
	})
	if stale < 10_000 {
		t.Errorf("only %d combinations are stale", stale)
	}
}

// A row that is in the wrong place, or that asks for too little, must not release anything.
func TestAVerdictOfStaleIsRefusedWithoutItsProof(t *testing.T) {
	good := Evidence{Phase: podstate.None, nodeSet: nodeSet{Sandbox: Gone}}
	for says, c := range map[string]struct {
		by   proof
		edit func(*Evidence)
	}{
		"a row without a proof":             {noProof, func(*Evidence) {}},
		"another proof":                     {sandboxAbsent, func(*Evidence) {}},
		"something unreadable":              {sandboxEnded, func(e *Evidence) { e.Problem = ippool.UnknownField }},
		"an IPAMClaim":                      {sandboxEnded, func(e *Evidence) { e.IPAMClaim = ClaimExists }},
		"IPAMClaims not read":               {sandboxEnded, func(e *Evidence) { e.IPAMClaim = ClaimNotRead }},
		"a claimant":                        {sandboxEnded, func(e *Evidence) { e.Rival = "pod default/other" }},
		"a sandbox that runs":               {sandboxEnded, func(e *Evidence) { e.Sandbox = Ready }},
		"a sandbox that may run":            {sandboxEnded, func(e *Evidence) { e.Sandbox = NotReady }},
		"a sandbox that is set up":          {sandboxEnded, func(e *Evidence) { e.Sandbox = Attached }},
		"a node without a fresh report":     {sandboxEnded, func(e *Evidence) { e.Sandbox = NoFreshReport }},
		"the address on the pod":            {sandboxEnded, func(e *Evidence) { e.Phase, e.OnPod = podstate.Live, true }},
		"a pod that is Pending":             {sandboxEnded, func(e *Evidence) { e.Phase = podstate.Pending }},
		"a Pending pod without its network": {pendingWithout, func(e *Evidence) { e.Phase = podstate.Pending }},
		"a Pending pod with the address": {pendingWithout, func(e *Evidence) {
			e.Phase, e.NetworkComplete, e.Superseded, e.OnPod = podstate.Pending, true, true, true
		}},
		"a Pending pod whose sandbox may run": {pendingWithout, func(e *Evidence) {
			e.Phase, e.NetworkComplete, e.Sandbox = podstate.Pending, true, NotReady
		}},
		"a Pending pod's network": {pendingWithout, func(e *Evidence) {
			e.Phase, e.NetworkComplete = podstate.Live, true
		}},
		"a reservation that is young": {sandboxEnded, func(e *Evidence) { e.Recent = true }},
		"no assertion":                {assertedByPerson, func(e *Evidence) { e.Sandbox = NoSource }},
		"an assertion against a report": {assertedByPerson, func(e *Evidence) {
			e.Sandbox, e.Override = Absent, NoFreshReportReason
		}},
	} {
		for _, proven := range []bool{false, true} {
			e := good
			c.edit(&e)
			wrong := rule{id: "wrong", pod: anyPod, verdict: Stale, proven: proven, reason: PodGone, by: c.by}
			if j := wrong.stale(&e, nil); j.Verdict != Held || j.Proven {
				t.Errorf("%s: %s", says, j.Verdict)
			}
			if j := wrong.stale(&good, nil); c.by == sandboxEnded && (j.Verdict != Stale || j.Proven != proven) {
				t.Errorf("without %s: %s", says, j.Verdict)
			}
		}
	}
}

// One function assigns Stale.
func TestOnlyOneFunctionGivesTheVerdictStale(t *testing.T) {
	files, err := filepath.Glob("*.go")
	check(t, err)
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		check(t, err)
		is := func(x ast.Expr, name string) bool {
			switch x := x.(type) {
			case *ast.Ident:
				return x.Name == name
			case *ast.SelectorExpr:
				return x.Sel.Name == name
			}
			return false
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if is(n.Key, "Verdict") && is(n.Value, "Stale") {
					found = append(found, name)
				}
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if is(left, "Verdict") {
						found = append(found, name)
					}
				}
			}
			return true
		})
	}
	if len(found) != 1 || found[0] != "stale.go" {
		t.Errorf("it is assigned in %v", found)
	}
}

// An override counts for the reason that it names, and never against evidence of use.
func TestNothingIsOverriddenThatMayBeInUse(t *testing.T) {
	overridden, failed := map[Reason]int{}, 0
	check := func(e *Evidence) {
		before := decide(e)
		overrides := []Reason{NoFreshReportReason}
		if before.Verdict == Held {
			overrides = []Reason{NoFreshReportReason, NodeUnreachable, NetworkStatusMissing, StuckTerminating, PhantomPod,
				before.Reason}
		}
		for _, override := range overrides {
			e.Override = override
			after := decide(e)
			if e.Override = ""; after == before || failed > 2 {
				continue
			}
			never := func(holds bool, says string) {
				if holds {
					failed++
					t.Errorf("row %s, overridden by a person: %s instead of %s, although %s:\n%s", after.decidingRow().id,
						after.Verdict, before.Reason, says, inShort(e))
				}
			}
			never(before.Verdict != Held, "it was not held")
			never(before.Reason != override, "it was held for another reason than "+string(override))
			if after.Verdict != Stale {
				isClaimed := after.Reason == ClaimedByOther || after.Reason == GuestAddress && e.RivalIsGuest
				never(!isClaimed || e.Rival == "", "no claim says so")
				continue
			}
			overridden[after.Reason]++
			kept := *e
			kept.Override, kept.IPAMClaim = override, ClaimExists
			never(decide(&kept).Verdict == Stale, "a machine keeps the address")
			never(after.Proven || after.Reason != before.Reason || !after.IsOverridden() || !before.CanBeOverridden(),
				"it does not say that a person asserts it")
			never(e.Problem != "" || e.Rival != "" || e.Recent || e.Deleting || e.Phase == podstate.Pending ||
				e.OnPod && e.Phase == podstate.Live, "it may be in use")
			never(e.Sandbox != NoSource && e.Sandbox != NoFreshReport &&
				(e.Sandbox != Absent || override != NetworkStatusMissing), "a report has the sandbox")
			never(override == StuckTerminating && e.Sandbox != NoSource, "an agent reports")
		}
	}
	eachEvidence(func(e *Evidence) {
		check(e)
		if e.Sandbox < NoFreshReport || e.UnreachableTimedOut {
			return
		}
		e.Unreachable = true
		check(e)
		e.Unreachable, e.Overdue = false, true
		check(e)
	})
	for _, reason := range []Reason{NoFreshReportReason, NodeUnreachable, NetworkStatusMissing, StuckTerminating} {
		if overridden[reason] < 100 {
			t.Errorf("only %d combinations are overridden for %s", overridden[reason], reason)
		}
	}
	if len(overridden) != 4 {
		t.Errorf("overridden: %v", overridden)
	}
}
