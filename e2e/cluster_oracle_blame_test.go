//go:build cluster

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Programs by their User-Agent. The first is the plugin, whose DEL removes the entry of its
// own sandbox; the others release what they take for stale.
const plugin = "whereabouts"

var releasing = []string{"ip-reconcile", "ip-reconciler", "ip-control-loop"}

// unexplained is for how long an address may be in use without its entry, or without its
// reservation, where no reconciler removed it.
const unexplained = 10 * time.Second

// A removal is one that the API server did.
type removal struct {
	at time.Time
	by string // the program
}

func (r removal) String() string { return r.by + " at " + r.at.Format("15:04:05.000") }

// learn takes in what the audit log says.
func (r *oracle) learn(ranges map[string]netip.Prefix, writes []harness.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.ranges, ranges) // a pool that is gone keeps its own
	for _, w := range writes {
		if w.Resource == harness.IPPools.Resource {
			for _, key := range w.Removed {
				if prefix, known := r.ranges[w.Name]; known {
					r.state(addressOf(prefix, key)).learn("its entry", w)
				}
			}
			continue
		}
		for address, a := range r.all {
			if w.Name == ippool.ReservationName("", address) { // of a network without a name
				a.learn("its reservation", w)
			}
		}
	}
}

func (a *addressState) learn(what string, w harness.Write) {
	change := "created"
	switch by := (removal{w.At, w.Program}); {
	case what == "its entry":
		a.removed, change = by, "removed"
	case w.Verb == "delete":
		a.unreserved, change = by, "removed"
	default:
		a.unreserved = removal{}
	}
	a.story = append(a.story, fmt.Sprintf("%s %s %s by %s as %s", w.At.Format("15:04:05.0"), what, change, w.Program, w.User))
}

// judgeBare judges a network namespace that has the address without its entry for more
// than one observation.
func (a *addressState) judgeBare(now time.Time, h *holder, ns string) {
	if h.removed.by == "" {
		h.removed = a.removed
	}
	switch {
	case h.removed.by == plugin:
		h.leaving = true // the entry goes before the link, which on a loaded machine takes its time
	case slices.Contains(releasing, h.removed.by):
		a.accuse("released by %s while %s still had it for %q", h.removed, ns, h.pod)
	case now.Sub(h.bare) < unexplained:
	case h.removed.by != "":
		a.accuse("removed by %s while %s still had it for %q", h.removed, ns, h.pod)
	default:
		a.accuse("the entry of %q is not there or another's, removed by no audited write, while %s still had it", h.pod, ns)
	}
}

// judgeReservation judges the reservation of an address whose entry was there when an observation
// began: a release that finds its pod alive has deleted it, and creates it again.
func (a *addressState) judgeReservation(began time.Time, pod, ns string) {
	if by := a.unreserved; slices.Contains(releasing, by.by) && began.Sub(by.at) >= unexplained {
		a.accuse("its reservation was removed by %s, and not put back, while %s had it for %q", by, ns, pod)
	}
}

func (a *addressState) accuse(format string, args ...any) {
	a.wrong = true
	if said := fmt.Sprintf(format, args...); !slices.Contains(a.blame, said) {
		a.blame = append(a.blame, said)
	}
}

// lingering are the addresses that are in use although a DEL removed their entries.
func (r *oracle) lingering() (addresses []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for address, a := range r.all {
		for _, h := range a.on {
			if h.leaving {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}
