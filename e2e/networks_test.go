//go:build !slow && !cluster

package e2e

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestNetworks_EveryKind has a leak beside a live pod in each kind.
func TestNetworks_EveryKind(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")

	for _, tt := range []struct {
		name   string
		ipam   harness.IPAM
		leaked []string // of the first pod
		kept   []string // of the second
	}{
		{"of two families", harness.IPAM{"ipRanges": []any{map[string]any{"range": "10.2.0.0/24"},
			map[string]any{"range": "fd00:2::/64"}}},
			[]string{"10.2.0.0-24 1", "reservation 10.2.0.1", "fd00-2---64 1", "reservation fd00-2--1"},
			[]string{"10.2.0.0-24 2", "reservation 10.2.0.2", "fd00-2---64 2", "reservation fd00-2--2"}},
		{"with a name", harness.IPAM{"range": "10.2.0.0/24", "network_name": "red"},
			[]string{"red-10.2.0.0-24 1", "reservation red-10.2.0.1"}, []string{"red-10.2.0.0-24 2",
				"reservation red-10.2.0.2"}},
		{"without overlapping ranges", harness.IPAM{"range": "10.2.0.0/24", "enable_overlapping_ranges": false},
			[]string{"10.2.0.0-24 1"}, []string{"10.2.0.0-24 2"}},
		{"whose range is written with a host's address", harness.IPAM{"range": "10.2.3.4/16"},
			[]string{"10.2.0.0-16 1", "reservation 10.2.0.1"}, []string{"10.2.0.0-16 2", "reservation 10.2.0.2"}},
		{"of the upper half of a /64", harness.IPAM{"range": "fd00:2::/64", "range_start": "fd00:2::8000:0:0:fe"},
			// whereabouts itself loses such a key with its next write to the pool
			[]string{"fd00-2---64 9223372036854776062", "reservation fd00-2--8000-0-0-fe"}, nil},
		{"wider than /64, from its middle on", harness.IPAM{"range": "193::/24", "range_start": "193:21:4::2"},
			[]string{"193---24 2", "reservation 193-21-4--2"}, []string{"193---24 3", "reservation 193-21-4--3"}},
		{"whose first address ends in ::", harness.IPAM{"range": "2001:db8::/64", "range_start": "2001:db8:0:0:1::"},
			[]string{"2001-db8---64 281474976710656", "reservation 2001-db8-0-0-1--0"}, []string{"2001-db8---64 281474976710657",
				"reservation 2001-db8--1-0-0-1"}},
	} {
		s.play(t, tt.name, func(t *testing.T) {
			n := network("net", tt.ipam)
			check(t, s.CreateNAD(t.Context(), n))
			leaked := s.up(t, "worker-1", "leaked", n)
			if tt.kept != nil {
				s.up(t, "worker-2", "live", n)
			}
			leaked.leak(t)
			before := s.contents(t)
			equal(t, "what the plugin wrote", keys(before), slices.Sorted(slices.Values(append(tt.leaked, tt.kept...))))
			out := s.run(t)
			out.exits(t, 0)
			equal(t, "findings", len(out.Findings), 0)
			s.checkReleased(t, before, tt.leaked...)
			equal(t, "the addresses of the next pod", s.up(t, "worker-2", "next", n).ips, leaked.ips)
			s.product(t, "check").exits(t, 0)
		})
	}

	s.play(t, "the same address in two of them, leaked in one", func(t *testing.T) {
		plain, red := simple("plain", "10.2.0.0/24"), network("red", harness.IPAM{"range": "10.2.0.0/24",
			"network_name": "red"})
		check(t, s.CreateNAD(t.Context(), plain))
		check(t, s.CreateNAD(t.Context(), red))
		leaked, live := s.up(t, "worker-1", "leaked", red), s.up(t, "worker-2", "live", plain)
		equal(t, "addresses", leaked.ips, live.ips)
		leaked.leak(t)
		before := s.contents(t)
		s.judges(t, "red-10.2.0.0-24 10.2.0.1", "Stale PodGone", "10.2.0.0-24 10.2.0.1", "InUse AddressOnPod",
			"reservation red-10.2.0.1", "Stale PodGone", "reservation 10.2.0.1", "InUse AddressOnPod")
		s.checkReleased(t, before, "red-10.2.0.0-24 1", "reservation red-10.2.0.1")
	})
}

