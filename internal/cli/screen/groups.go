package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// groupKey is what the items of a group have in common.
type groupKey struct{ reason, release, sandbox, node string }

// groups writes a row for each reason and node, the largest first, and the sentence
// behind one of its items. How each item is found is said below.
func (s *Screen) groups(sec section, r *report.Report, items []*judge.Item) {
	grouped := map[groupKey][]*judge.Item{}
	var keys []groupKey
	for _, it := range items {
		k := groupKey{reason: reason(it), sandbox: sandboxOf(it), node: it.Node()}
		if sec.release {
			k.release = releaseOf(r, it)
		}
		if grouped[k] == nil {
			keys = append(keys, k)
		}
		grouped[k] = append(grouped[k], it)
	}
	slices.SortStableFunc(keys, func(a, b groupKey) int { return cmp.Compare(len(grouped[b]), len(grouped[a])) })
	columns := []table.Column{{Name: "COUNT"}, {Name: "REASON"}, {Name: "RELEASE"}, {Name: "SANDBOX"}, {Name: "NODE", Cut: 8}, {Name: "ADDRESSES"}}
	var rows [][]string
	for _, k := range keys[:min(len(keys), manyRows)] {
		rows = append(rows, []string{fmt.Sprint(len(grouped[k])), k.reason, k.release, table.Dash(k.sandbox), table.Dash(k.node), examples(grouped[k])})
	}
	if !sec.release {
		columns = slices.Delete(columns, 2, 3)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 2, 3)
		}
	}
	s.Table(columns, rows)
	if more := keys[len(rows):]; len(more) > 0 {
		n := 0
		for _, k := range more {
			n += len(grouped[k])
		}
		s.Line("and %s with %s.", Count(len(more), "more group"), Count(n, "item"))
	}
	first := grouped[keys[0]][0]
	s.Text("", fmt.Sprintf("Each item: the same with '-o wide', of one group with '--reason %s%s'.", first.Reason, onNode(keys[0].node)))
	s.legend(sec, r, items)
}

func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " --on-node " + node
}

// examples are the first addresses of a group.
func examples(items []*judge.Item) string {
	var texts []string
	for _, it := range items[:min(len(items), fewRows)] {
		texts = append(texts, table.Dash(it.Text()))
	}
	text := strings.Join(texts, ", ")
	if more := len(items) - len(texts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
