//go:build cluster

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Programs by their User-Agent. The plugin's DEL removes the allocation of its own sandbox. The others release what
// they judge stale.
const plugin = "whereabouts"

var releasing = []string{"ip-reconcile", "ip-reconciler", "ip-control-loop"}

// unexplained is how long an address may be in use without its allocation or reservation where no reconciler removed
// it.
const unexplained = 10 * time.Second

// A removal is one that the API server performed.
type removal struct {
	at time.Time
	by string // the program
}

func (r removal) String() string { return r.by + " at " + r.at.Format("15:04:05.000") }

// learn takes in what the audit log records.
func (r *oracle) learn(ranges map[string]netip.Prefix, writes []harness.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.ranges, ranges) // a deleted pool keeps its last range
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
	a.story = append(a.story, fmt.Sprintf("%s %s %s by %s as %s", w.At.Format("15:04:05.0"), what, change, w.Program,
		w.User))
}

// judgeBare judges a network namespace that has had the address without its allocation for more than one observation.
func (a *addressState) judgeBare(now time.Time, h *holder, ns string) {
	if h.removed.by == "" {
		h.removed = a.removed
	}
	switch {
	case h.removed.by == plugin:
		h.leaving = true // DEL removes the allocation before the link, which takes time on a loaded machine
	case slices.Contains(releasing, h.removed.by):
		a.accuse("released by %s while %s still had it for %q", h.removed, ns, h.pod)
	case now.Sub(h.bare) < unexplained:
	case h.removed.by != "":
		a.accuse("removed by %s while %s still had it for %q", h.removed, ns, h.pod)
	default:
		a.accuse("the entry of %q is not there or another's, removed by no audited write, while %s still had it", h.pod, ns)
	}
}

// judgeReservation judges the reservation of an address that was recorded when an observation began. A release that
// finds its pod alive has deleted the reservation and creates it again.
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

// lingering are the addresses in use whose allocations a DEL removed.
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

