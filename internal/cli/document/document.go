// Package document is what the commands print as JSON or YAML. Its names are a contract:
// scripts read them. Fields are added, and never removed or given another meaning, within
// an apiVersion; docs/reference/schema has the JSON Schema, which is made of these types.
//
// document.go has what all kinds share, check.go and rows.go what check, run and recover print,
// pools.go, explain.go and status.go the rest.
package document

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
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
	// Context is the context of the kubeconfig that was used.
	Context string `json:"context,omitempty"`
	// UID is the UID of the namespace kube-system.
	UID string `json:"uid,omitempty"`
	// Snapshot is the path of the files that were judged instead of a cluster.
	Snapshot string `json:"snapshot,omitempty"`
}

// NewHeader is the head of a document of a kind.
func NewHeader(kind, toolVersion string, cluster Cluster, observedAt time.Time) Header {
	return Header{APIVersion, kind, toolVersion, cluster, observedAt.UTC().Truncate(time.Second)}
}

// Circumstances are under which it was judged: what a reader must know to believe it.
type Circumstances struct {
	Agents Agents `json:"agents"`
	// Gates are what stands against releases now.
	Gates []report.Gate `json:"gates"`
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

func circumstances(r *report.Report) Circumstances {
	a := Agents{InUse: !r.WithoutAgents, NoFreshReport: []string{}, Dead: []string{}}
	for _, name := range slices.Sorted(maps.Keys(r.Nodes)) {
		switch r.Nodes[name] {
		case judge.NodeFresh:
			a.Fresh++
		case judge.NodeNoFreshReport:
			a.NoFreshReport = append(a.NoFreshReport, name)
		case judge.NodeDeadOrMissing:
			a.Dead = append(a.Dead, name)
		}
	}
	return Circumstances{Agents: a, Gates: r.Gates, Notes: List(r.Notes())}
}

// Rows are what is printed of each of them; never null.
func Rows[T, R any](all []T, row func(T) R) []R {
	found := make([]R, 0, len(all))
	for _, x := range all {
		found = append(found, row(x))
	}
	return found
}

// List is a list that is never null.
func List[T any](all []T) []T { return append([]T{}, all...) }

// Encode is a document as "json" or "yaml".
func Encode(form string, document any) ([]byte, error) {
	if form == "yaml" {
		return yaml.Marshal(document)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(document)
	return text.Bytes(), err
}
