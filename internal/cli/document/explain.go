package document

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Explanation is what explain prints: of what check prints that which is about the subject,
// the evidence, and what can be done.
type Explanation struct {
	Check
	Subject Subject `json:"subject"`
	// Found is false where nothing is known of the subject; Missing says so in sentences.
	Found   bool     `json:"found"`
	Missing []string `json:"missing"`
	// Items are the allocations and then the reservations, in the order that they have in
	// those lists, with their evidence.
	Items []ExplainedItem `json:"items"`
	Pods  []ExplainedPod  `json:"pods"`
	Nodes []ExplainedNode `json:"nodes"`
	// PoolUsage is how full the pools are that it is about.
	PoolUsage []PoolUsage `json:"poolUsage"`
	// FindingAdvice is what can be done about each of the findings, in their order.
	FindingAdvice [][]Advice `json:"findingAdvice"`
	// Advice is all that can be done, what is most urgent first; of a node or pool with
	// examples of each cause only.
	Advice []Advice `json:"advice"`
	// RecentReleases are what the breaker counts.
	RecentReleases RecentReleases `json:"recentReleases"`
	// Restore is the last restore of etcd that is known; left out where none is.
	Restore *ExplainedRestore `json:"restore,omitempty"`
}

// Subject is what was asked about.
type Subject struct {
	// Kind is Address, Pod, Node or Pool.
	Kind string `json:"kind"`
	// Name is the subject as explain takes it.
	Name string `json:"name"`
}

// Advice is one thing that an operator can do, or know.
type Advice struct {
	// Cause is the reason, refusal or kind of finding that it is about; several are joined
	// by ", ".
	Cause string `json:"cause"`
	// Why says what it is for, and with what care.
	Why string `json:"why"`
	// Command is for a shell, as it stands; left out where there is nothing to run.
	Command string `json:"command,omitempty"`
	// OnNode is the node on which it must be run; left out for anywhere with a kubeconfig.
	OnNode string `json:"onNode,omitempty"`
}

// ExplainedGate is what stands against the release of an item.
type ExplainedGate struct {
	Refusal reconciler.Refusal `json:"refusal"`
	Detail  string             `json:"detail"`
	// Pool is the pool that it is about, left out where it is about more.
	Pool string `json:"pool,omitempty"`
	// OpensAt is when it opens by itself; left out where it does not.
	OpensAt *time.Time `json:"opensAt,omitempty"`
}

// RecentReleases are the unconfirmed releases within the last hour.
type RecentReleases struct {
	Releases int `json:"releases"`
	// Of is how many allocations there were before them; 0 where there were none.
	Of int `json:"of"`
	// Shared: those of all processes are counted, and not of this one alone.
	Shared bool `json:"shared"`
}

// ExplainedRestore is the last restore of etcd.
type ExplainedRestore struct {
	Restored string `json:"restored"`
	Why      string `json:"why"`
	// Awaiting are the nodes for whose reports releases wait; none when it is settled.
	Awaiting []string `json:"awaiting"`
}

// OfExplanation is an explanation as explain prints it.
func OfExplanation(h Header, e *explanation.Explanation) *Explanation {
	d := &Explanation{
		Check: *OfCheck(h, e.Report), Subject: Subject{string(e.Subject.Kind), e.Subject.String()}, Found: e.Found, Missing: append([]string{}, e.Missing...),
		Items: make([]ExplainedItem, 0, len(e.Items)), Pods: make([]ExplainedPod, 0, len(e.Pods)), Nodes: make([]ExplainedNode, 0, len(e.Nodes)),
		PoolUsage: make([]PoolUsage, 0, len(e.Pools)), FindingAdvice: make([][]Advice, 0, len(e.FindingAdvice)), Advice: adviceRows(e.Advice),
		RecentReleases: RecentReleases{e.Recent.Releases, e.Recent.Of, e.Recent.Shared},
	}
	for _, it := range e.Items {
		d.Items = append(d.Items, explainedItem(e, it))
	}
	for _, p := range e.Pods {
		d.Pods = append(d.Pods, explainedPod(e, p))
	}
	for _, n := range e.Nodes {
		d.Nodes = append(d.Nodes, explainedNode(n))
	}
	ours := map[string]bool{}
	for _, p := range e.Pools {
		ours[p.Ref()] = true
		d.PoolUsage = append(d.PoolUsage, poolUsage(p))
	}
	d.Check.Pools = slices.DeleteFunc(d.Check.Pools, func(p PoolRow) bool { return !ours[p.Pool] })
	for _, steps := range e.FindingAdvice {
		d.FindingAdvice = append(d.FindingAdvice, adviceRows(steps))
	}
	if r := e.Restore; r != nil {
		d.Restore = &ExplainedRestore{r.Date(), r.Why, append([]string{}, r.Awaiting...)}
	}
	return d
}

func adviceRows(steps []advice.Step) []Advice {
	rows := make([]Advice, 0, len(steps))
	for _, s := range steps {
		rows = append(rows, Advice(s))
	}
	return rows
}

func explainedGates(it explanation.Item) []ExplainedGate {
	gates := make([]ExplainedGate, 0, len(it.Gates))
	for _, g := range it.Gates {
		gates = append(gates, ExplainedGate{g.Why, explanation.GateText(g, len(it.Gates) > 1), g.Pool, when(g.At)})
	}
	return gates
}

// names are a list that is never null.
func names(all []string) []string { return append([]string{}, all...) }

// sharedWith is where the allocation is whose verdict a reservation shares.
func sharedWith(it *judge.Item) string {
	if shared := it.SharesVerdictOf(); shared != nil {
		return shared.Object()
	}
	return ""
}
