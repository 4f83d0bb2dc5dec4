//go:build slow

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// fill puts a content into the stage.
func (s *stage) fill(t *testing.T, c *fill.Content) {
	t.Helper()
	c.Made = time.Now().UTC().Truncate(time.Second)
	began := time.Now()
	check(t, bench.Fill(t.Context(), s.ControlPlane, c))
	t.Logf("filled with %d pods and %d entries in %.1fs", c.Pods, c.Entries(), time.Since(began).Seconds())
}

// TestMeasure_ReleaseInAFewHolds has more objects than fit in
// a page, many of them Pending, and pools that take the API server long to patch:
// what a hold of the Lease costs must not grow with any of that. (B7 to B9 of
// upstream-defects.md are about the same numbers.)
func TestMeasure_ReleaseInAFewHolds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := &fill.Content{Pods: sized(10000), Pending: sized(2000), Stale: sized(500), Pools: 2, Nodes: 50}
	s.fill(t, c)
	var stale []string
	for i := range c.Entries() {
		if e := c.Entry(i); e.Stale {
			stale = append(stale, fmt.Sprintf("%s %d", fill.PoolName(e.Pool), e.Key), "reservation "+e.IP)
		}
	}
	equal(t, "stale entries and reservations", len(stale), 2*c.Stale)
	before := s.contents(t)
	equal(t, "entries and reservations", len(before), 2*c.Entries())

	checked := s.product(t, "check")
	checked.exits(t, 1)
	equal(t, "summary", fmt.Sprint(checked.Summary.counts), fmt.Sprintf("{%d %d %d 0 %d %d 0}", c.Pools, c.Entries(), c.Pods, c.Stale, c.Entries()))

	var deletes, creates, patches atomic.Int64
	p := &proxy{before: func(r *http.Request) int {
		switch resource := strings.Contains(r.URL.Path, harness.Reservations.Resource); {
		case resource && r.Method == http.MethodDelete:
			deletes.Add(1)
		case resource && r.Method == http.MethodPost:
			creates.Add(1)
		case r.Method == http.MethodPatch:
			patches.Add(1)
		}
		return 0
	}}
	leases := try(record(t.Context(), s.Dynamic().Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).Namespace("kube-system"))).must(t)
	out := product(t, "run", "--confirm-after", "0", "-o", "json", "--kubeconfig", p.start(t, s))
	out.exits(t, 0)
	equal(t, "released", len(out.Released), len(stale))
	s.lost(t, before, stale...)
	equal(t, "reservations put back", creates.Load(), 0)
	equal(t, "deletes of reservations", deletes.Load(), c.Stale)
	holds := leases.holds(t, "whereabouts")
	// Two on an idle machine. Where a write takes seconds batches shrink, but never to
	// one hold for each few entries.
	if most := max(c.Stale/10, 20); holds == 0 || holds > most {
		t.Errorf("the Lease was taken %d times, want %d times at most", holds, most)
	}
	t.Logf("run freed %d entries and as many reservations beside %d pods in %.1fs, in %d holds with %d patches and %d requests over all",
		c.Stale, c.Pods, out.took.Seconds(), holds, patches.Load(), p.requests.Load())
}

// holds counts how often a Lease was taken from nobody or from somebody else.
func (h *history) holds(t *testing.T, lease string) (n int) {
	t.Helper()
	check(t, h.catchUp(t.Context()))
	before := ""
	for _, v := range h.during(lease, 1, 1<<62) {
		holder := ""
		if v.object != nil {
			spec, _ := v.object.Object["spec"].(map[string]any)
			holder, _ = spec["holderIdentity"].(string)
		}
		if holder != "" && holder != before {
			n++
		}
		before = holder
	}
	return n
}
