package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// leaked is an allocation whose sandbox does not exist.
type leaked struct {
	net   *network
	slot  string
	entry allocation
}

func (l leaked) address() netip.Addr { return l.net.address(l.slot) }

func (s *Simulation) leaked() (all []leaked) {
	for _, n := range s.ranges {
		entries := allocationsOf(s.api.Get(n.pool))
		for _, slot := range slices.Sorted(maps.Keys(entries)) {
			if len(s.holders(n, n.address(slot), entries[slot])) == 0 {
				all = append(all, leaked{n, slot, entries[slot]})
			}
		}
	}
	return all
}

// hasJustEnded reports whether a sandbox ended so recently that what depends on it need not be released yet.
func (s *Simulation) hasJustEnded(id string) bool {
	return time.Since(s.endedAt[id]) < s.plan.Confirm+settleFor
}

// busy continues the usual events of a cluster for so long that earlier leaks must be released.
func (s *Simulation) busy() {
	before, rate := s.leaked(), s.plan.Faults
	s.say("ordinary things go on, with %d entries that nobody has", len(before))
	s.faulty, s.plan.Faults = true, min(rate, 5)
	goOn := func(d time.Duration) {
		for end := time.Now().Add(d); s.violation == "" && time.Now().Before(end); {
			s.ordinary(before)
			s.runUntil(time.Now().Add(s.between(s.plan.Every/4, s.plan.Every)))
		}
	}
	goOn(2 * (s.plan.Confirm + settleFor))
	if s.plan.Serve && s.violation == "" {
		s.faulty = false
		s.check()
		s.faulty = true
	}
	// A new sandbox of its pod may have restarted the wait, or one that might have had the address has just ended.
	if slices.ContainsFunc(before, s.isAwaited) {
		goOn(s.plan.Confirm + settleFor)
	}
	s.faulty, s.plan.Faults = false, rate
	if s.plan.Serve && s.violation == "" {
		s.check()
	}
	now := s.leaked()
	for _, l := range before {
		hasJustEnded := s.hasJustEnded(l.entry.ID) // until then it was in use
		it := s.itemOf(l)
		if it != nil && it.Reason == judge.PodPending { // its ADD failed each time
			continue
		}
		if it != nil && it.Reason == judge.ClaimedByOther { // or the sandbox that claimed it was
			for id := range s.endedAt {
				hasJustEnded = hasJustEnded || s.hasJustEnded(id) && strings.Contains(it.Message(), id)
			}
		}
		if slices.Contains(now, l) && !hasJustEnded && !s.mayStay(l) {
			s.fail("while ordinary things went on the entry %s of %s (%v) remained: %s", l.address(), l.net.pool.Name, l.entry,
				s.whyKept(l))
			return
		}
		s.count("released while things go on")
	}
}

// isAwaited reports whether the last pass waits for the confirmation of an allocation's verdict. Of serve, whose
// refusals are not known, it reports whether the last check found the allocation Stale.
func (s *Simulation) isAwaited(l leaked) bool {
	it := s.itemOf(l)
	if s.plan.Serve {
		return it != nil && it.Verdict == judge.Stale
	}
	return it != nil && slices.ContainsFunc(s.last.Refused, func(x plan.Refused) bool {
		return x.ID() == it.ID() && x.Why == plan.AwaitingConfirmation
	})
}

// ordinary lets one event happen, to no pod with an allocation that is waited for: a Pending pod has its addresses.
func (s *Simulation) ordinary(waiting []leaked) {
	all := slices.DeleteFunc(kinds(), func(k stepKind) bool {
		return !slices.Contains([]string{
			"a pod is made", "a pod is deleted", "a pod ends by itself", "a sandbox dies and is recreated",
			"the runtime's processes are killed",
			"watches are cut", "an agent starts", "a machine joins and leaves",
		}, k.name)
	})
	k, a, b := all[s.rng.IntN(len(all))], s.rng.IntN(8), s.rng.IntN(8)
	ref := s.podAt(a).ref()
	if strings.HasPrefix(k.name, "a pod ") && slices.ContainsFunc(waiting,
		func(l leaked) bool { return l.entry.PodRef == ref }) {
		return
	}
	s.count(fmt.Sprintf("then %s", k.name))
	k.do(s, a, b)
}
