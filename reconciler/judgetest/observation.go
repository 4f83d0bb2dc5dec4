// Package judgetest builds observations for tests of judging and of what follows from it.
// A test may import it with a dot: what it exports is the vocabulary of those tests.
//
// The usual objects: pool kube-system/10.0.0.0-24 has under key "5" the entry of default/web-0, interface net1,
// sandbox box-1. The pod has uid-1 and is on worker-1, and so was the sandbox.
package judgetest

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Now is the time of an observation, unless At says otherwise.
var Now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// Observed is an observation, with what is remembered of earlier ones.
type Observed struct {
	*facts.Observation
	Past       Past // nil for nothing
	overrides  judge.Overrides
	hasNoNodes bool
	stored     map[string]map[types.NamespacedName][]byte // see Stored
}

// Copy is a copy whose fields can be set; maps and slices are shared.
func (o *Observed) Copy() *Observed {
	own := *o.Observation
	return &Observed{&own, o.Past, o.overrides, o.hasNoNodes, o.stored}
}

// Past is what earlier observations found, of everything.
type Past interface {
	judge.Past
	facts.Doubts
}

// Asserted: a person asserts that an item is stale, which was held for a reason.
func Asserted(id judge.ID, reason judge.Reason) Part {
	return func(o *Observed) { o.overrides = judge.Overrides{id: reason} }
}

// Judged is the assessment of an observation.
func Judged(o *Observed, policy facts.Policy) *findings.Assessment {
	return findings.Assess(judge.Judge(facts.New(o.Observation, o.Past, policy), o.Past, o.overrides))
}

// AssessAlone is the assessment of an observation by a process that made none before.
func AssessAlone(o *facts.Observation, policy facts.Policy) *findings.Assessment {
	return findings.Assess(judge.Judge(facts.New(o, nil, policy), nil, nil))
}

// Part puts something into an observation.
type Part func(*Observed)

// Observe returns an observation of the parts, added in their order. If none adds a Node or says that there is none,
// the nodes of the pods are Ready: a list of nodes without those to which pods are bound would be incomplete.
func Observe(parts ...Part) *Observed {
	o := &Observed{Observation: &facts.Observation{
		Now: Now, Pods: map[types.NamespacedName]*podstate.Pod{},
		Reservations: facts.Complete[[]*ippool.Reservation](nil, "1"),
		NADs:         facts.Complete(map[types.NamespacedName]*ippool.NAD{}, "1"),
		IPAMClaims:   facts.Complete(map[types.NamespacedName]*ippool.Claim{}, "1"),
		Guests:       facts.Complete[[]*podstate.Guest](nil, "1"),
		Nodes:        facts.Complete(map[string]*podstate.Node{}, "1"),
		Reports:      facts.Complete[[]*podstate.Report](nil, "1"),
		AgentLeases:  facts.Complete(false, "1"),
	}}
	for _, p := range parts {
		p(o)
	}
	if nodes, known := o.Nodes.Get(); known && len(nodes) == 0 && !o.hasNoNodes {
		for _, p := range o.Pods {
			if p.Node != "" && nodes[p.Node] == nil {
				Node(p.Node)(o)
			}
		}
	}
	ReadByQuorum(o.Observation)
	return o
}

// ReadByQuorum sets the versions that the answers to a quorum read of an observation had. Watch caches have none.
func ReadByQuorum(o *facts.Observation) {
	o.Versions = nil
	note := func(object, version string) {
		if version != "" && !o.Watched {
			o.Versions = append(o.Versions, facts.Version{Object: object, ResourceVersion: version})
		}
	}
	for _, p := range o.Pools {
		note(facts.PoolObject+p.Ref(), p.ResourceVersion)
	}
	for _, r := range o.Reports.Or(nil) {
		note(facts.ReportObject+r.Name, r.ResourceVersion)
		note(facts.LeaseObject+r.Name, r.LeaseVersion)
	}
	if o.Revision != 0 {
		note(facts.PoolList, strconv.FormatUint(o.Revision, 10))
	}
}

// NoNodes leaves the list of nodes empty.
func NoNodes(o *Observed) { o.hasNoNodes = true }

// All is several parts as one.
func All(parts ...Part) Part {
	return func(o *Observed) {
		for _, p := range parts {
			p(o)
		}
	}
}

// Nothing adds nothing.
func Nothing(*Observed) {}

// At is the time of the observation.
func At(t time.Time) Part { return func(o *Observed) { o.Now = t } }

// ReportsUnknown makes SandboxReports a source that could not be read.
func ReportsUnknown(why string) Part {
	return func(o *Observed) { o.Reports = facts.Unknown[[]*podstate.Report](errors.New(why)) }
}

// NodesUnknown makes nodes a source that could not be read.
func NodesUnknown(o *Observed) {
	o.Nodes = facts.Unknown[map[string]*podstate.Node](errors.New("cannot list nodes: forbidden"))
}

// AddReports adds reports.
func (o *Observed) AddReports(reports ...*podstate.Report) {
	o.Reports = o.Reports.With(append(slices.Clone(o.Reports.Or(nil)), reports...))
}

// AddReservations adds reservations.
func (o *Observed) AddReservations(reservations ...*ippool.Reservation) {
	o.Reservations = o.Reservations.With(append(slices.Clone(o.Reservations.Or(nil)), reservations...))
}
