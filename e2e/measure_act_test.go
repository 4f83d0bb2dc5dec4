//go:build slow

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	docs "github.com/ip-reconcile/ip-reconcile/internal/cli/document"
)

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
	do(0, "plan", "-o", plan, "--allow-mass-release")
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
	var h docs.History
	check(t, json.Unmarshal([]byte(history.stdout), &h))
	if len(h.Records) < c.Stale*4/5 {
		t.Errorf("%d records of %d releases", len(h.Records), c.Stale)
	}
	t.Logf("%d records of %d releases", len(h.Records), c.Stale)
}
