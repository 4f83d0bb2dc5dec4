package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// massive is a folder of as many entries, with a reservation each, and twice as many pods.
func massive(t testing.TB, entries int, asJSON bool) string {
	t.Helper()
	var items []string
	pool := make([]string, entries)
	for i := range entries {
		address := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
		pool[i] = fmt.Sprintf(`"%d":{"id":"c%d","podref":"default/p-%d","ifname":"net1"}`, i/250*256+i%250, i, i)
		items = append(items, fmt.Sprintf(`{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"OverlappingRangeIPReservation","metadata":{"namespace":"kube-system","name":"%s","uid":"r%d"},"spec":{"podref":"default/p-%d","ifname":"net1"}}`, address, i, i))
	}
	for i := range 2 * entries {
		items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"p-%d","uid":"u%d","labels":{"app":"x"}},"spec":{"nodeName":"w1","containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}`, i, i))
	}
	items = append(items, `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"namespace":"kube-system","name":"10.0.0.0-16","resourceVersion":"1"},"spec":{"range":"10.0.0.0/16","allocations":{`+strings.Join(pool, ",")+`}}}`)
	dir, name := t.TempDir(), "all.json"
	text := `{"apiVersion":"v1","kind":"List","items":[` + strings.Join(items, ",\n") + `]}`
	if !asJSON {
		name, text = "all.yaml", "apiVersion: v1\nkind: List\nitems:\n- "+strings.Join(items, "\n- ")+"\n"
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// releaseAll frees all entries and reservations of a folder in one hold.
func releaseAll(t *testing.T, dir string) time.Duration {
	t.Helper()
	f := open(t, dir)
	o := observe(t, f)
	patch, err := ippool.RemovePatch(o.Pools[0], o.Pools[0].Allocations)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	hold(t, f, func(ctx context.Context, _ *reconciler.Hold) error {
		for _, r := range o.Reservations {
			if err := f.DeleteReservation(ctx, r); err != nil {
				return err
			}
		}
		_, err := f.PatchPool(ctx, o.Pools[0], patch)
		return err
	})
	return time.Since(start)
}

func TestAMassReleaseFromAFolderIsNotQuadratic(t *testing.T) {
	for title, asJSON := range map[string]bool{"JSON": true, "YAML": false} {
		var dir string
		var small, large time.Duration
		for range 3 { // the machine may be busy with something else
			dir = massive(t, 4900, asJSON)
			small, large = releaseAll(t, massive(t, 490, asJSON)), releaseAll(t, dir)
			t.Logf("%s: 490 in %s, 4900 in %s", title, small, large)
			if large <= 40*max(small, 20*time.Millisecond) {
				break
			}
		}
		if large > 40*max(small, 20*time.Millisecond) {
			t.Errorf("%s: ten times as many took %s after %s", title, large, small)
		}
		o := observe(t, open(t, dir))
		if len(o.Reservations) > 0 || len(o.Pools[0].Allocations) > 0 || len(o.Pods) != 9800 {
			t.Errorf("%s: %d reservations and %d entries are left, and %d pods", title, len(o.Reservations), len(o.Pools[0].Allocations), len(o.Pods))
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for title, asJSON := range map[string]bool{"JSON": true, "YAML": false} {
		dir := massive(b, 5000, asJSON)
		b.Run(title, func(b *testing.B) {
			for b.Loop() {
				open(b, dir)
			}
		})
	}
}
