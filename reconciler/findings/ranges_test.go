package findings_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Here default/web-0 and its sandbox box-1 got 10.0.0.5 while the definition had the range 10.0.0.0/23.
func gotIn(cidr, network string) Part {
	return ReportingWorker(Sandbox("box-1", UsualUID, AddressIn("10.0.0.5", "net1", cidr, network)))
}

// A definition was edited while its pods run on, or etcd was restored from before the edit. The next ADD reads the pool
// of the range of today.
func TestUnrecorded_AfterAnEdit(t *testing.T) {
	old := gotIn("10.0.0.0/23", "")
	off := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges":false`))
	before := Pool("10.0.0.0-23", "10.0.0.0/23", UsualAllocation)
	slices := All(ThreeNodes(), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`)),
		FreshReport("worker-2"))
	reserved := Reservation("10.0.0.5", "default/web-0", LongAgo)
	reservationsUnknown := func(o *Observed) {
		o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden"))
	}
	withoutAgents := func(o *Observed) { o.Reports = o.Reports.With(nil) }
	for _, c := range []struct {
		says          string
		agents, alone int // findings with node agents, and without
		parts         []Part
	}{
		{"the range was shrunk", 1, 1, []Part{empty, here}},
		{"the range was grown", 1, 1, []Part{Pool("10.0.0.0-16", "10.0.0.0/16"), NAD("wb",
			WhereaboutsConfig("10.0.0.0/16", ""))}},
		{"no pool of today's range exists yet", 1, 1, []Part{Pool("red-10.1.0.0-24", "10.1.0.0/24"), here}},
		{"the pool of the range before has the allocation", 1, 1, []Part{empty, before, off}},
		{"no ADD has created the pool of today's range yet", 1, 1, []Part{before, off}},
		{"the pool of the range before has it, and its reservation is missing", 1, 1, []Part{empty, before, here}},
		{"its reservation keeps the address from ADDs", 0, 0, []Part{empty, before, here, reserved}},
		{"the reservation does, and no pool of today's range exists yet", 0, 0, []Part{before, here, reserved}},
		{"ADDs ignore reservations", 1, 1, []Part{empty, before, off, reserved}},
		{"another definition of the range ignores reservations", 1, 1, []Part{empty, before, here, reserved, NAD("wb2",
			WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges":false`))}},
		{"the reservation is another pod's", 1, 1, []Part{empty, before, here,
			Reservation("10.0.0.5", "default/x", LongAgo)}},
		{"the pool of today has the allocation", 0, 0, []Part{UsualPool, here}},
		{"the pool of today has an allocation of another pod", 0, 0, []Part{here,
			Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/x", "box-x", "net1"))}},
		{"whereabouts was moved to another namespace", 0, 0, []Part{UsualPool, here, poolIn("whereabouts-old", empty)}},
		{"no range of today has the address: nothing can assign it", 0, 0, []Part{Pool("10.0.0.0-30", "10.0.0.0/30"),
			Pool("10.0.0.0-23", "10.0.0.0/23"), NAD("wb", WhereaboutsConfig("10.0.0.0/30", ""))}},
		{"its own definition has not, another of the network has", 1, 1, []Part{empty, here,
			NAD("wb", WhereaboutsConfig("10.0.0.0/30", "")), NAD("wb2", WhereaboutsConfig("10.0.0.0/24", ""))}},
		{"another unnamed network has, and the pool of the range before has the allocation", 0, 0, []Part{empty, before,
			NAD("wb", WhereaboutsConfig("10.9.0.0/24", "")), NAD("wb2", WhereaboutsConfig("10.0.0.0/24", ""))}},
		{"reservations are unknown, and one may keep the address from ADDs", 0, 0, []Part{empty, before, here,
			reservationsUnknown}},
		{"reservations are unknown, and ADDs ignore them", 1, 1, []Part{empty, before, off, reservationsUnknown}},
		{"reservations are unknown, and no pool has the allocation", 1, 1, []Part{empty, here, reservationsUnknown}},
		{"another definition has the range of before, without reservations", 1, 1, []Part{empty, before, off,
			NAD("wb2", WhereaboutsConfig("10.0.0.0/23", "", `"enable_overlapping_ranges":false`))}},
		{"the definition has another network_name now", 1, 1, []Part{before, reserved,
			Pool("red-10.0.0.0-24", "10.0.0.0/24"), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the definition was renamed: only its CNI cache names the network", 1, 0, []Part{empty, NAD("renamed",
			WhereaboutsConfig("10.0.0.0/24", ""))}},
		{"the range is cut into slices now, and the pool of before has it", 1, 1, []Part{slices, before,
			sliceOf("worker-1")}},
		{"the range is cut into slices now, and none has the address", 1, 1, []Part{slices, before}},
		{"only the slice of another node has the address", 1, 1, []Part{slices, sliceOf("worker-2")}},
		{"the slice of another node has the allocation", 0, 0, []Part{slices, sliceOf("worker-2", UsualAllocation)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			if found := FindingsOf(findings.Unrecorded, append(c.parts, carrier, old)...); len(found) != c.agents {
				t.Errorf("with agents got %d findings, want %d: %+v", len(found), c.agents, found)
			}
			if found := FindingsOf(findings.Unrecorded, append(c.parts, carrier, withoutAgents)...); len(found) != c.alone {
				t.Errorf("without agents got %d findings, want %d: %+v", len(found), c.alone, found)
			}
		})
	}
}

