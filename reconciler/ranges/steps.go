package ranges

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Step is one thing to do, by its name among the steps of package advice, with the names to fill in.
type Step struct {
	Name  string
	Names map[string]string
}

// Steps are what to do, in this order. The definition is edited before pods move, so that no new pod gets an address
// that must move again, and after everything is known and nothing would be assigned twice.
func (c *Check) Steps(j *findings.Assessment) (steps []Step) {
	add := func(name string, names ...string) {
		s := Step{Name: name, Names: map[string]string{}}
		for i := 0; i+1 < len(names); i += 2 {
			s.Names[names[i]] = names[i+1]
		}
		steps = append(steps, s)
	}
	if len(c.Unknown)+len(c.Uncut) > 0 {
		add("range unknown")
	}
	if slices.ContainsFunc(c.Twice, func(t Twice) bool { return t.IsLacking }) {
		add("range repair")
	}
	if len(c.Twice) > 0 {
		add("range exclude", "exclude", facts.AtMost(c.excludes(), 20))
	}
	if len(c.Overlaps) > 0 {
		add("range overlap")
	}
	for _, r := range c.Ranges {
		if begin := r.begin(); begin.IsValid() {
			add("range begin", "begin", begin.String(), "range", r.Prefix.String())
		}
	}
	if c.IsTwice() || len(c.Unknown)+len(c.Uncut) > 0 {
		add("range again")
	}
	for _, name := range c.Definitions {
		add("range edit", "definition", name)
	}
	if workloads := c.Workloads(j); len(workloads) > 0 {
		add("range restart", "workloads", facts.AtMost(workloads, 20))
	}
	for _, p := range c.Pools {
		add("range verify", "pool", p.Ref())
	}
	left := c.Left()
	for _, p := range c.Pools {
		if slices.Contains(left, p.Ref()) && !c.isLedTo(p) {
			add("range retire", "pool", p.Ref())
		}
	}
	return steps
}

// isLedTo reports whether a pool that the proposal leaves is not retired: a definition that is not replaced assigns
// from it, or it may be a node's slice of the proposal, from which ADDs assign until whereabouts cuts anew.
func (c *Check) isLedTo(p *usage.Pool) bool {
	isOther := func(d *usage.Definition) bool { return !slices.Contains(c.Definitions, d.String()) }
	isSlice := func(n ippool.Network) bool {
		_, ok := n.SliceOf(p.Pool)
		return ok
	}
	return slices.ContainsFunc(p.Definitions, isOther) || slices.ContainsFunc(c.Networks, isSlice)
}

// excludes are the addresses that would be assigned twice, as the definition can exclude them.
func (c *Check) excludes() (all []string) {
	addresses := map[netip.Addr]bool{}
	for _, t := range c.Twice {
		addresses[t.Address] = true
	}
	for _, p := range setOf(addresses).Prefixes() {
		text := p.String()
		if p.IsSingleIP() {
			text = p.Addr().String()
		}
		all = append(all, text)
	}
	return all
}

// isSkippedInVain reports whether an ADD runs out of time while it tries reserved addresses, of any range.
func (r *Range) isSkippedInVain() bool { return r.SkippedByADD.Cmp(usage.MostSkipped(r.Network)) > 0 }

// begin is a range_start behind the reserved addresses, where ADDs would try too many of them; invalid if they do not,
// or if nothing is behind.
func (r *Range) begin() netip.Addr {
	if r.Skipped.Sign() == 0 || !r.isSkippedInVain() {
		return netip.Addr{}
	}
	skipped := without(r.Usable, without(r.Usable, r.reserved)).Ranges()
	if begin := skipped[len(skipped)-1].To().Next(); r.Usable.Contains(begin) {
		return begin
	}
	return netip.Addr{}
}
