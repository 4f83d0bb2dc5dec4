package sim

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// allocation is an entry of a pool.
type allocation struct {
	ID     string `json:"id"`
	PodRef string `json:"podref"`
	IfName string `json:"ifname"`
	Claim  string `json:"ipamclaimref"`
}

func allocationsOf(o *fakeapi.Object) map[string]allocation {
	if o == nil {
		return nil
	}
	var p struct {
		Spec struct {
			Allocations map[string]allocation `json:"allocations"`
		} `json:"spec"`
	}
	_ = json.Unmarshal(o.JSON, &p)
	return p.Spec.Allocations
}

// debt is a reservation that the product deleted while its address was in use.
type debt struct {
	*attachment
	since time.Time
	by    *client
}

// stored is called for each change in etcd, and checks those that the product made.
func (s *Simulation) stored(c fakeapi.Change, before *fakeapi.Object) {
	s.api.Publish(c)
	if c.Resource == fakeapi.NADs || c.Resource == fakeapi.Nodes && c.Kind != "MODIFIED" {
		s.wakeSlicer()
	}
	if c.Resource == fakeapi.Leases && c.Namespace == kubeSystem {
		s.checkTaken(c, before)
	}
	w := s.writer
	if w == nil || !w.product {
		return
	}
	switch c.Resource {
	case fakeapi.Pools:
		s.checkPool(c, before)
	case fakeapi.Reservations:
		s.checkReservation(c)
	case fakeapi.Leases, fakeapi.Reports, fakeapi.Events:
	default:
		s.fail("the product wrote %s", c.Key)
	}
}

func (s *Simulation) netOf(pool key) *network {
	for _, n := range s.ranges {
		if n.pool == pool {
			return n
		}
	}
	return nil
}

func (n *network) address(slot string) netip.Addr {
	i, _ := strconv.Atoi(slot)
	a := n.cidr.Addr()
	for range i {
		a = a.Next()
	}
	return a
}

func (n *network) slot(a netip.Addr) string {
	return strconv.Itoa(int(a.As16()[15] - n.cidr.Addr().As16()[15]))
}

// holders are the attachments that use an address of a network, or are about to by the ADD that wrote this allocation.
func (s *Simulation) holders(n *network, ip netip.Addr, entry allocation) (all []*attachment) {
	for a := range s.attachments() {
		isOfPool := a.net.pool == n.pool || a.id == entry.ID && a.net.wasEdited() // then it may be recorded elsewhere
		if a.inUse() && isOfPool && a.ip == ip || a.isAdding() && n.isOf(a.of) && a.id == entry.ID &&
			a.ifName == entry.IfName {
			all = append(all, a)
		}
	}
	return all
}

