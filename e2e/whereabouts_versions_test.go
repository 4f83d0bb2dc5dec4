//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

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
