// Package judgetest builds observations for tests of judging and of what follows from it.
// A test may import it with a dot: what it exports is the vocabulary of those tests.
//
// The usual objects: pool kube-system/10.0.0.0-24 has under key "5" the entry of default/web-0, interface net1,
// sandbox box-1. The pod has uid-1 and is on worker-1, and so was the sandbox.
package judgetest

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Now is the time of an observation, unless At says otherwise.
var Now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// Observed is an observation, with what is remembered of earlier ones.
type Observed struct {
	*judge.Observation
	Past judge.Past // nil for nothing
}

// Copy is a copy whose fields can be set; maps and slices are shared.
func (o *Observed) Copy() *Observed {
	own := *o.Observation
	return &Observed{&own, o.Past}
}

// Judged is the judgement on an observation.
func Judged(o *Observed, policy judge.Policy) *judge.Judgement {
	return judge.Judge(o.Observation, o.Past, policy)
}

// Part puts something into an observation.
type Part func(*Observed)

// Observe returns an observation of the parts, added in their order.
func Observe(parts ...Part) *Observed {
	o := &Observed{Observation: &judge.Observation{
		Now: Now, NADs: map[types.NamespacedName]*ippool.NAD{},
		Pods: map[types.NamespacedName]*podstate.Pod{}, Nodes: map[string]*podstate.Node{},
	}}
	for _, p := range parts {
		p(o)
	}
	return o
}

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
