package screen

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Pools writes how full all pools are, the fullest first.
func (s *Screen) Pools(r *report.Report, u *usage.Pools) {
	s.poolNotes(r, u)
	s.poolTable(u.All)
	s.unknown(u.All)
	if s.Wide {
		return
	}
	for _, p := range u.All {
		if len(p.Waiting) > 0 {
			s.Text(fmt.Sprintf("%s is full, waiting: ", p.Ref()), podList(p.Waiting, fewRows))
		}
	}
}

func (s *Screen) poolNotes(r *report.Report, u *usage.Pools) {
	for _, text := range append(r.Notes(), u.Notes...) {
		s.Text("Note: ", text)
	}
}

func (s *Screen) poolTable(pools []*usage.Pool) {
	columns := []table.Column{{Name: "POOL", Cut: 14}, {Name: "RANGE", Optional: true}, {Name: "USABLE"}, {Name: "USED"}, {Name: "FREE"}, {Name: "FILL"},
		{Name: "STALE"}, {Name: "HELD"}, {Name: "WAITING"}, {Name: "NETWORKS", Cut: 12, Optional: true}, {Name: "WAITING PODS", Wide: true}}
	rows := make([][]string, 0, len(pools))
	for _, p := range pools {
		rows = append(rows, []string{p.Ref(), table.Dash(p.RangeText), amount(p.Usable), strconv.Itoa(p.Used), amount(p.Free), percent(p),
			strconv.Itoa(p.Stale), strconv.Itoa(p.Held), waiting(p), table.Dash(strings.Join(p.Networks(), ",")), table.Dash(podList(p.Waiting, len(p.Waiting)))})
	}
	s.Table(columns, rows)
}

// unknown says why there are question marks, each reason once.
func (s *Screen) unknown(pools []*usage.Pool) {
	of, order := map[string][]string{}, []string{}
	for _, p := range pools {
		if p.Unknown == "" {
			continue
		}
		if of[p.Unknown] == nil {
			order = append(order, p.Unknown)
		}
		of[p.Unknown] = append(of[p.Unknown], p.Ref())
	}
	for _, why := range order {
		s.Text("? ", fmt.Sprintf("%s: %s.", list(of[why], fewRows), why))
	}
}

// Pool writes more of one pool.
func (s *Screen) Pool(r *report.Report, u *usage.Pools, p *usage.Pool) {
	s.poolTable([]*usage.Pool{p})
	s.unknown([]*usage.Pool{p})
	for _, d := range p.Definitions {
		s.fact(d.String(), fmt.Sprintf("assigns %s: %s", Amount(ippool.Size(d.Usable), "address"), ranges(document.Ranges(d.Usable))))
	}
	if free := p.FreeAddresses(); free != nil {
		s.fact("free", ranges(document.Ranges(free)))
	}
	s.owners("NAMESPACES", p.ByNamespace())
	s.owners("WORKLOADS", u.ByWorkload(p))
	if len(p.Waiting) > 0 {
		s.Title(table.Bad, "WAITING FOR AN ADDRESS", len(p.Waiting))
		most := manyRows
		if s.Wide {
			most = len(p.Waiting)
		}
		s.Text("", podList(p.Waiting, most))
	}
	s.items(section{title: "STALE", level: table.Warn, release: true}, r, p.StaleEntries)
}

// PoolsFound writes more of the pools that were asked for.
func (s *Screen) PoolsFound(r *report.Report, u *usage.Pools, pools []*usage.Pool) {
	s.poolNotes(r, u)
	s.gates(r)
	for i, p := range pools {
		if i > 0 {
			s.Line("")
		}
		s.Pool(r, u, p)
	}
}

func (s *Screen) owners(title string, owners []usage.Owner) {
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

// amount is a number of addresses, in powers of two where it has many digits, and "?" where it
// is not known.
func amount(n *big.Int) string {
	switch {
	case n == nil:
		return "?"
	case n.BitLen() <= 40:
		return n.String()
	}
	nearest := new(big.Int).Add(n, new(big.Int).Rsh(n, 20)) // 2^64-2 is told as 2^64
	power := new(big.Int).Lsh(big.NewInt(1), uint(nearest.BitLen()-1))
	if off := new(big.Int).Abs(new(big.Int).Sub(n, power)); new(big.Int).Rsh(n, 20).Cmp(off) >= 0 {
		return fmt.Sprintf("~2^%d", nearest.BitLen()-1)
	}
	return fmt.Sprintf(">2^%d", n.BitLen()-1)
}

// Amount is an amount with what it counts.
func Amount(n *big.Int, what string) string {
	if n.IsInt64() && n.Int64() == 1 {
		return "1 " + what
	}
	return amount(n) + " " + what + "es"
}

// percent is rounded down, so that only what is full is 100 %.
func percent(p *usage.Pool) string {
	fill, ok := p.Fill()
	switch {
	case p.Unknown != "":
		return "?"
	case !ok:
		return "-"
	}
	return fmt.Sprintf("%d%%", int(fill*100))
}

// waiting is how many pods wait, "?" where it is not known whether the pool is full.
func waiting(p *usage.Pool) string {
	if p.Unknown != "" {
		return "?"
	}
	return strconv.Itoa(len(p.Waiting))
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

func podList(pods []types.NamespacedName, most int) string {
	all := make([]string, 0, len(pods))
	for _, p := range pods {
		all = append(all, p.String())
	}
	return list(all, most)
}

// list is as many of the texts, and how many more there are.
func list(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}