// checkPool checks a write to a pool: only allocations change, none in use is removed or replaced, and none is written
// for an address that no sandbox has.
func (s *Simulation) checkPool(c fakeapi.Change, before *fakeapi.Object) {
	n := s.netOf(c.Key)
	if n != nil && c.Kind == "ADDED" {
		s.count("pool made")
		s.say("the product makes the pool %s: %v", c.Name, allocationsOf(c.Object))
		made := allocationsOf(c.Object)
		for _, slot := range slices.Sorted(maps.Keys(made)) {
			s.checkWritten(n, n.address(slot), made[slot])
		}
		return
	}
	if n == nil || c.Kind != "MODIFIED" {
		s.fail("the product wrote %s (%s)", c.Key, c.Kind)
		return
	}
	was, is := allocationsOf(before), allocationsOf(c.Object)
	if !sameButAllocations(before, c.Object) {
		s.fail("the product changed more of %s than its allocations", c.Key)
	}
	for _, slot := range slices.Sorted(maps.Keys(was)) {
		now, there := is[slot]
		if there && now == was[slot] {
			continue
		}
		a := n.address(slot)
		holders := s.holders(n, a, was[slot])
		if there {
			s.count("rewritten")
			s.say("the product rewrites %s of %s: %v → %v", a, c.Name, was[slot], now)
			s.checkRewritten(a, was[slot], now, holders)
			s.checkWritten(n, a, now)
			continue
		}
		s.count("released")
		s.say("the product releases %s of %s: %v", a, c.Name, was[slot])
		s.checkClaim(a, was[slot])
		if !s.plan.Serve && !s.writer.isByHand {
			s.removals = append(s.removals, removal{s.writer, s.asked, c.Key, slot})
		}
		reviewed := was[slot]
		reviewed.Claim = ""
		if allowed := s.writer.reviewed; allowed != nil && !allowed[reviewed] {
			s.fail("%s of %s was released, and the plan does not have %v", a, c.Name, was[slot])
		}
		for _, b := range holders {
			if excuse := s.excuse(b, was[slot]); excuse != "" {
				s.count("excused " + excuse)
			} else {
				s.fail("%s of %s was released by the product, and %s uses it", a, c.Name, b)
			}
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(is)) {
		if _, there := was[slot]; !there {
			s.count("written back")
			s.say("the product writes back %s of %s: %v", n.address(slot), c.Name, is[slot])
			s.checkWritten(n, n.address(slot), is[slot])
		}
	}
}

func sameButAllocations(a, b *fakeapi.Object) bool {
	x, y := fakeapi.Decode(a.JSON), fakeapi.Decode(b.JSON)
	for _, o := range []map[string]any{x, y} {
		delete(section(o, "spec"), "allocations")
		delete(section(o, "metadata"), "resourceVersion")
		delete(section(o, "metadata"), "managedFields")
	}
	return reflect.DeepEqual(x, y)
}

func (s *Simulation) checkRewritten(ip netip.Addr, was, is allocation, holders []*attachment) {
	for _, a := range holders {
		if a.id == was.ID && a.inUse() && !slices.ContainsFunc(holders,
			func(other *attachment) bool { return other.id == is.ID }) && s.excuse(a, was) == "" && s.plan.Liar == 0 {
			s.fail("the entry of %s, which %s uses, was rewritten by the product for %s, which does not use it", ip, a,
				is.ID[:6])
		}
	}
}

func (s *Simulation) checkWritten(n *network, a netip.Addr, entry allocation) {
	for other := range s.attachments() {
		if other.id == entry.ID && other.ip == a {
			other.freeAt = time.Time{}
		}
	}
	if s.plan.Liar > 0 { // it may be of a sandbox that only the lying report has
		return
	}
	if s.given[given{entry.ID, n.pool, a}] {
		return
	}
	for _, r := range s.ranges { // the definition of its network was edited: it is recorded where the next ADD would look
		if s.given[given{entry.ID, r.pool, a}] && r.wasEdited() {
			s.count("written into the pool of another definition")
			return
		}
	}
	for _, r := range s.ranges { // where the pool is lost, another node's that has the slice since keeps the address
		if n.of != nil && r.isOf(n.of) && s.given[given{entry.ID, r.pool, a}] && s.api.Get(r.pool) == nil {
			s.count("written into another node's slice")
			return
		}
	}
	s.fail("the product wrote an entry for %s of sandbox %s, which never had it", a, entry.ID)
}

// excuse names the rule by which an address may be released although it is in use; "" for none. A node whose agent lies
// harms its own pods. Without agents nobody can know that a pod runs which the API lacks or has as finished, and a
// network-status that a restore brought back lacks what a pod got since the backup; but see waitsAgain. A process that
// starts within a minute of the backup of a finished restore cannot detect the restore, and one that starts after it
// knows no node that joined after the backup. No process knows a sandbox that neither the entry nor a report names.
func (s *Simulation) excuse(a *attachment, entry allocation) string {
	switch b := a.sandbox; {
	case s.plan.Liar > 0 && s.nodes[s.plan.Liar-1] == b.node: // though it may have stopped lying
		return "its node's agent lies"
	case s.plan.Unreachable > 0 && (!b.node.linked || s.asked.Sub(b.node.linkedAt) < evidenceLasts || b.node.silent()):
		return "the operator asked for it" // and a report that a node has not written yet cannot be read
	case s.lostByWhereabouts(a, entry):
		return "the entry is another's, and no report names it"
	case s.plan.Agents != 0 && s.isUndetected(b):
		return "the backup is young, and the process younger"
	case s.isOfUnknownNode(b):
		return "the node joined after the backup, and the process started after the restore"
	case s.plan.Agents != 0, s.waitsAgain(b):
		return ""
	}
	o := s.podObject(a.pod)
	if s.plan.Trust && s.writer.isByHand && o != nil &&
		!bytes.Contains(s.api.Get(a.pod.key()).JSON, []byte(`\"`+a.ip.String()+`\"`)) {
		return "a person trusts a network-status that is about to change" // and does not wait
	}
	if o == nil || s.restoredSince(a.since) || o.Metadata.UID != a.uid || o.Metadata.Deletion != nil ||
		o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" {
		return "there are no agents"
	}
	return ""
}

