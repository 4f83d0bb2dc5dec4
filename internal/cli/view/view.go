// Package view has the JSON and YAML documents that the commands print. Within an apiVersion fields are added, and
// never removed. The JSON Schema in docs/reference/schema is generated from these types and their comments.
package view

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
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
	KindStatus       = "Status"
	KindPlan         = "Plan"
	KindAddresses    = "AddressList"
	KindWords        = "WordList"
	KindSysdump      = "Sysdump"
	KindHistory      = "History"
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
	// Snapshot is the path of the snapshot that was judged instead of a cluster.
	Snapshot string `json:"snapshot,omitempty"`
}

// NewHeader returns the head of a document.
func NewHeader(kind, toolVersion string, cluster Cluster, observedAt time.Time) Header {
	return Header{APIVersion, kind, toolVersion, cluster, observedAt.UTC().Truncate(time.Second)}
}

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
	Source judge.SourceName `json:"source"`
	// Why is the reason, as the API server gave it.
	Why string `json:"why"`
	// Costs is what follows, as the end of a sentence.
	Costs string `json:"costs"`
	// Findings are the kinds of findings of which there may be more than were found.
	Findings []judge.Kind `json:"findings"`
}

// LimitsOf returns what limits a judgement.
func LimitsOf(j *judge.Judgement) Limits {
	unknown := lists.Map(j.Observation.UnknownSources(), func(s judge.SourceState) UnknownSource {
		return UnknownSource{s.Name, s.Unknown, s.Costs, s.Findings}
	})
	return Limits{lists.Clone(j.Notes()), unknown}
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

func circumstances(r *Picked) Circumstances {
	return Circumstances{Agents: OfAgents(r.Judgement), Gates: r.Gates, Limits: LimitsOf(r.Judgement)}
}

// OfAgents returns the node agents whose reports were used.
func OfAgents(j *judge.Judgement) Agents {
	a := Agents{InUse: !j.WithoutAgents, NoFreshReport: []string{}, Dead: []string{}}
	for _, name := range slices.Sorted(maps.Keys(j.Nodes)) {
		switch j.Nodes[name] {
		case judge.NodeFresh:
			a.Fresh++
		case judge.NodeNoFreshReport:
			a.NoFreshReport = append(a.NoFreshReport, name)
		case judge.NodeDeadOrMissing:
			a.Dead = append(a.Dead, name)
		}
	}
	return a
}

// Encode encodes a document as "json" or "yaml".
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

// Plan is the document of plan, and the file that apply reads.
type Plan struct {
	Header
	Limits
	// Items are ordered by pool or reservation, then address. A reviewer may delete items, and must not edit any.
	Items []PlanItem `json:"items"`
}

// PlanItem is one allocation, or one reservation without an allocation, that apply may release.
type PlanItem struct {
	AllocationRow
	// Key is an allocation's; Reservation and ReservationUID are a reservation's, which has no pool.
	Key            string `json:"key,omitempty"`
	Reservation    string `json:"reservation,omitempty"`
	ReservationUID string `json:"reservationUID,omitempty"`
	// Evidence is as in explain. Its nodes are empty where the verdict rests on all nodes.
	Evidence Evidence `json:"evidence"`
	// Digest is over the other fields of the item, and the cluster and the time of the plan.
	Digest string `json:"digest"`
}

// Sysdump is the manifest of a bundle, and the document of sysdump.
type Sysdump struct {
	Header
	// Redacted is true where pods, namespaces, nodes and workloads have other names.
	Redacted bool `json:"redacted"`
	snapshot.Manifest
	// Files are the files of the bundle.
	Files []string `json:"files"`
	// Missing are the parts that could not be collected, each with the cause.
	Missing []string `json:"missing"`
}

// Level is the level of a line of a status.
type Level string

const (
	LevelOK      Level = "OK"      // as it should be
	LevelWarning Level = "Warning" // works, but needs attention
	LevelError   Level = "Error"   // something does not work
	LevelUnknown Level = "Unknown" // could not be read, or is not in use
)

// Status is the document of status.
type Status struct {
	Header
	// Level is the worst level of the lines, without Unknown: OK, Warning or Error.
	Level Level `json:"level"`
	// Lines are the checks, in no particular order.
	Lines []StatusLine `json:"lines"`
}

// StatusLine is the result of one check.
type StatusLine struct {
	// ID is the name of the check, for example leader. Later versions may have more checks.
	ID    string `json:"id"`
	Level Level  `json:"level"`
	// Message is one or two sentences.
	Message string `json:"message"`
	// Next is the command to type next; absent where nothing is to be done.
	Next string `json:"next,omitempty"`
	// Advice has the steps that end what the line says, where that takes more than one command; absent otherwise.
	Advice []Advice `json:"advice,omitempty"`
}

// OfStatus returns the status of some lines.
func OfStatus(h Header, lines []StatusLine) *Status {
	s := &Status{Header: h, Level: LevelOK, Lines: lists.Clone(lines)}
	for _, l := range lines {
		if l.Level == LevelError || l.Level == LevelWarning && s.Level == LevelOK {
			s.Level = l.Level
		}
	}
	return s
}

// IDs returns the names of all checks.
func (s *Status) IDs() []string { return lists.Map(s.Lines, func(l StatusLine) string { return l.ID }) }
