package statuscmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// sayStale says what is stale, and why it is there still.
func sayStale(f *facts, l *lines) {
	if f.judged.err != nil {
		if d := f.definitions[ippool.PoolResource.GroupResource().String()]; d.err != nil || d.value != nil { // else its check says so
			l.fail("ip-reconcile check", "Addresses cannot be judged: %s.", f.judged.why())
		}
		return
	}
	j, plan := f.judged.value, f.judged.value.plan
	in := fmt.Sprintf("%s in %s", plural(j.Total, "allocation"), plural(len(j.Observation.Pools), "pool"))
	count := map[reconciler.Refusal]int{}
	for _, x := range plan.Refused {
		count[x.Why]++
	}
	var parts []string
	if n := len(plan.Release); n > 0 {
		parts = append(parts, fmt.Sprintf("%d may be freed at once", n))
	}
	for _, why := range reconciler.Refusals() {
		if n := count[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, why))
		}
	}
	if len(parts) == 0 {
		l.ok("%s: none is stale.", in)
		return
	}
	l.ok("%s, %d of them stale: %s.", in, len(plan.Release)+len(plan.Refused), strings.Join(parts, ", "))
}

const (
	// nearlyFull is the taken part of its usable addresses from which on a pool is worth a warning: that of the
	// alert IPReconcilePoolNearlyFull.
	nearlyFull = 0.9
	// poolsShown is how many pools a line names.
	poolsShown = 3
)

// sayPools says which pools pods wait for, and which are nearly full.
func sayPools(f *facts, l *lines) {
	if len(f.judged.value.Observation.Pools) == 0 {
		return // sayStale says so
	}
	var waited, full []string
	pods := 0
	for _, p := range f.judged.value.pools.All {
		fill, isKnown := p.Fill()
		switch {
		case len(p.Waiting) > 0:
			waited = append(waited, p.Ref())
			pods += len(p.Waiting)
		case isKnown && fill > nearlyFull:
			full = append(full, fmt.Sprintf("%s (%.0f %%)", p.Ref(), 100*fill))
		}
	}
	if len(waited) > 0 {
		l.fail("ip-reconcile pools "+waited[0], "%s cannot start because no address is left in %s.",
			plural(pods, "pod"), few(poolsShown, waited))
	}
	if len(full) > 0 {
		l.warn("ip-reconcile pools", "%s nearly full: %s.", plural(len(full), "pool"), few(poolsShown, full))
	}
	if len(waited)+len(full) == 0 {
		l.ok("No pod waits for an address, and no pool is known to be nearly full.")
	}
}

// sayFindings says what is wrong beside the verdicts, and is not the matter of another check.
func sayFindings(f *facts, l *lines) {
	of := func(say func(next, format string, args ...any), format string, kinds ...judge.Kind) {
		count := map[judge.Kind]int{}
		for _, x := range f.judged.value.Findings {
			count[x.Kind]++
		}
		var texts, names []string
		for _, k := range kinds {
			if count[k] > 0 {
				texts, names = append(texts, fmt.Sprintf("%d %s", count[k], k)), append(names, string(k))
			}
		}
		if len(texts) > 0 {
			say("ip-reconcile check --reason "+strings.Join(names, ","), format, strings.Join(texts, ", "))
		}
	}
	before := len(l.all)
	of(l.fail, "Addresses are, or may soon be, on two pods: %s.", judge.Conflict, judge.Unrecorded, judge.Misrecorded)
	of(l.warn, "Something is wrong beside the allocations: %s.", judge.Phantom, judge.MissingReservation)
	if len(l.all) == before {
		l.ok("No address is on two pods, and none in use is without its allocation.")
	}
}

func sayUnreadable(f *facts, l *lines) {
	j := f.judged.value
	bad := slices.Clone(j.Observation.Unreadable)
	for _, x := range j.Findings {
		if x.Kind == judge.MalformedFinding {
			bad = append(bad, x.Message)
		}
	}
	for _, n := range j.Observation.NADs {
		if n.Problem != "" {
			bad = append(bad, fmt.Sprintf("NetworkAttachmentDefinition %s/%s: %s", n.Namespace, n.Name, n.Problem))
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		l.warn("ip-reconcile check", "What cannot be read is not judged: %s.", strings.TrimSuffix(few(1, bad), "."))
	}
}
