package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
)

// settle heals everything, lets time pass, and checks the result: no entry without a running sandbox, none missing, and
// the same for reservations.
func (s *Simulation) settle() {
	for s.restoring && s.violation == "" {
		s.runUntil(time.Now().Add(time.Second))
	}
	s.say("all is healed")
	s.quiet, s.faulty, s.away, s.armed = true, false, false, nil
	s.forbidden[fakeapi.Leases], s.forbidden[fakeapi.Reports] = false, false
	s.withheld = nil
	s.skews[0], s.skews[1] = 0, 0
	s.api.Stale = nil
	s.pause(false)
	for i, m := range s.machines {
		if s.plan.Seed>>i&1 == 0 {
			s.deleteClaim(m)
		}
	}
	for _, n := range s.nets {
		if _, isDefined := s.asDefined(n); s.follows && isDefined { // an edit is no fault
			s.wakeSlicer() // a missing NodeSlicePool is one
			continue
		}
		s.defineNetwork(n)
	}
	for _, n := range s.ranges {
		s.edit(n.pool, "user", func(c map[string]any) { delete(section(section(c, "spec"), "allocations"), n.odd()) })
		if k := n.reservation(n.address(n.kept())); s.beingDeleted(k) {
			s.api.Delete(k)
		}
	}
	for _, n := range s.nodes {
		if n.lies {
			n.lies = false
			n.agent.stop()
		}
		if !n.up {
			s.power(n, true)
		}
		n.kubelet, n.blind, n.loseDELs = true, time.Time{}, 0
		n.connect()
		for _, b := range n.sandboxes { // kubelet removes ended sandboxes
			b.hangs = false
			if b.retained = false; !b.open {
				b.listed = false
			}
		}
		s.untaint(n)
		s.publishNode(n)
		if n.hasAgent = s.plan.Agents != 0; n.hasAgent && (n.agent == nil || n.agent.cancel == nil) {
			s.startAgent(n)
		}
		s.wake(n)
	}
	for i, r := range s.replicas {
		if s.massRelease && !r.as.killed.Load() { // SIGTERM, so that it recreates what it has deleted
			r.stop()
		}
		if r.as.killed.Load() || r.stopped {
			s.startReplica(i)
		}
	}
	var untilRead time.Duration      // of what was forbidden
	if s.forbidden[fakeapi.Claims] { // for longer than a confirmation takes
		s.runUntil(time.Now().Add(s.plan.Confirm + 3*s.plan.Every))
		s.forbidden[fakeapi.Claims], untilRead = false, s.plan.Every
	}
	if s.plan.Busy {
		s.busy()
	}
	wait, passes := untilRead+s.plan.Confirm+settleFor, s.counts["pass"]
	if s.plan.Visits { // a pass confirms nothing while a machine has not reported, which is in every second one
		wait += 2*s.plan.Every + memory.NodeQuarantine // and the machine may be there again for that long
	}
	if n := len(s.restores); n > noncesRead && time.Since(s.restores[n-1-noncesRead]) < noncesWait {
		wait += noncesWait
	}
	end := time.Now().Add(wait)
	for rounds := 1; s.violation == "" && time.Now().Before(end); rounds++ {
		if s.plan.Visits && rounds%2 == 0 {
			s.visit(s.plan.Every / 3)
		}
		s.runUntil(time.Now().Add(s.plan.Every))
		if !s.plan.Patient && s.settled(rounds, passes) {
			return
		}
	}
	if s.violation != "" {
		return
	}
	if s.plan.Serve {
		s.check()
	}
	if what := s.unsettled(); what != "" {
		s.fail("after all was quiet for %s %s", wait, what)
	}
}

// settled reports whether everything is as it should be, and two passes have found nothing to do.
func (s *Simulation) settled(rounds, passes int) bool {
	if !s.plan.Serve {
		return s.counts["pass"] > passes+1 && len(s.last.Refused) == 0 && s.unsettled() == ""
	}
	if rounds <= 2 { // serve reports its passes by metrics and logs alone
		return false
	}
	s.check()
	return s.violation == "" && s.unsettled() == ""
}

// settleFor is how long everything may take beyond --confirm-after: a fence of 90 s, another pass, pods that kubelet
// must end.
const settleFor = 4 * time.Minute

// After more restores within noncesWait than this, releases wait for as long: see package restore, nonces.go.
const (
	noncesRead = 3
	noncesWait = 10 * time.Minute
)

