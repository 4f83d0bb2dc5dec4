package judge_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// In wide, whereabouts stores fd00::5 and fd00:0:0:1::5 under the key 5. narrow overlaps it.
func wide(allocs ...Allocation) Part   { return Pool("fd00---32", "fd00::/32", allocs...) }
func narrow(allocs ...Allocation) Part { return Pool("fd00-0-0-1---64", "fd00:0:0:1::/64", allocs...) }

var (
	webAt5 = Alloc("5", "default/web-0", "box-1", "net1")
	dbAt5  = Alloc("5", "default/db-0", "box-2", "net1")
)

// A reservation names its address. It is held if its allocation may be in a pool of an unsupported range.
func TestUnsupportedRange_Reservations(t *testing.T) {
	held := decision{judge.Held, judge.UnsupportedRange, false}
	proven := decision{judge.Stale, judge.PodGone, true}
	ended := ReportingWorker(gone1, Gone("box-2", UsualUID))
	for _, c := range []struct {
		says, name, podRef string
		want               decision
		parts              []Part
	}{
		{"of the address that whereabouts reads", "fd00--5", "default/web-0", held, []Part{wide(webAt5)}},
		{"of another address with that key", "fd00-0-0-1--5", "default/web-0", held, []Part{wide(webAt5)}},
		{"of no allocation", "fd00--7", "default/gone", held, []Part{wide(webAt5)}},
		{"in a range with host bits", "10.0.0.2", "default/gone", held, []Part{Pool("10.0.0.3-24", "10.0.0.3/24")}},
		{"of an allocation in a narrow pool, too", "fd00-0-0-1--5", "default/web-0", proven, []Part{wide(), narrow(webAt5)}},
		{"of an allocation in a narrow pool, while the wide one has others", "fd00-0-0-1--5", "default/web-0", proven,
			[]Part{wide(dbAt5), narrow(webAt5)}},
		{"of an allocation in a narrow pool, while the wide one has one of the pod", "fd00-0-0-1--5", "default/web-0", held,
			[]Part{wide(Alloc("9", "default/web-0", "box-9", "net2")), narrow(webAt5)}},
		{"of an allocation in a narrow pool, while that of another network has one of the pod", "fd00-0-0-1--5",
			"default/web-0", proven, []Part{Pool("red-fd00---32", "fd00::/32", webAt5), narrow(webAt5)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			expectReservation(t, c.name, c.want, append(c.parts, ended, Reservation(c.name, c.podRef, LongAgo))...)
		})
	}
}

