package usage_test

import (
	"fmt"
	stdnet "net"
	"net/netip"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/allocate"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	"pgregory.net/rapid"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

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