// TestOracle_DistinguishesWrongFromTransient plays what happens to one address. Each observation is "allocation
// namespaces *times"; "-" is no allocation. Observations are a second apart unless a row sets another step.
func TestOracle_DistinguishesWrongFromTransient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ play, saw, blame string }{
		"a pod comes and goes":                            {play: "-; a/x; a/x ns1 *3; - ns1 *8; - *5"},
		"an entry goes under a pod":                       {play: "a/x ns1 *2; - ns1 *12", saw: "wrong"},
		"an entry goes under a pod to another":            {play: "a/x ns1 *2; a/y ns1,ns2 *12", saw: "wrong duplicate"},
		"an entry goes to another pod when its own ended": {play: "a/x ns1 *2; a/y ns2 *12"},
		"an entry goes before its pod is on the wire":     {play: "a/x *2; - ns1 *12", saw: "wrong"},
		"an entry is back in time":                        {play: "a/x ns1 *2; - ns1 *8; a/x_uid ns1 *12"},
		"a pod of the same name shares an address": {play: "a/x ns1 *2; a/x ns1,ns2 *12; a/x ns1 *12",
			saw: "duplicate"},
		"two for one observation":   {play: "a/x ns1 *2; a/x ns1,ns2; a/x ns1 *2"},
		"a leak":                    {play: "a/x ns1 *2; a/x *4", saw: "leaked"},
		"a leak that is released":   {play: "a/x ns1 *2; a/x *4; - *2", saw: "released[4s]"},
		"a leak that is taken over": {play: "a/x ns1 *2; a/x *4; a/x ns2 *2"},

		// A restore brings allocations back and excuses nothing else.
		"restored: its entry is of the past": {play: "step 10s; a/x ns1; restoring; restored; a/old ns1 *2"},
		"restored: its entry is gone":        {play: "step 10s; a/x ns1; restoring; restored; - ns1 *2"},
		"restored: its entry is back, and goes": {play: "step 10s; a/x ns1; restoring; restored; - ns1; a/x " +
			"ns1; - ns1 *2", saw: "wrong"},
		"restored: its address is given to another": {play: "step 10s; a/x ns1; restoring; restored; - ns1; a/y " +
			"ns1,ns2 *2", saw: "duplicate"},
		"restored: an entry of the past becomes its own": {play: "step 10s; a/x ns1; restoring; restored; a/old ns1; a/x " +
			"ns1 *2"},
		"restored: and then is somebody else's once more": {play: "step 10s; a/x ns1; restoring; restored; a/x ns1; a/y " +
			"ns1 *2", saw: "wrong"},
		"nothing is judged while etcd is restored": {play: "step 10s; a/x ns1; restoring; - ns1 *2; restored; - ns1; a/x " +
			"ns1"},
		"and everything after it": {play: "step 10s; a/x ns1; restoring; - ns1 *2; restored; - ns1; a/x ns1; - ns1 *2",
			saw: "wrong"},

		// The audit log distinguishes a release from a slow DEL.
		"a release": {
			play: "step 500ms; removed whereabouts; a/x ns1 *2; removed ip-reconcile; - ns1 *2", saw: "wrong",
			blame: `released by ip-reconcile at 00:00:01.250 while ns1 still had it for "a/x"`},
		"a release by upstream": {play: "step 500ms; a/x ns1 *2; removed ip-reconciler; - ns1 *2",
			saw: "wrong", blame: "released by ip-reconciler"},
		"a release, and the next pod has it": {play: "step 500ms; a/x ns1 *2; removed ip-reconcile; a/y ns1,ns2 *2",
			saw: "wrong duplicate", blame: "released by ip-reconcile"},
		"a release of what nobody has":            {play: "step 500ms; a/x ns1 *2; removed ip-reconcile; - *2"},
		"a release, and an ADD that is under way": {play: "step 500ms; a/x ns1 *2; removed ip-reconcile; - ns2; a/y ns2"},
		"a DEL that has yet to come to the link": {play: "step 500ms; a/x ns1 *2; removed whereabouts; - ns1 *60",
			saw: "lingering"},
		"such a DEL, and the next pod has it": {play: "step 500ms; a/x ns1 *2; removed whereabouts; a/y ns1,ns2 *60",
			saw: "lingering"},
		"somebody else for longer than a moment": {play: "step 500ms; a/x ns1 *2; removed kubectl; - ns1 *24", saw: "wrong",
			blame: "removed by kubectl"},
		"somebody else for a moment": {play: "step 500ms; a/x ns1 *2; removed kubectl; - ns1 *2; a/x ns1"},
		"nobody at all for longer than a moment": {play: "step 500ms; a/x ns1 *2; - ns1 *24", saw: "wrong",
			blame: "removed by no audited write"},

		// On a loaded machine an observation takes 14 s, and the log records what happened to an allocation meanwhile.
		"a reservation is removed during an observation": {play: "a/x ns1; unreserved ip-reconcile +2s; took 14s; a/x ns1"},
		"a reservation is removed long before one": {play: "a/x ns1; unreserved ip-reconcile +0s; step 10s; took " +
			"14s; a/x ns1", saw: "wrong"},
		"an entry goes during one to the next pod": {play: "a/old; removed ip-reconcile +2s; took 10s; a/old ns2; took " +
			"0s; a/new ns2 *3"},
		"an entry goes during one, and nobody has it": {play: "a/old; removed ip-reconcile +2s; took 10s; a/old ns2; took " +
			"0s; - ns2 *3", saw: "wrong"},

		"a reservation is put back": {play: "a/x ns1; unreserved ip-reconcile +0s; a/x ns1; reserved " +
			"ip-reconcile; a/x ns1 *18"},
		"a reservation is put back too late": {play: "a/x ns1; unreserved ip-reconcile +0s; a/x ns1 *14; reserved " +
			"ip-reconcile; a/x ns1 *5", saw: "wrong"},
		"a reservation is not put back": {
			play: "a/x ns1; unreserved ip-reconcile +0s; a/x ns1 *19", saw: "wrong",
			blame: "its reservation was removed by ip-reconcile at 00:00:01.000, and not put back"},
		"a reservation goes with a DEL": {play: "a/x ns1; unreserved whereabouts +0s; a/x ns1 *19"},
	} {
		t.Run(name, func(t *testing.T) {
			r, address := newOracle(), netip.MustParseAddr("10.1.0.1")
			r.ranges["10.1.0.0-24"] = netip.MustParsePrefix("10.1.0.0/24")
			r.state(address)
			play(t, r, address, c.play)
			saw := r.report()
			is := ""
			for what, so := range map[string]bool{"wrong": len(saw.Wrong) > 0, "duplicate": len(saw.Duplicates) > 0,
				"leaked": len(saw.Leaked) > 0, "lingering": len(r.lingering()) > 0} {
				if so != strings.Contains(c.saw, what) {
					is += fmt.Sprintf(" %s is %v", what, so)
				}
			}
			if (len(saw.Released) > 0) != strings.Contains(c.saw, "released") || len(saw.Released) > 0 &&
				c.saw != fmt.Sprint("released",
					saw.Released) {
				is += fmt.Sprint(" released ", saw.Released)
			}
			if is != "" {
				t.Errorf("it saw:%s, want %q\n%s", is, c.saw, r.story(address))
			}
			contains(t, "the blame", r.blamed(address), c.blame)
		})
	}
}

// play has the oracle observe one address.
func play(t *testing.T, r *oracle, address netip.Addr, script string) {
	t.Helper()
	now, step, took := time.Unix(0, 0).UTC(), time.Second, time.Duration(0)
	for _, line := range strings.Split(script, "; ") {
		words := strings.Fields(line)
		after := step / 2
		if last := words[len(words)-1]; strings.HasPrefix(last, "+") {
			after = try(time.ParseDuration(last[1:])).must(t)
		}
		reservation := harness.Write{At: now.Add(after), Verb: "delete", Resource: "overlappingrangeipreservations",
			Name: address.String()}
		switch words[0] {
		case "step":
			step = try(time.ParseDuration(words[1])).must(t)
		case "took":
			took = try(time.ParseDuration(words[1])).must(t)
		case "restoring", "restored":
			r.restores(words[0] == "restoring")
		case "removed":
			r.learn(nil, []harness.Write{{At: now.Add(after), Program: words[1], Verb: "patch", Resource: "ippools",
				Name: "10.1.0.0-24", Removed: []string{"1"}}})
		case "reserved":
			reservation.Verb = "create"
			fallthrough
		case "unreserved":
			reservation.Program = words[1]
			r.learn(nil, []harness.Write{reservation})
		default:
			times, entries, wire := 1, map[netip.Addr]string{}, map[netip.Addr][]string{}
			if words[0] != "-" {
				entries[address] = words[0]
			}
			for _, w := range words[1:] {
				if n, repeated := strings.CutPrefix(w, "*"); repeated {
					times = try(strconv.Atoi(n)).must(t)
				} else {
					wire[address] = strings.Split(w, ",")
				}
			}
			for range times {
				now = now.Add(step)
				r.observe(now, now.Add(took), entries, wire)
				now = now.Add(took)
			}
		}
	}
}