// The pool of a supported range that overlaps an unsupported one keeps its rules.
func TestUnsupportedRange_OverlappingPool(t *testing.T) {
	ended, here := ReportingWorker(gone1), NAD("wb", WhereaboutsConfig("fd00:0:0:1::/64", ""))
	reserved := Reservation("fd00-0-0-1--5", "default/web-0", LongAgo)
	for _, c := range []struct {
		says  string
		want  decision
		parts []Part
	}{
		{"its sandbox has ended", decision{judge.Stale, judge.PodGone, true}, []Part{ended}},
		{"its reservation may be of the other pool", decision{judge.Stale, judge.PodGone, true},
			[]Part{ended, reserved, wide(Alloc("9", "default/web-0", "box-9", "net2"))}},
		{"another pod carries the address", decision{judge.Held, judge.ClaimedByOther, false}, []Part{ended,
			NAD("wide", WhereaboutsConfig("fd00::/32", "")), wide(Alloc("5", "default/db-0", "box-2", "net1")),
			Pod("db-0", UID("uid-9"), Carrying("fd00:0:0:1::5"))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			var got []*judge.Item
			for _, it := range Judged(Observe(append(c.parts, narrow(webAt5), here)...), facts.Policy{}).Allocations {
				if it.Pool.Name == "fd00-0-0-1---64" {
					got = append(got, it)
				}
			}
			if len(got) != 1 || got[0].Verdict != c.want.Verdict || got[0].Reason != c.want.Reason ||
				got[0].Proven != c.want.Proven {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// An allocation of an unsupported range, which may be about another address, does not set the pod's address apart.
func TestUnsupportedRange_RecordsNoAddress(t *testing.T) {
	parts := []Part{NAD("wb", WhereaboutsConfig("fd00::/32", "")), Pool("fd00---64", "fd00::/64", webAt5),
		wide(Alloc("5", "default/web-0", "box-2", "net1")), UsualPod(Carrying("fd00::5")), ReportingWorker(gone1)}
	for _, it := range Judged(Observe(parts...), facts.Policy{}).Allocations {
		if it.Pool.Name == "fd00---64" && it.Reason != judge.AddressOnPod {
			t.Errorf("got %v", RulingOf(it))
		}
	}
}

// Nothing in a pool of an unsupported range is repaired. What an existing one lacks is unknown.
func TestUnsupportedRange_NoRepairs(t *testing.T) {
	runs := func(cidr string) Part {
		return ReportingWorker(Sandbox("box-1", UsualUID, AddressIn("fd00:0:0:1::5", "net1", cidr, "")))
	}
	def := NAD("wb", WhereaboutsConfig("fd00::/32", ""))
	narrowDef := NAD("wb", WhereaboutsConfig("fd00:0:0:1::/64", ""))
	pod, reserved := UsualPod(Carrying("fd00:0:0:1::5")), Reservation("fd00-0-0-1--5", "default/web-0", LongAgo)
	for _, c := range []struct {
		says              string
		findings, repairs int
		parts             []Part
	}{
		{"its entry and reservation are missing", 0, 0, []Part{wide(), def, pod, runs("fd00::/32")}},
		{"its reservation is missing", 0, 0, []Part{wide(webAt5), def, pod, runs("fd00::/32"),
			Reservation("fd00-0-0-1--9", "default/x", LongAgo)}},
		{"its entry is another pod's", 0, 0, []Part{wide(dbAt5), def, pod, runs("fd00::/32")}},
		{"its pool is missing", 1, 0, []Part{narrow(), def, pod, runs("fd00::/32")}},
		{"its entry may be in the wide pool", 0, 0, []Part{wide(webAt5), narrow(), def,
			NAD("wb2", WhereaboutsConfig("fd00:0:0:1::/64", "")), pod, runs("fd00::/32")}},
		{"after a move, its reservation keeps the address", 0, 0, []Part{wide(webAt5), narrow(), narrowDef, pod, reserved,
			runs("fd00::/32")}},
		{"after a move, nothing keeps the address", 1, 1, []Part{wide(webAt5), narrow(), narrowDef, pod, runs("fd00::/32")}},
		{"its entry in the narrow pool is missing", 1, 1, []Part{wide(dbAt5), narrow(), narrowDef, pod,
			runs("fd00:0:0:1::/64")}},
		{"its reservation is another's, and may be of the wide pool", 1, 0, []Part{wide(), narrow(webAt5), narrowDef, pod,
			runs("fd00:0:0:1::/64"), Reservation("fd00-0-0-1--5", "default/db-0", LongAgo)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			var found []findings.Finding
			repairs := 0
			for _, kind := range []findings.Kind{findings.Unrecorded, findings.Misrecorded, findings.MissingReservation} {
				for _, f := range FindingsOf(kind, c.parts...) {
					if found = append(found, f); f.CanRepair() {
						repairs++
					}
				}
			}
			if len(found) != c.findings || repairs != c.repairs {
				t.Errorf("got %d repairs: %+v; want %d and %d", repairs, found, c.findings, c.repairs)
			}
		})
	}
}

// A phantom whose address is in a pool of an unsupported range may have its allocation there.
func TestUnsupportedRange_Phantom(t *testing.T) {
	runs := ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("fd00:0:0:1::5", "")))
	for says, c := range map[string]struct {
		pool   Part
		unheld int
	}{"recorded": {wide(webAt5), 0}, "not recorded": {wide(dbAt5), 1}} {
		if f := FindingsOf(findings.Phantom, c.pool, runs); len(f) != 1 || len(f[0].Unheld) != c.unheld {
			t.Errorf("%s: %+v", says, f)
		}
	}
}
