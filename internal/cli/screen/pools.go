package screen

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
)

// Pools writes how full all pools are, the fullest first.
func (s *Screen) Pools(d *document.PoolList) {
	s.circumstances(d.Notes, nil)
	s.poolTable(d.Pools...)
	for _, p := range d.Pools {
		if len(p.Waiting) > 0 {
			s.Text(p.Pool+" is full, waiting: ", s.list(p.Waiting, fewRows))
		}
	}
}

// PoolDetails writes more of the pools that were asked for.
func (s *Screen) PoolDetails(d *document.PoolDetails) {
	s.circumstances(d.Notes, d.Gates)
	for i, p := range d.Pools {
		if i > 0 {
			s.Line("")
		}
		s.poolTable(p.PoolUsage)
		for _, def := range p.Definitions {
			s.fact(def.Name, fmt.Sprintf("%s usable: %s", amount(def.Usable.Int), ranges(def.Ranges, def.MoreRanges)))
		}
		if p.Unknown == "" {
			s.fact("free", ranges(p.FreeRanges, p.MoreFreeRanges))
		}
		s.owners("NAMESPACES", p.Namespaces)
		s.owners("WORKLOADS", p.Workloads)
		if len(p.Waiting) > 0 {
			s.Title(table.Bad, "WAITING FOR AN ADDRESS", len(p.Waiting))
			s.Text("", s.list(p.Waiting, manyRows))
		}
		s.rows(table.Warn, "STALE", d.ObservedAt, p.StaleEntries)
	}
}

// poolTable writes a row for each pool, and why there are question marks, each reason once.
func (s *Screen) poolTable(pools ...document.PoolUsage) {
	columns := []string{"POOL", "RANGE", "USABLE", "USED", "FREE", "FILL", "STALE", "HELD", "WAITING", "NETWORKS"}
	unknown := map[string][]string{} // pools by why
	s.Table(columns, document.Rows(pools, func(p document.PoolUsage) []string {
		usable, free, waiting := "?", "?", "?" // whether a pod waits depends on whether the pool is full
		if p.Unknown == "" {
			usable, free, waiting = amount(p.Usable.Int), amount(p.Free.Int), strconv.Itoa(len(p.Waiting))
		} else {
			unknown[p.Unknown] = append(unknown[p.Unknown], p.Pool)
		}
		return []string{p.Pool, p.Range, usable, strconv.Itoa(p.Used), free, percent(p), strconv.Itoa(p.Stale), strconv.Itoa(p.Held),
			waiting, strings.Join(p.Networks, ",")}
	}))
	for _, why := range slices.Sorted(maps.Keys(unknown)) {
		s.Text("? ", fmt.Sprintf("%s: %s.", s.list(unknown[why], fewRows), why))
	}
}

func (s *Screen) owners(title string, owners []document.PoolOwner) {
	if len(owners) == 0 {
		return
	}
	s.Line("\n%s", title)
	s.Table([]string{"NAME", "ENTRIES"}, document.Rows(owners, func(o document.PoolOwner) []string { return []string{o.Name, strconv.Itoa(o.Entries)} }))
}

// amount is a number of addresses, in powers of two where it has many digits.
func amount(n *big.Int) string {
	if n.BitLen() <= 40 {
		return n.String()
	}
	nearest := new(big.Int).Add(n, new(big.Int).Rsh(n, 20)) // 2^64-2 is shown as 2^64
	power := new(big.Int).Lsh(big.NewInt(1), uint(nearest.BitLen()-1))
	if off := new(big.Int).Abs(new(big.Int).Sub(n, power)); new(big.Int).Rsh(n, 20).Cmp(off) >= 0 {
		return fmt.Sprintf("~2^%d", nearest.BitLen()-1)
	}
	return fmt.Sprintf(">2^%d", n.BitLen()-1)
}

// percent is rounded down, so that only what is full is 100 %.
func percent(p document.PoolUsage) string {
	switch {
	case p.Unknown != "":
		return "?"
	case p.Fill == nil:
		return "-"
	}
	return fmt.Sprintf("%d%%", int(*p.Fill*100))
}

func ranges(all []string, more int) string {
	if more > 0 {
		all = append(slices.Clone(all), fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}
