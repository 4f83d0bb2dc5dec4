package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
)

// group are rows that have these columns in common.
type group struct {
	reason, release, sandbox, node string

	rows []document.AllocationRow
}

// groups writes a row for each reason and node, the largest first, with examples. How each item is found is
// said below.
func (s *Screen) groups(sec section, now time.Time, rows []document.AllocationRow) {
	var groups []*group
	byKey := map[[4]string]*group{}
	for _, d := range rows {
		g := &group{reason: reason(d), sandbox: d.Sandbox, node: d.Node}
		if sec.release {
			g.release = release(d, now)
		}
		key := [4]string{g.reason, g.release, g.sandbox, g.node}
		if byKey[key] == nil {
			byKey[key] = g
			groups = append(groups, g)
		}
		byKey[key].rows = append(byKey[key].rows, d)
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(len(b.rows), len(a.rows)) })
	columns := []table.Column{{Name: "COUNT"}, {Name: "REASON"}, {Name: "RELEASE", Hidden: !sec.release}, {Name: "SANDBOX"},
		{Name: "NODE", Cut: 8}, {Name: "ADDRESSES"}}
	var cells [][]string
	more := 0
	for i, g := range groups {
		if i >= manyRows {
			more += len(g.rows)
			continue
		}
		var addresses []string
		for _, d := range g.rows {
			addresses = append(addresses, table.Dash(d.IP))
		}
		cells = append(cells, []string{strconv.Itoa(len(g.rows)), g.reason, g.release, g.sandbox, g.node, list(addresses, fewRows)})
	}
	s.Table(columns, cells)
	if more > 0 {
		s.Line("and %s with %s.", Count(len(groups)-len(cells), "more group"), Count(more, "item"))
	}
	only := "--reason " + groups[0].rows[0].Reason.String()
	if groups[0].node != "" {
		only += " --on-node " + groups[0].node
	}
	s.Text("", fmt.Sprintf("Each item: the same with '-o wide', of one group with '%s'.", only))
	s.legend(sec, rows)
}
