// Package view makes the documents that the commands print: one function for each command, from a result and a filter
// to a document. Package screen makes text of a document, and Encode makes JSON and YAML. Package view/explain makes
// the document of explain.
//
// Within an apiVersion fields are added, and never removed. The JSON Schema in docs/reference/schema is generated from
// these types and their comments. A field without a name in JSON is for the text alone.
package view

import (
	"strings"
	"time"
	"unicode"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// APIVersion is the apiVersion of all documents.
const APIVersion = "output.ip-reconcile.dev/v1"

// The kinds of documents.
const (
	KindCheck       = "Check"
	KindRun         = "Run"
	KindExplanation = "Explanation"

	KindExplanations = "ExplanationList"
	KindRecovery     = "Recovery"
	KindPools        = "PoolList"
	KindPool         = "Pool"
	KindPoolCheck    = "PoolCheck"
	KindStatus       = "Status"
	KindComparison   = "Comparison"
	KindPlan         = "Plan"
	KindAddresses    = "AddressList"
	KindWords        = "WordList"
	KindSysdump      = "Sysdump"
	KindHistory      = "History"
	KindRetirement   = "Retirement"
)

// Header is the head of every document: the program, the cluster and the time.
type Header struct {
	APIVersion  string `json:"apiVersion"`
	Kind        string `json:"kind"`
	ToolVersion string `json:"toolVersion"`
	// Cluster is the cluster or snapshot that was observed.
	Cluster Cluster `json:"cluster"`
	// ObservedAt is the time of the API server, or of the snapshot; RFC 3339.
	ObservedAt time.Time `json:"observedAt"`
}

// Cluster identifies a cluster. Unknown fields are absent.
type Cluster struct {
	// Server is the address of the API server.
	Server string `json:"server,omitempty"`
	// Context is the context of the kubeconfig that was used.
	Context string `json:"context,omitempty"`
	// UID is the UID of the namespace kube-system.
	UID string `json:"uid,omitempty"`
	// Snapshot is the path of the snapshot that was judged instead of a cluster. Of a comparison it has both paths.
	Snapshot string `json:"snapshot,omitempty"`
}

// Document is what a command prints.
type Document interface {
	Head() Header
	// SetSource says which version of the program judged which cluster.
	SetSource(toolVersion string, judged Cluster)
}

// Head returns the head of a document.
func (h *Header) Head() Header { return *h }

// SetSource implements Document.
func (h *Header) SetSource(toolVersion string, judged Cluster) {
	h.ToolVersion, h.Cluster = toolVersion, judged
}

// headerOf returns the head of a document whose source is set later.
func headerOf(kind string, observedAt time.Time) Header {
	return NewHeader(kind, "", Cluster{}, observedAt)
}

// NewHeader returns the head of a document.
func NewHeader(kind, toolVersion string, cluster Cluster, observedAt time.Time) Header {
	return Header{APIVersion, kind, toolVersion, cluster, observedAt.UTC().Truncate(time.Second)}
}

// AtMost lists the first n names and the number of the others.
func AtMost(names []string, n int) string { return facts.AtMost(names, n) }

// Clean replaces characters that are not printable by spaces. Text of objects cannot end a line, move the terminal's
// cursor or change the direction of writing.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
