// Package document is what the commands print as JSON or YAML. Its names are a contract:
// scripts read them. Fields are added, and never removed or given another meaning, within
// an apiVersion; docs/schema has the JSON Schema, which is made of these types.
//
// document.go has what all kinds share, check.go and rows.go what check and run print,
// status.go and recovery.go the rest.
package document

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// APIVersion is that of all documents.
const APIVersion = "output.ip-reconcile.dev/v1"

// The kinds of documents.
const (
	KindCheck       = "Check"
	KindRun         = "Run"
	KindExplanation = "Explanation"
	KindRecovery    = "Recovery"
	KindPools       = "PoolList"
	KindPool        = "Pool"
	KindStatus      = "Status"
)

// Header is the head of every document: what made it, of which cluster, when.
type Header struct {
	APIVersion  string `json:"apiVersion"`
	Kind        string `json:"kind"`
	ToolVersion string `json:"toolVersion"`
	// Cluster is where it was observed.
	Cluster Cluster `json:"cluster"`
	// ObservedAt is by the API server's clock, or the snapshot's time; RFC 3339.
	ObservedAt time.Time `json:"observedAt"`
}

// Cluster tells clusters apart. Each field is left out where it is not known.
type Cluster struct {
	// Server is the address of the API server.
	Server string `json:"server,omitempty"`
	// UID is that of the namespace kube-system.
	UID string `json:"uid,omitempty"`
	// Snapshot is the path of the files that were judged instead of a cluster.
	Snapshot string `json:"snapshot,omitempty"`
}

// NewHeader is the head of a document of a kind.
func NewHeader(kind, toolVersion string, cluster Cluster, observedAt time.Time) Header {
	return Header{APIVersion: APIVersion, Kind: kind, ToolVersion: toolVersion, Cluster: cluster, ObservedAt: observedAt.UTC().Truncate(time.Second)}
}

// Circumstances are under which it was judged: what a reader must know to believe it.
type Circumstances struct {
	Agents Agents `json:"agents"`
	// Gates are what stands against releases now.
	Gates []Gate `json:"gates"`
	// Notes are sentences on what could not be observed or known.
	Notes []string `json:"notes"`
}

// Agents are the node agents whose reports were used.
type Agents struct {
	// InUse: there are agents; without them a phantom cannot be told from a leak.
	InUse bool `json:"inUse"`
	Fresh int  `json:"fresh"`
	// NoFreshReport and Dead are the nodes in these states, sorted.
	NoFreshReport []string `json:"noFreshReport"`
	Dead          []string `json:"dead"`
}

// Gate is a cause for which Stale items are not released.
type Gate struct {
	Refusal reconciler.Refusal `json:"refusal"`
	Detail  string             `json:"detail"`
	// Pool is the pool that it is about, left out where it is about more.
	Pool string `json:"pool,omitempty"`
	// Count is how many Stale items it stands against.
	Count int `json:"count"`
	// FirstReleasableAt and LastReleasableAt are left out where the gate does not open by itself.
	FirstReleasableAt *time.Time `json:"firstReleasableAt,omitempty"`
	LastReleasableAt  *time.Time `json:"lastReleasableAt,omitempty"`
}

func circumstances(r *report.Report) Circumstances {
	c := Circumstances{Agents: Agents{InUse: !r.WithoutAgents, NoFreshReport: []string{}, Dead: []string{}}, Gates: []Gate{}, Notes: append([]string{}, r.Notes()...)}
	for name, state := range r.Nodes {
		switch state {
		case judge.NodeFresh:
			c.Agents.Fresh++
		case judge.NodeNoFreshReport:
			c.Agents.NoFreshReport = append(c.Agents.NoFreshReport, name)
		case judge.NodeLost:
			c.Agents.Dead = append(c.Agents.Dead, name)
		}
	}
	slices.Sort(c.Agents.NoFreshReport)
	slices.Sort(c.Agents.Dead)
	for _, g := range r.Gates {
		c.Gates = append(c.Gates, Gate{Refusal: g.Why, Detail: g.Sentence(), Pool: g.Gate.Pool, Count: g.Count,
			FirstReleasableAt: When(g.First), LastReleasableAt: When(g.Last)})
	}
	return c
}

// When is a time, nil for zero.
func When(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Second)
	return &t
}
