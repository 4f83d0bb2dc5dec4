//go:build cluster

package e2e

import (
	"testing"
	"time"
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
					a.observe(now, time.Time{}, podOf(m.pod), m.holders)
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
			a.observe(now, time.Time{}, "a/x", one)
			a.restored()
			for _, m := range c.after {
				now = now.Add(delTakes)
				a.observe(now, time.Time{}, podOf(m.pod), m.holders)
			}
			equal(t, "wrongly freed", a.wrong, c.wrong)
			equal(t, "on the wire twice", a.duplicate, c.duplicate)
		})
	}
}