func TestUnrecorded_RepairAfterAnEdit(t *testing.T) {
	old := gotIn("10.0.0.0/23", "")
	other := func(ip string) SandboxEdit { return AddressIn(ip, "net1", "10.0.0.0/25", "") }
	for _, c := range []struct {
		says, pool, podRef string // the pool and podref that are written; "" for none
		why                string // why nothing is written
		parts              []Part
	}{
		{"a live pod", "10.0.0.0-24", "default/web-0", "", []Part{empty, here, carrier, old}},
		{"a phantom", "10.0.0.0-24", "default/web-0_uid-1", "", []Part{empty, here, old}},
		{"a phantom whose pool of today does not exist", "10.0.0.0-24", "default/web-0_uid-1", "",
			[]Part{Pool("red-10.1.0.0-24", "10.1.0.0/24"), here, old}},
		{"the pool of the range before has it", "10.0.0.0-24", "default/web-0", "",
			[]Part{empty, Pool("10.0.0.0-23", "10.0.0.0/23", UsualAllocation), here, carrier, old}},
		{"the network was renamed", "", "", `the sandbox got the address in network "", before its definition was edited`,
			[]Part{Pool("red-10.0.0.0-24", "10.0.0.0/24"), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red")), carrier, old}},
		{"the pool is another node's", "", "", "the pool is the slice of another node", []Part{ThreeNodes(), Sliced(""),
			sliceOf("worker-2"), carrier, old}},
		{"the interface has two addresses of the pool", "", "", "the interface has another address in the pool's range",
			[]Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("9", "default/web-0", "box-1", "net1")), here, carrier,
				ReportingWorker(Sandbox("box-1", UsualUID, other("10.0.0.5"), AddressIn("10.0.0.9", "net1", "10.0.0.0/24", "")))}},
		{"two interfaces have one each", "10.0.0.0-24", "default/web-0", "",
			[]Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("9", "default/web-0", "box-1", "net2")), here, carrier,
				ReportingWorker(Sandbox("box-1", UsualUID, other("10.0.0.5"), AddressIn("10.0.0.9", "net2", "10.0.0.0/24", "")))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			found := FindingsOf(findings.Unrecorded, c.parts...)
			if len(found) != 1 {
				t.Fatalf("got %+v", found)
			}
			f := found[0]
			if c.why != "" {
				if f.Repair != nil || !strings.Contains(f.Message, "cannot be repaired, because "+c.why) {
					t.Errorf("got %+v", f)
				}
				return
			}
			if r := f.Repair; r == nil || r.Pool.Name != c.pool || r.PodRef != c.podRef || r.Key != "5" ||
				r.ContainerID != "box-1" || r.IfName != "net1" || !r.Overlapping {
				t.Errorf("got %+v", r)
			}
		})
	}
	t.Run("what is written is found again, and then nothing is", func(t *testing.T) {
		x := Judged(Observe(empty, here, carrier, old), facts.Policy{}).Facts()
		at := []netip.Addr{netip.MustParseAddr("10.0.0.5")}
		again := findings.At(judge.JudgeAt(x, nil, nil, at), at, nil)
		if len(again) != 1 || again[0].Repair == nil {
			t.Errorf("the second check has %+v", again)
		}
		if found := FindingsOf(findings.Unrecorded, UsualPool, here, carrier, old); len(found) > 0 {
			t.Errorf("after the repair %+v", found)
		}
	})
}

