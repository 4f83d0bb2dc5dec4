//go:build slow

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// loseRecords empties all pools, and removes all reservations: what a restore to before
// the pods were made does to them.
func (s *stage) loseRecords(t *testing.T, pools int) {
	t.Helper()
	for pool := range pools {
		_, err := s.Dynamic().Resource(harness.IPPools).Namespace("kube-system").Patch(t.Context(), fill.PoolName(pool), types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/allocations","value":{}}]`), metav1.PatchOptions{})
		check(t, err)
	}
	check(t, fill.Etcd(s.EtcdServer()).Clear(t.Context(), "/registry/whereabouts.cni.cncf.io/overlappingrangeipreservations/"))
	for deadline := time.Now().Add(time.Minute); len(s.records(t)) > 0; time.Sleep(50 * time.Millisecond) { // its watch tells the API server
		if time.Now().After(deadline) {
			t.Fatalf("%d are left", len(s.records(t)))
		}
	}
}

// TestMeasure_RecoverInAFewHolds writes back what made-up reports
// say that runs. What a hold costs must grow with what is written, and not with what
// there is beside it.
func TestMeasure_RecoverInAFewHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pods, pools, nodes int
		more               []string
	}{
		{sized(1000), 10, 20, nil},
		{sized(5000), 10, 50, []string{"--without-lease"}}, // as behind the fence: nothing bounds a hold
	} {
		t.Run(fmt.Sprint(c.pods), func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t)
			content := &fill.Content{Pods: c.pods, Pools: c.pools, Nodes: c.nodes, Reports: true}
			s.fill(t, content)
			ready := make(chan struct{})
			go func() { _ = content.Vouch(t.Context(), fill.Etcd(s.EtcdServer()), func() { close(ready) }) }()
			<-ready
			before := s.records(t)
			equal(t, "entries and reservations", len(before), 2*c.pods)
			s.loseRecords(t, c.pools)

			var patches, creates atomic.Int64
			var first, entries, last atomic.Int64 // writes, in milliseconds
			p := &proxy{before: func(r *http.Request) int {
				switch resource := strings.Contains(r.URL.Path, harness.Reservations.Resource); {
				case resource && r.Method == http.MethodPost:
					creates.Add(1)
				case r.Method == http.MethodPatch:
					patches.Add(1)
				default:
					return 0
				}
				now := time.Now().UnixMilli()
				if r.Method == http.MethodPatch {
					entries.Store(now)
				}
				first.CompareAndSwap(0, now)
				last.Store(now)
				return 0
			}}
			leases := try(record(t.Context(), s.Dynamic().Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).Namespace("kube-system"))).must(t)
			out := product(t, append([]string{"recover", "--yes", "--kubeconfig", p.start(t, s)}, c.more...)...)
			out.exits(t, 0)
			if after := s.records(t); !maps.Equal(after, before) {
				t.Errorf("%d entries and reservations are there again, want the %d of before", len(after), len(before))
			}
			if patches.Load() > 4*int64(c.pools) {
				t.Errorf("%d patches for %d pools", patches.Load(), c.pools)
			}
			equal(t, "reservations created", creates.Load(), int64(c.pods))
			holds := leases.holds(t, "whereabouts")
			const most = 40 // the machine may be loaded: then less fits in a hold
			if (holds == 0) != (c.more != nil) || holds > most {
				t.Errorf("the Lease was taken %d times, want %d times at most", holds, most)
			}
			t.Logf("%d entries and as many reservations were back %.1fs after the minute of waiting, the last entries %.1fs and the last reservation %.1fs after the first write; %d patches in %d holds, the longest of %.2fs; %d requests over all",
				c.pods, out.took.Seconds()-60, float64(entries.Load()-first.Load())/1000, float64(last.Load()-first.Load())/1000, patches.Load(), holds, leases.longest(t, "whereabouts").Seconds(), p.requests.Load())
		})
	}
}

// records are the entries and reservations that there are, by what they say.
func (s *stage) records(t *testing.T) contents {
	t.Helper()
	c := s.contents(t)
	for place, text := range c {
		if strings.HasPrefix(place, "reservation ") {
			_, c[place], _ = strings.Cut(text, " ") // without the UID
		}
	}
	return c
}

// longest is the longest time for which a Lease was held that was given back.
func (h *history) longest(t *testing.T, lease string) (most time.Duration) {
	t.Helper()
	check(t, h.catchUp(t.Context()))
	var since time.Time
	for _, v := range h.during(lease, 1, 1<<62) {
		if v.object == nil {
			continue
		}
		spec, _ := v.object.Object["spec"].(map[string]any)
		at := func(field string) time.Time {
			text, _ := spec[field].(string)
			when, _ := time.Parse(time.RFC3339Nano, text)
			return when
		}
		if holder, _ := spec["holderIdentity"].(string); holder != "" {
			since = at("acquireTime")
		} else if !since.IsZero() {
			most, since = max(most, at("renewTime").Sub(since)), time.Time{}
		}
	}
	return most
}
