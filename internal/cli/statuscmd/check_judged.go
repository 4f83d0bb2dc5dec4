package statuscmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func (p *Probe) paused(context.Context) (line, error) {
	if p.Observation.Paused {
		return warn(fmt.Sprintf("kubectl annotate namespace %s %s-", p.namespace, ippool.PausedAnnotation),
			"All releases are paused: namespace %s has the annotation, or cannot be read.", p.namespace)
	}
	var names []string
	next := ""
	for _, pool := range p.Observation.Pools {
		if pool.Paused {
			names = append(names, pool.Ref())
			next = fmt.Sprintf("kubectl annotate ippools.whereabouts.cni.cncf.io -n %s %s %s-", pool.Namespace, pool.Name,
				ippool.PausedAnnotation)
		}
	}
	if len(names) > 0 {
		return warn(next, "Releases are paused in %s: %s.", screen.Count(len(names), "pool"), few(names))
	}
	return ok("Nothing is paused.")
}

func (p *Probe) restore(context.Context) (line, error) {
	for _, g := range p.Plan.CommonGates {
		if g.Why == reconciler.EtcdRestored {
			return fail("ip-reconcile check", "Releases are paused: %s. See "+
				"https://github.com/ip-reconcile/ip-reconcile/blob/main/docs/operate/restore.md.", g.Detail)
		}
	}
	return ok("No etcd restore pauses releases.")
}

func (p *Probe) breaker(ctx context.Context) (line, error) {
	if p.Core == nil {
		return line{}, nil
	}
	lease, err := p.lease(ctx, kube.OwnLease)
	if err != nil {
		return line{}, err
	}
	switch s, err := reconciler.ReadBreaker(lease.Annotations[kube.ReleasedAnnotation], p.Now, p.Total); {
	case err != nil:
		return fail(kubectl(p.namespace, "annotate lease %s %s-", kube.OwnLease, kube.ReleasedAnnotation),
			"No unconfirmed address is released: %v.", err)
	case s.Refusal != "":
		return fail("ip-reconcile run --dry-run",
			"The breaker has tripped: %d unconfirmed releases within an hour, of %d allocations. "+
				"It refuses more until %s. Only run --allow-mass-release overrides it.", s.Releases, s.Of, clock(s.Until))
	}
	return ok("The breaker has not tripped.")
}

func (p *Probe) stale(context.Context) (line, error) {
	if p.Unjudged != nil {
		return fail("ip-reconcile check", "Addresses cannot be judged: %v.", p.Unjudged)
	}
	in := fmt.Sprintf("%s in %s", screen.Count(p.Total, "allocation"), screen.Count(len(p.Observation.Pools), "pool"))
	count := map[reconciler.Refusal]int{}
	for _, x := range p.Plan.Refused {
		count[x.Why]++
	}
	var parts []string
	if n := len(p.Plan.Release); n > 0 {
		parts = append(parts, fmt.Sprintf("%d without a gate", n))
	}
	for _, why := range reconciler.Refusals() {
		if n := count[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, why))
		}
	}
	if len(parts) == 0 {
		return ok("%s: none is stale.", in)
	}
	return ok("%s, %d of them stale: %s.", in, len(p.Plan.Release)+len(p.Plan.Refused), strings.Join(parts, ", "))
}

// nearlyFull is the fill of a pool above which status warns, as the alert for nearly full pools does.
const nearlyFull = 0.9

func (p *Probe) fullPools(context.Context) (line, error) {
	var waited, full []string
	pods := 0
	for _, pool := range p.pools.All {
		fill, isKnown := pool.Fill()
		switch {
		case len(pool.Waiting) > 0:
			waited = append(waited, pool.Ref())
			pods += len(pool.Waiting)
		case isKnown && fill > nearlyFull:
			full = append(full, fmt.Sprintf("%s (%.0f %%)", pool.Ref(), 100*fill))
		}
	}
	switch {
	case len(waited) > 0:
		return fail("ip-reconcile pools "+waited[0], "%s cannot start: no free address in %s.", screen.Count(pods, "pod"),
			few(waited))
	case len(full) > 0:
		return warn("ip-reconcile pools", "%s nearly full: %s.", screen.Count(len(full), "pool"), few(full))
	}
	return ok("No pod waits for an address. No pool is known to be nearly full.")
}

func (p *Probe) findings(context.Context) (line, error) {
	count := map[judge.Kind]int{}
	for _, x := range p.Findings {
		count[x.Kind]++
	}
	say := warn
	var texts, names []string
	for _, k := range []judge.Kind{judge.Conflict, judge.Unrecorded, judge.Misrecorded, judge.Phantom,
		judge.MissingReservation, judge.MalformedFinding} {
		if count[k] == 0 {
			continue
		}
		texts, names = append(texts, fmt.Sprintf("%d %s", count[k], k)), append(names, string(k))
		if k == judge.Conflict || k == judge.Unrecorded || k == judge.Misrecorded { // two pods carry an address, or may soon
			say = fail
		}
	}
	if len(texts) == 0 {
		return ok("No address is on two pods. Every address in use has its allocation.")
	}
	return say("ip-reconcile check --reason "+strings.Join(names, ","), "Pools, reservations and pods disagree: %s.",
		strings.Join(texts, ", "))
}
