//go:build cluster

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A moment is what one observation of the oracle has of one address, a second after the
// one before.
type moment struct {
	pod     string
	holders []string
}

func TestTheOracleTellsWhatIsWrongFromWhatPasses(t *testing.T) {
	t.Parallel()
	one, two, none := []string{"ns1"}, []string{"ns1", "ns2"}, []string(nil)
	has := func(pod string, holders []string, times int) (m []moment) {
		for range times {
			m = append(m, moment{pod, holders})
		}
		return m
	}
	for name, c := range map[string]struct {
		moments          [][]moment
		wrong, duplicate bool
		leaked           bool
		freed            []time.Duration
	}{
		"a pod comes and goes":                            {moments: [][]moment{has("", none, 1), has("a/x", none, 1), has("a/x", one, 3), has("", one, 8), has("", none, 5)}},
		"an entry goes under a pod":                       {moments: [][]moment{has("a/x", one, 2), has("", one, 12)}, wrong: true},
		"an entry goes under a pod to another":            {moments: [][]moment{has("a/x", one, 2), has("a/y", two, 12)}, wrong: true, duplicate: true},
		"an entry goes to another pod when its own ended": {moments: [][]moment{has("a/x", one, 2), has("a/y", []string{"ns2"}, 12)}},
		"an entry goes before its pod is on the wire":     {moments: [][]moment{has("a/x", none, 2), has("", one, 12)}, wrong: true, freed: nil},
		"an entry is back in time":                        {moments: [][]moment{has("a/x", one, 2), has("", one, 8), has("a/x_uid", one, 12)}},
		"a pod of the same name shares an address":        {moments: [][]moment{has("a/x", one, 2), has("a/x", two, 12), has("a/x", one, 12)}, duplicate: true},
		"two for one observation":                         {moments: [][]moment{has("a/x", one, 2), has("a/x", two, 1), has("a/x", one, 2)}},
		"a leak":                                          {moments: [][]moment{has("a/x", one, 2), has("a/x", none, 4)}, leaked: true},
		"a leak that is freed":                            {moments: [][]moment{has("a/x", one, 2), has("a/x", none, 4), has("", none, 2)}, freed: []time.Duration{4 * time.Second}},
		"a leak that is taken over":                       {moments: [][]moment{has("a/x", one, 2), has("a/x", none, 4), has("a/x", []string{"ns2"}, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			var a addressState
			now := time.Unix(0, 0)
			for _, some := range c.moments {
				for _, m := range some {
					now = now.Add(time.Second)
					a.observe(now, now, time.Time{}, podOf(m.pod), m.holders)
				}
			}
			equal(t, "wrongly freed", a.wrong, c.wrong)
			equal(t, "on the wire twice", a.duplicate, c.duplicate)
			equal(t, "leaked", !a.off.IsZero(), c.leaked)
			equal(t, "freed after", a.freed, c.freed)
		})
	}
}

func TestTheOracleLetsARestoreTakeEntriesBackAndNothingElse(t *testing.T) {
	t.Parallel()
	one, two := []string{"ns1"}, []string{"ns1", "ns2"}
	for name, c := range map[string]struct {
		after            []moment // the restore
		wrong, duplicate bool
	}{
		"its entry is of the past":              {after: []moment{{"a/old", one}, {"a/old", one}}},
		"its entry is gone":                     {after: []moment{{"", one}, {"", one}}},
		"its entry is back, and goes":           {after: []moment{{"", one}, {"a/x", one}, {"", one}, {"", one}}, wrong: true},
		"its address is given to another pod":   {after: []moment{{"", one}, {"a/y", two}, {"a/y", two}}, duplicate: true},
		"an entry of the past becomes its own":  {after: []moment{{"a/old", one}, {"a/x", one}, {"a/x", one}}},
		"and then is somebody else's once more": {after: []moment{{"a/x", one}, {"a/y", one}, {"a/y", one}}, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			var a addressState
			now := time.Unix(0, 0)
			a.observe(now, now, time.Time{}, "a/x", one)
			a.restored()
			for _, m := range c.after {
				now = now.Add(unexplained)
				a.observe(now, now, time.Time{}, podOf(m.pod), m.holders)
			}
			equal(t, "wrongly freed", a.wrong, c.wrong)
			equal(t, "on the wire twice", a.duplicate, c.duplicate)
		})
	}
}

