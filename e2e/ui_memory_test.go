//go:build slow

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
)

// TestUI_BesideManyPods measures what two open pages, of the overview and of a map, add to the memory of serve while a
// pod changes each second. It has 10,000 pods with -args -full.
func TestUI_BesideManyPods(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	c := &fill.Content{Pods: sized(10000), Pools: 4, Nodes: 50}
	s.fill(t, c)
	address := freeAddress(t)
	v := s.serve(t, s.Kubeconfig(), "--ui", "--ui-bind-address", address, "--log-level=info")
	v.is(t, `ip_reconcile_allocations{reason="AddressOnPod",verdict="InUse"}`, float64(c.Pods))
	passes := func() float64 { return v.metric("ip_reconcile_cache_passes_total") }
	resident := func() float64 {
		t.Helper()
		var all []float64
		for i := range max(sized(30), 10) {
			e, began := c.Entry(i), time.Now()
			patch := []byte(fmt.Sprintf(`{"status":{"podIP":"10.244.%d.%d"}}`, i%250, began.UnixNano()%250+1))
			try(s.Client().CoreV1().Pods(e.Namespace).Patch(t.Context(), e.Name, "application/merge-patch+json", patch,
				metav1.PatchOptions{}, "status")).must(t)
			n, _ := residentMemory(t, v.command)
			all = append(all, n)
			time.Sleep(time.Until(began.Add(time.Second)))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	resident() // the heap has its size
	before, from := resident(), passes()
	var pages []*browser
	for _, view := range []string{"", "#/pool/kube-system%2F" + fill.PoolName(0)} {
		b := newBrowser(t)
		b.open("http://" + address + "/ui/" + view)
		b.shows("#time", " ago")
		pages = append(pages, b)
	}
	after := resident()
	pages[0].shows("main", " allocations in 4 pools")
	pages[1].shows(".said")
	t.Logf("serve beside %d pods: %.1f MiB resident, with two open pages %.1f MiB, after %.0f passes", c.Pods, before,
		after, passes()-from)
	if after-before > 10 {
		t.Errorf("two pages take %.1f MiB", after-before)
	}
}