// unsettled is the first thing that is not as it should be, "" for none.
func (s *Simulation) unsettled() string {
	for _, l := range s.leaked() {
		if !s.mayStay(l) {
			return fmt.Sprintf("the entry %s of %s (%v) remains: %s", l.address(), l.net.pool.Name, l.entry, s.whyKept(l))
		}
	}
	for a := range s.attachments() {
		if a.inUse() && s.plan.Agents != 0 && s.plan.Repair {
			if what := s.unrecorded(a); what != "" {
				return what
			}
		}
	}
	if k := s.keptForAnother(); k != "" {
		return fmt.Sprintf("the reservation %s has no entry, and is kept for another network's", k)
	}
	if a := s.givenTwiceOnPurpose(); a != "" {
		return fmt.Sprintf("a conflict at %s is found, where two networks do not heed each other", a)
	}
	for k, d := range s.owed {
		if s.isOwed(k, d) && (s.plan.Repair || !d.by.killed.Load()) {
			return fmt.Sprintf("the reservation %s, which the product deleted, is missing, and %s uses the address", k.Name,
				d.attachment)
		}
	}
	return ""
}

// keptForAnother is a reservation without an entry that shares the verdict of some entry in the last pass. With slices,
// the name of a pool may be that of two networks.
func (s *Simulation) keptForAnother() string {
	if s.last == nil || s.plan.Sliced > 0 {
		return ""
	}
	has := map[key]bool{}
	for _, n := range s.ranges {
		for slot := range allocationsOf(s.api.Get(n.pool)) {
			has[n.reservation(n.address(slot))] = true
		}
	}
	for _, it := range s.last.Assessment.Reservations {
		k := fakeapi.At(fakeapi.Reservations, it.Reservation.Namespace, it.Reservation.Name)
		if len(it.Related()) > 0 && !has[k] && s.api.Get(k) != nil {
			return k.Name
		}
	}
	return ""
}

// givenTwiceOnPurpose is an address with a conflict in the last pass although every sandbox that has it has an entry of
// its own, in a pool of its own.
func (s *Simulation) givenTwiceOnPurpose() string {
	if s.last == nil || !s.plan.Unchecked || s.follows { // an edit makes them heed each other
		return ""
	}
	for _, f := range s.last.Assessment.Findings {
		if f.Kind == findings.Conflict && !s.carriedWithoutEntry(f.IP) && !s.isInTwoSlices(f.IP) {
			return f.IP
		}
	}
	return ""
}

// carriedWithoutEntry reports whether a sandbox has the address without an entry of its own.
func (s *Simulation) carriedWithoutEntry(ip string) bool {
	for a := range s.attachments() {
		if a.inUse() && a.ip.String() == ip && s.entryOf(a).ID != a.id {
			return true
		}
	}
	return false
}

// mayStay reports whether an entry without a sandbox may exist when all is settled.
func (s *Simulation) mayStay(l leaked) bool {
	return s.heldForGood(l) || s.isClaimed(l) || s.isOfAnotherSlice(l) || s.awaitsTheEarly() || s.claimOf(l.entry) != nil
}

// isClaimed reports whether an entry is held because another pod uses its address by another range of the network: a
// restore brings it back after an ADD has assigned the address by that range, or a node has the slice that was
// another's. The address cannot be assigned while it is in use. The same holds for one that another pod's status names,
// where a restore brought that back. A machine that has just joined hides that reason behind its own.
func (s *Simulation) isClaimed(l leaked) bool {
	it := s.itemOf(l)
	if it == nil || it.Reason != judge.ClaimedByOther && it.Reason != judge.NoFreshReportReason {
		return false
	}
	for k, o := range s.api.Objects {
		if k.Resource == fakeapi.Pods && it.Reason == judge.ClaimedByOther && !s.restoredAt.IsZero() &&
			bytes.Contains(o.JSON, []byte(`\"`+l.address().String()+`\"`)) {
			return true
		}
	}
	for a := range s.attachments() {
		isOfNetwork := a.net.name == l.net.name || a.of.mayNameSlice(l.net)
		if a.inUse() && a.ip == l.address() && isOfNetwork && a.net.pool != l.net.pool {
			return true
		}
	}
	return false
}

// itemOf is an entry's item in the last pass, nil if no pass judged it.
func (s *Simulation) itemOf(l leaked) *judge.Item {
	if s.last == nil {
		return nil
	}
	for _, it := range s.last.Assessment.Allocations {
		if it.Pool.Name == l.net.pool.Name && it.Allocation.Key == l.slot {
			return it
		}
	}
	return nil
}