// A loaded machine takes longer for a restore than an address may be in use without an explanation.
func TestTheOracleJudgesNothingWhileEtcdIsRestored(t *testing.T) {
	t.Parallel()
	r, address := newOracle(), netip.MustParseAddr("10.1.0.1")
	now := time.Unix(0, 0)
	see := func(pod string) {
		now = now.Add(unexplained)
		entries := map[netip.Addr]string{}
		if pod != "" {
			entries[address] = pod
		}
		r.observe(now, now, entries, map[netip.Addr][]string{address: {"ns1"}})
	}
	see("a/x")
	r.restores(true)
	see("")
	see("")
	r.restores(false)
	see("")
	see("a/x")
	equal(t, "wrongly freed in a restore", len(r.report().Wrong), 0)
	see("")
	see("")
	equal(t, "wrongly freed after it", len(r.report().Wrong), 1)
}

// TestTheOracleBlamesWhoRemovedAnEntry has the audit log tell a release from a slow DEL.
func TestTheOracleBlamesWhoRemovedAnEntry(t *testing.T) {
	t.Parallel()
	one, two := []string{"ns1"}, []string{"ns1", "ns2"}
	for name, c := range map[string]struct {
		by               string
		after            []moment // the removal, half a second each
		wrong, duplicate bool
		blame            string
	}{
		"a release":                                {by: "ip-reconcile", after: []moment{{"", one}, {"", one}}, wrong: true, blame: `released by ip-reconcile at 00:00:01.250 while ns1 still had it for "a/x"`},
		"a release by upstream":                    {by: "ip-reconciler", after: []moment{{"", one}, {"", one}}, wrong: true, blame: "released by ip-reconciler"},
		"a release, and the next pod has it":       {by: "ip-reconcile", after: []moment{{"a/y", two}, {"a/y", two}}, wrong: true, duplicate: true, blame: "released by ip-reconcile"},
		"a release of what nobody has":             {by: "ip-reconcile", after: []moment{{"", nil}, {"", nil}}},
		"a release, and an ADD that is under way":  {by: "ip-reconcile", after: []moment{{"", []string{"ns2"}}, {"a/y", []string{"ns2"}}}},
		"a DEL that has yet to come to the link":   {by: "whereabouts", after: many(moment{"", one}, 60)},
		"such a DEL, and the next pod has it":      {by: "whereabouts", after: many(moment{"a/y", two}, 60)},
		"somebody else for longer than a moment":   {by: "kubectl", after: many(moment{"", one}, 24), wrong: true, blame: "removed by kubectl"},
		"somebody else for a moment":               {by: "kubectl", after: []moment{{"", one}, {"", one}, {"a/x", one}}},
		"nobody at all for longer than a moment":   {after: many(moment{"", one}, 24), wrong: true, blame: "removed by no audited write"},
		"a release, after a DEL of another before": {by: "ip-reconcile", after: []moment{{"", one}, {"", one}}, wrong: true, blame: "released by ip-reconcile"},
	} {
		t.Run(name, func(t *testing.T) {
			r, address := newOracle(), netip.MustParseAddr("10.1.0.1")
			r.ranges["10.1.0.0-24"] = netip.MustParsePrefix("10.1.0.0/24")
			now := time.Unix(0, 0).UTC()
			see := func(m moment) {
				now = now.Add(500 * time.Millisecond)
				entries, wire := map[netip.Addr]string{}, map[netip.Addr][]string{address: m.holders}
				if m.pod != "" {
					entries[address] = m.pod
				}
				r.observe(now, now, entries, wire)
			}
			removedBy := func(program string) {
				r.learn(nil, []harness.Write{{At: now.Add(250 * time.Millisecond), Program: program, Verb: "patch", Resource: "ippools", Name: "10.1.0.0-24", Removed: []string{"1"}}})
			}
			removedBy("whereabouts") // of the pod that had it before
			see(moment{"a/x", one})
			see(moment{"a/x", one})
			if c.by != "" {
				removedBy(c.by)
			}
			for _, m := range c.after {
				see(m)
			}
			saw := r.report()
			equal(t, "wrongly freed", len(saw.Wrong) > 0, c.wrong)
			equal(t, "on the wire twice", len(saw.Duplicates) > 0, c.duplicate)
			contains(t, "the blame", r.blamed(address), c.blame)
			equal(t, "waits for its DEL", len(r.lingering()) > 0, c.by == "whereabouts")
		})
	}
}

