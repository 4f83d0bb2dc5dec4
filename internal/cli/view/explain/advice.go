package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

func (a *answer) steps(section, name string, f advice.Facts) []view.Advice {
	return a.q.Advisor.Steps(section, name, f)
}

func (a *answer) facts(names map[string]string, nodes ...string) advice.Facts {
	return advice.Facts{Names: names, Nodes: nodes, DownNodes: down(a.Observation, nodes)}
}

// itemFacts returns the Facts of an item. Where the subject is one of the item's nodes, that is the only node: the
// others have explanations of their own.
func (a *answer) itemFacts(it *judge.Item) advice.Facts {
	nodes := nodesOf(it)
	if s := a.q.Subject; s.Kind == Node && slices.Contains(nodes, s.Name) {
		nodes = []string{s.Name}
	}
	names := map[string]string{"ip": it.Text(), "reason": it.Reason.String()}
	if owner := it.Owner(); owner.Name != "" {
		names["pod"] = owner.Namespace + "/" + owner.Name
	}
	if pools := it.PoolNames(); len(pools) > 0 {
		names["pool"] = pools[0].String()
	}
	if it.Reservation != nil {
		names["reservation"] = it.Object()
	}
	switch it.Reason {
	case judge.Malformed:
		a.nameMends(it, names)
	case judge.UnsupportedRange:
		names["pool"] = a.unsupportedPool(it)
	}
	if claim := it.IPAMClaim(); claim != nil {
		names["claim"] = claim.String()
	}
	if ev := it.Evidence(); ev != nil {
		names["container"], names["othernode"] = ev.ContainerID, ev.RivalNode()
		switch kind, name, _ := strings.Cut(ev.Rival, " "); kind {
		case "pod":
			names["otherpod"] = name
		case "VirtualMachineInstance":
			names["machine"] = name
		case "sandbox":
			names["othercontainer"], _, _ = strings.Cut(name, " ")
		}
	}
	if it.Reason == judge.ClaimedByOther {
		a.nameCorrection(it, names)
	}
	return a.facts(names, nodes...)
}

// unsupportedPool returns the pool of an unsupported range that holds an item.
func (a *answer) unsupportedPool(it *judge.Item) string {
	names := it.PoolNames()
	for _, p := range a.Observation.Pools {
		if p.Unsupported != "" && slices.Contains(names, p.NamespacedName) {
			return p.Ref()
		}
	}
	return ""
}

// nameCorrection adds the pool in which --repair corrects an allocation of an address that another pod or sandbox
// carries. Where it cannot, it adds the pod that carries the address.
func (a *answer) nameCorrection(it *judge.Item, names map[string]string) {
	for _, f := range a.whole.Findings {
		if f.IP == it.Text() && f.Pool == names["pool"] && f.CanRepair() && f.Kind == findings.Misrecorded {
			names["repairpool"] = f.Pool
			return
		}
	}
	if c := a.claimant(it.Evidence()); c != nil && c.InAPI {
		names["claimingpod"] = c.Pod
	}
}

// adviseItem returns the steps about the gates of an item, or about its verdict. A reservation that shares a verdict
// has its allocation's steps.
func (a *answer) adviseItem(it *judge.Item, gates []plan.Gate) (steps []view.Advice) {
	f := a.itemFacts(it)
	switch namespace := it.Owner().Namespace; {
	case it.SharesVerdictOf() != nil:
		return nil
	case a.conflicts[it.Text()]:
		return a.adviseConflict(f)
	case a.exported != nil && namespace != "" && !a.exported[namespace]:
		return a.steps("reasons", "NotExported", f)
	case a.exported != nil && it.Reason == judge.NodesUnknown && !a.Observation.Nodes.IsKnown():
		return a.steps("reasons", "NodesNotExported", f)
	case a.exported != nil && it.Reason == judge.GuestUnknown && !a.Observation.Guests.IsKnown():
		return a.steps("reasons", "GuestsNotExported", f)
	case it.CanBeOverridden():
		reason := it.Reason.String()
		return advice.Unique(append(a.steps("reasons", reason, f), a.steps("overrides", reason, f)...))
	case it.Verdict != judge.Stale:
		return advice.Unique(a.steps("reasons", it.Reason.String(), f))
	case len(gates) == 0:
		steps = a.steps("stale", "Stale", f)
	}
	for _, g := range gates {
		if g.Why != plan.AwaitingConfirmation || len(gates) == 1 { // beside other gates a confirmation releases nothing
			steps = append(steps, a.adviseGate(g, f)...)
		}
	}
	return advice.Unique(append(a.steps("stale", it.Reason.String(), f), steps...))
}

