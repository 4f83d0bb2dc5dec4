package view

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// RetireReport is the document of pools retire.
type RetireReport struct {
	Header
	Circumstances
	DryRun bool          `json:"dryRun"`
	Pools  []RetiredPool `json:"pools"` // in the order in which they were named
	// Released and Failed are the stale items of the pools that were released, and that were not, as in run.
	Released []any `json:"released"`
	Failed   []any `json:"failed"`

	// ReleasedRows and FailedRows are the rows of Released and Failed.
	ReleasedRows []AllocationRow `json:"-"`
	FailedRows   []AllocationRow `json:"-"`
}

// RetiredPool is what becomes of one pool.
type RetiredPool struct {
	Pool  string                     `json:"pool"`
	Range string                     `json:"range"`
	UID   string                     `json:"uid"`
	State reconciler.RetirementState `json:"state"`
	// Detail says why the pool is kept, or what happens before it is deleted; absent where nothing does.
	Detail string `json:"detail,omitempty"`
	// Obstacles are the reasons against the retirement, with what it does first: Leftover and Recent.
	Obstacles []RetireObstacle `json:"obstacles"`
	// Workloads have the addresses that are in use or held: they must move to another pool.
	Workloads []Owner `json:"workloads"`

	// Items are the rows of the obstacles that have one.
	Items []AllocationRow `json:"-"`
}

// RetireObstacle is a reason against the retirement of a pool.
type RetireObstacle struct {
	Kind   plan.ObstacleKind `json:"kind"`
	Detail string            `json:"detail"` // a sentence
	// IP and PodRef are those of what is in use, held or stale; absent otherwise.
	IP     string `json:"ip,omitempty"`
	PodRef string `json:"podRef,omitempty"`
	// At is when the obstacle ends by itself; absent where that is unknown.
	At *time.Time `json:"at,omitempty"`
}

// CanRetire reports whether the pool is retired, or would be.
func (p *RetiredPool) CanRetire() bool { return p.State != reconciler.PoolKept }

// Says is what becomes of the pool, as the end of a sentence.
func (p *RetiredPool) Says(isDryRun bool) string {
	switch {
	case p.State == reconciler.PoolRetired:
		return "is deleted"
	case p.State == reconciler.PoolNotThere:
		return "does not exist any more"
	case p.State == reconciler.PoolKept:
		return "is kept"
	case isDryRun:
		return "would be deleted"
	}
	return "can be deleted"
}

// ReleasesFirst reports whether stale items are released before the pool is deleted.
func (p *RetiredPool) ReleasesFirst() bool {
	return p.State == reconciler.PoolWould && slices.ContainsFunc(p.Obstacles, func(o RetireObstacle) bool {
		return o.Kind == plan.ObstacleLeftover
	})
}

// NewRetireReport returns the document of pools retire.
func NewRetireReport(out *reconciler.Result, all []*reconciler.Retirement, isDryRun bool) *RetireReport {
	names := lists.Map(all, func(x *reconciler.Retirement) string { return x.Pool.Ref() })
	f := Filter{Pools: names}
	if len(names) == 0 { // without pools the filter would pick all items
		f.Has = func(*judge.Item) bool { return false }
	}
	p := Pick(out, f)
	released := slices.SortedStableFunc(slices.Values(lists.Filter(out.Released, p.Filter.Item)), judge.ByPlace)
	failed := lists.Filter(out.Refused, func(x plan.Refused) bool { return p.Filter.Item(x.Item) })
	slices.SortStableFunc(failed, func(a, b plan.Refused) int { return judge.ByPlace(a.Item, b.Item) })
	d := &RetireReport{Header: headerOf(KindRetirement, p.Observation.Now), Circumstances: p.circumstances(),
		DryRun: isDryRun, Pools: []RetiredPool{},
		Released:     lists.Map(released, func(it *judge.Item) any { return p.printed(it, "") }),
		Failed:       lists.Map(failed, func(x plan.Refused) any { return p.printed(x.Item, "; not released: "+x.Detail) }),
		ReleasedRows: lists.Map(released, p.Row),
		FailedRows:   lists.Map(failed, func(x plan.Refused) AllocationRow { return p.Row(x.Item) }),
	}
	for _, x := range all {
		d.Pools = append(d.Pools, p.retired(x))
	}
	return d
}

func (p *Picked) retired(x *reconciler.Retirement) RetiredPool {
	d := RetiredPool{Pool: x.Pool.Ref(), Range: x.Pool.RangeText, UID: x.Pool.UID, State: x.State, Detail: x.Why(),
		Obstacles: []RetireObstacle{}, Workloads: []Owner{}}
	counts := map[string]int{}
	for _, o := range x.Against {
		obstacle := RetireObstacle{Kind: o.Kind, Detail: o.Detail, At: When(o.At)}
		if o.Item != nil {
			obstacle.IP, obstacle.PodRef = o.Item.Text(), o.Item.PodRef()
			d.Items = append(d.Items, p.Row(o.Item))
		}
		isKeeping := o.Kind == plan.ObstacleInUse || o.Kind == plan.ObstacleHeld
		if isKeeping && o.Item.Owner().Name != "" {
			counts[p.workloadOf(o.Item)]++
		}
		d.Obstacles = append(d.Obstacles, obstacle)
	}
	for name, n := range counts {
		d.Workloads = append(d.Workloads, Owner{name, n})
	}
	slices.SortFunc(d.Workloads, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.Name, b.Name))
	})
	return d
}

// workloadOf is who controls the pod of an item, as "<namespace>/<kind>/<name>"; the pod itself where that is unknown.
func (p *Picked) workloadOf(it *judge.Item) string {
	owner := it.Owner()
	pod := p.Observation.Pods[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}]
	if pod != nil && owner.UID == "" && pod.Workload != "" {
		return pod.Workload
	}
	return owner.Namespace + "/Pod/" + owner.Name
}

// Kept reports whether a pool is kept.
func (d *RetireReport) Kept() bool {
	return slices.ContainsFunc(d.Pools, func(p RetiredPool) bool { return !p.CanRetire() })
}

// Names are the pools that were retired, or would be.
func (d *RetireReport) Names() (names []string) {
	for _, p := range d.Pools {
		if p.State == reconciler.PoolRetired || p.State == reconciler.PoolWould {
			names = append(names, p.Pool)
		}
	}
	return names
}
