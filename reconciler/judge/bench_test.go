package judge_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// perPool and perNode are how many allocations a pool has, and how many pods with an address a node.
const (
	perPool = 5000
	perNode = 50
)

// cluster is a large cluster: n pods with two interfaces each, an allocation and a sandbox for each, spread
// over the nodes as a scheduler does. The names that repeat are shared and each other text is a copy of its own, as it
// is after decoding.
func cluster(n int, reservations bool) *Observed {
	random := rand.New(rand.NewPCG(1, 2))
	nodes := max(n/perNode, 1)
	o := Observe()
	o.Past, o.Pods = reconciler.Known{}, make(map[types.NamespacedName]*podstate.Pod, n)
	old := metav1.NewTime(Now.Add(-time.Hour))
	var list []*ippool.Reservation
	var namespaces []string
	for i := range 200 {
		namespaces = append(namespaces, fmt.Sprint("team-", i))
	}
	for i := range nodes {
		name := fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", i>>16, i>>8&255, i&255)
		o.Nodes.Or(nil)[name] = &podstate.Node{Name: name, Ready: true, BootID: "boot-1",
			Labels: map[string]string{"kubernetes.io/os": "linux"}}
		o.AddReports(&podstate.Report{
			SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: name}, BootID: "boot-1",
				ObservedAt: metav1.NewTime(Now)},
			ConfirmedAt: Now, LeaseRenewedAt: Now, WrittenAt: Now,
		})
	}
	overlapping := ""
	if !reservations {
		overlapping = `"enable_overlapping_ranges":false`
	}
	for first := 0; first < n; first += perPool {
		base := netip.AddrFrom4([4]byte{10, byte(first / perPool >> 3), byte(first / perPool << 5), 0})
		cidr := base.String() + "/19"
		config := strings.Replace(WhereaboutsConfig(cidr, "", overlapping), ",}", "}", 1)
		nad := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": config}}}
		nad.SetNamespace("network-attachments")
		nad.SetName(fmt.Sprint("vlan-", first/perPool))
		at := types.NamespacedName{Namespace: nad.GetNamespace(), Name: nad.GetName()}
		o.NADs.Or(nil)[at] = ippool.Read[ippool.NAD](nad)
		network, allocations := nad.GetNamespace()+"/"+nad.GetName(), map[string]any{}
		ip := base
		for i := range min(perPool, n-first) {
			ip = ip.Next()
			at := random.IntN(nodes)
			id, uid := hexOf(random, 32), fmt.Sprintf("%s-%s-%s-%s-%s", hexOf(random, 4), hexOf(random, 2), hexOf(random, 2),
				hexOf(random, 2), hexOf(random, 6))
			name := types.NamespacedName{Namespace: namespaces[(first+i)%200], Name: fmt.Sprintf("frontend-%d-%s-%s", i%97,
				hexOf(random, 5), hexOf(random, 3))}
			allocations[fmt.Sprint(i+1)] = map[string]any{"id": strings.Clone(id), "podref": name.String(), "ifname": "net1"}
			o.Pods[name] = &podstate.Pod{
				NamespacedName: name, UID: uid, RuntimeUID: uid, Node: o.Reports.Or(nil)[at].Name, Phase: podstate.Live,
				CreatedAt: old.Time,
				Status:    podstate.StatusReadable, IPs: []netip.Addr{defaultAddress(first + i)},
				Interfaces: []podstate.Interface{
					{Network: "cbr0", Name: "eth0", Default: true, Addresses: []netip.Addr{defaultAddress(first + i)}},
					{Network: network, Name: "net1", Addresses: []netip.Addr{ip}},
				},
			}
			r := o.Reports.Or(nil)[at]
			r.Sandboxes = append(r.Sandboxes, v1alpha1.Sandbox{
				ID: id, Namespace: name.Namespace, Name: strings.Clone(name.Name), UID: strings.Clone(uid),
				State: v1alpha1.SandboxReady, NetworkClosed: new(bool), CreatedAt: old,
				Addresses: []v1alpha1.Address{{IP: ip.String(), IfName: "net1", Network: "vlan", Range: strings.Clone(cidr)}},
			})
			if reservations {
				u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"podref": name.String(),
					"ifname": "net1"}}}
				u.SetNamespace("kube-system")
				u.SetName(ip.String())
				u.SetCreationTimestamp(old)
				list = append(list, ippool.Read[ippool.Reservation](u))
			}
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"range": cidr,
			"allocations": allocations}}}
		u.SetNamespace("kube-system")
		u.SetName(strings.ReplaceAll(cidr, "/", "-"))
		o.Pools = append(o.Pools, ippool.Read[ippool.Pool](u))
	}
	o.AddReservations(list...)
	return o
}

func defaultAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{172, byte(16 + i>>16), byte(i >> 8), byte(i)})
}

func hexOf(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return hex.EncodeToString(b)
}

// BenchmarkJudge gives everything its verdict, the index included, beside what was read: nothing is kept from a pass
// before. B7: see that the time for an allocation stays about the same from row to row.
func BenchmarkJudge(b *testing.B) {
	for _, reservations := range []bool{false, true} {
		for _, n := range []int{10_000, 250_000, 1_000_000} {
			if n > 250_000 && (testing.Short() || reservations) {
				continue
			}
			b.Run(fmt.Sprintf("reservations=%v/n=%d", reservations, n), func(b *testing.B) {
				o := cluster(n, reservations)
				b.ReportAllocs()
				for b.Loop() {
					if j := Judged(o, facts.Policy{}); j.Summary().InUse != n || len(j.Findings) > 0 {
						b.Fatalf("%+v", j.Summary())
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/allocation")
			})
		}
	}
}

// BenchmarkDefinitions indexes what a tenant's definitions say beside pools of node slices: it takes
// no longer for each pool.
func BenchmarkDefinitions(b *testing.B) {
	for _, pools := range []int{50, 500} {
		b.Run(fmt.Sprint("pools=", pools), func(b *testing.B) {
			parts := []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/8", "", `"node_slice_size":"/26"`))}
			for i := range pools {
				node := fmt.Sprint("node-", i)
				parts = append(parts, Node(node), Pool(fmt.Sprintf("%s-10.%d.%d.0-26", node, i/256, i%256),
					fmt.Sprintf("10.%d.%d.0/26", i/256, i%256)))
			}
			var more []string
			for i := range 249 {
				more = append(more, fmt.Sprintf(`{"range":"172.16.%d.0/24"}`, i))
			}
			for i := range 2000 {
				parts = append(parts, NAD(fmt.Sprint("many-", i), WhereaboutsConfig("192.168.0.0/16", "", `"node_slice_size":"/24"`,
					`"ipRanges":[`+strings.Join(more, ",")+`]`)))
			}
			o := Observe(parts...)
			for b.Loop() {
				Judged(o, facts.Policy{})
			}
		})
	}
}
