package usage_test

import (
	"fmt"
	"math/big"
	stdnet "net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/allocate"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// net is the definition default/<name> of 10.0.0.0/29, with more of its IPAM section.
func net(name string, more ...string) Part {
	return NAD(name, WhereaboutsConfig("10.0.0.0/29", "", more...))
}

// pool29 is the pool of 10.0.0.0/29 with entries of live pods at these keys.
func pool29(keys ...int) Part {
	var all []Part
	var allocs []Allocation
	for _, k := range keys {
		pod := fmt.Sprint("web-", k)
		allocs = append(allocs, Alloc(fmt.Sprint(k), "default/"+pod, "box", "net1"))
		all = append(all, Pod(pod, Carrying(fmt.Sprint("10.0.0.", k))))
	}
	return All(append(all, Pool("10.0.0.0-29", "10.0.0.0/29", allocs...))...)
}

func judged(parts ...Part) *findings.Assessment { return Judged(Observe(parts...), facts.Policy{}) }

func theOnly(t *testing.T, u *usage.Pools) *usage.Pool {
	t.Helper()
	if len(u.All) != 1 {
		t.Fatalf("%d pools", len(u.All))
	}
	return u.All[0]
}

// numbers are "usable used free" of a pool.
func numbers(p *usage.Pool) string {
	if p.Usable == nil {
		return fmt.Sprint("? ", p.Used, " ?")
	}
	return fmt.Sprint(p.Usable, " ", p.Used, " ", p.Free)
}

// addsUp checks that each usable address is counted once.
func addsUp(t interface{ Errorf(string, ...any) }, p *usage.Pool) {
	if p.Usable == nil {
		return
	}
	sum := big.NewInt(int64(p.Used - p.Outside))
	if sum.Add(sum.Add(sum, p.Blocked), p.Free); sum.Cmp(p.Usable) != 0 || p.Outside < 0 || p.Blocked.Sign() < 0 {
		t.Errorf("%s: usable %s are not used %d - outside %d + blocked %s + free %s", p.Ref(), p.Usable, p.Used, p.Outside,
			p.Blocked, p.Free)
	}
}

func TestPool_BlockedAndOutside(t *testing.T) {
	p := theOnly(t, usage.Of(judged(net("a", `"exclude":["10.0.0.4"]`), pool29(1, 4), Pod("lost", Carrying("10.0.0.2")),
		Node("worker-1"), FreshReport("worker-1", Sandbox("box-2", UsualUID, OfPod("lost"), WithAddress("10.0.0.2", ""))),
		Reservation("10.0.0.3", "default/x", LongAgo))))
	if got := fmt.Sprint(numbers(p), " ", p.Blocked, " ", p.Outside); got != "5 2 2 2 1" {
		t.Errorf("usable, used, free, blocked, outside: %s", got)
	}
	addsUp(t, p)
}

func TestHowFullAPoolIs(t *testing.T) {
	noOverlap := `"enable_overlapping_ranges":false`
	for _, c := range []struct {
		says, want string
		parts      []Part
	}{
		{"empty", "6 0 6", []Part{net("a"), pool29()}},
		{"some taken", "6 2 4", []Part{net("a"), pool29(1, 4)}},
		{"all taken", "6 6 0", []Part{net("a"), pool29(1, 2, 3, 4, 5, 6)}},
		{"an entry that is excluded does not make less free", "5 1 5", []Part{net("a", `"exclude":["10.0.0.4"]`), pool29(4)}},
		{"the entry of the broadcast address, too", "6 2 5", []Part{net("a"), pool29(1, 7)}},
		{"two definitions with other bounds", "4 1 3", []Part{net("a", `"range_end":"10.0.0.2"`),
			net("b", `"range_start":"10.0.0.5"`), pool29(2)}},
		{"an address that another pool of the network has", "6 1 4", []Part{net("a"), pool29(1), Reservation("10.0.0.3",
			"default/x", LongAgo)}},
		{"its own reservation counts once", "6 1 5", []Part{net("a"), pool29(1), Reservation("10.0.0.1", "default/web-1",
			LongAgo)}},
		{"a reservation of another network", "6 1 5", []Part{net("a"), pool29(1), Pool("red-10.0.0.0-29", "10.0.0.0/29"),
			Reservation("red-10.0.0.3", "default/x", LongAgo)}},
		{"a reservation where no overlapping ranges are", "6 1 5", []Part{net("a", noOverlap), pool29(1),
			Reservation("10.0.0.3", "default/x", LongAgo)}},
		{"a reservation, and one of two definitions does not care", "6 0 5",
			[]Part{net("a", noOverlap, `"range_end":"10.0.0.3"`), net("b"), pool29(), Reservation("10.0.0.3", "default/x",
				LongAgo), Reservation("10.0.0.4", "default/y", LongAgo)}},
		{"no definition", "? 1 ?", []Part{pool29(1)}},
		{"a definition of another network", "? 1 ?", []Part{NAD("a", WhereaboutsConfig("10.0.0.0/29", "red")), pool29(1)}},
		{"a definition that cannot be read", "? 1 ?", []Part{NAD("a", "{"), pool29(1)}},
		{"one of two cannot be read", "6 1 5", []Part{NAD("a", "{"), net("b"), pool29(1)}},
		{"a definition that whereabouts refuses", "? 1 ?", []Part{net("a", `"exclude":["x"]`), pool29(1)}},
		{"a range that is written with an address inside", "? 0 ?", []Part{net("a"), Pool("10.0.0.0-29", "10.0.0.1/29")}},
		{"a range that cannot be read", "? 0 ?", []Part{net("a"), Pool("10.0.0.0-29", "x")}},
		{"a slice", "2 0 2", []Part{Node("w-1"), NAD("a", WhereaboutsConfig("10.0.0.0/28", "", `"node_slice_size":"/30"`)),
			Pool("w-1-10.0.0.4-30", "10.0.0.4/30")}},
		{"a slice of a node that is gone", "? 0 ?",
			[]Part{Node("w-2"), NAD("a", WhereaboutsConfig("10.0.0.0/28", "", `"node_slice_size":"/30"`)),
				Pool("w-1-10.0.0.4-30", "10.0.0.4/30")}},
		{"a range without a usable address", "0 0 0", []Part{NAD("a", WhereaboutsConfig("10.0.0.0/31", "")),
			Pool("10.0.0.0-31", "10.0.0.0/31")}},
		{"a wide range", "18446744073709551614 0 18446744073709551614", []Part{NAD("a", WhereaboutsConfig("fd00::/64", "")),
			Pool("fd00---64", "fd00::/64")}},
	} {
		t.Run(c.says, func(t *testing.T) {
			u := usage.Of(judged(append(c.parts, Pod("bystander"))...))
			i := slices.IndexFunc(u.All, func(p *usage.Pool) bool { return !strings.HasPrefix(p.Name, "red") })
			p := u.All[i]
			if got := numbers(p); got != c.want {
				t.Errorf("usable, used, free: %s, want %s", got, c.want)
			}
			addsUp(t, p)
			if (p.Unknown != "") != strings.HasPrefix(c.want, "?") {
				t.Errorf("not known because %q", p.Unknown)
			}
		})
	}
}

func TestVerdictsAreCounted(t *testing.T) {
	j := judged(net("a"), Pod("web-1", Carrying("10.0.0.1")), Pool("10.0.0.0-29", "10.0.0.0/29",
		Alloc("1", "default/web-1", "box", "net1"), Alloc("2", "default/gone", "box-2", "net1")), Reservation("10.0.0.2",
		"default/gone", LongAgo))
	p := theOnly(t, usage.Of(j))
	if got := fmt.Sprint(numbers(p), " ", p.InUse, p.Held, p.Stale); got != "6 2 4 1 0 1" {
		t.Errorf("got %s", got)
	}
}

func TestTheFullestPoolIsFirstAndTheUnknownLast(t *testing.T) {
	pool := func(third int, name string, entries int) Part {
		var allocs []Allocation
		for i := range entries {
			allocs = append(allocs, Alloc(fmt.Sprint(i+1), fmt.Sprint("default/p", i), "box", "net1"))
		}
		return Pool(fmt.Sprintf("10.0.%d.0-29", third), fmt.Sprintf("10.0.%d.0/29", third), allocs...)
	}
	define := func(third int) Part {
		return NAD(fmt.Sprint("n", third), WhereaboutsConfig(fmt.Sprintf("10.0.%d.0/29", third), ""))
	}
	u := usage.Of(judged(Pod("bystander"), define(1), define(2), define(3), pool(1, "", 1), pool(2, "", 6), pool(3, "", 3),
		pool(4, "", 6)))
	var got []string
	for _, p := range u.All {
		got = append(got, p.Name)
	}
	if want := []string{"10.0.2.0-29", "10.0.3.0-29", "10.0.1.0-29", "10.0.4.0-29"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestWhatKeepsNumbersFromBeingWholeIsNoted(t *testing.T) {
	u := usage.Of(judged(pool29(1), net("a"), NAD("b", "{"), net("c", `"exclude":["x"]`)))
	if len(u.Notes) != 2 || !strings.Contains(u.Notes[0], `default/c`) || !strings.Contains(u.Notes[0], `exclude "x"`) ||
		!strings.HasSuffix(u.Notes[1], ": default/b") {
		t.Errorf("notes: %q", u.Notes)
	}
}

// whereabouts logs every step on stderr.
func TestMain(m *testing.M) {
	logging.SetLogStderr(false)
	m.Run()
}

// bounded is a definition of 10.0.0.0/28 as the test and whereabouts know it.
type bounded struct {
	part        Part
	conf        types.RangeConfiguration
	overlapping bool
}

func drawDefinition(t *rapid.T, name string) bounded {
	address := func(what string) string {
		return fmt.Sprint("10.0.0.", rapid.IntRange(0, 15).Draw(t, what))
	}
	b := bounded{conf: types.RangeConfiguration{Range: "10.0.0.0/28"}, overlapping: rapid.Bool().Draw(t, "overlapping")}
	more := []string{fmt.Sprintf(`"enable_overlapping_ranges":%v`, b.overlapping)}
	if rapid.Bool().Draw(t, "starts") {
		start := address("start")
		more, b.conf.RangeStart = append(more, fmt.Sprintf(`"range_start":%q`, start)), stdnet.ParseIP(start)
	}
	if rapid.Bool().Draw(t, "ends") {
		end := address("end")
		more, b.conf.RangeEnd = append(more, fmt.Sprintf(`"range_end":%q`, end)), stdnet.ParseIP(end)
	}
	if rapid.Bool().Draw(t, "excludes") {
		exclude := address("exclude") + rapid.SampledFrom([]string{"", "/32", "/30"}).Draw(t, "bits")
		more, b.conf.OmitRanges = append(more, fmt.Sprintf(`"exclude":[%q]`, exclude)), []string{exclude}
	}
	b.part = NAD(name, WhereaboutsConfig("10.0.0.0/28", "", more...))
	return b
}

// assign is one ADD, as in whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate.
func (b bounded) assign(taken []types.IPReservation, reserved map[string]bool, pod string) (stdnet.IP, bool) {
	var dummies []types.IPReservation
	for {
		list := append(append([]types.IPReservation{}, taken...), dummies...)
		got, _, err := allocate.AssignIP(b.conf, list, "id-of-"+pod, "default/"+pod, "net1")
		if err != nil {
			return nil, false
		}
		if !b.overlapping || !reserved[got.IP.String()] {
			return got.IP, true
		}
		dummies = append(dummies, types.IPReservation{IP: got.IP, IsAllocated: true})
	}
}

func TestAsManyADDsSucceedAsAddressesAreFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		definitions := []bounded{drawDefinition(t, "a")}
		if rapid.Bool().Draw(t, "two definitions") {
			definitions = append(definitions, drawDefinition(t, "b"))
		}
		parts := []Part{Pod("bystander")}
		for _, d := range definitions {
			parts = append(parts, d.part)
		}
		var taken []types.IPReservation
		var entries []Allocation
		for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 15), 0, 12, rapid.ID).Draw(t, "entries") {
			entries = append(entries, Alloc(fmt.Sprint(k), fmt.Sprint("default/p", k), "box", "net1"))
			taken = append(taken, types.IPReservation{IP: stdnet.ParseIP(fmt.Sprint("10.0.0.", k)),
				PodRef: fmt.Sprint("default/p", k), IfName: "net1"})
		}
		parts = append(parts, Pool("10.0.0.0-28", "10.0.0.0/28", entries...))
		reserved := map[string]bool{}
		for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 15), 0, 6, rapid.ID).Draw(t, "reservations") {
			a := fmt.Sprint("10.0.0.", k)
			reserved[a] = true
			parts = append(parts, Reservation(a, "default/elsewhere", LongAgo))
		}
		p := usage.Of(judged(parts...)).All[0]
		addsUp(t, p)
		free, assigned := p.FreeAddresses, 0
		for _, d := range definitions {
			for {
				a, ok := d.assign(taken, reserved, fmt.Sprint("new-", assigned))
				if !ok {
					break
				}
				if addr, _ := netip.AddrFromSlice(a); !free.Contains(addr.Unmap()) {
					t.Fatalf("whereabouts assigns %s, which is not among %v", a, free.Ranges())
				}
				taken = append(taken, types.IPReservation{IP: a, PodRef: fmt.Sprint("default/new-", assigned), IfName: "net1"})
				assigned++
			}
		}
		if p.Free.Int64() != int64(assigned) {
			t.Fatalf("%v are free (%v), and %d ADDs succeeded", p.Free, free.Ranges(), assigned)
		}
	})
}
