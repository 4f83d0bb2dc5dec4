//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestPlugin_Remains has the remains of whereabouts' plugin when its requests fail. D10 is in TestNodeSlices.
func TestPlugin_Remains(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	dual := network("dual", harness.IPAM{"ipRanges": []any{map[string]any{"range": "10.2.0.0/24"},
		map[string]any{"range": "fd00:2::/64"}}})
	const v4, v6, reserved4, reserved6 = "10.2.0.0-24 1", "fd00-2---64 1", "reservation 10.2.0.1", "reservation fd00-2--1"

	s.play(t, "D1 a pod runs with an address that is in no pool, and has a reservation", func(t *testing.T) {
		check(t, s.CreateNAD(t.Context(), blue))
		s.up(t, "worker-2", "first", blue)
		rules := without(upstreamRules(t), "ippools", "patch", "update")
		s.pluginIs(t, "worker-1", s.account(t, "d1", rules))
		p := s.up(t, "worker-1", "p", blue).age(t, 5*time.Minute)
		equal(t, "address", p.ips, []string{"10.1.0.2"})
		before := s.contents(t)
		if _, in := before["10.1.0.0-24 2"]; in {
			t.Fatal("the entry was written after all")
		}
		s.age(t, harness.Reservations, "10.1.0.2", 5*time.Minute)
		out := s.judges(t, "reservation 10.1.0.2", "InUse AddressOnPod")
		found := out.found("Unrecorded")
		if len(found) != 1 || found[0].IP != "10.1.0.2" || found[0].Pods[0] != "default/p" {
			t.Errorf("what is said of the missing entry: %+v", found)
		}
		s.checkReleased(t, before)
		p.leak(t) // only the reservation remains
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, "reservation 10.1.0.2")
	})

	s.play(t, "D2 a DEL of two families that finds no v4 entry", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", dual)
		s.patch(t, harness.IPPools, "10.2.0.0-24", `{"spec":{"allocations":{"1":null}}}`)
		p.del(t)
		p.leak(t)
		before := s.contents(t)
		equal(t, "remains", len(before), 3)
		s.run(t).exits(t, 0) // the v4 reservation is young, and nothing but its age holds it
		s.checkReleased(t, before, v6, reserved6)
		s.age(t, harness.Reservations, "10.2.0.1", 5*time.Minute)
		s.run(t).exits(t, 0)
		equal(t, "remains in the end", s.contents(t), contents{})
	})

	s.play(t, "D3 a DEL of two families that finds no v4 reservation", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", dual)
		s.unreserve(t, "10.2.0.1")
		p.del(t)
		p.leak(t)
		before := s.contents(t)
		equal(t, "remains", len(before), 2)
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, v6, reserved6)
	})

	s.play(t, "D4 an entry from before v0.8, that neither DEL nor ADD knows", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", blue)
		s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"1":{"ifname":null}}}}`)
		s.patch(t, harness.Reservations, "10.1.0.1", `{"spec":{"ifname":null}}`)
		s.run(t).expect(t, "10.1.0.0-24 10.1.0.1", "InUse AddressOnPod", "reservation 10.1.0.1", "InUse AddressOnPod")
		p.del(t) // the sandbox is recreated
		check(t, p.sandbox.Close())
		p.attach(t, blue)
		p.running(t)
		equal(t, "address", p.ips, []string{"10.1.0.2"})
		before := s.contents(t)
		equal(t, "entries and reservations", len(before), 4)
		out := s.run(t, "--trust-network-status")
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "Stale AddressNotOnPod", "10.1.0.0-24 10.1.0.2", "InUse AddressOnPod")
		s.checkReleased(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")
	})

	s.play(t, "D5 a v6 address that came later and got no reservation", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", simple("dual", "10.2.0.0/24"))
		check(t, p.sandbox.Close())
		check(t, s.CreateNAD(t.Context(), dual)) // the network was edited, the sandbox is recreated
		p.attach(t, dual)
		p.running(t).age(t, 5*time.Minute)
		equal(t, "addresses", p.ips, []string{"10.2.0.1", "fd00:2::1"})
		before := s.contents(t)
		if _, in := before[reserved6]; in || len(before) != 3 {
			t.Fatalf("entries and reservations: %v", before)
		}
		out := s.judges(t, "fd00-2---64 fd00:2::1", "InUse AddressOnPod")
		found := out.found("MissingReservation")
		if len(found) != 1 || found[0].IP != "fd00:2::1" {
			t.Errorf("what is said of the missing reservation: %+v", found)
		}
		s.checkReleased(t, before)
	})

	s.play(t, "D6 an entry whose reservation is a dead pod's, so that its ADD never ends well", func(t *testing.T) {
		s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"1": entry("default/p", noID)})
		s.reservation(t, "10.1.0.1", "default/dead", 5*time.Minute)
		object := s.bare(t, "worker-1", "p") // its ADD would try for ten seconds, and fail
		before := s.contents(t)
		s.judges(t, "10.1.0.0-24 10.1.0.1", "InUse PodPending", "reservation 10.1.0.1", "Stale PodGone")
		s.checkReleased(t, before, "reservation 10.1.0.1")
		object.attach(t, blue)
		equal(t, "address", object.ips, []string{"10.1.0.1"})
	})

	s.play(t, "D6 and where its pod carries the address nothing is released", func(t *testing.T) {
		s.up(t, "worker-1", "p", blue)
		s.unreserve(t, "10.1.0.1")
		s.reservation(t, "10.1.0.1", "default/dead", 5*time.Minute)
		before := s.contents(t)
		s.judges(t, "10.1.0.0-24 10.1.0.1", "InUse AddressOnPod", "reservation 10.1.0.1", "Held ClaimedByOther")
		s.checkReleased(t, before)
	})

	s.play(t, "D7 a slice of a NodeSlicePool that is not there", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		p := s.pending(t, "worker-1", "p")
		err := p.add(harness.Attachment{Sandbox: p.sandbox, Namespace: "default", Pod: "p", UID: string(p.UID),
			IfName:  "net1",
			Network: network("sliced", harness.IPAM{"range": "10.4.0.0/16", "node_slice_size": "/24"})})
		if err == nil {
			t.Fatal("the ADD went well after all")
		}
		t.Logf("the plugin says: %.200s", strings.ReplaceAll(err.Error(), "\n", " "))
		before := s.contents(t)
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")
	})

	s.play(t, "D8 a DEL that fails and says nothing", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", blue)
		s.pluginIs(t, "worker-1", s.account(t, "d8", without(upstreamRules(t), "ippools", "patch")))
		p.del(t)
		p.leak(t)
		before := s.contents(t)
		if before["10.1.0.0-24 1"] == "" {
			t.Fatalf("the DEL went well after all: %v", before)
		}
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, keys(before)...)
	})
}

// pluginIs gives a node's plugin another kubeconfig until the subtest ends.
func (s *stage) pluginIs(t *testing.T, node, kubeconfig string) {
	t.Helper()
	path := filepath.Join(s.Dir(), "node-"+node, "whereabouts.conf")
	was := try(os.ReadFile(path)).must(t)
	var config map[string]any
	check(t, json.Unmarshal(was, &config))
	config["kubernetes"] = map[string]string{"kubeconfig": kubeconfig}
	check(t, os.WriteFile(path, try(json.Marshal(config)).must(t), 0o600))
	t.Cleanup(func() { check(t, os.WriteFile(path, was, 0o600)) })
}

// whereaboutsVersions are the forms in which versions of whereabouts write an address. Sources: the types are in
// pkg/api/whereabouts.cni.cncf.io/v1alpha1, what ADD writes in pkg/storage/kubernetes/ipam.go (toAllocationMap and
// UpdateOverlappingRangeAllocation), and so are the names (NormalizeRange, later IPPoolName; NormalizeIP). In all of
// them the podref is "<namespace>/<name>" without a UID (pkg/types/types.go, GetPodRef), the key is the decimal offset,
// and the range of a pool is masked (pkg/config/config.go).
var whereaboutsVersions = []struct {
	versions           string
	entry, reservation string // their fields
	isNamed, isSliced  bool   // whether it knows network_name, and node_slice_size
}{
	{versions: "v0.6.1", entry: "id podref", reservation: "containerid podref"},
	{versions: "v0.7.0", entry: "id podref", reservation: "containerid podref", isNamed: true},
	{versions: "v0.8.0", entry: "id podref ifname", reservation: "podref ifname", isNamed: true},
	{versions: "v0.9.0 to v0.9.4", entry: "id podref ifname", reservation: "podref ifname", isNamed: true, isSliced: true},
}

// poolsOf are the pools that a version creates: name, range, and what precedes the address in names of reservations.
func poolsOf(isNamed, isSliced bool) [][3]string {
	pools := [][3]string{{"10.1.0.0-24", "10.1.0.0/24", ""}, {"fd00-1---64", "fd00:1::/64", ""}}
	if isNamed {
		pools = append(pools, [3]string{"red-10.2.0.0-24", "10.2.0.0/24", "red-"}, [3]string{"red-fd00-2---64", "fd00:2::/64",
			"red-"})
	}
	if isSliced {
		pools = append(pools, [3]string{"worker-1-10.3.0.0-26", "10.3.0.0/26", ""}, [3]string{"red-worker-1-10.4.0.0-26",
			"10.4.0.0/26", "red-"})
	}
	return pools
}

// TestWhereabouts_EntriesOfEachVersion judges, without agents, what each version has written: of a pod that runs, and
// of one that is gone.
func TestWhereabouts_EntriesOfEachVersion(t *testing.T) {
	t.Parallel()
	for _, v := range whereaboutsVersions {
		t.Run(v.versions, func(t *testing.T) {
			t.Parallel()
			fields := func(names, podRef string) map[string]any {
				all := map[string]any{}
				for _, name := range strings.Fields(names) {
					all[name] = map[string]string{"id": "c-" + podRef[8:], "containerid": "c-" + podRef[8:], "podref": podRef,
						"ifname": "net1"}[name]
				}
				return all
			}
			object := func(apiVersion, kind, namespace, name string, more map[string]any) map[string]any {
				more["apiVersion"], more["kind"] = apiVersion, kind
				more["metadata"] = map[string]any{"namespace": namespace, "name": name, "uid": kind + name, "resourceVersion": "1"}
				return more
			}
			var items []any
			var ips []string
			var want []string
			const api = "whereabouts.cni.cncf.io/v1alpha1"
			for _, p := range poolsOf(v.isNamed, v.isSliced) {
				name, base := p[0], strings.TrimSuffix(p[1][:strings.Index(p[1], "/")], "0")
				items = append(items, object(api, "IPPool", "kube-system", name, map[string]any{"spec": map[string]any{
					"range": p[1], "allocations": map[string]any{"1": fields(v.entry, "default/live"), "2": fields(v.entry,
						"default/gone")}}}))
				for podRef, host := range map[string]string{"default/live": "1", "default/gone": "2"} {
					items = append(items, object(api, "OverlappingRangeIPReservation", "kube-system", p[2]+
						strings.ReplaceAll(base+host, ":", "-"), map[string]any{"spec": fields(v.reservation, podRef)}))
				}
				ips = append(ips, base+"1")
				for host, verdict := range map[string]string{"1": "InUse AddressOnPod", "2": "Stale PodGone"} {
					want = append(want, name+" "+base+host, verdict, "reservation "+p[2]+strings.ReplaceAll(base+host, ":", "-"),
						verdict)
				}
			}
			status := try(json.Marshal([]any{map[string]any{"name": "default/blue", "interface": "net1", "ips": ips}})).must(t)
			pod := object("v1", "Pod", "default", "live", map[string]any{
				"spec":   map[string]any{"nodeName": "worker-1", "containers": []any{map[string]any{"name": "app"}}},
				"status": map[string]any{"phase": "Running"}})
			pod["metadata"].(map[string]any)["annotations"] = map[string]any{statusAnnotation: string(status)}
			items = append(items, pod, object("v1", "Node", "", "worker-1", map[string]any{"status": map[string]any{
				"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}}))
			file := filepath.Join(t.TempDir(), "cluster.yaml")
			check(t, os.WriteFile(file, try(yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})).
				must(t), 0o600))
			out := product(t, "check", "--all", "--snapshot", file, "-o", "json")
			out.expect(t, want...)
			equal(t, "verdicts", len(out.Allocations)+len(out.Reservations), len(want)/2)
			equal(t, "findings", fmt.Sprint(out.Findings), "[]")
		})
	}
}