// holdLasts is how long whereabouts' Lease is held and what was read under it is written.
const holdLasts = 5 * time.Second

// evidenceLasts is how long reports and Nodes that a process has read count: reading takes 15 s at most, and what was
// read counts for 5 s and for the hold that begins then.
const evidenceLasts = 20*time.Second + holdLasts

// noteFree notes which addresses in use have no entry when a fence ends because no work remains, although reports show
// them: no ADD may get one. A report without UIDs names no pod that could be recorded, and during a pause nothing may
// be.
func (s *Simulation) noteFree() {
	s.count("fence ended without work")
	if s.isPaused() {
		return
	}
	for a := range s.attachments() {
		n, report := a.sandbox.node, s.api.Get(fakeapi.At(fakeapi.Reports, "", a.sandbox.node.name))
		isShown := s.reported(a.sandbox) && bytes.Contains(report.JSON, []byte(`"`+a.ip.String()+`"`))
		if a.inUse() && isShown && !s.plan.NoUID && n.linked && !n.silent() && s.entryOf(a) == (allocation{}) {
			s.count("fence ended over an address without an entry")
			a.freeAt = time.Now()
		}
	}
}

// checkAdded checks an address that an ADD assigned while another sandbox uses it. whereabouts or a restore caused
// that, unless the product released the address; then the release was wrong already. After a restore a fence keeps ADDs
// from addresses that reports show, until they have entries again.
func (s *Simulation) checkAdded(a *attachment) {
	for _, other := range s.holders(a.net, a.ip, allocation{}) {
		if other != a {
			s.count("duplicate by others")
			s.say("%s is used by %s as well", a.ip, other)
			if !other.freeAt.IsZero() && !s.restoredSince(other.freeAt) {
				s.fail("%s of %s was assigned to %s: the fence ended %s ago, before it had an entry", a.ip, other, a,
					time.Since(other.freeAt))
			}
			other.lostAt = time.Now()
		}
	}
	s.checkTwice(a)
	entry := s.entryOf(a)
	// whereabouts v0.9.4 does so when the patch of the pool fails for another reason than a test: the error is lost
	// (pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate).
	if entry == (allocation{}) {
		s.count("ADD without an entry")
	} else if entry.ID != a.id {
		s.count("ADD with the entry of another sandbox")
		a.lostAt = time.Now()
	}
}

// lostByWhereabouts reports whether whereabouts or a restore gave the entry of an attachment's address to another pod,
// and no pass can have read a report yet with this sandbox. A release then does what the other's DEL would have done.
func (s *Simulation) lostByWhereabouts(a *attachment, entry allocation) bool {
	return !a.lostAt.IsZero() && a.id != entry.ID && (!s.reported(a.sandbox) || s.asked.Sub(a.lostAt) < aPassTakes)
}

// entryOf is the entry of an attachment's address, whoever owns it; the zero value for none.
func (s *Simulation) entryOf(a *attachment) allocation {
	return allocationsOf(s.api.Get(a.net.pool))[a.net.slot(a.ip)]
}

// reported reports whether the report of a sandbox' node mentions it.
func (s *Simulation) reported(b *sandbox) bool {
	o := s.api.Get(fakeapi.At(fakeapi.Reports, "", b.node.name))
	return o != nil && bytes.Contains(o.JSON, []byte(b.id))
}

func (n *network) reservation(a netip.Addr) key {
	name := strings.ReplaceAll(a.String(), ":", "-")
	if n.name != "" {
		name = n.name + "-" + name
	}
	return fakeapi.At(fakeapi.Reservations, kubeSystem, name)
}

// checkReservation records the deletion of a reservation that an address in use needs: it must soon exist again.
func (s *Simulation) checkReservation(c fakeapi.Change) {
	if c.Kind == "ADDED" {
		s.count("reservation written")
		delete(s.owed, c.Key)
		return
	}
	s.count("reservation deleted")
	for a := range s.attachments() {
		if a.inUse() && !a.of.unchecked && a.net.reservation(a.ip) == c.Key && s.excuse(a, s.entryOf(a)) == "" {
			d := &debt{a, time.Now(), s.writer}
			s.owed[c.Key] = d
			s.checkBack(c.Key, d)
			s.count("reservation of a live address deleted")
			s.say("the product deletes the reservation %s, and %s uses the address", c.Name, a)
		}
	}
}
