package usage

import (
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// List is what pools prints as JSON or YAML.
type List struct {
	Pools []Row    `json:"pools"`
	Notes []string `json:"notes"`
}

// Row is how full one pool is. What is null is not known, and Unknown says why.
type Row struct {
	Pool     string   `json:"pool"` // "<namespace>/<name>"
	Range    string   `json:"range"`
	Usable   *Count   `json:"usable"`
	Used     int      `json:"used"` // entries, also of addresses that are not usable
	Free     *Count   `json:"free"`
	Fill     *float64 `json:"fill"` // 0 to 1; null also where nothing is usable
	InUse    int      `json:"inUse"`
	Held     int      `json:"held"`
	Stale    int      `json:"stale"`
	Waiting  []string `json:"waiting"`  // pods
	Networks []string `json:"networks"` // NetworkAttachmentDefinitions
	Unknown  string   `json:"unknown,omitempty"`
}

// Count is a number of addresses, 0 or more. In JSON it is a number up to 2^53-1, which every reader has
// exactly, and beyond that, in IPv6 ranges wider than /75, its digits as a string.
type Count struct{ *big.Int }

// MarshalJSON is a number, or a string where a reader could not have it exactly.
func (c Count) MarshalJSON() ([]byte, error) {
	if c.BitLen() <= 53 {
		return []byte(c.String()), nil
	}
	return []byte(`"` + c.String() + `"`), nil
}

// UnmarshalJSON reads both forms.
func (c *Count) UnmarshalJSON(text []byte) error {
	c.Int = new(big.Int)
	return c.Int.UnmarshalText([]byte(strings.Trim(string(text), `"`)))
}

// Detail is what pools prints of one pool as JSON or YAML.
type Detail struct {
	Row
	Definitions []DefinitionRow `json:"definitions"`
	Namespaces  []Owner         `json:"namespaces"` // with the most entries
	Workloads   []Owner         `json:"workloads"`  // with the most entries
	// FreeRanges are the lowest free addresses, "10.0.0.5-10.0.0.9" or a single one; null where
	// that is not known. MoreFreeRanges is how many more ranges there are.
	FreeRanges     []string   `json:"freeRanges"`
	MoreFreeRanges int        `json:"moreFreeRanges"`
	StaleEntries   []StaleRow `json:"staleEntries"`
}

// DefinitionRow is what one definition assigns from a pool.
type DefinitionRow struct {
	Name   string   `json:"name"`
	Usable Count    `json:"usable"`
	Ranges []string `json:"ranges"`
}

// StaleRow is an entry that is to be released.
type StaleRow struct {
	judge.AllocationRow
	Release string `json:"release"` // when, or why not, in words
}

// Release is when an item will be released, or why it will not, in words.
type Release func(*judge.Item) string

// List is the document of all pools.
func (u *Pools) List() List {
	l := List{Pools: make([]Row, 0, len(u.All)), Notes: append([]string{}, u.Notes...)}
	for _, p := range u.All {
		l.Pools = append(l.Pools, p.Row())
	}
	return l
}

// Row is the pool as in a List.
func (p *Pool) Row() Row {
	r := Row{Pool: p.Ref(), Range: p.RangeText, Used: p.Used, InUse: p.InUse, Held: p.Held, Stale: p.Stale,
		Waiting: names(p.Waiting), Networks: p.Networks(), Unknown: p.Unknown}
	if p.Usable != nil {
		r.Usable, r.Free = &Count{p.Usable}, &Count{p.Free}
	}
	if fill, ok := p.Fill(); ok {
		r.Fill = &fill
	}
	return r
}

// Networks are the pool's definitions as "<namespace>/<name>", each once.
func (p *Pool) Networks() []string {
	networks := make([]string, 0, len(p.Definitions))
	for _, d := range p.Definitions {
		if n := d.String(); len(networks) == 0 || networks[len(networks)-1] != n {
			networks = append(networks, n)
		}
	}
	return networks
}

func names(pods []types.NamespacedName) []string {
	all := make([]string, 0, len(pods))
	for _, p := range pods {
		all = append(all, p.String())
	}
	return all
}
