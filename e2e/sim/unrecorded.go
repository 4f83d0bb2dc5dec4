package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// unrecorded is what the records of an address in use lack.
func (s *Simulation) unrecorded(a *attachment) string {
	if s.api.Get(a.net.pool) == nil && (!s.namespaceKnown() || a.of.sliceBits > 0) {
		return ""
	}
	entry, there := allocationsOf(s.api.Get(a.net.pool))[a.net.slot(a.ip)]
	if !there && s.follows && len(s.definedFor(a)) == 0 {
		return "" // no ADD can assign it, so nothing leads to a pool that could record it
	}
	if !there && a.twin != nil && a.twin.inUse() {
		return "" // a conflict by the operator's doing: the pool can record the address for one of them only
	}
	if !there && a.net.wasEdited() && s.isTakenToday(a) {
		return "" // a conflict since a restore: an ADD was faster, and this pool can record one of them only
	}
	if !there && a.net.wasEdited() && slices.ContainsFunc(s.ranges, func(n *network) bool {
		return n.cidr.Contains(a.ip) && allocationsOf(s.api.Get(n.pool))[n.slot(a.ip)].ID == a.id
	}) {
		return ""
	}
	if !there {
		return fmt.Sprintf("%s of %s has no entry: %s", a.ip, a, s.whyUnrepaired())
	}
	// A repair writes no reservation that would lose the entry's claim: that is a finding.
	if s.checksOverlaps(a) && entry.Claim == "" && s.api.Get(a.net.reservation(a.ip)) == nil {
		return fmt.Sprintf("%s of %s has no reservation: %s", a.ip, a, s.whyUnrepaired())
	}
	return ""
}

// isTakenToday reports whether a pool that ADDs read today has the address for another sandbox that uses it, too.
func (s *Simulation) isTakenToday(a *attachment) bool {
	return slices.ContainsFunc(s.definedFor(a), func(n *network) bool {
		id := allocationsOf(s.api.Get(n.pool))[n.slot(a.ip)].ID
		for other := range s.attachments() {
			if other != a && other.inUse() && other.ip == a.ip && other.id == id {
				return true
			}
		}
		return false
	})
}

// namespaceKnown reports whether any remaining object names the namespace of the pools after a restore.
func (s *Simulation) namespaceKnown() bool {
	for k := range s.api.Objects {
		if k.Resource == fakeapi.Pools || k.Resource == fakeapi.Reservations {
			return true
		}
	}
	return false
}

// whyUnrepaired is the result of the last pass.
func (s *Simulation) whyUnrepaired() string {
	if s.last == nil {
		return "no pass names it"
	}
	text := fmt.Sprintf("%s ago, to repair %d", time.Since(s.lastAt), s.last.ToRepair)
	for i := range s.last.Assessment.Findings {
		text += "; " + s.last.Assessment.Findings[i].Message
	}
	for i := range s.last.Unrepaired {
		text += fmt.Sprintf("; not repaired: %+v", s.last.Unrepaired[i])
	}
	return text
}
