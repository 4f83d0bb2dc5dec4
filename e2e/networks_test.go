//go:build !slow && !cluster

package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestEveryKindOfNetwork has in each of them a leak beside a live pod.
func TestEveryKindOfNetwork(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")

	for _, tt := range []struct {
		name   string
		ipam   harness.IPAM
		leaked []string // of the first pod
		kept   []string // of the second
	}{
		{"of two families", harness.IPAM{"ipRanges": []any{map[string]any{"range": "10.2.0.0/24"}, map[string]any{"range": "fd00:2::/64"}}},
			[]string{"10.2.0.0-24 1", "reservation 10.2.0.1", "fd00-2---64 1", "reservation fd00-2--1"},
			[]string{"10.2.0.0-24 2", "reservation 10.2.0.2", "fd00-2---64 2", "reservation fd00-2--2"}},
		{"with a name", harness.IPAM{"range": "10.2.0.0/24", "network_name": "red"},
			[]string{"red-10.2.0.0-24 1", "reservation red-10.2.0.1"}, []string{"red-10.2.0.0-24 2", "reservation red-10.2.0.2"}},
		{"with a name that looks like an address", harness.IPAM{"range": "10.2.0.0/24", "network_name": "10.2.0.1"},
			[]string{"10.2.0.1-10.2.0.0-24 1", "reservation 10.2.0.1-10.2.0.1"}, []string{"10.2.0.1-10.2.0.0-24 2", "reservation 10.2.0.1-10.2.0.2"}},
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
			[]string{"2001-db8---64 281474976710656", "reservation 2001-db8-0-0-1--0"}, []string{"2001-db8---64 281474976710657", "reservation 2001-db8--1-0-0-1"}},
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
			s.lost(t, before, tt.leaked...)
			equal(t, "the addresses of the next pod", s.up(t, "worker-2", "next", n).ips, leaked.ips)
			s.product(t, "check").exits(t, 0)
		})
	}

	s.play(t, "the same address in two of them, leaked in one", func(t *testing.T) {
		plain, red := simple("plain", "10.2.0.0/24"), network("red", harness.IPAM{"range": "10.2.0.0/24", "network_name": "red"})
		check(t, s.CreateNAD(t.Context(), plain))
		check(t, s.CreateNAD(t.Context(), red))
		leaked, live := s.up(t, "worker-1", "leaked", red), s.up(t, "worker-2", "live", plain)
		equal(t, "addresses", leaked.ips, live.ips)
		leaked.leak(t)
		before := s.contents(t)
		s.judges(t, "red-10.2.0.0-24 10.2.0.1", "Stale PodGone", "10.2.0.0-24 10.2.0.1", "InUse AddressOnPod",
			"reservation red-10.2.0.1", "Stale PodGone", "reservation 10.2.0.1", "InUse AddressOnPod")
		s.lost(t, before, "red-10.2.0.0-24 1", "reservation red-10.2.0.1")
	})

	s.play(t, "two interfaces of one pod on one of them", func(t *testing.T) {
		n := simple("plain", "10.2.0.0/24")
		s.up(t, "worker-1", "leaked", n, n).leak(t)
		s.up(t, "worker-2", "live", n, n)
		before := s.contents(t)
		s.run(t).exits(t, 0)
		s.lost(t, before, "10.2.0.0-24 1", "10.2.0.0-24 2", "reservation 10.2.0.1", "reservation 10.2.0.2")
	})

	// Written by hand or by an old whereabouts: keys count from the address as
	// it stands in the range.
	s.play(t, "a pool whose range is not masked", func(t *testing.T) {
		s.pool(t, "10.10.0.0-16", "10.10.10.5/16", map[string]any{"1": entry("default/live", noID), "2": entry("default/dead", noID)})
		s.reservation(t, "10.10.10.6", "default/live", 0)
		s.reservation(t, "10.10.10.7", "default/dead", 0)
		p := s.bare(t, "worker-1", "live")
		p.status = []harness.NetworkStatus{{Name: "default/odd", Interface: "net1", IPs: []string{"10.10.10.6"}}}
		p.running(t)
		before := s.contents(t)
		s.judges(t, "10.10.0.0-16 10.10.10.6", "InUse AddressOnPod", "10.10.0.0-16 10.10.10.7", "Stale PodGone")
		s.lost(t, before, "10.10.0.0-16 2", "reservation 10.10.10.7")
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
	s.lost(t, before,
		"worker-1-10.4.1.0-24 1", "reservation 10.4.1.1", "red-worker-1-10.4.1.0-24 1", "reservation red-10.4.1.1",
		"worker-2-10.4.2.0-24 1", "reservation 10.4.2.1", "red-worker-2-10.4.2.0-24 1", "reservation red-10.4.2.1")
	leases := s.leases(t)
	for _, lease := range []string{"worker-1-10.4.1.0-24", "red-worker-2-10.4.2.0-24"} {
		if leases[lease] == "" {
			t.Errorf("the Lease %s of a slice was never taken: %v", lease, leases)
		}
	}
	t.Logf("4 leaks in 4 slices, each under its own Lease, took %.1fs", out.took.Seconds())

	// D10: the node and its pods are gone, its slice is another node's, and the
	// old pool keeps its entries.
	t.Run("of a node that was removed", func(t *testing.T) {
		p := s.up(t, "worker-3", "removed", sliced, named)
		equal(t, "addresses", p.ips, []string{"10.4.3.1", "10.4.3.1"})
		p.leak(t)
		check(t, s.Client().CoreV1().Nodes().Delete(t.Context(), "worker-3", metav1.DeleteOptions{}))
		before := s.contents(t)
		s.run(t).exits(t, 0)
		s.lost(t, before, "worker-3-10.4.3.0-24 1", "reservation 10.4.3.1", "red-worker-3-10.4.3.0-24 1", "reservation red-10.4.3.1")
		s.product(t, "check").exits(t, 0)
	})

	t.Run("of a removed node, given to another", func(t *testing.T) {
		s.age(t, harness.Reservations, "10.4.2.2", 5*time.Minute) // a live pod's: its age must not matter
		s.pool(t, "worker-9-10.4.2.0-24", "10.4.2.0/24", map[string]any{"2": entry("default/old", noID), "7": entry("default/old", noID)})
		s.reservation(t, "10.4.2.7", "default/old", 5*time.Minute)
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		// The old entry of an address that the slice's new node has given to a
		// live pod waits until that pod is gone, too.
		out.expect(t, "worker-2-10.4.2.0-24 10.4.2.2", "InUse AddressOnPod", "reservation 10.4.2.2", "InUse AddressOnPod",
			"worker-9-10.4.2.0-24 10.4.2.2", "Held ClaimedByOther")
		s.lost(t, before, "worker-9-10.4.2.0-24 7", "reservation 10.4.2.7")
	})
}

var deleteNow = metav1.DeleteOptions{}

// TestWhatCannotBeReadStopsNothing has everything in one cluster that cannot be
// read, or not fully, beside leaks: they are freed, and of the rest nothing is
// touched and nothing goes unsaid.
func TestWhatCannotBeReadStopsNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.loosen(t)
	leaked := s.up(t, "worker-1", "leaked", blue).leak(t)
	claimed := s.up(t, "worker-1", "claimed", blue).leak(t)
	live := s.up(t, "worker-1", "live", blue)
	equal(t, "addresses", []string{leaked.ips[0], claimed.ips[0], live.ips[0]}, []string{"10.1.0.1", "10.1.0.2", "10.1.0.3"})

	// What a whereabouts to come would write for an address that outlives its pod.
	s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"2":{"ipamclaimref":"default/claim"}}}}`)
	s.patch(t, harness.IPPools, "10.1.0.0-24", `{"metadata":{"annotations":{"somebody":"wrote this"},"labels":{"and":"this"}},"spec":{"more":{"of":["later"]}}}`)
	s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{
		"-1":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"300":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"seven":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"18446463705355360228":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"20":{"id":"`+noID+`","ifname":"net1"},
		"21":{},
		"010":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"09":{"id":"`+noID+`","podref":"default/live","ifname":"net2"},
		"22":{"id":"`+noID+`","podref":"default/dead_","ifname":"net1"},
		"23":{"id":"`+noID+`","podref":"Default/Dead","ifname":"net1"}}}}`)
	s.reservation(t, "10.1.0.30", "default/dead", 5*time.Minute)
	s.patch(t, harness.Reservations, "10.1.0.30", `{"spec":{"ipamclaimref":"default/claim"}}`)
	s.reservation(t, "10.1.0.31", "", 5*time.Minute)
	s.reservation(t, "no-address", "default/dead", 5*time.Minute)
	s.reservation(t, "10.1.0.32", "default/dead", 5*time.Minute)
	live.status = append(live.status, harness.NetworkStatus{Name: "default/blue", Interface: "net2", IPs: []string{"10.1.0.9"}})
	live.running(t)
	s.pool(t, "no-mask", "10.3.0.0", map[string]any{"1": entry("default/dead", noID)})
	s.pool(t, "no-range", "", map[string]any{"1": entry("default/dead", noID)})
	before, pool := s.contents(t), s.spec(t, "10.1.0.0-24")

	checked := s.product(t, "check")
	checked.exits(t, 1)
	s.lost(t, before)
	out := s.run(t)
	out.exits(t, 0)
	s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1", "10.1.0.0-24 010", "reservation 10.1.0.32")
	for _, o := range []*outcome{checked, out} {
		o.expect(t, "10.1.0.0-24 10.1.0.1", "Stale PodGone", "10.1.0.0-24 10.1.0.2", "Held UnknownField", "reservation 10.1.0.2", "Held UnknownField",
			"10.1.0.0-24 10.1.0.3", "InUse AddressOnPod", "10.1.0.0-24 10.1.0.9", "InUse AddressOnPod", "10.1.0.0-24 10.1.0.10", "Stale PodGone",
			"reservation 10.1.0.30", "Held UnknownField", "reservation 10.1.0.31", "Held Malformed", "reservation no-address", "Held Malformed",
			"reservation 10.1.0.32", "Stale PodGone")
		said := ""
		for _, f := range o.found("Malformed") {
			said += f.Message + "\n"
		}
		contains(t, "what is said", said, `"-1"`, `"300"`, `"seven"`, `"18446463705355360228"`, `"20"`, `"21"`, `"22"`, `"23"`,
			"podref is missing", "kube-system/no-mask", "10.3.0.0", "kube-system/no-range", "reservation kube-system/10.1.0.31", "reservation kube-system/no-address")
		equal(t, "findings, one for each", strings.Count(said, "\n"), 12)
		contains(t, "what is said of the claim", o.message("10.1.0.0-24 10.1.0.2"), "ipamclaimref")
		contains(t, "what is said of the reservation", o.message("reservation 10.1.0.30"), "ipamclaimref")
	}

	delete(pool["spec"].(map[string]any)["allocations"].(map[string]any), "1")
	delete(pool["spec"].(map[string]any)["allocations"].(map[string]any), "010")
	equal(t, "the pool in full", string(try(json.Marshal(s.spec(t, "10.1.0.0-24"))).must(t)), string(try(json.Marshal(pool)).must(t)))
}