// awaitsTheEarly reports whether every address is held for an hour because of machines that joined after a restore and
// were removed: nothing distinguishes those that joined before it was detected from what the restore has lost. Where
// several processes detect it, such as one that has waited for a person since, the last one dates it. Two processes
// that make passes take over each other's dates. They then wait for every machine that joined before that.
func (s *Simulation) awaitsTheEarly() bool {
	last := s.lastDetected()
	switch {
	case s.plan.Serve: // the caches detect it, and the full pass after that lists who must report
		last = last.Add(aPassTakes)
	case len(s.replicas) > 1: // a process takes over a date when it begins its next pass
		last = last.Add(2*s.plan.Every + aPassTakes)
	}
	isEarly := func(name string) bool {
		at, isAfter := s.joined[name]
		return s.early[name] || isAfter && at.Before(last)
	}
	if s.plan.Serve || s.last == nil { // serve does not report what it waits for
		return slices.ContainsFunc(slices.Collect(maps.Keys(s.early)), isEarly)
	}
	// What the last pass holds for a node that has just joined is not refused, and waits all the same.
	return s.last.Restore != nil && len(s.last.Restore.Awaiting) > 0 &&
		!slices.ContainsFunc(s.last.Restore.Awaiting, func(name string) bool {
			nodes := s.last.Assessment.Observation.Nodes.Or(nil)
			return !isEarly(name) && nodes[name] == nil // one that exists and has not reported
		})
}

// heldForGood reports whether the reason to hold an entry still applies: no pod names its addresses, or no agent can
// report what runs.
func (s *Simulation) heldForGood(l leaked) bool {
	it := s.itemOf(l)
	if it == nil {
		return false
	}
	if it.Verdict == judge.Held {
		return s.plan.Agents == 0 || it.Reason == judge.InterfaceUnplugged || it.Reason == judge.NetworkStatusMissing ||
			it.Evidence().RivalUnread && s.mayBeUnread(l)
	}
	if it.Reason == judge.SandboxReady {
		return it.IfName() == detached && s.mayLackAddresses(it.Owner().Name)
	}
	if it.Reason == judge.AddressOnPod { // a restore brings an old pod status back
		p := s.api.Get(fakeapi.At(fakeapi.Pods, it.Owner().Namespace, it.Owner().Name))
		return p != nil && bytes.Contains(p.JSON, []byte(`\"`+l.address().String()+`\"`))
	}
	return false
}

// mayBeUnread reports whether a sandbox that stays unread may carry an entry's address: one of its network, one whose
// network neither the CNI cache nor a pod names, or one of which only the pod names a network that was edited, so that
// its range may be another one.
func (s *Simulation) mayBeUnread(l leaked) bool {
	if !s.plan.Unread {
		return false
	}
	for a := range s.attachments() {
		pod := s.podObject(a.pod)
		isUnnamed := pod == nil || pod.Metadata.UID != a.uid
		isEdited := a.of.wasEdited() && l.net.wasEdited() && a.of.name == l.net.name
		if a.open && (a.of.cidr.Contains(l.address()) || !a.namesRange() && (isUnnamed || isEdited)) {
			return true
		}
	}
	return false
}

// beingDeleted reports whether an object is being deleted and a finalizer keeps it.
func (s *Simulation) beingDeleted(k key) bool {
	o := s.api.Get(k)
	return o != nil && bytes.Contains(o.JSON, []byte(`"deletionTimestamp"`))
}

// mayLackAddresses reports whether a pod's status or its node's report may lack addresses. Multus writes the status
// once: what a restore loses of it stays lost.
func (s *Simulation) mayLackAddresses(pod string) bool {
	o := s.api.Get(fakeapi.At(fakeapi.Pods, podNamespace, pod))
	return s.plan.Unread || s.plan.NoUID || s.plan.Agents != 1<<s.plan.Nodes-1 || o == nil || !bytes.Contains(o.JSON,
		[]byte(networkStatus))
}

// whyKept is the last pass's item of an entry.
func (s *Simulation) whyKept(l leaked) string {
	it := s.itemOf(l)
	if it == nil {
		return "the last pass does not have it"
	}
	for _, x := range s.last.Refused {
		if x.ID() == it.ID() {
			return x.Verdict.String() + " " + x.Reason.String() + ", not released: " + string(x.Why) + ": " + x.Detail
		}
	}
	return it.Verdict.String() + " " + it.Reason.String() + ": " + it.Message()
}

// cover counts the results of a pass.
func (s *Simulation) cover(out *reconciler.Result) {
	if out == nil || out.Assessment == nil {
		return
	}
	for _, items := range [][]*judge.Item{out.Assessment.Allocations, out.Assessment.Reservations} {
		for _, it := range items {
			s.count("row " + it.RuleID())
		}
	}
	for _, x := range out.Refused {
		s.count("refusal " + string(x.Why))
	}
	for i := range out.Assessment.Findings {
		s.count("finding " + string(out.Assessment.Findings[i].Kind))
	}
	for range out.Repaired {
		s.count("repaired")
	}
}
