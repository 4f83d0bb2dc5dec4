package explain

import (
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Conflicts returns who carries the addresses of a judgement's conflicts, for at most some of the findings on them.
func Conflicts(j *findings.Assessment, most int) []view.Conflict {
	of := *j
	of.Findings = lists.Filter(j.Findings, func(f findings.Finding) bool { return f.Kind == findings.Conflict })
	of.Findings = of.Findings[:min(len(of.Findings), most)]
	a := &answer{whole: j, sandboxes: sandboxes(j.Observation), Picked: &view.Picked{Assessment: &of}}
	return lists.Map(a.conflictsOf(), func(c *conflict) view.Conflict { return c.Conflict })
}

// claimant returns the pod that the claimant of some evidence is, or whose sandbox it is; nil for any other claimant.
func (a *answer) claimant(ev *judge.Evidence) *view.ConflictCarrier {
	if ev == nil {
		return nil
	}
	kind, rest, _ := strings.Cut(ev.Rival, " ")
	name, _, _ := strings.Cut(rest, " ")
	var p *party
	switch kind {
	case "pod":
		p = a.partyOf(nameOf(name), "", view.ConflictCarrier{})
	case "sandbox":
		p = a.partyBySandbox(name, ev.RivalNode())
	}
	if p == nil {
		return nil
	}
	return &p.ConflictCarrier
}

// partyBySandbox returns the pod of a sandbox or attachment in the report of a node; nil if the report has none.
func (a *answer) partyBySandbox(id, node string) *party {
	i := slices.IndexFunc(a.sandboxes, func(b view.ExplainedSandbox) bool { return b.Node == node && b.ID == id })
	if i < 0 {
		return nil
	}
	return a.partyWith(&a.sandboxes[i])
}