func (a *answer) adviseGate(g plan.Gate, f advice.Facts) []view.Advice {
	name := string(g.Why)
	switch {
	case g.Pool != "":
		name, f = name+" pool", a.facts(map[string]string{"pool": g.Pool})
	case g.Why == plan.EtcdRestored && a.Restore.Complete():
		f = a.facts(f.Names)
	case g.Why == plan.EtcdRestored:
		f = a.facts(map[string]string{}, a.Restore.Awaiting...)
		if a.Restore.ID != "" {
			f.Names["restore"] = a.Restore.ID
		}
	}
	return a.steps("gates", name, f)
}

func (a *answer) adviseFinding(f findings.Finding) []view.Advice {
	names := map[string]string{}
	names["ip"], _, _ = strings.Cut(f.IP, ",")
	names["pool"], _, _ = strings.Cut(f.Pool, ",")
	if len(f.Pods) > 0 {
		names["pod"], _, _ = strings.Cut(f.Pods[0], "_")
	}
	if len(f.ContainerIDs) > 0 {
		names["container"] = f.ContainerIDs[0]
	}
	name := string(f.Kind)
	if f.Kind == findings.MalformedFinding {
		if it := a.malformedItem(f); it != nil && it.SharesVerdictOf() == nil {
			return a.adviseItem(it, nil)
		}
		for _, p := range a.Observation.Pools {
			if p.Ref() == f.Pool && f.IP == "" {
				a.nameRange(p, names)
			}
		}
	}
	isInConflict := slices.IndexFunc(strings.Split(f.IP, ","), func(ip string) bool { return a.conflicts[ip] })
	switch {
	case f.IP != "" && isInConflict >= 0: // the order of steps matters
		names["ip"] = strings.Split(f.IP, ",")[isInConflict]
		return a.adviseConflict(advice.Facts{Names: names})
	case f.Kind == findings.GuestAddressFinding && a.q.Subject.Kind == Address:
		return nil // the item has the steps
	case len(f.Unheld) > 0:
		name = a.nameUnheld(f, names)
	case f.Kind != findings.Unrecorded || f.CanRepair():
	case names["container"] != "":
		name = "Unrecorded sandbox"
	default:
		name = "Unrecorded pod"
	}
	return advice.Unique(a.steps("findings", name, a.facts(names, f.Node)))
}

// nameUnheld returns the entry of the advice on a phantom of which no pool records an address, and adds the address and
// the pool.
func (a *answer) nameUnheld(phantom findings.Finding, names map[string]string) string {
	for _, f := range a.whole.Findings {
		isSame := slices.Contains(phantom.Unheld, f.IP) && slices.Equal(f.ContainerIDs, phantom.ContainerIDs)
		if f.Kind == findings.Unrecorded && isSame && f.CanRepair() {
			names["ip"], names["pool"] = f.IP, f.Pool
			return "Phantom unrecorded"
		}
	}
	names["ip"] = phantom.Unheld[0]
	return "Phantom unheld"
}

// adviseConflict returns the ordered steps that end the conflict at an address, and for a node or pool how to see them.
func (a *answer) adviseConflict(f advice.Facts) []view.Advice {
	if steps := a.endsConflict[f.Names["ip"]]; len(steps) > 0 {
		return steps
	}
	return a.steps("findings", string(findings.Conflict), f)
}

// sameAdvice are the addresses whose steps differ from those of an example by the address alone.
type sameAdvice struct {
	cause  string
	others []string
}

func (s *sameAdvice) advice() []view.Advice {
	if len(s.others) == 0 {
		return nil
	}
	return []view.Advice{{Cause: s.cause, Why: fmt.Sprintf(sameFor+"%d more: %s.", len(s.others),
		facts.AtMost(s.others, maxCarriers))}}
}

