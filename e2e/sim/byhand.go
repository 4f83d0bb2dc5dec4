package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// releaseByHand releases what is Stale as the command release does, in a process of its own. A person reads the
// evidence first, for up to 49 s. With overrides the person asserts what is Held for lack of evidence, and is right
// about it when the assertion is made.
func (s *Simulation) releaseByHand(patience, each int, overrides bool) {
	if s.plan.Upstream {
		return
	}
	s.starts++
	as := s.newClient("ip-reconcile-release", nil)
	as.product, as.isByHand = true, true
	cluster, rec, err := s.reconciler(as, fmt.Sprintf("by-hand/%d", s.starts))
	if err != nil {
		s.fail("set up a release by hand: %v", err)
		return
	}
	rec.Leases, rec.BreakerStore, rec.RestoreStore = cluster, cluster.BreakerStore(), cluster.RestoreStore()
	rec.Options.ByHand, rec.Options.Repair, rec.MaxWait = true, false, 5*time.Minute
	s.start(func() {
		chosen, j, err := map[judge.ID]bool{}, (*reconciler.Result)(nil), error(nil)
		judged := func() bool {
			j, err = rec.Check(s.ctx)
			return err == nil
		}
		if !judged() {
			return
		}
		rec.Options.Overrides = map[judge.ID]judge.Reason{}
		for i, it := range slices.Concat(j.Allocations, j.Reservations) {
			if it.Verdict == judge.InUse || it.SharesVerdictOf() != nil || each > 4 && i%2 == 0 {
				continue
			}
			chosen[it.ID()] = true
			if overrides && it.CanBeOverridden() && as.isUnused(it) {
				rec.Options.Overrides[it.ID()] = it.Reason
			}
		}
		if len(chosen) == 0 || len(rec.Options.Overrides) > 0 && !judged() {
			return
		}
		rec.Options.Only = func(it *judge.Item) bool { return chosen[it.ID()] }
		time.Sleep(time.Duration(patience*patience) * time.Second)
		out, err := rec.Run(s.ctx)
		as.post(func() { s.releasedByHand(out, err) })
	})
}

// isUnused reports whether nothing uses the address of an item, as the person knows who looked at the machines.
func (c *client) isUnused(it *judge.Item) bool {
	answer := make(chan bool)
	entry := allocation{ID: it.ContainerID(), IfName: it.IfName()}
	c.post(func() {
		isUnused := true
		for _, n := range c.s.ranges {
			if n.cidr.Contains(it.Address()) && len(c.s.holders(n, it.Address(), entry)) > 0 {
				isUnused = false
			}
		}
		answer <- isUnused
	})
	return <-answer
}

func (s *Simulation) releasedByHand(out *reconciler.Result, err error) {
	if err != nil {
		s.count("release by hand failed")
		return
	}
	for _, it := range out.Released {
		s.count("released by hand")
		if it.IsOverridden() {
			s.count("overridden by hand")
		}
		s.say("a person released %s of %s: %s", it.Address(), it.PodRef(), it.Message())
	}
}