func TestNodeSlices(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2", "worker-3")
	sliced := network("sliced", harness.IPAM{"range": "10.4.0.0/16", "node_slice_size": "/24"})
	named := network("named", harness.IPAM{"range": "10.4.0.0/16", "node_slice_size": "/24", "network_name": "red"})
	check(t, s.CreateNAD(t.Context(), sliced))
	check(t, s.CreateNAD(t.Context(), named))
	s.slices(t, "sliced", "worker-1", "10.4.1.0/24", "worker-2", "10.4.2.0/24", "worker-3", "10.4.3.0/24")
	s.slices(t, "red", "worker-1", "10.4.1.0/24", "worker-2", "10.4.2.0/24", "worker-3", "10.4.3.0/24")

	for _, node := range []string{"worker-1", "worker-2"} {
		leaked := s.up(t, node, "leaked-on-"+node, sliced, named)
		s.up(t, node, "live-on-"+node, sliced, named)
		leaked.leak(t)
	}
	before := s.contents(t)
	out := s.run(t)
	out.exits(t, 0)
	equal(t, "findings", len(out.Findings), 0)
	s.checkReleased(t, before,
		"worker-1-10.4.1.0-24 1", "reservation 10.4.1.1", "red-worker-1-10.4.1.0-24 1", "reservation red-10.4.1.1",
		"worker-2-10.4.2.0-24 1", "reservation 10.4.2.1", "red-worker-2-10.4.2.0-24 1", "reservation red-10.4.2.1")
	leases := s.leases(t)
	for _, lease := range []string{"worker-1-10.4.1.0-24", "red-worker-2-10.4.2.0-24"} {
		if leases[lease] == "" {
			t.Errorf("the Lease %s of a slice was never taken: %v", lease, leases)
		}
	}
	t.Logf("4 leaks in 4 slices, each under its own Lease, took %.1fs", out.took.Seconds())

	// D10: the node and its pods are gone, its slice belongs to another node, and the old pool keeps its allocations.
	t.Run("of a node that was removed", func(t *testing.T) {
		p := s.up(t, "worker-3", "removed", sliced, named)
		equal(t, "addresses", p.ips, []string{"10.4.3.1", "10.4.3.1"})
		p.leak(t)
		check(t, s.Client().CoreV1().Nodes().Delete(t.Context(), "worker-3", metav1.DeleteOptions{}))
		before := s.contents(t)
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, "worker-3-10.4.3.0-24 1", "reservation 10.4.3.1", "red-worker-3-10.4.3.0-24 1",
			"reservation red-10.4.3.1")
		s.product(t, "check").exits(t, 0)
	})

	t.Run("of a removed node, given to another", func(t *testing.T) {
		s.age(t, harness.Reservations, "10.4.2.2", 5*time.Minute) // a live pod's: its age must not matter
		s.pool(t, "worker-9-10.4.2.0-24", "10.4.2.0/24", map[string]any{"2": entry("default/old", noID),
			"7": entry("default/old", noID)})
		s.reservation(t, "10.4.2.7", "default/old", 5*time.Minute)
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		// The old allocation of an address that a live pod has from the slice's new node is held until that pod is gone.
		out.expect(t, "worker-2-10.4.2.0-24 10.4.2.2", "InUse AddressOnPod", "reservation 10.4.2.2", "InUse AddressOnPod",
			"worker-9-10.4.2.0-24 10.4.2.2", "Held ClaimedByOther")
		s.checkReleased(t, before, "worker-9-10.4.2.0-24 7", "reservation 10.4.2.7")
	})
}