const sameFor = "The same for "

func isSame(s view.Advice) bool { return strings.HasPrefix(s.Why, sameFor) }

// adviseItems returns the steps about the items with these verdicts. Those of further items are one line if they differ
// by the address alone, or, for a node or pool, by the names of the pod and the sandbox, too. Steps that do not name
// the address are for all items.
func (a *answer) adviseItems(isOfMany bool, verdicts []judge.Verdict) (all []view.Advice) {
	same := map[string]*sameAdvice{}
	var order []*sameAdvice
	for _, verdict := range verdicts {
		for _, it := range a.d.Items {
			if it.Verdict != verdict || a.conflicts[it.IP] || len(it.Advice) == 0 {
				continue
			}
			name := cmp.Or(it.IP, it.Key, it.Reservation)
			own := []string{name, "{ip}"}
			if isOfMany {
				own = append(own, ownNames(&it)...)
			}
			steps := fmt.Sprint(it.Advice)
			shape := strings.NewReplacer(own...).Replace(steps)
			key := verdict.String() + shape // which has the cause
			if s := same[key]; s != nil {
				if shape != steps {
					s.others = append(s.others, name)
				}
				continue
			}
			s := &sameAdvice{cause: it.Advice[len(it.Advice)-1].Cause}
			same[key], order, all = s, append(order, s), append(all, it.Advice...)
		}
	}
	for _, s := range order {
		all = append(all, s.advice()...)
	}
	return all
}

// ownNames are the names that the steps of an item may have, each with the place of a template: its container ID and
// its pod, which commands name in two words.
func ownNames(it *view.ExplainedItem) (pairs []string) {
	if it.ContainerID != "" {
		pairs = append(pairs, it.ContainerID, "{container}")
	}
	pod, _, _ := strings.Cut(it.PodRef, "_")
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		pairs = append(pairs, pod, "{pod}", "-n "+namespace+" "+name, "{pod}")
	}
	return pairs
}

// advise returns all steps, outages first. A node or pool has one example of each finding, and of each reason.
func (a *answer) advise() []view.Advice {
	s, most, verdicts := a.q.Subject, math.MaxInt, []judge.Verdict{judge.Held, judge.Stale, judge.InUse}
	if s.Kind == Node || s.Kind == Pool {
		most, verdicts = 1, verdicts[:2]
	}
	var all []view.Advice
	times := map[string]int{} // by cause
	take := func(what string, steps []view.Advice) {
		if times[what]++; times[what] <= most {
			all = append(all, steps...)
		}
	}
	for _, kind := range findings.Kinds() { // conflicts are the first
		for _, f := range a.Findings {
			if f.Kind == kind {
				take(string(kind), a.adviseFinding(f))
			}
		}
	}
	all = advice.Unique(append(all, a.adviseItems(most == 1, verdicts)...))
	// A fold needs its example, whose steps may all stand above.
	all = lists.Filter(all, func(s view.Advice) bool {
		isExample := func(t view.Advice) bool { return t.Cause == s.Cause && !isSame(t) }
		return !isSame(s) || slices.ContainsFunc(all, isExample)
	})
	switch {
	case s.Kind == Pod:
		all = append(all, a.adviseWaiting()...)
	case len(a.d.Items) == 0:
	case s.Kind == Node:
		all = append(all, a.steps("more", "items of a node", a.facts(nil, s.Name))...)
	case s.Kind == Pool:
		for _, p := range a.d.PoolUsage {
			all = append(all, a.steps("more", "items of a pool", a.facts(map[string]string{"pool": p.Pool}))...)
		}
	}
	return all
}

// adviseWaiting returns how to see what fills the pools for whose addresses the pod of the subject waits.
func (a *answer) adviseWaiting() (steps []view.Advice) {
	pod := types.NamespacedName{Namespace: a.q.Subject.Namespace, Name: a.q.Subject.Name}
	for _, p := range a.pools.All {
		if slices.Contains(p.Waiting, pod) {
			steps = append(steps, a.steps("more", "full pool", a.facts(map[string]string{"pool": p.Ref()}))...)
		}
	}
	return steps
}
