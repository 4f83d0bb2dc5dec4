package facts

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// definedIndex is the index of a pool, two nodes and a definition for each network.
func definedIndex(name, cidr string, networks []ippool.Network) (*Facts, *ippool.Pool) {
	p := &ippool.Pool{NamespacedName: types.NamespacedName{Namespace: "kube-system", Name: name}, RangeText: cidr}
	p.Complete()
	nads := map[types.NamespacedName]*ippool.NAD{}
	for i, n := range networks {
		at := types.NamespacedName{Namespace: "tenant", Name: fmt.Sprint("n-", i)}
		nads[at] = &ippool.NAD{NamespacedName: at, Networks: []ippool.Network{n}}
	}
	nodes := map[string]*podstate.Node{"worker-1": {Name: "worker-1"}, "b-worker-1": {Name: "b-worker-1"}}
	return New(&Observation{Pools: []*ippool.Pool{p}, NADs: Complete(nads, "1"), Nodes: Complete(nodes, "1")}, nil,
		Policy{}), p
}

// DefinedFor finds each network whose pool or slice a pool may be, whatever the pool's name and the networks' are.
func TestDefinedFor_FindsAll(t *testing.T) {
	var networks []ippool.Network
	for _, name := range []string{"", "a", "a-b", "a-b-worker-1", "b", "10.0.0.0", "worker-1"} {
		for _, cidr := range []string{"10.0.0.0/24", "10.0.0.0/16", "10.0.0.0/26", "10.1.0.0/24", "0.0.0.0/0", "fd00::/64"} {
			for _, bits := range []int{0, 24, 26} {
				networks = append(networks, ippool.Network{Name: name, Ranges: []netip.Prefix{netip.MustParsePrefix(cidr)},
					Slices: bits > 0, SliceBits: bits})
			}
		}
	}
	for _, head := range []string{"", "a-", "a-b-", "a-b-worker-1-", "worker-1-", "b-", "a-worker-1-", "none-", "-"} {
		for _, tail := range []string{"10.0.0.0-24", "10.0.0.0-16", "odd"} {
			f, p := definedIndex(head+tail, "10.0.0.0/24", networks)
			var found, want []string
			text := func(n ippool.Network) string { return fmt.Sprint(n.Name, n.Ranges, n.Slices, n.SliceBits) }
			f.DefinedFor(p, func(n ippool.Network) { found = append(found, text(n)) })
			for _, n := range networks {
				if _, isSlice := n.SliceOf(p); isSlice || n.Maps(p, f.pools[0].Admitted) {
					want = append(want, text(n))
				}
			}
			for _, w := range want {
				if !slices.Contains(found, w) {
					t.Errorf("pool %s: %s is not found", p.Name, w)
				}
			}
		}
	}
}

// Tenants write definitions. How many there are for a range does not count for a pool of another network.
func TestDefinedFor_Cost(t *testing.T) {
	var networks []ippool.Network
	for i := range 10_000 {
		networks = append(networks, ippool.Network{Name: fmt.Sprint("evil-", i), Slices: true, SliceBits: i%33 + 1,
			Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	}
	networks = append(networks, ippool.Network{Name: "wb", Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}})
	f, p := definedIndex("wb-10.0.0.0-24", "10.0.0.0/24", networks)
	calls := 0
	f.DefinedFor(p, func(ippool.Network) { calls++ })
	if calls != 1 {
		t.Errorf("%d networks were compared with the pool", calls)
	}
}
