//go:build !slow && !cluster

package fill

import (
	"fmt"
	"testing"
	"time"
)

func TestEveryEntryIsAnotherAndWhatIsStaleIsEvenlySpread(t *testing.T) {
	for _, c := range []*Content{
		{Pods: 10000, Stale: 500, Pools: 2, Nodes: 100, Pending: 2000},
		{Pods: 50000, Stale: 2500, Pools: 12, Nodes: 500},
		{Pods: 1000, Stale: 50, Pools: 7, Nodes: 3},
	} {
		seen := map[string]bool{}
		stale, pending := 0, 0
		perPool, stalePerPool := make([]int, c.Pools), make([]int, c.Pools)
		for i := range c.Entries() {
			e := c.Entry(i)
			for _, unique := range []string{e.PodRef(), e.IP, e.Sandbox, string(e.UID)} {
				if seen[unique] {
					t.Fatalf("entry %d has %s, as one before it", i, unique)
				}
				seen[unique] = true
			}
			perPool[e.Pool]++
			if e.Key != perPool[e.Pool] {
				t.Fatalf("entry %d has the key %d, and is the %d. of its pool", i, e.Key, perPool[e.Pool])
			}
			if e.Stale {
				stale++
				stalePerPool[e.Pool]++
			}
			if e.Pending {
				pending++
			}
		}
		if stale != c.Stale || pending < c.Pending*9/10 || pending > c.Pending*11/10 {
			t.Errorf("%d are stale and %d pending, want %d and about %d", stale, pending, c.Stale, c.Pending)
		}
		for pool := range c.Pools {
			if want := c.Entries() / c.Pools; perPool[pool] < want || perPool[pool] > want+1 {
				t.Errorf("pool %d has %d entries, want %d", pool, perPool[pool], want)
			}
			if want := c.Stale / c.Pools; stalePerPool[pool] < want-1 || stalePerPool[pool] > want+1 {
				t.Errorf("pool %d has %d stale entries, want %d", pool, stalePerPool[pool], want)
			}
		}
	}
}

func TestASandboxThatIsReportedGoneIsNotListedAnyMore(t *testing.T) {
	c := &Content{Pods: 100, Pools: 1, Nodes: 10, Reports: true, Made: time.Now()}
	e := c.Entry(42)
	before := c.Report(e.Node)
	c.gone = map[int]bool{42: true}
	after := c.Report(e.Node)
	if fmt.Sprint(len(before.Sandboxes), len(before.Gone), len(after.Sandboxes), len(after.Gone)) != "10 0 9 1" || after.Gone[0].ID != e.Sandbox {
		t.Errorf("before: %d sandboxes, %d gone; after: %d, %+v", len(before.Sandboxes), len(before.Gone), len(after.Sandboxes), after.Gone)
	}
}
