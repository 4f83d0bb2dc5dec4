//go:build slow

package e2e

import (
	"fmt"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// fill stores a content on the stage.
func (s *stage) fill(t *testing.T, c *fill.Content) {
	t.Helper()
	c.Made = time.Now().UTC().Truncate(time.Second)
	began := time.Now()
	check(t, bench.Fill(t.Context(), s.ControlPlane, c))
	t.Logf("filled with %d pods and %d entries in %.1fs", c.Pods, c.Entries(), time.Since(began).Seconds())
}

// TestMeasure_ReleaseInAFewHolds has more objects than fit in a page, many of them Pending, and pools that the API
// server patches slowly. The cost of a hold must not grow with any of that.
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
	equal(t, "summary", fmt.Sprint(checked.Summary.counts), fmt.Sprintf("{%d %d %d 0 %d %d 0}", c.Pools, c.Entries(),
		c.Pods, c.Stale, c.Entries()))

	kubeconfig, made := s.counted(t)
	leases := s.record(t, leasesResource)
	out := product(t, "run", "--confirm-after", "0", "-o", "json", "--kubeconfig", kubeconfig)
	out.exits(t, 0)
	equal(t, "released", len(out.Released), len(stale))
	s.checkReleased(t, before, stale...)
	equal(t, "reservations put back", made.count("POST ", "/"+harness.Reservations.Resource), 0)
	equal(t, "deletes of reservations", made.count("DELETE ", "/"+harness.Reservations.Resource), c.Stale)
	holds := leases.holds(t, "whereabouts")
	// Two on an idle machine. Slow writes make batches smaller, but never to one hold for each few allocations.
	if most := max(c.Stale/10, 20); holds == 0 || holds > most {
		t.Errorf("the Lease was taken %d times, want %d times at most", holds, most)
	}
	t.Logf("run released %d entries and as many reservations beside %d pods in %.1fs, in %d holds with %d patches and %d "+
		"requests over all",
		c.Stale, c.Pods, out.took.Seconds(), holds, made.count("PATCH "), made.count())
}

// holds counts how often a Lease was taken from nobody or from another holder.
func (h *history) holds(t *testing.T, lease string) (n int) {
	t.Helper()
	check(t, h.catchUp(t.Context()))
	before := ""
	for _, v := range h.during(lease, 1, 1<<62) {
		holder := v.spec("holderIdentity")
		if holder != "" && holder != before {
			n++
		}
		before = holder
	}
	return n
}

// loseRecords empties all pools and removes all reservations, as a restore to before the pods were created does.
func (s *stage) loseRecords(t *testing.T, pools int) {
	t.Helper()
	for pool := range pools {
		_, err := s.Dynamic().Resource(harness.IPPools).Namespace("kube-system").Patch(t.Context(), fill.PoolName(pool),
			types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/allocations","value":{}}]`), metav1.PatchOptions{})
		check(t, err)
	}
	check(t, fill.Etcd(s.AskEtcd).Clear(t.Context(), "/registry/whereabouts.cni.cncf.io/overlappingrangeipreservations/"))
	eventuallyWithin(t, time.Minute, "what the API server's watch tells it is gone",
		func() bool { return len(s.contents(t).withoutUIDs()) == 0 })
}

// TestMeasure_RecoverInAFewHolds records what simulated reports say that runs. The cost of a hold must grow with the
// writes, and not with the other objects.
func TestMeasure_RecoverInAFewHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pods, pools, nodes int
		more               []string
	}{
		{sized(1000), 10, 20, nil},
		{sized(5000), 10, 50, []string{"--without-lease"}}, // as behind the fence, where holds are unbounded
	} {
		t.Run(fmt.Sprint(c.pods), func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t)
			content := &fill.Content{Pods: c.pods, Pools: c.pools, Nodes: c.nodes, Reports: true}
			s.fill(t, content)
			ready := make(chan struct{})
			go func() { _ = content.Vouch(t.Context(), s.AskEtcd, func() { close(ready) }) }()
			<-ready
			before := s.contents(t).withoutUIDs()
			equal(t, "entries and reservations", len(before), 2*c.pods)
			s.loseRecords(t, c.pools)

			kubeconfig, made := s.counted(t)
			leases := s.record(t, leasesResource)
			out := product(t, append([]string{"recover", "--yes", "--kubeconfig", kubeconfig}, c.more...)...)
			out.exits(t, 0)
			if after := s.contents(t).withoutUIDs(); !maps.Equal(after, before) {
				t.Errorf("%d entries and reservations are there again, want the %d of before", len(after), len(before))
			}
			patches := made.count("PATCH ")
			if patches > 4*c.pools {
				t.Errorf("%d patches for %d pools", patches, c.pools)
			}
			equal(t, "reservations created", made.count("POST ", "/"+harness.Reservations.Resource), c.pods)
			holds := leases.holds(t, "whereabouts")
			const most = 40 // on a loaded machine less fits in a hold
			if (holds == 0) != (c.more != nil) || holds > most {
				t.Errorf("the Lease was taken %d times, want %d times at most", holds, most)
			}
			t.Logf("%d entries and as many reservations were back %.1fs after the minute of waiting; %d patches in %d holds, "+
				"the longest of %.2fs; %d requests over all",
				c.pods, out.took.Seconds()-60, patches, holds, leases.longest(t, "whereabouts").Seconds(), made.count())
		})
	}
}

// longest is the longest hold of a Lease that was released.
func (h *history) longest(t *testing.T, lease string) (most time.Duration) {
	t.Helper()
	check(t, h.catchUp(t.Context()))
	var since time.Time
	for _, v := range h.during(lease, 1, 1<<62) {
		at := func(field string) time.Time {
			when, _ := time.Parse(time.RFC3339Nano, v.spec(field))
			return when
		}
		if v.spec("holderIdentity") != "" {
			since = at("acquireTime")
		} else if !since.IsZero() && v.object != nil {
			most, since = max(most, at("renewTime").Sub(since)), time.Time{}
		}
	}
	return most
}
