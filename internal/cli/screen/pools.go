package screen

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// Pools writes how full all pools are. The fullest comes first.
func (s *Screen) Pools(d *view.PoolsReport) {
	s.List()
	s.circumstances(view.Circumstances{Limits: d.Limits})
	s.poolTable(d.Pools...)
	for _, p := range d.Pools {
		if len(p.Waiting) > 0 {
			s.Text(p.Pool+" is full, waiting: ", s.names(p.Waiting, fewNames))
		}
		if p.DeleteCommand != "" {
			s.Line("Delete %s, if it is still empty:\n    %s", p.Pool, p.DeleteCommand)
		}
	}
}

// Pool writes the details of some pools.
func (s *Screen) Pool(d *view.PoolReport) {
	s.List()
	s.circumstances(d.Circumstances)
	for i, p := range d.Pools {
		if i > 0 {
			s.Line("")
		}
		s.poolTable(p.PoolUsage)
		for _, def := range p.Definitions {
			s.fact(def.Name, fmt.Sprintf("%s usable: %s", amount(def.Usable.Int), rangeList(def.Ranges, def.MoreRanges)))
		}
		if p.Unknown == "" {
			s.fact("free", rangeList(p.FreeRanges, p.MoreFreeRanges))
		}
		s.fact("namespaces", owners(p.Namespaces))
		s.fact("workloads", owners(p.Workloads))
		if len(p.Waiting) > 0 {
			s.Title("WAITING FOR AN ADDRESS", len(p.Waiting))
			s.Text("", s.names(p.Waiting, manyRows))
		}
		s.rows("STALE", d.ObservedAt, p.StaleEntries)
	}
	s.legend()
	if len(d.Pools) == 1 && d.Pools[0].Held+d.Pools[0].Stale > 0 && !s.NoHeaders {
		s.Line("'explain pool/%s' lists what is held and stale, with the steps that end it.", d.Pools[0].Pool)
	}
}

// poolTable writes a row for each pool, and each reason for a question mark once.
func (s *Screen) poolTable(pools ...view.PoolUsage) {
	columns := []string{"POOL", "RANGE", "USABLE", "USED", "BLOCKED", "FREE", "OUTSIDE", "FILL", "STALE", "HELD",
		"WAITING", "NETWORKS"}
	unknown := map[string][]string{} // pools by why
	s.Table(columns, lists.Map(pools, func(p view.PoolUsage) []string {
		usable, blocked, free, outside := "?", "?", "?", "?"
		used, waiting := p.Used, "?" // a pod waits only for a full pool
		if p.Usable != nil {
			usable, used, outside = amount(p.Usable.Int), p.Used-*p.Outside, strconv.Itoa(*p.Outside)
		}
		if p.Unknown == "" {
			blocked, free, waiting = amount(p.Blocked.Int), amount(p.Free.Int), strconv.Itoa(len(p.Waiting))
		} else {
			unknown[p.Unknown] = append(unknown[p.Unknown], p.Pool)
		}
		return []string{
			p.Pool, p.Range, usable, strconv.Itoa(used), blocked, free, outside, percent(p), strconv.Itoa(p.Stale),
			strconv.Itoa(p.Held), waiting, strings.Join(p.Networks, ","),
		}
	}), nil)
	for _, why := range slices.Sorted(maps.Keys(unknown)) {
		s.Text("? ", fmt.Sprintf("%s: %s.", s.names(unknown[why], fewNames), why))
	}
	for _, p := range pools {
		if p.Stopped > 0 {
			s.Text("", fmt.Sprintf("%s: stopped virtual machines keep %d of the %d held.", p.Pool, p.Stopped, p.Held))
		}
	}
}

func owners(all []view.Owner) string {
	texts := lists.Map(all, func(o view.Owner) string { return fmt.Sprintf("%s (%d)", o.Name, o.Entries) })
	return cmp.Or(strings.Join(texts, ", "), "none")
}

func amount(n *big.Int) string {
	if n.BitLen() <= 40 {
		return n.String()
	}
	return new(big.Float).SetInt(n).Text('g', 3)
}

func percent(p view.PoolUsage) string {
	switch {
	case p.Unknown != "":
		return "?"
	case p.Fill == nil:
		return "-"
	}
	return fmt.Sprintf("%d%%", int(*p.Fill*100))
}

func rangeList(all []string, more int) string {
	if more > 0 {
		all = append(slices.Clone(all), fmt.Sprintf("and %d more", more))
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}