// The pool of today names a sandbox that does not run. Its DEL would release the address.
func TestMisrecorded_AfterAnEdit(t *testing.T) {
	runs := FreshReport("worker-2", Sandbox("box-7", "uid-7", OfPod("web-7"),
		AddressIn("10.0.0.5", "net1", "10.0.0.0/23", "")))
	cluster := All(here, nodes, runner, runs, FreshReport("worker-1"))
	its := Alloc("5", "default/web-7", "box-7", "net1")
	expectFindings(t, findings.Misrecorded, []findingCase{
		{"the range of the carrier is of before", 1, []Part{UsualPool, cluster}},
		{"the pool of before records it", 1, []Part{UsualPool, Pool("10.0.0.0-23", "10.0.0.0/23", its), cluster}},
		{"the pool of today records it", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0/24", its), cluster}},
		{"no ADD reads the pool any more", 0, []Part{Pool("10.0.0.0-23", "10.0.0.0/23", UsualAllocation), cluster}},
	})
	t.Run("the sandbox whose pool no ADD reads any more is Unrecorded in that of today", func(t *testing.T) {
		r := repairOf(t, findings.Unrecorded, Pool("10.0.0.0-23", "10.0.0.0/23", UsualAllocation), cluster)
		if r.Pool.Name != "10.0.0.0-24" {
			t.Errorf("got %+v", r)
		}
	})
}

// An IPPool is deleted. What was found in its range is found without it, too.
func TestDeletedPool_WithoutAgents(t *testing.T) {
	a, b := Pod("a", Carrying("10.0.0.5")), Pod("b", Carrying("10.0.0.5"))
	other := Pool("red-10.1.0.0-24", "10.1.0.0/24")
	elsewhere := poolIn("elsewhere", Pool("red-10.2.0.0-24", "10.2.0.0/24"))
	for _, c := range []struct {
		says, pool            string // of the findings
		conflicts, unrecorded int
		parts                 []Part
	}{
		{"the pool exists", "kube-system/10.0.0.0-24", 1, 2, []Part{empty, here, a, b}},
		{"it was deleted", "kube-system/10.0.0.0-24", 1, 2, []Part{other, here, a, b}},
		{"it was deleted, and pools are in two namespaces", "", 1, 2, []Part{other, elsewhere, here, a, b}},
		{"it was the only one", "", 1, 2, []Part{here, a, b}},
		{"no definition has the range", "", 0, 0, []Part{other, NAD("wb", WhereaboutsConfig("10.3.0.0/24", "")), a, b}},
	} {
		t.Run(c.says, func(t *testing.T) {
			conflicts, unrecorded := FindingsOf(findings.Conflict, c.parts...), FindingsOf(findings.Unrecorded, c.parts...)
			if len(conflicts) != c.conflicts || len(unrecorded) != c.unrecorded {
				t.Fatalf("%+v\n%+v", conflicts, unrecorded)
			}
			for _, f := range append(conflicts, unrecorded...) {
				if f.Pool != c.pool || f.Repair != nil || f.IP != "10.0.0.5" {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}

// Tenants write definitions. Each address is looked up by the lengths of their prefixes.
func TestManyDefinitions(t *testing.T) {
	parts := []Part{empty}
	for i := range 5000 {
		config := WhereaboutsConfig("10.0.0.0/24", fmt.Sprint("n", i))
		if i%2 > 0 {
			config = WhereaboutsConfig(fmt.Sprintf("10.%d.%d.0/24", 1+i/250, i%250), "")
		}
		parts = append(parts, NAD(fmt.Sprint("nad-", i), config))
	}
	for i := range 2000 {
		ip := fmt.Sprintf("10.1.1.%d", i%250)
		parts = append(parts, Pod(fmt.Sprint("web-", i), CarryingOn("default/nad-1", "net1", ip)))
	}
	o := Observe(parts...)
	start := time.Now()
	if j := Judged(o, facts.Policy{}); len(j.Findings) == 0 {
		t.Error("no findings")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A definition was edited to another network_name. Its pods from before and after the edit are on one network.
func TestConflict_AfterANetworkWasRenamed(t *testing.T) {
	red := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))
	pools := All(empty, Pool("red-10.0.0.0-24", "10.0.0.0/24"))
	one := All(Pod("a", UID("uid-a"), Carrying("10.0.0.5")), FreshReport("worker-1", boxA))
	two := func(network string) Part {
		return All(Pod("b", UID("uid-b"), OnNode("worker-2"), Carrying("10.0.0.5")), FreshReport("worker-2",
			Sandbox("box-2", "uid-b", OfPod("b"), WithAddress("10.0.0.5", network))))
	}
	blue := CarryingOn("default/blue", "net1", "10.0.0.5")
	// The pods and their sandboxes are a finding each.
	expectFindings(t, findings.Conflict, []findingCase{
		{"one of them is from before the edit", 2, []Part{nodes, pools, red, one, two("red")}},
		{"both are", 2, []Part{nodes, pools, red, one, two("")}},
		{"one is a phantom from before the edit", 1, []Part{nodes, pools, red, one, FreshReport("worker-2", boxB)}},
		{"a definition still has the network of the one: its pod's network-status does not count", 0,
			[]Part{nodes, pools, here, NAD("blue", WhereaboutsConfig("10.0.0.0/24", "red")), Pod("a", UID("uid-a"), blue),
				FreshReport("worker-1", boxA), two("red")}},
	})
}

// The upper half of a /64 has keys that whereabouts writes and does not read.
func TestUnrecorded_KeyThatIsNotRead(t *testing.T) {
	const address = "fd00::8000:0:0:1"
	its := Alloc("9223372036854775809", "default/web-0", "box-1", "net1")
	recorded, empty := Pool("fd00---64", "fd00::/64", its), Pool("fd00---64", "fd00::/64")
	for _, c := range []struct {
		says        string
		overlapping string
		want        int
		part        Part
	}{
		{"its reservation keeps it from ADDs", "true", 0, recorded},
		{"it has no allocation", "true", 1, empty},
		{"ADDs ignore reservations, and do not read the allocation", "false", 1, recorded},
		{"ADDs ignore reservations, and there is no allocation", "false", 1, empty},
	} {
		found := FindingsOf(findings.Unrecorded, c.part, UsualPod(Carrying(address)),
			ReportingWorker(Sandbox("box-1", UsualUID, AddressIn(address, "net1", "fd00::/64", ""))),
			Reservation("fd00--8000-0-0-1", "default/web-0", LongAgo),
			NAD("wb", WhereaboutsConfig("fd00::/64", "", `"enable_overlapping_ranges":`+c.overlapping)))
		if len(found) != c.want {
			t.Errorf("%s: got %+v, want %d", c.says, found, c.want)
		}
		for _, f := range found {
			if f.Repair != nil || !strings.Contains(f.Message, "beyond the first 2^63 addresses") {
				t.Errorf("%s: %s, repair %v", c.says, f.Message, f.Repair)
			}
		}
	}
}
