//go:build slow

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	docs "github.com/ip-reconcile/ip-reconcile/internal/cli/view"
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
func (h *history) holds(t *testing.T, lease string) int {
	t.Helper()
	check(t, h.catchUp(t.Context()))
	return len(slices.DeleteFunc(h.holders(lease, 1), func(name string) bool { return name == "" }))
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
				c.pods, out.took.Seconds()-60, patches, holds, leases.longestHold(t).Seconds(), made.count())
		})
	}
}

// TestMeasure_ActOnMany plans, bundles, releases by hand, applies and reads the history where a third of all entries
// is stale.
func TestMeasure_ActOnMany(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := &fill.Content{Pods: sized(10000), Stale: sized(5000), Pools: 3, Nodes: 50, NoGrace: true}
	s.fill(t, c)
	stale := map[string]bool{}
	for i := range c.Entries() {
		if e := c.Entry(i); e.Stale {
			stale[e.IP] = true
		}
	}
	checked := s.product(t, "check").took
	do := func(code int, args ...string) *outcome {
		out := s.beginProduct(t, append(args, "--kubeconfig", s.Kubeconfig())...).wait()
		out.exits(t, code)
		t.Logf("%s took %.1fs (check %.1fs)", args[0], out.took.Seconds(), checked.Seconds())
		return out
	}
	plan, dump := filepath.Join(t.TempDir(), "plan.json"), filepath.Join(t.TempDir(), "dump.tgz")
	do(0, "plan", "--output-file", plan, "--allow-mass-release")
	var d docs.Plan
	check(t, json.Unmarshal(try(os.ReadFile(plan)).must(t), &d))
	equal(t, "items of the plan", len(d.Items), len(stale))

	do(0, "sysdump", dump)
	t.Logf("the bundle has %d KiB", try(os.Stat(dump)).must(t).Size()/1024)
	of := product(t, "check", "--snapshot", dump, "-o", "json")
	of.exits(t, 1)
	equal(t, "stale in the bundle", of.Summary.Stale, len(stale))

	byHand := 0
	for ip := range stale {
		if byHand++; byHand > 3 {
			break
		}
		do(0, "release", ip, "--yes")
		delete(stale, ip)
	}
	applied := s.product(t, "apply", plan, "--allow-mass-release")
	applied.exits(t, 0)
	t.Logf("apply took %.1fs", applied.took.Seconds())
	became := map[string]bool{}
	for _, it := range applied.Released {
		if it.Reservation == "" {
			became[it.IP] = true
		}
	}
	equal(t, "released by apply", fmt.Sprint(became), fmt.Sprint(stale))
	equal(t, "what remains", len(s.contents(t)), 2*c.Pods)

	history := do(0, "history", "--verify", "-o", "json")
	var h docs.HistoryReport
	check(t, json.Unmarshal([]byte(history.stdout), &h))
	if len(h.Records) < c.Stale*4/5 {
		t.Errorf("%d records of %d releases", len(h.Records), c.Stale)
	}
	t.Logf("%d records of %d releases", len(h.Records), c.Stale)
}

// moreGoroutines is how many goroutines serve may have more after the churn: two of each idle connection. An open watch
// has five.
const moreGoroutines = 6

// TestMeasure_Flat lets pods come, leak their addresses and go beside serve while its watches end again and again, in
// full for half an hour. Afterwards serve has as many goroutines as before. In full neither they nor its heap grow:
// their least values follow no rising line.
func TestMeasure_Flat(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	one := s.agent(t, "worker-1")
	s.fill(t, &fill.Content{Pods: sized(2000), Pools: 1, Nodes: 10})
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{})
	period := 4 * time.Second
	if *full {
		period = 150 * time.Second // the runtime collects garbage at least every two
	}
	const periods = 10
	l, kubeconfig := s.link(t)
	v := s.serve(t, kubeconfig, "--cron", "@every 5s")
	var gone []any
	churn := func(n int) {
		p, id := s.bare(t, "worker-1", fmt.Sprint("churn-", n)), fmt.Sprintf("%064x", n+1)
		s.patch(t, harness.IPPools, "10.1.0.0-24", fmt.Sprintf(
			`{"spec":{"allocations":{"%d":{"id":"%s","podref":"default/%s","ifname":"net1"}}}}`, 1+n%250, id, p.Name))
		p.forceDelete(t)
		gone = append(gone[max(0, len(gone)-100):], v1alpha1.Gone{ID: id, UID: string(p.UID)})
		one.writeReport(t, gone...)
		if n%5 == 0 {
			l.cut(anyWatch)
		}
	}
	n := 0
	least := func() (heap float64) {
		for began := time.Now(); time.Since(began) < period || heap == 0; time.Sleep(200 * time.Millisecond) {
			churn(n)
			n++
			if h := v.metric("go_memstats_heap_alloc_bytes "); h > 0 && (heap == 0 || h < heap) {
				heap = h
			}
		}
		return heap / (1 << 20)
	}
	before := []float64{v.idleGoroutines(t, l, 1000)}
	most := before[0] + moreGoroutines
	least() // caches fill, and the first garbage is collected
	goroutines, heap := before, []float64{}
	for range periods {
		if heap = append(heap, least()); *full {
			goroutines = append(goroutines, v.idleGoroutines(t, l, 1000))
		}
	}
	v.is(t, `ip_reconcile_candidates`, 0)
	grown := periods * used.Slope(heap)
	t.Logf("serve beside %d pods that came and went in %s: heap %.1f MiB, %+.2f by slope; goroutines %.0f, then %.0f",
		n, (periods * period).String(), heap, grown, goroutines, v.idleGoroutines(t, l, most))
	if more := periods * used.Slope(goroutines); *full && more > 10 {
		t.Errorf("%.0f goroutines more by slope", more)
	}
	if most := slices.Min(heap) / 5; *full && grown > most { // garbage disturbs a short measurement more
		t.Errorf("the heap grew by %.1f MiB", grown)
	}
	released := v.metric("ip_reconcile_released_total")
	if released < float64(n)/2 {
		t.Errorf("%v were released of %d", released, n)
	}
}

// idleGoroutines waits until all watches are open and goroutines are at most so many, and returns how many there are
// between passes: the lower quartile of 20 seconds.
func (v *server) idleGoroutines(t *testing.T, l *link, most float64) (n float64) {
	t.Helper()
	const samples, kinds = 20, 8
	var last []float64
	eventuallyWithin(t, 3*time.Minute, fmt.Sprintf("all watches, and %.0f goroutines", most), func() bool {
		if l.open() != kinds {
			return false
		}
		if last = append(last, v.metric("go_goroutines ")); len(last) < samples {
			return false
		}
		last = last[len(last)-samples:]
		n = slices.Sorted(slices.Values(last))[samples/4]
		return n <= most
	})
	return n
}
