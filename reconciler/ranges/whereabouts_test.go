package ranges_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/allocate"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func TestMain(m *testing.M) {
	logging.SetLogStderr(false) // of whereabouts
	os.Exit(m.Run())
}

// adds are the addresses that whereabouts' own code assigns to one pod after the other, until the range is full. The
// loop is that of IPManagementKubernetesUpdate.
func adds(t *testing.T, b ranges.Bounds, recorded, reserved []string) (assigned []string) {
	t.Helper()
	of := types.RangeConfiguration{Range: b.Range, RangeStart: net.ParseIP(b.Start), RangeEnd: net.ParseIP(b.End),
		OmitRanges: b.Exclude}
	var entries []types.IPReservation
	for _, ip := range recorded {
		entries = append(entries, types.IPReservation{IP: net.ParseIP(ip), PodRef: "default/x" + ip, IfName: "net1"})
	}
	for pod := 0; ; pod++ {
		var skipped []types.IPReservation
		for {
			podRef := fmt.Sprint("default/new-", pod)
			got, updated, err := allocate.AssignIP(of, append(slices.Clone(entries), skipped...), "box", podRef, "net1")
			if err != nil {
				return assigned
			}
			if slices.Contains(reserved, got.IP.String()) {
				skipped = append(skipped, types.IPReservation{IP: got.IP, IsAllocated: true})
				continue
			}
			assigned = append(assigned, got.IP.String())
			entries = slices.DeleteFunc(updated, func(r types.IPReservation) bool { return r.IsAllocated })
			break
		}
	}
}

// Whatever the bounds are, an address is assigned twice by the ADD of which Next says it, and FREE is what is left.
func TestCheck_AssignsLikeWhereabouts(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		ip := func() string { return fmt.Sprint("10.0.0.", r.IntN(64)) }
		b := ranges.Bounds{Range: []string{"10.0.0.0/26", "10.0.0.0/27", "10.0.0.32/27"}[r.IntN(3)]}
		for range r.IntN(4) {
			b.Exclude = append(b.Exclude, fmt.Sprint(ip(), []string{"", "/30", "/28"}[r.IntN(3)]))
		}
		in := func(text string) string { // what is outside of the range is refused
			_, cidr, _ := net.ParseCIDR(b.Range)
			if r.IntN(2) == 0 || !cidr.Contains(net.ParseIP(text)) {
				return ""
			}
			return text
		}
		b.Start, b.End = in(ip()), in(ip())
		isOverlapping := r.IntN(2) == 0
		parts := []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/25", "",
			fmt.Sprintf(`"enable_overlapping_ranges":%v`, isOverlapping))), Pod("bystander")}
		var today, recorded []Allocation
		var withEntry, reserved, inUse []string
		for i := 1; i < 64; i++ {
			addr, name := fmt.Sprint("10.0.0.", i), fmt.Sprint("web-", i)
			switch r.IntN(6) {
			case 0: // in the pool of today
				today = append(today, Alloc(fmt.Sprint(i), "default/"+name, "b"+name, "net1"))
				parts = append(parts, Pod(name, Carrying(addr)))
				if inUse = append(inUse, addr); r.IntN(2) == 0 {
					parts = append(parts, Reservation(addr, "default/"+name, time.Hour))
					reserved = append(reserved, addr)
				}
			case 1: // in the pool of the new range, if it has the address
				_, cidr, _ := net.ParseCIDR(b.Range)
				if key := i - int(cidr.IP.To4()[3]); key > 0 && cidr.Contains(net.ParseIP(addr)) {
					recorded = append(recorded, Alloc(fmt.Sprint(key), "default/"+name, "b"+name, "net1"))
					parts = append(parts, Pod(name, Carrying(addr)))
					withEntry = append(withEntry, addr)
				}
			}
		}
		name := map[string]string{"10.0.0.0/26": "10.0.0.0-26", "10.0.0.0/27": "10.0.0.0-27", "10.0.0.32/27": "10.0.0.32-27"}
		parts = append(parts, Pool("10.0.0.0-25", "10.0.0.0/25", today...), Pool(name[b.Range], b.Range, recorded...))
		if !isOverlapping {
			reserved = nil
		}
		assigned := adds(t, b, withEntry, reserved)
		want, free := "", 0
		for i, addr := range assigned {
			if !slices.Contains(inUse, addr) {
				free++
				continue
			}
			if want != "" {
				want += ", "
			}
			want += fmt.Sprintf("%s %d default/web-%s", addr, i+1, addr[len("10.0.0."):])
		}
		j := Judged(Observe(parts...), facts.Policy{})
		u := usage.Of(j)
		p, err := ranges.OfRange(j.Facts(), u, u.Find("10.0.0.0-25")[0], b)
		check(t, err)
		found := ranges.Of(j, u, p)
		if got := twice(found); got != want {
			t.Fatalf("seed %d, %+v: got %s, whereabouts assigns %s", seed, b, got, want)
		}
		if got := ippool.Size(found.Ranges[0].Free); got.Cmp(big.NewInt(int64(free))) != 0 {
			t.Fatalf("seed %d, %+v: %s are free, want %d", seed, b, got, free)
		}
	}
}
