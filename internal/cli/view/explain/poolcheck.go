package explain

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// DefaultSurge is how many more pods of each ReplicaSet a rolling update starts, if nothing else is asked.
const DefaultSurge = "25%"

// PoolChange is a question of pools check: what a proposal would mean, and whether so many more pods fit.
type PoolChange struct {
	Proposal *ranges.Proposal
	More     int
	Surge    intstr.IntOrString
}

// PoolCheck returns the answer of pools check by the result of a pass. pools are the usage of its pools.
func (q PoolChange) PoolCheck(out *reconciler.Result, pools *usage.Pools, a advice.Advisor) (*view.PoolCheck, error) {
	j := out.Assessment
	found := ranges.Of(j, pools, q.Proposal)
	fits, err := found.Fits(j, q.More, q.Surge)
	if err != nil {
		return nil, err
	}
	var steps []view.Advice
	for _, s := range found.Steps(j) {
		steps = append(steps, a.Steps("more", s.Name, advice.Facts{Names: s.Names})...)
	}
	return view.NewPoolCheck(out, pools, found, fits, steps), nil
}
