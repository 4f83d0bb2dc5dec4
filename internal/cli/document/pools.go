package document

import (
	"math/big"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// PoolList is what pools prints of all pools.
type PoolList struct {
	Header
	Circumstances
	Pools []PoolUsage `json:"pools"` // the fullest first
}

// PoolDetails is what pools prints of those that it was asked for.
type PoolDetails struct {
	Header
	Circumstances
	Pools []PoolDetail `json:"pools"`
}

// PoolUsage is how full a pool is. What is null is not known, and unknown says why.
type PoolUsage struct {
	Pool  string `json:"pool"`
	Range string `json:"range"`
	// Usable is how many addresses would be assigned were none taken. Beyond 2^53-1 it is the decimal digits as a string.
	Usable *Count `json:"usable"`
	// Used is how many entries there are, of addresses that are not usable, too.
	Used int `json:"used"`
	// Free is how many of the usable addresses are not taken, written as usable is.
	Free *Count `json:"free"`
	// Fill is which part of the usable addresses is taken, 0 to 1; null also where none is usable.
	Fill  *float64 `json:"fill"`
	InUse int      `json:"inUse"`
	Held  int      `json:"held"`
	Stale int      `json:"stale"`
	// Waiting are pods that cannot start because the pool is full.
	Waiting []string `json:"waiting"`
	// Networks are the NetworkAttachmentDefinitions that addresses are assigned by.
	Networks []string `json:"networks"`
	// Unknown is why usable and free are null; left out where they are not.
	Unknown string `json:"unknown,omitempty"`
}

// PoolDetail is more of one pool.
type PoolDetail struct {
	PoolUsage
	Definitions []PoolDefinition `json:"definitions"`
	// Namespaces and Workloads are who has the most entries, at most 10 of each.
	Namespaces []PoolOwner `json:"namespaces"`
	Workloads  []PoolOwner `json:"workloads"`
	// FreeRanges are the lowest free addresses, each "10.0.0.5-10.0.0.9" or a single address, at most 20; none where they
	// are not known.
	FreeRanges []string `json:"freeRanges"`
	// MoreFreeRanges is how many more ranges there are.
	MoreFreeRanges int `json:"moreFreeRanges"`
	// StaleEntries are as in check.
	StaleEntries []AllocationRow `json:"staleEntries"`
}

// PoolDefinition is what one NetworkAttachmentDefinition assigns from a pool.
type PoolDefinition struct {
	Name       string   `json:"name"`
	Usable     Count    `json:"usable"`
	Ranges     []string `json:"ranges"` // at most 20
	MoreRanges int      `json:"moreRanges"`
}

// PoolOwner is a namespace, or a workload as "<namespace>/<kind>/<name>".
type PoolOwner struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
}

// Count is a number of addresses. In JSON it is a number up to 2^53-1, which every reader has exactly, and
// beyond that, in ranges of IPv6 wider than /75, its decimal digits as a string.
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

// OfPools is how full all pools are.
func OfPools(h Header, r *report.Report, u *usage.Pools) *PoolList {
	return &PoolList{Header: h, Circumstances: poolCircumstances(r, u), Pools: Rows(u.All, OfPool)}
}

// OfPoolDetails is more of some of the pools.
func OfPoolDetails(h Header, r *report.Report, u *usage.Pools, pools []*usage.Pool) *PoolDetails {
	detail := func(p *usage.Pool) PoolDetail {
		d := PoolDetail{
			PoolUsage: OfPool(p), Definitions: Rows(p.Definitions, ofDefinition), FreeRanges: []string{},
			Namespaces: Rows(p.ByNamespace(), ofOwner), Workloads: Rows(u.ByWorkload(p), ofOwner),
			StaleEntries: Rows(p.StaleEntries, func(it *judge.Item) AllocationRow { return OfItem(r, it) }),
		}
		if free := p.FreeAddresses; free != nil {
			d.FreeRanges, d.MoreFreeRanges = ranges(free)
		}
		return d
	}
	return &PoolDetails{Header: h, Circumstances: poolCircumstances(r, u), Pools: Rows(pools, detail)}
}

func poolCircumstances(r *report.Report, u *usage.Pools) Circumstances {
	c := circumstances(r)
	c.Notes = append(c.Notes, u.Notes...)
	return c
}

// OfPool is how full a pool is.
func OfPool(p *usage.Pool) PoolUsage {
	d := PoolUsage{Pool: p.Ref(), Range: p.RangeText, Used: p.Used, InUse: p.InUse, Held: p.Held, Stale: p.Stale,
		Waiting: Rows(p.Waiting, types.NamespacedName.String), Networks: p.Networks(), Unknown: p.Unknown}
	if p.Unknown == "" {
		d.Usable, d.Free = &Count{p.Usable}, &Count{p.Free}
	}
	if fill, ok := p.Fill(); ok {
		d.Fill = &fill
	}
	return d
}

func ofDefinition(n *usage.Definition) PoolDefinition {
	texts, more := ranges(n.Usable)
	return PoolDefinition{n.String(), Count{ippool.Size(n.Usable)}, texts, more}
}

func ofOwner(o usage.Owner) PoolOwner { return PoolOwner(o) }

// ranges are the first 20 ranges of a set, and how many more there are.
func ranges(set *netipx.IPSet) (texts []string, more int) {
	all := set.Ranges()
	first := all[:min(len(all), 20)]
	return Rows(first, func(r netipx.IPRange) string {
		if r.From() == r.To() {
			return r.From().String()
		}
		return r.String()
	}), len(all) - len(first)
}
