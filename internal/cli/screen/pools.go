package screen

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
)

// Pools writes how full all pools are, the fullest first.
func (s *Screen) Pools(d *document.PoolList) {
	s.notes(d.Notes)
	s.poolTable(d.Pools...)
	for _, p := range d.Pools {
		if len(p.Waiting) > 0 && !s.Wide {
			s.Text(p.Pool+" is full, waiting: ", list(p.Waiting, fewRows))
		}
	}
}

// PoolDetails writes more of the pools that were asked for.
func (s *Screen) PoolDetails(d *document.PoolDetails) {
	s.notes(d.Notes)
	s.gates(d.Gates)
	for i, p := range d.Pools {
		if i > 0 {
			s.Line("")
		}
		s.poolTable(p.PoolUsage)
		for _, def := range p.Definitions {
			s.fact(def.Name, fmt.Sprintf("assigns %s: %s", addresses(def.Usable.Int), ranges(def.Ranges, def.MoreRanges)))
		}
		if p.Unknown == "" {
			s.fact("free", ranges(p.FreeRanges, p.MoreFreeRanges))
		}
		s.owners("NAMESPACES", p.Namespaces)
		s.owners("WORKLOADS", p.Workloads)
		if len(p.Waiting) > 0 {
			most := manyRows
			if s.Wide {
				most = len(p.Waiting)
			}
			s.Title(table.Bad, "WAITING FOR AN ADDRESS", len(p.Waiting))
			s.Text("", list(p.Waiting, most))
		}
		s.rows(section{title: "STALE", level: table.Warn, release: true}, d.ObservedAt, p.StaleEntries)
	}
}

// poolTable writes a row for each pool, and why there are question marks, each reason once.
func (s *Screen) poolTable(pools ...document.PoolUsage) {
	columns := []table.Column{
		{Name: "POOL", Cut: 14}, {Name: "RANGE", Optional: true}, {Name: "USABLE"}, {Name: "USED"}, {Name: "FREE"}, {Name: "FILL"}, {Name: "STALE"},
		{Name: "HELD"}, {Name: "WAITING"}, {Name: "NETWORKS", Cut: 12, Optional: true}, {Name: "WAITING PODS", Wide: true},
	}
	rows, unknown, reasons := make([][]string, 0, len(pools)), map[string][]string{}, []string{}
	for _, p := range pools {
		usable, free, waiting := "?", "?", "?" // whether a pod waits depends on whether the pool is full
		if p.Unknown == "" {
			usable, free, waiting = amount(p.Usable.Int), amount(p.Free.Int), strconv.Itoa(len(p.Waiting))
		} else {
			if unknown[p.Unknown] == nil {
				reasons = append(reasons, p.Unknown)
			}
			unknown[p.Unknown] = append(unknown[p.Unknown], p.Pool)
		}
		rows = append(rows, []string{p.Pool, p.Range, usable, strconv.Itoa(p.Used), free, percent(p), strconv.Itoa(p.Stale),
			strconv.Itoa(p.Held), waiting, strings.Join(p.Networks, ","), strings.Join(p.Waiting, ", ")})
	}
	s.Table(columns, rows)
	for _, why := range reasons {
		s.Text("? ", fmt.Sprintf("%s: %s.", list(unknown[why], fewRows), why))
	}
}

func (s *Screen) owners(title string, owners []document.PoolOwner) {
	if len(owners) == 0 {
		return
	}
	s.Line("\n%s", title)
	rows := make([][]string, 0, len(owners))
	for _, o := range owners {
		rows = append(rows, []string{o.Name, strconv.Itoa(o.Entries)})
	}
	s.Table([]table.Column{{Name: "NAME", Cut: 20}, {Name: "ENTRIES"}}, rows)
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

// addresses is an amount with what it counts.
func addresses(n *big.Int) string {
	if text := amount(n); text != "1" {
		return text + " addresses"
	}
	return "1 address"
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
	switch {
	case len(all) == 0:
		return "none"
	case more > 0:
		return fmt.Sprintf("%s, and %d more", strings.Join(all, ", "), more)
	}
	return strings.Join(all, ", ")
}
