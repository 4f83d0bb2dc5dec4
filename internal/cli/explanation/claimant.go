package explanation

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Conflicts returns who carries the addresses of a judgement's conflicts, for at most some of the findings on them.
func Conflicts(j *judge.Judgement, most int) []document.Conflict {
	of := *j
	of.Findings = report.Only(j.Findings, func(f judge.Finding) bool { return f.Kind == judge.Conflict })
	of.Findings = of.Findings[:min(len(of.Findings), most)]
	a := &answer{q: Question{Judgement: j}, Report: &report.Report{Judgement: &of}}
	return document.Rows(a.conflictsOf(), func(c *conflict) document.Conflict { return c.Conflict })
}

// claimant returns the pod that the claimant of some evidence is, or whose sandbox it is; nil for any other claimant.
func (a *answer) claimant(ev *judge.Evidence) *document.ConflictCarrier {
	if ev == nil {
		return nil
	}
	kind, rest, _ := strings.Cut(ev.Claimant, " ")
	name, _, _ := strings.Cut(rest, " ")
	switch kind {
	case "pod":
		namespace, pod, _ := strings.Cut(name, "/")
		p := &party{pod: a.Observation.Pods[types.NamespacedName{Namespace: namespace, Name: pod}]}
		if p.Pod = name; p.pod != nil {
			p.Node = p.pod.Node
		}
		p.complete()
		return &p.ConflictCarrier
	case "sandbox":
		return a.carrierBySandbox(name, ev.ClaimantNode)
	}
	return nil
}

// carrierBySandbox returns the pod of a sandbox or attachment in the report of a node; nil if the report has none.
func (a *answer) carrierBySandbox(id, node string) *document.ConflictCarrier {
	for _, r := range a.Observation.Reports.Or(nil) {
		if r.Name != node {
			continue
		}
		for _, b := range r.Sandboxes {
			if b.ID == id {
				return a.carrier(types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, b.UID,
					document.ConflictCarrier{Node: node, ContainerID: id, Since: report.When(b.CreatedAt.Time)})
			}
		}
		for _, b := range r.Attachments {
			if b.ID == id {
				return a.carrier(types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, b.UID,
					document.ConflictCarrier{Node: node, ContainerID: id, Since: report.When(b.Since.Time)})
			}
		}
	}
	return nil
}

// carrier completes a carrier with a pod, unless a UID shows that it is of another pod by this name.
func (a *answer) carrier(name types.NamespacedName, uid string, c document.ConflictCarrier) *document.ConflictCarrier {
	p := &party{pod: a.Observation.Pods[name], ConflictCarrier: c}
	p.Pod = name.String()
	if p.pod != nil && uid != "" && !p.pod.HasUID(uid) {
		p.pod = nil
	}
	p.complete()
	return &p.ConflictCarrier
}
