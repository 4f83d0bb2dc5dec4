//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// fillUp attaches new interfaces of one pod to a network until whereabouts has no free address, and returns what it
// assigned.
func (p *pod) fillUp(t *testing.T, n harness.Network) (all []netip.Addr) {
	t.Helper()
	for range 100 {
		p.interfaces++
		result, err := p.node.Add(t.Context(), harness.Attachment{
			Sandbox: p.sandbox, Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), IfName: fmt.Sprintf("x%d",
				p.interfaces), Network: n,
		})
		if err != nil {
			if !strings.Contains(strings.ToLower(err.Error()), "could not allocate ip") {
				t.Fatal(err)
			}
			return all
		}
		all = append(all, harness.Addresses(result)...)
	}
	t.Fatalf("whereabouts assigns without end: %v", all)
	return nil
}

// TestPools_CountWhatThePluginAssigns fills pools and compares what whereabouts' own plugin assigned with the output of
// `pools`. TestUsableIsWhatWhereaboutsAssigns in ippool compares ranges, bounds and excludes of all kinds with the
// functions of whereabouts.
func TestPools_CountWhatThePluginAssigns(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")

	for _, c := range []struct {
		says string
		pool string
		ipam harness.IPAM
		want string // the addresses in order of assignment; ranges as "a-b"
	}{
		{"one of ipRanges, with bounds of its own", "10.7.1.0-24", harness.IPAM{"ipRanges": []any{
			map[string]any{"range": "10.7.0.0/24"}, map[string]any{"range": "10.7.1.0/24", "range_start": "10.7.1.3",
				"range_end": "10.7.1.6", "exclude": []string{"10.7.1.4"}}}},
			"10.7.1.3 10.7.1.5-10.7.1.6"},
		{"a network with a name", "red-10.7.0.0-29", harness.IPAM{"range": "10.7.0.0/29", "network_name": "red"},
			"10.7.0.1-10.7.0.6"},
		{"IPv6", "fd00-7---120", harness.IPAM{"range": "fd00:7::/120", "exclude": []string{"fd00:7::8/125",
			"fd00:7::10/124", "fd00:7::20/123", "fd00:7::40/122", "fd00:7::80/122", "fd00:7::c0/123", "fd00:7::e0/124"}},
			"fd00:7::1-fd00:7::7 fd00:7::f0-fd00:7::fe"},
	} {
		s.play(t, c.says, func(t *testing.T) {
			p := s.pending(t, "worker-1", "filler")
			want := addressesIn(t, strings.Fields(c.want))
			n := network("n", c.ipam)
			check(t, s.CreateNAD(t.Context(), n))
			var of []netip.Addr
			for _, a := range p.fillUp(t, n) {
				if prefix := try(netip.ParsePrefix(s.usage(t, c.pool).Range)).must(t); prefix.Contains(a) {
					of = append(of, a)
				}
			}
			equal(t, "what whereabouts assigned", of, want)
			u := s.usage(t, c.pool)
			equal(t, "what is usable", u.usable(t), want)
			equal(t, "usable, used and free", fmt.Sprint(u.Usable, u.Used, u.Free), fmt.Sprint(len(want), len(want), 0))
			equal(t, "ranges of free addresses", len(u.FreeRanges), 0)
		})
	}

	s.play(t, "a slice, in which bounds do not count", func(t *testing.T) {
		n := network("sliced", harness.IPAM{"range": "10.4.0.0/24", "node_slice_size": "/29", "range_start": "10.4.0.11",
			"exclude": []string{"10.4.0.9"}})
		check(t, s.CreateNAD(t.Context(), n))
		s.slices(t, "sliced", "worker-1", "10.4.0.8/29")
		assigned := s.pending(t, "worker-1", "filler").fillUp(t, n)
		equal(t, "what whereabouts assigned", assigned, addressesIn(t, []string{"10.4.0.9-10.4.0.14"}))
		u := s.usage(t, "worker-1-10.4.0.8-29")
		equal(t, "what is usable", u.usable(t), assigned)
		equal(t, "usable, used and free", fmt.Sprint(u.Usable, u.Used, u.Free), "6 6 0")
	})

	s.play(t, "addresses that another pool of the network has", func(t *testing.T) {
		outer, inner := network("outer", harness.IPAM{"range": "10.7.0.0/28"}),
			network("inner", harness.IPAM{"range": "10.7.0.0/29"})
		check(t, s.CreateNAD(t.Context(), outer))
		check(t, s.CreateNAD(t.Context(), inner))
		s.up(t, "worker-1", "outer", outer, outer)
		first := s.up(t, "worker-1", "first", inner)
		equal(t, "the first address", first.ips, []string{"10.7.0.3"})
		u := s.usage(t, "10.7.0.0-29")
		equal(t, "usable, used and free", fmt.Sprint(u.Usable, u.Used, u.Free, u.FreeRanges), "6 1 3 [10.7.0.4-10.7.0.6]")
		equal(t, "what whereabouts assigned then", s.pending(t, "worker-1", "filler").fillUp(t, inner),
			addressesIn(t, u.FreeRanges))
		equal(t, "what is free of the other", s.usage(t, "10.7.0.0-28").FreeRanges, []string{"10.7.0.7-10.7.0.14"})
	})

}

