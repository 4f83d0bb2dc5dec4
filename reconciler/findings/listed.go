package findings

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// mostFindings is how many findings of a kind are listed, apart from those that can be repaired: users decide how many
// there are, by their pods' annotations and by definitions. For the same reason a finding has at most NamesShown names.
const mostFindings = 1000

// findingPlace is where a finding is that is not listed.
type findingPlace struct {
	kind Kind
	addr netip.Addr // invalid where the finding has none, or several
	pool string
}

// findingList collects findings, and keeps no more than are listed.
type findingList struct {
	all      []Finding
	unlisted []findingPlace
	silent   map[string]bool // the nodes of the expired reports of all findings
	full     int             // the length from which add removes what is not listed
}

func newFindingList() *findingList {
	return &findingList{silent: map[string]bool{}, full: 2 * mostFindings}
}

func (l *findingList) add(found ...Finding) {
	for _, f := range found {
		for _, name := range f.silent {
			l.silent[name] = true
		}
		f.shortenNames()
		if l.all = append(l.all, f); len(l.all) >= l.full {
			l.shorten()
			l.full = len(l.all) + 2*mostFindings
		}
	}
}

// shorten sorts the findings, and removes those beyond mostFindings of a kind. A finding on a pool comes before one on
// none, so that nobody hides it by definitions of ranges without pools.
func (l *findingList) shorten() {
	slices.SortFunc(l.all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), compareBool(a.Pool == "", b.Pool == ""), compareFindings(a, b))
	})
	listed, count := l.all[:0], map[Kind]int{}
	for _, f := range l.all {
		if f.Repair == nil {
			if count[f.Kind]++; count[f.Kind] > mostFindings {
				addr, _ := netip.ParseAddr(f.IP)
				l.unlisted = append(l.unlisted, findingPlace{f.Kind, addr, f.Pool})
				continue
			}
		}
		listed = append(listed, f)
	}
	clear(l.all[len(listed):])
	l.all = listed
}

// finish returns the findings in their order, with one for all of a kind that are not listed, and those.
func (l *findingList) finish() ([]Finding, []findingPlace) {
	l.shorten()
	count := map[Kind]int{}
	for _, p := range l.unlisted {
		count[p.kind]++
	}
	for kind, n := range count {
		l.all = append(l.all, Finding{Kind: kind, Pods: []string{}, ContainerIDs: []string{}, unlisted: n, more: true,
			Message: fmt.Sprintf("there are %d more findings of the kind %s, which are not listed", n, kind)})
	}
	slices.SortFunc(l.all, compareFindings)
	return l.all, l.unlisted
}

// compareFindings orders findings by all that they say, so that a judgement gives the same list again.
func compareFindings(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.IP, b.IP),
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Message, b.Message),
		slices.Compare(a.ContainerIDs, b.ContainerIDs), slices.Compare(a.Pods, b.Pods),
		compareBool(a.Repair == nil, b.Repair == nil))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// shortenNames makes the lists of a finding its own, with at most NamesShown names each.
func (f *Finding) shortenNames() {
	f.more = f.more || len(f.Pods) > facts.NamesShown || len(f.ContainerIDs) > facts.NamesShown
	f.Pods = append([]string{}, f.Pods[:min(len(f.Pods), facts.NamesShown)]...)
	f.ContainerIDs = append([]string{}, f.ContainerIDs[:min(len(f.ContainerIDs), facts.NamesShown)]...)
}

// Count is how many findings this one stands for.
func (f Finding) Count() int { return max(1, f.unlisted) }

// IsRest reports whether the finding stands for all of its kind that are not listed, wherever they are.
func (f Finding) IsRest() bool { return f.unlisted > 0 }

// NamesAll reports whether the finding names each pod and sandbox that it is about.
func (f Finding) NamesAll() bool { return !f.more }

// andOthers lists names as in "a, b and 3 more".
func andOthers(names []string) string {
	if len(names) > facts.NamesShown {
		names = append(slices.Clone(names[:facts.NamesShown]), fmt.Sprintf("%d more", len(names)-facts.NamesShown))
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
