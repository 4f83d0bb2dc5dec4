package view

import (
	"maps"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// Circumstances are the conditions of the judgement.
type Circumstances struct {
	Agents Agents `json:"agents"`
	// Gates are the gates against releases now.
	Gates []Gate `json:"gates"`
	Limits
}

// Limits are what limits the judgement.
type Limits struct {
	// Notes are sentences about what could not be observed.
	Notes []string `json:"notes"`
	// Unknown are the sources of evidence that could not be read. That nothing is found proves nothing while its source is
	// unknown.
	Unknown []UnknownSource `json:"unknown"`
}

// UnknownSource is a kind of objects of which no complete list could be read.
type UnknownSource struct {
	// Source is the kind, as the resource is named.
	Source facts.SourceName `json:"source"`
	// Why is the reason, as the API server gave it.
	Why string `json:"why"`
	// Costs is what follows, as the end of a sentence.
	Costs string `json:"costs"`
	// Findings are the kinds of findings of which there may be more than were found.
	Findings []findings.Kind `json:"findings"`
}

// NewLimits returns what limits a judgement.
func NewLimits(out *reconciler.Result) Limits {
	unknown := lists.Map(out.Observation.UnknownSources(), func(s facts.SourceState) UnknownSource {
		return UnknownSource{s.Name, s.Unknown, s.Costs, findings.KindsOf(s.Name)}
	})
	return Limits{lists.Clone(out.Notes()), unknown}
}

// Agents are the node agents whose reports were used.
type Agents struct {
	// InUse is true where nodes have agents. Without agents a phantom pod cannot be distinguished from a leak.
	InUse bool `json:"inUse"`
	Fresh int  `json:"fresh"`
	// NoFreshReport and Dead are the nodes in these states, sorted.
	NoFreshReport []string `json:"noFreshReport"`
	Dead          []string `json:"dead"`
}

func (p *Picked) circumstances() Circumstances {
	return Circumstances{Agents: NewAgents(p.Assessment), Gates: p.Gates, Limits: p.limits}
}

// NewAgents returns the node agents whose reports were used.
func NewAgents(j *findings.Assessment) Agents {
	a := Agents{InUse: !j.WithoutAgents, NoFreshReport: []string{}, Dead: []string{}}
	for _, name := range slices.Sorted(maps.Keys(j.Nodes)) {
		switch j.Nodes[name] {
		case facts.NodeFresh:
			a.Fresh++
		case facts.NodeNoFreshReport:
			a.NoFreshReport = append(a.NoFreshReport, name)
		case facts.NodeDeadOrMissing:
			a.Dead = append(a.Dead, name)
		}
	}
	return a
}