// poolCheck is the document of `pools check`.
type poolCheck struct {
	Answer  string
	Ranges  []struct{ OtherPool bool }
	Outside []struct{ IP, PodRef string }
	Twice   []struct {
		IP   string
		Next int
		By   []string
	}
}

func (s *stage) poolCheck(t *testing.T, code int, args ...string) (d poolCheck) {
	t.Helper()
	out := s.product(t, append([]string{"pools", "check"}, args...)...)
	out.exits(t, code)
	check(t, json.Unmarshal([]byte(out.stdout), &d))
	return d
}

// redefine replaces a NetworkAttachmentDefinition.
func (s *stage) redefine(t *testing.T, n harness.Network) {
	t.Helper()
	check(t, s.Dynamic().Resource(harness.NADs).Namespace(n.Namespace).Delete(t.Context(), n.Name, metav1.DeleteOptions{}))
	check(t, s.CreateNAD(t.Context(), n))
}

func TestPools_NewRange(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	old := simple("net", "10.7.0.0/24")
	check(t, s.CreateNAD(t.Context(), old))
	first := s.up(t, "worker-1", "one", old)
	s.up(t, "worker-1", "two", old)
	s.up(t, "worker-1", "three", old)

	t.Run("a smaller part of the same pool", func(t *testing.T) {
		span := "10.7.0.1-10.7.0.2/24"
		p := s.poolCheck(t, 0, "10.7.0.0-24", "--new-range", span)
		equal(t, "outside", fmt.Sprint(p.Outside), "[{10.7.0.3 default/three}]")
		equal(t, "another pool", p.Ranges[0].OtherPool, false)
		equal(t, "outside of what excludes one",
			fmt.Sprint(s.poolCheck(t, 0, "10.7.0.0/24", "--new-range", "10.7.0.0/24", "--exclude", "10.7.0.2/31").Outside),
			"[{10.7.0.2 default/two} {10.7.0.3 default/three}]")
		// What whereabouts makes of it: it is full, until an address inside is released.
		changed := simple("net", span)
		s.redefine(t, changed)
		s.waits(t, "four", changed)
		first.del(t)
		first.forceDelete(t)
		equal(t, "the next address", s.up(t, "worker-1", "five", changed).ips, []string{"10.7.0.1"})
	})

	t.Run("another pool, which has none of the allocations", func(t *testing.T) {
		d := s.poolCheck(t, 0, "10.7.0.0-24", "--new-range", "10.7.0.0/29")
		equal(t, "outside", len(d.Outside), 0)
		equal(t, "another pool", d.Ranges[0].OtherPool, true)
		changed := simple("net", "10.7.0.0/29")
		s.redefine(t, changed)
		// Only the reservations keep the ADD from the addresses of the others.
		equal(t, "the next address", s.up(t, "worker-1", "six", changed).ips, []string{"10.7.0.4"})
		equal(t, "allocations of the new pool", s.usage(t, "10.7.0.0-29").Used, 1)
	})

	t.Run("without overlapping ranges the next ADD assigns what a pod has", func(t *testing.T) {
		other := network("net", harness.IPAM{"range": "10.7.0.0/28", "enable_overlapping_ranges": false})
		file := filepath.Join(t.TempDir(), "nad.yaml")
		check(t, os.WriteFile(file, []byte(`{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition,
			metadata: {name: net}, spec: {config:
			'{"ipam":{"type":"whereabouts","range":"10.7.0.0/28","enable_overlapping_ranges":false}}'}}`), 0o600))
		d := s.poolCheck(t, 1, "10.7.0.0-24", "--definition", file)
		equal(t, "the answer", d.Answer, "Twice")
		s.redefine(t, other)
		for i, x := range d.Twice {
			if x.Next == i+1 { // until a free one comes first
				equal(t, "the next address", s.up(t, "worker-1", fmt.Sprint("twin-", i), other).ips, []string{x.IP})
			}
		}
		equal(t, "what is assigned twice next", d.Twice[0].Next, 1)
	})
}

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

	// Its keys may mean several addresses.
	s.play(t, "wider than /64, from its middle on", func(t *testing.T) {
		n := network("net", harness.IPAM{"range": "193::/24", "range_start": "193:21:4::2"})
		check(t, s.CreateNAD(t.Context(), n))
		leaked := s.up(t, "worker-1", "leaked", n)
		s.up(t, "worker-2", "live", n)
		leaked.leak(t)
		before := s.contents(t)
		equal(t, "what the plugin wrote", keys(before),
			[]string{"193---24 2", "193---24 3", "reservation 193-21-4--2", "reservation 193-21-4--3"})
		out := s.run(t)
		equal(t, "findings", len(out.Findings), 1)
		equal(t, "its kind", string(out.Findings[0].Kind), "UnsupportedRange")
		s.checkReleased(t, before)
		s.judges(t, "193---24 193::2", "Held UnsupportedRange", "193---24 193::3", "Held UnsupportedRange",
			"reservation 193-21-4--2", "Held UnsupportedRange", "reservation 193-21-4--3", "Held UnsupportedRange")
	})

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
		out := s.product(t, "check")
		out.exits(t, 1)
		kinds := []string{}
		for _, f := range out.Findings {
			kinds = append(kinds, string(f.Kind)+" "+f.Pool)
		}
		equal(t, "findings", kinds, []string{"SliceWithoutNode kube-system/red-worker-3-10.4.3.0-24",
			"SliceWithoutNode kube-system/worker-3-10.4.3.0-24"})
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
