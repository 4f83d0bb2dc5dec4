package sim

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	wbtypes "github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
)

// attachment is an interface of a sandbox in a network.
type attachment struct {
	*sandbox
	ifName string
	of     *network   // by its definition
	net    *network   // the same, or with slices the one whose pool has its address
	ip     netip.Addr // that is configured there
	state  attachmentState
	lostAt time.Time   // when the entry of its address became another's, or stayed so at its ADD
	freeAt time.Time   // when a fence ended because no work remained, and its address had no entry
	twin   *attachment // that got the address as well, since an edit turned the check for overlaps off; nil for none
}

// attachmentState is how far an attachment is.
type attachmentState int

const (
	untried  attachmentState = iota // its ADD has not begun
	adding                          // its ADD has begun
	attached                        // its ADD succeeded
	giving                          // its DEL has begun: it no longer owns the address
)

// inUse reports whether it carries an address that no other sandbox may have.
func (a *attachment) inUse() bool { return a.open && a.state == attached }

// isAdding reports whether its ADD is in progress.
func (a *attachment) isAdding() bool {
	return a.open && a.sandbox.adding && a.state == adding && !a.process.killed.Load()
}

func (a *attachment) String() string {
	if a.isFirst() {
		return a.sandbox.String()
	}
	return fmt.Sprintf("%s of %s", a.ifName, a.sandbox)
}

func (a *attachment) isFirst() bool { return a == a.attachments[0] }

// attachTo gives a new sandbox its interfaces, one in each network.
func (b *sandbox) attachTo(nets []*network) {
	for i, n := range nets {
		b.attachments = append(b.attachments, &attachment{sandbox: b, ifName: fmt.Sprint("net", i+1), of: n, net: n})
	}
}

// ifName is the interface of a pod's first network.
const ifName = "net1"

// detached is the interface that no sandbox has.
const detached = "net3"

// first is the attachment that every sandbox has.
func (b *sandbox) first() *attachment { return b.attachments[0] }

// inUse reports whether any of its addresses is in use.
func (b *sandbox) inUse() bool { return slices.ContainsFunc(b.attachments, (*attachment).inUse) }

// isGiving reports whether its DEL has begun.
func (b *sandbox) isGiving() bool {
	return slices.ContainsFunc(b.attachments, func(a *attachment) bool { return a.state == giving })
}

// attaching is the attachment that Multus' ADD has come to.
func (b *sandbox) attaching() *attachment {
	last := b.first()
	for _, a := range b.attachments {
		if a.state != untried {
			last = a
		}
	}
	return last
}

// addresses are all that the sandbox got.
func (b *sandbox) addresses() string {
	var all []string
	for _, a := range b.attachments {
		all = append(all, a.ip.String())
	}
	return strings.Join(all, " and ")
}

// attachments are those of every sandbox.
func (s *Simulation) attachments() iter.Seq[*attachment] {
	return func(yield func(*attachment) bool) {
		for _, n := range s.nodes {
			for _, b := range n.sandboxes {
				for _, a := range b.attachments {
					if !yield(a) {
						return
					}
				}
			}
		}
	}
}

// attach starts the ADD of an interface. Multus adds one after the other.
func (s *Simulation) attach(a *attachment) {
	a.process = s.newClient("whereabouts-add", a.node)
	a.state = adding
	s.say("%s: ADD", a)
	s.nudge(10)
	if s.takesOver(a) {
		return
	}
	s.cni(wbtypes.Allocate, a, a.process, func(ip netip.Addr, err error) { s.added(a, ip, err) })
}

// added handles the result of an ADD.
func (s *Simulation) added(a *attachment, ip netip.Addr, err error) {
	b := a.sandbox
	if a.process.killed.Load() || !a.open { // the machine is down, or the runtime gave up
		b.adding = false
		return
	}
	if err != nil {
		s.say("%s: ADD failed: %v", a, err)
		s.addFailed(a)
		return
	}
	a.net = s.poolFor(a.of, a.node, ip)
	a.ip, a.state, s.given[given{a.id, a.net.pool, ip}] = ip, attached, true
	if m := a.pod.machine; m != nil && s.api.Get(m.claim) != nil && s.entryOf(a).ID == a.id {
		s.claimed(a, ip)
	}
	s.countAdded(a)
	s.say("%s: ADD gave %s", a, ip)
	s.checkAdded(a)
	s.nudge(15)
	if i := slices.Index(b.attachments, a); i+1 < len(b.attachments) {
		next := b.attachments[i+1]
		if s.chance(6) {
			s.say("%s: its plugin fails before whereabouts' ADD", next)
			s.addFailed(next)
			return
		}
		s.attach(next)
		if s.chance(4) {
			s.after(s.between(0, time.Second), func() { killRuntime(s, b.node) })
		}
		return
	}
	b.adding = false
	s.after(s.between(0, s.plan.Window), func() { s.started(b) }) // the blind window
}

// addFailed ends a sandbox whose ADD failed: Multus sends a DEL to each interface whose ADD has begun.
func (s *Simulation) addFailed(a *attachment) {
	a.sandbox.adding = false
	if s.count("ADD failed"); !a.isFirst() {
		s.count("ADD of a second interface failed")
	}
	s.stop(a.sandbox)
}

func (s *Simulation) countAdded(a *attachment) {
	if s.count("ADD"); a.ip.Is6() {
		s.count("ADD of IPv6")
	}
	if a.of.sliceBits > 0 {
		s.count("ADD of a node slice")
	}
	if a.isFirst() {
		return
	}
	s.count("ADD of a second interface")
	switch first := a.first(); {
	case first.net.pool == a.net.pool:
		s.count("ADD of a second interface in the same pool")
	case first.ip.Is6() != a.ip.Is6():
		s.count("ADD of IPv4 and IPv6")
	}
}

// detach sends a DEL to the interfaces of a sandbox from the last to the first, as Multus does, and goes on after one
// whose DEL is lost. Then the network namespace is closed.
func (s *Simulation) detach(b *sandbox, lost *attachment) {
	for _, a := range slices.Backward(b.attachments) {
		if a.state == untried || a.state == giving || a == lost {
			continue
		}
		a.state = giving
		if s.currentPool(a.of, a.node) != a.net {
			s.count("DEL without the slice")
		}
		as := s.newClient("whereabouts-del", b.node)
		b.process = as
		s.cni(wbtypes.Deallocate, a, as, func(netip.Addr, error) {
			if s.count("DEL"); !as.killed.Load() && b.node.up {
				s.detach(b, lost)
			}
		})
		return
	}
	s.closed(b, true)
}
