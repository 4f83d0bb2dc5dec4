//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

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
// `pools`. TestUsableIsWhatWhereaboutsAssigns in ippool compares ranges of all kinds with whereabouts' own functions.
func TestPools_CountWhatThePluginAssigns(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")

	for _, c := range []struct {
		says string
		pool string
		nads []harness.IPAM
		want string // the addresses in order of assignment; ranges as "a-b"
	}{
		{"a /29", "10.7.0.0-29", []harness.IPAM{{"range": "10.7.0.0/29"}}, "10.7.0.1-10.7.0.6"},
		{"range_start and range_end", "10.7.0.0-24", []harness.IPAM{{"range": "10.7.0.0/24", "range_start": "10.7.0.5",
			"range_end": "10.7.0.8"}}, "10.7.0.5-10.7.0.8"},
		{"bounds in the range", "10.7.0.0-24", []harness.IPAM{{"range": "10.7.0.5-10.7.0.8/24", "range_end": "10.7.0.6"}},
			"10.7.0.5-10.7.0.8"},
		{"exclude, ranges and an address", "10.7.0.0-28",
			[]harness.IPAM{{"range": "10.7.0.0/28", "exclude": []string{"10.7.0.1/30", "10.7.0.9", "10.7.0.12/32"}}},
			"10.7.0.4-10.7.0.8 10.7.0.10-10.7.0.11 10.7.0.13-10.7.0.14"},
		{"one of ipRanges, with bounds of its own", "10.7.1.0-24", []harness.IPAM{{"ipRanges": []any{
			map[string]any{"range": "10.7.0.0/24"}, map[string]any{"range": "10.7.1.0/24", "range_start": "10.7.1.3",
				"range_end": "10.7.1.6", "exclude": []string{"10.7.1.4"}}}}},
			"10.7.1.3 10.7.1.5-10.7.1.6"},
		{"a network with a name", "red-10.7.0.0-29", []harness.IPAM{{"range": "10.7.0.0/29", "network_name": "red"}},
			"10.7.0.1-10.7.0.6"},
		{"IPv6", "fd00-7---120", []harness.IPAM{{"range": "fd00:7::/120", "exclude": []string{"fd00:7::8/125",
			"fd00:7::10/124", "fd00:7::20/123", "fd00:7::40/122", "fd00:7::80/122", "fd00:7::c0/123", "fd00:7::e0/124"}}},
			"fd00:7::1-fd00:7::7 fd00:7::f0-fd00:7::fe"},
	} {
		s.play(t, c.says, func(t *testing.T) {
			p := s.pending(t, "worker-1", "filler")
			want := addressesIn(t, strings.Fields(c.want))
			var assigned []netip.Addr
			for i, ipam := range c.nads {
				n := network(fmt.Sprint("n", i), ipam)
				check(t, s.CreateNAD(t.Context(), n))
				assigned = append(assigned, p.fillUp(t, n)...)
			}
			var of []netip.Addr
			for _, a := range assigned {
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
