//go:build slow

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
)

// TestUI_BesideManyPods has 10,000 pods with -args -full.
func TestUI_BesideManyPods(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	c := &fill.Content{Pods: sized(10000), Pools: 4, Nodes: 50}
	s.fill(t, c)
	t.Run("check -w", func(t *testing.T) { s.watches(t, c) })
	t.Run("two pages", func(t *testing.T) { s.hasTwoPages(t, c) })
}

// watches measures how long check -w takes until its first screen and until a change, and its memory.
func (s *stage) watches(t *testing.T, c *fill.Content) {
	w := s.beginProduct(t, "check", "-w", "--kubeconfig", s.Kubeconfig())
	eventuallyWithin(t, 3*time.Minute, "the first screen", func() bool {
		return strings.Contains(w.stdout.String(), " findings.")
	})
	first := time.Since(w.began)
	before, e, began := len(w.stdout.String()), c.Entry(0), time.Now()
	check(t, s.Client().CoreV1().Pods(e.Namespace).Delete(t.Context(), e.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64)}))
	lines := ""
	eventuallyWithin(t, 3*time.Minute, "the change", func() bool {
		lines = w.stdout.String()[before:]
		return strings.HasSuffix(lines, "\n") && strings.Contains(lines, "changed   "+e.IP+" of ")
	})
	all, file := residentMemory(t, w)
	t.Logf("check -w beside %d pods: the first screen after %.1f s, a change after %.1f s, %.1f MiB resident (%.1f MiB "+
		"of it the program's file)", c.Pods, first.Seconds(), time.Since(began).Seconds(), all, file)
	for line := range strings.Lines(lines) {
		contains(t, "a line of a change", line, e.IP)
	}
	check(t, w.cmd.Process.Signal(os.Interrupt))
	check(t, w.cmd.Wait())
}

// hasTwoPages measures what two open pages, of the overview and of a map, add to the memory of serve while a pod
// changes each second.
func (s *stage) hasTwoPages(t *testing.T, c *fill.Content) {
	address := freeAddress(t)
	v := s.serve(t, s.Kubeconfig(), "--ui", "--ui-bind-address", address, "--log-level=info")
	v.is(t, `ip_reconcile_allocations{reason="AddressOnPod",verdict="InUse"}`, float64(c.Pods-1))
	passes := func() float64 { return v.metric("ip_reconcile_cache_passes_total") }
	resident := func() float64 {
		t.Helper()
		var all []float64
		for i := range max(sized(30), 10) {
			e, began := c.Entry(i+1), time.Now()
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