// spec is what a patch of a pool must leave alone.
func (s *stage) spec(t *testing.T, pool string) map[string]any {
	t.Helper()
	o := try(s.of(harness.IPPools).Get(t.Context(), pool, metav1.GetOptions{})).must(t)
	return map[string]any{"spec": o.Object["spec"], "labels": o.GetLabels(), "annotations": o.GetAnnotations()}
}

// loosen has the API server keep fields that whereabouts' schemas do not know,
// as those to come will, and take entries that lack some.
func (s *stage) loosen(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ippools", "overlappingrangeipreservations"} {
		crd := try(s.Dynamic().Resource(crds).Get(t.Context(), name+"."+harness.IPPools.Group, metav1.GetOptions{})).must(t)
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		check(t, err)
		for _, v := range versions {
			v.(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}}
		}
		_, err = s.Dynamic().Resource(crds).Patch(t.Context(), crd.GetName(), types.MergePatchType,
			try(json.Marshal(map[string]any{"spec": map[string]any{"versions": versions}})).must(t), metav1.PatchOptions{})
		check(t, err)
	}
	eventually(t, "the API server to keep unknown fields", func() bool {
		for r, spec := range map[string]map[string]any{
			"IPPool":                        {"range": "10.99.0.0/24", "allocations": map[string]any{"1": map[string]any{"later": "x"}}},
			"OverlappingRangeIPReservation": {"podref": "default/p", "later": "x"},
		} {
			resource := s.of(harness.IPPools)
			if r != "IPPool" {
				resource = s.of(harness.Reservations)
			}
			o, err := resource.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": r, "metadata": map[string]any{"name": "probe"}, "spec": spec,
			}}, metav1.CreateOptions{})
			if err != nil {
				return false
			}
			check(t, resource.Delete(context.Background(), "probe", deleteNow))
			if !strings.Contains(string(try(json.Marshal(o.Object["spec"])).must(t)), "later") {
				return false
			}
		}
		return true
	})
}
