package statuscmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// nearlyFull is from which part of its usable addresses on a pool is worth a warning: that of
// the alert IPReconcilePoolNearlyFull.
const nearlyFull = 0.9

// namesShown is how many names a line has at most.
const namesShown = 3

// sayPools tells of pools for which pods wait, and of those that are nearly full.
func (f *facts) sayPools(l *lines) {
	const id = "pools"
	if !f.judged.known() || len(f.judged.value.Observation.Pools) == 0 {
		return // it was said
	}
	pools := usage.Of(f.judged.value.Judgement)
	pools.AddWaiting()
	var waited, full []string
	pods := 0
	for _, p := range pools.All {
		fill, known := p.Fill()
		switch {
		case len(p.Waiting) > 0:
			waited = append(waited, p.Ref())
			pods += len(p.Waiting)
		case known && fill > nearlyFull:
			full = append(full, fmt.Sprintf("%s (%.0f %%)", p.Ref(), 100*fill))
		}
	}
	if len(waited) > 0 {
		l.fail(id, "ip-reconcile pools "+waited[0], "%s cannot start because no address is left in %s.", plural(pods, "pod"), firstOf(waited))
	}
	if len(full) > 0 {
		l.warn(id, "ip-reconcile pools", "%s nearly full: %s.", map[bool]string{true: "1 pool is", false: fmt.Sprintf("%d pools are", len(full))}[len(full) == 1], firstOf(full))
	}
	if len(waited)+len(full) == 0 {
		l.ok(id, "No pod waits for an address, and no pool is known to be nearly full.")
	}
}

// sayFindings tells of what is wrong beside the verdicts, where nothing else here does.
func (f *facts) sayFindings(l *lines) {
	const id = "findings"
	if !f.judged.known() {
		return // it was said
	}
	count := map[judge.Kind]int{}
	for _, x := range f.judged.value.Findings {
		count[x.Kind]++
	}
	outage, kinds := countFindings(count, judge.Conflict, judge.Unrecorded, judge.Misrecorded)
	if outage != "" {
		l.fail(id, "ip-reconcile check --reason "+kinds, "Addresses are, or may soon be, on two pods: %s.", outage)
	}
	other, kinds := countFindings(count, judge.Phantom, judge.MissingReservation)
	if other != "" {
		l.warn(id, "ip-reconcile check --reason "+kinds, "Something is wrong beside the allocations: %s.", other)
	}
	if outage+other == "" {
		l.ok(id, "No address is on two pods, and none in use is without its allocation.")
	}
}

// countFindings are those of some kinds, as "1 Conflict, 2 Unrecorded", and their kinds.
func countFindings(count map[judge.Kind]int, of ...judge.Kind) (text, kinds string) {
	var texts, names []string
	for _, k := range of {
		if count[k] > 0 {
			texts, names = append(texts, fmt.Sprintf("%d %s", count[k], k)), append(names, string(k))
		}
	}
	return strings.Join(texts, ", "), strings.Join(names, ",")
}

// firstOf are the first of many names.
func firstOf(names []string) string {
	shown := slices.Clone(names[:min(len(names), namesShown)])
	if more := len(names) - len(shown); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}
