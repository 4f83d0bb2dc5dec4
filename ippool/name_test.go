package ippool_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// networkGen draws network_names: none, plain ones, and the awkward ones that
// look like addresses, like nodes, or like the joint between two parts.
func networkGen() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Just(""),
		rapid.SampledFrom([]string{"blue", "red-1", "a.b", "10.0.0.0", "10.0.0.0-24", "1", "fd00", "fd00-", "2001-db8--",
			"node-1", "blue-node-1", "-", "1-2-3"}),
		rapid.StringMatching(`[a-z0-9]([-.a-z0-9]{0,12}[a-z0-9])?`),
	)
}

func nodeGen() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"node-1", "1", "node.example.com", "10.0.0.0", "blue", "a-b-c"}),
		rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(\.[a-z0-9]{1,5})?`),
	)
}

func namedPool(name, rangeText string) *ippool.Pool {
	p := poolOf(rangeText, nil).Pool
	p.Name = name
	return p
}

func TestThePoolNameThatWhereaboutsGivesAdmitsItsNetworkNodeAndLease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := kubernetes.PoolIdentifier{
			IpRange:     rangeGen().Draw(t, "range").Masked().String(), // a NAD's range is masked before it names a pool
			NetworkName: networkGen().Draw(t, "network"),
		}
		sliced := rapid.Bool().Draw(t, "sliced")
		if sliced {
			id.NodeName = nodeGen().Draw(t, "node")
		}
		name := kubernetes.IPPoolName(id)
		if got := ippool.PoolName(id.NetworkName, netip.MustParsePrefix(id.IpRange)); !sliced && got != name {
			t.Fatalf("%v: %q; whereabouts says %q", id, got, name)
		}
		p := namedPool(name, id.IpRange)
		nodes := map[string]bool{"node-1": true, "other": true, id.NodeName: sliced}
		if got := p.Networks(nodes); !slices.Contains(got, id.NetworkName) {
			t.Fatalf("pool %s: networks %q; %q is missing", name, got, id.NetworkName)
		}
		if got := p.SliceNodes(nodes); sliced && !slices.Contains(got, id.NodeName) {
			t.Fatalf("pool %s: nodes %q; %q is missing", name, got, id.NodeName)
		}
		lease := "whereabouts" // newLeaderElector: one named like the pool for a slice, else the shared one
		if sliced {
			lease = name
		}
		if got := p.LeaseNames(); !slices.Contains(got, lease) {
			t.Fatalf("pool %s: leases %q; %q is missing", name, got, lease)
		}
	})
}

func TestAPoolsNetworksNodesAndLeasesByItsName(t *testing.T) {
	nodes := map[string]bool{"node-1": true, "1": true, "worker": true}
	for _, c := range []struct {
		name, rangeText   string
		networks, ofNodes []string
		leases            []string
	}{
		{"10.0.0.0-24", "10.0.0.0/24", []string{""}, nil, []string{"whereabouts"}},
		{"fd00---64", "fd00::/64", []string{""}, nil, []string{"whereabouts"}},
		{"blue-10.0.0.0-24", "10.0.0.0/24", []string{"blue"}, nil, []string{"blue-10.0.0.0-24", "whereabouts"}},
		{"a-b.c-fd00---64", "fd00::/64", []string{"a-b.c"}, nil, []string{"a-b.c-fd00---64", "whereabouts"}},
		{"worker-10.0.0.0-26", "10.0.0.0/26", []string{"worker", ""}, []string{"worker"}, []string{"worker-10.0.0.0-26",
			"whereabouts"}},
		{"blue-worker-10.0.0.0-26", "10.0.0.0/26", []string{"blue-worker", "blue"}, []string{"worker"},
			[]string{"blue-worker-10.0.0.0-26", "whereabouts"}},
		// "node-1" and "1" both fit.
		{"node-1-10.0.0.0-26", "10.0.0.0/26", []string{"node-1", "", "node"}, []string{"node-1", "1"},
			[]string{"node-1-10.0.0.0-26", "whereabouts"}},
		// A node's name must stand on its own, not be the end of another word.
		{"coworker-10.0.0.0-26", "10.0.0.0/26", []string{"coworker"}, nil, []string{"coworker-10.0.0.0-26", "whereabouts"}},
		// A range that was written with host bits: the name may hold either form.
		{"10.10.0.0-16", "10.10.10.5/16", []string{""}, nil, []string{"whereabouts"}},
		{"10.10.10.5-16", "10.10.10.5/16", []string{""}, nil, []string{"whereabouts"}},
		{"blue-10.10.0.0-16", "10.10.10.5/16", []string{"blue"}, nil, []string{"blue-10.10.0.0-16", "whereabouts"}},
		// A name that whereabouts does not give says nothing; it may have any Lease.
		{"my-pool", "10.0.0.0/24", nil, nil, []string{"my-pool", "whereabouts"}},
		{"pool", "", nil, nil, []string{"pool", "whereabouts"}},
		{"worker-pool", "nonsense", nil, nil, []string{"worker-pool", "whereabouts"}},
	} {
		t.Run(c.name+" "+c.rangeText, func(t *testing.T) {
			p := namedPool(c.name, c.rangeText)
			if got := p.Networks(nodes); !slices.Equal(got, c.networks) {
				t.Errorf("networks %q; want %q", got, c.networks)
			}
			if got := p.SliceNodes(nodes); !slices.Equal(got, c.ofNodes) {
				t.Errorf("nodes %q; want %q", got, c.ofNodes)
			}
			if got := p.LeaseNames(); !slices.Equal(got, c.leases) {
				t.Errorf("leases %q; want %q", got, c.leases)
			}
		})
	}
}

func anyAddress() *rapid.Generator[netip.Addr] {
	return rapid.OneOf(addressGen(true), addressGen(false),
		rapid.Map(addressGen(true), func(a netip.Addr) netip.Addr { return netip.AddrFrom16(a.As16()) }), // v4-mapped
		// The forms whose text ends in "::".
		rapid.Map(addressGen(false), func(a netip.Addr) netip.Addr { return netip.PrefixFrom(a, 64).Masked().Addr() }),
	)
}

func TestReservationNamesAreWhereaboutsOwnAndAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, network := anyAddress().Draw(t, "address"), networkGen().Draw(t, "network")
		name := ippool.ReservationName(network, a)
		if want := kubernetes.NormalizeIP(netIP(a), network); name != want {
			t.Fatalf("%v in %q: %q; whereabouts says %q", a, network, name, want)
		}
		if got, ok := ippool.ReservedAddress(name, network); !ok || got != a.Unmap() {
			t.Fatalf("%q in %q reads back as %v, %v; want %v", name, network, got, ok, a)
		}
	})
}

// A network's name may itself look like an address, and many spellings parse as
// the same address: only the one name that whereabouts would build counts.
func TestANameIsAcceptedOnlyIfItIsTheOneThatWouldBeBuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		network := networkGen().Draw(t, "network")
		name := rapid.OneOf(
			rapid.StringMatching(`[0-9a-fA-F.:-]{0,24}`),
			rapid.Custom(func(t *rapid.T) string {
				return ippool.ReservationName(networkGen().Draw(t, "other network"), anyAddress().Draw(t, "address"))
			}),
			rapid.Custom(func(t *rapid.T) string { // spelled otherwise
				a := addressGen(false).Draw(t, "address")
				return network + "-" + strings.ReplaceAll(a.StringExpanded(), ":", "-")
			}),
		).Draw(t, "name")
		if a, ok := ippool.ReservedAddress(name, network); ok && kubernetes.NormalizeIP(netIP(a), network) != name {
			t.Fatalf("%q in %q is accepted as %v, whose name is %q", name, network, a, kubernetes.NormalizeIP(netIP(a), network))
		}
	})
}