// TestTheOracleForgivesARemovalDuringAnObservation reads an entry and, on a loaded machine 14 seconds
// later, a log that says what became of it meanwhile.
func TestTheOracleForgivesARemovalDuringAnObservation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		began time.Duration // after the removal
		wrong bool
	}{
		"before the end of the observation": {began: -time.Second},
		"long before it":                    {began: unexplained, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, address := newOracle(), netip.MustParseAddr("10.1.0.1")
			entries, wire := map[netip.Addr]string{address: "a/x"}, map[netip.Addr][]string{address: {"ns1"}}
			removed := time.Unix(100, 0).UTC()
			r.observe(removed.Add(-time.Minute), removed.Add(-time.Minute), entries, wire)
			r.learn(nil, []harness.Write{{At: removed, Program: "ip-reconcile", Verb: "delete", Resource: "overlappingrangeipreservations", Name: "10.1.0.1"}})
			began := removed.Add(c.began)
			r.observe(began, began.Add(14*time.Second), entries, wire)
			equal(t, "wrongly freed", len(r.report().Wrong) > 0, c.wrong)
		})
	}
}

// An observation that takes long reads the entry of a leak and then, on the wire, the pod that has had its
// address since.
func TestTheOracleGivesNobodyAnEntryThatWentWhileItLooked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has   string // the entry afterwards
		wrong bool
	}{
		"to the pod on the wire":               {has: "a/new"},
		"and nobody has recorded the next pod": {wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, address := newOracle(), netip.MustParseAddr("10.1.0.1")
			r.ranges["10.1.0.0-24"] = netip.MustParsePrefix("10.1.0.0/24")
			now := time.Unix(100, 0).UTC()
			see := func(took time.Duration, podRef string, holders ...string) {
				entries := map[netip.Addr]string{}
				if podRef != "" {
					entries[address] = podRef
				}
				r.observe(now, now.Add(took), entries, map[netip.Addr][]string{address: holders})
				now = now.Add(took + time.Second)
			}
			see(0, "a/old")
			r.learn(nil, []harness.Write{{At: now.Add(time.Second), Program: "ip-reconcile", Verb: "patch", Resource: "ippools", Name: "10.1.0.0-24", Removed: []string{"1"}}})
			see(10*time.Second, "a/old", "ns2")
			for range 3 {
				see(0, c.has, "ns2")
			}
			equal(t, "wrongly freed", len(r.report().Wrong) > 0, c.wrong)
		})
	}
}

func many(m moment, times int) (all []moment) {
	for range times {
		all = append(all, m)
	}
	return all
}

func TestTheOracleWantsAReservationPutBack(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddr("10.1.0.1")
	for name, c := range map[string]struct {
		by    string
		back  time.Duration // after which it is created again; 0 for never
		wrong bool
	}{
		"and it is":                        {by: "ip-reconcile", back: 2 * time.Second},
		"and it is not":                    {by: "ip-reconcile", wrong: true},
		"and it is, too late":              {by: "ip-reconcile", back: 15 * time.Second, wrong: true},
		"but not what a DEL takes with it": {by: "whereabouts"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newOracle()
			now := time.Unix(0, 0).UTC()
			r.observe(now, now, map[netip.Addr]string{address: "a/x"}, map[netip.Addr][]string{address: {"ns1"}})
			r.learn(nil, []harness.Write{{At: now, Program: c.by, Verb: "delete", Resource: "overlappingrangeipreservations", Name: "10.1.0.1"}})
			for since := time.Second; since < 20*time.Second; since += time.Second {
				if since == c.back {
					r.learn(nil, []harness.Write{{At: now.Add(since), Program: c.by, Verb: "create", Resource: "overlappingrangeipreservations", Name: "10.1.0.1"}})
				}
				r.observe(now.Add(since), now.Add(since), map[netip.Addr]string{address: "a/x"}, map[netip.Addr][]string{address: {"ns1"}})
			}
			equal(t, "wrong", len(r.report().Wrong) > 0, c.wrong)
			if c.wrong {
				contains(t, "the blame", r.blamed(address), "its reservation was removed by ip-reconcile", "not put back")
			}
		})
	}
}
