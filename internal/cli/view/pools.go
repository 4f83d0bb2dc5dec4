package view

import (
	"cmp"
	"math/big"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// PoolsReport is the document of pools for all pools.
type PoolsReport struct {
	Header
	Circumstances
	Pools []PoolUsage `json:"pools"` // the fullest first
}

// PoolReport is the document of pools for some pools.
type PoolReport struct {
	Header
	Circumstances
	Pools []PoolDetail `json:"pools"`
}

// PoolUsage is how full a pool is. Unknown values are null, and the field unknown says why.
type PoolUsage struct {
	Pool  string `json:"pool"`
	Range string `json:"range"`
	// Usable is the number of addresses that can be assigned from an empty pool. Beyond 2^53-1 it is a string of digits.
	Usable *Count `json:"usable"`
	// Used is the number of allocations, including those of addresses that are not usable.
	Used int `json:"used"`
	// Outside is the part of used that is of no usable address: usable = used - outside + blocked + free.
	Outside *int `json:"outside"`
	// Blocked is the number of usable addresses that have no allocation and are not free, in the form of usable: they have
	// a reservation, or a pod carries them.
	Blocked *Count `json:"blocked"`
	// Free is the number of usable addresses that can be assigned now, in the form of usable.
	Free *Count `json:"free"`
	// Fill is the part of the usable addresses that is not free, 0 to 1; null also where none is usable.
	Fill  *float64 `json:"fill"`
	InUse int      `json:"inUse"`
	Held  int      `json:"held"`
	Stale int      `json:"stale"`
	// Stopped is the part of held that IPAMClaims keep for stopped virtual machines.
	Stopped int `json:"stopped"`
	// Waiting are the pods that cannot start because the pool is full.
	Waiting []string `json:"waiting"`
	// Networks are the NetworkAttachmentDefinitions that use the pool.
	Networks []string `json:"networks"`
	// Unknown says why usable, blocked, outside, free and fill are null; while reservations cannot be read only blocked,
	// free and fill are. It is absent where none is.
	Unknown string `json:"unknown,omitempty"`
	// DeleteCommand checks again that nothing uses the pool, and then deletes it. It is absent without --unused.
	DeleteCommand string `json:"deleteCommand,omitempty"`
}

// PoolDetail has the details of one pool.
type PoolDetail struct {
	PoolUsage
	Definitions []PoolDefinition `json:"definitions"`
	// Namespaces and Workloads are those with the most allocations, at most 10 of each.
	Namespaces []Owner `json:"namespaces"`
	Workloads  []Owner `json:"workloads"`
	// FreeRanges are the lowest free ranges, "10.0.0.5-10.0.0.9" or a single address, at most 20; empty where unknown.
	FreeRanges []string `json:"freeRanges"`
	// MoreFreeRanges is the number of free ranges beyond those.
	MoreFreeRanges int `json:"moreFreeRanges"`
	// StaleEntries are as in check.
	StaleEntries []AllocationRow `json:"staleEntries"`
}

// PoolDefinition has the addresses that one NetworkAttachmentDefinition assigns from a pool.
type PoolDefinition struct {
	Name       string   `json:"name"`
	Usable     Count    `json:"usable"`
	Ranges     []string `json:"ranges"` // at most 20
	MoreRanges int      `json:"moreRanges"`
}

// Owner is a namespace, or a workload as "<namespace>/<kind>/<name>", with allocations in a pool.
type Owner struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
}

// Count is a number of addresses. In JSON it is a number up to 2^53-1, and a string of digits beyond that.
type Count struct{ *big.Int }

// MarshalJSON implements json.Marshaler.
func (c Count) MarshalJSON() ([]byte, error) {
	if c.BitLen() <= 53 {
		return []byte(c.String()), nil
	}
	return []byte(`"` + c.String() + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(text []byte) error {
	c.Int = new(big.Int)
	return c.UnmarshalText([]byte(strings.Trim(string(text), `"`)))
}

// NewPoolsReport returns the document of pools for all pools.
func NewPoolsReport(out *reconciler.Result, u *usage.Pools) *PoolsReport {
	p := Pick(out, Filter{})
	return &PoolsReport{Header: headerOf(KindPools, p.Observation.Now), Circumstances: p.poolCircumstances(u),
		Pools: lists.Map(u.All, NewPoolUsage)}
}

// NewPoolReport returns the document of pools for some pools. Gates against releases in other pools are no answer.
func NewPoolReport(out *reconciler.Result, u *usage.Pools, pools []*usage.Pool) *PoolReport {
	p := Pick(out, Filter{Pools: lists.Map(pools, (*usage.Pool).Ref)})
	return &PoolReport{Header: headerOf(KindPool, p.Observation.Now), Circumstances: p.poolCircumstances(u),
		Pools: lists.Map(pools, func(pool *usage.Pool) PoolDetail { return p.poolDetail(u, pool) })}
}

func (p *Picked) poolDetail(u *usage.Pools, pool *usage.Pool) PoolDetail {
	owner := func(o usage.Owner) Owner { return Owner{o.Name, o.Entries} }
	d := PoolDetail{
		PoolUsage: NewPoolUsage(pool), Definitions: lists.Map(pool.Definitions, newDefinition), FreeRanges: []string{},
		Namespaces: lists.Map(pool.ByNamespace(), owner), Workloads: lists.Map(u.ByWorkload(pool), owner),
		StaleEntries: lists.Map(pool.StaleEntries, p.Row),
	}
	if free := pool.FreeAddresses; free != nil && pool.FreeUnknown == "" {
		d.FreeRanges, d.MoreFreeRanges = rangesOf(free)
	}
	return d
}

func (p *Picked) poolCircumstances(u *usage.Pools) Circumstances {
	c := p.circumstances()
	c.Notes = append(c.Notes, u.Notes...)
	return c
}

// NewPoolUsage returns the usage of a pool.
func NewPoolUsage(p *usage.Pool) PoolUsage {
	d := PoolUsage{Pool: p.Ref(), Range: p.RangeText, Used: p.Used, InUse: p.InUse, Held: p.Held, Stale: p.Stale,
		Stopped: p.Stopped, Waiting: lists.Map(p.Waiting, types.NamespacedName.String),
		Networks: p.Networks(), Unknown: cmp.Or(p.Unknown, p.FreeUnknown)}
	if p.Unknown == "" {
		d.Usable, d.Outside = &Count{p.Usable}, &p.Outside
	}
	if d.Unknown == "" {
		d.Free, d.Blocked = &Count{p.Free}, &Count{p.Blocked}
	}
	if fill, ok := p.Fill(); ok && d.Unknown == "" {
		d.Fill = &fill
	}
	return d
}

func newDefinition(n *usage.Definition) PoolDefinition {
	texts, more := rangesOf(n.Usable)
	return PoolDefinition{n.String(), Count{ippool.Size(n.Usable)}, texts, more}
}

// rangesOf returns the first 20 ranges of a set, and the number of the others.
func rangesOf(set *netipx.IPSet) (texts []string, more int) {
	all := set.Ranges()
	first := all[:min(len(all), 20)]
	return lists.Map(first, func(r netipx.IPRange) string {
		if r.From() == r.To() {
			return r.From().String()
		}
		return r.String()
	}), len(all) - len(first)
}
