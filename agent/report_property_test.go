package agent_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// An id that was listed or a closed attachment, and is not in the next inspection, is gone until it returns, a day
// passes or 500 others follow.
func TestNextReport_NoIDIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r *v1alpha1.SandboxReport
		went := map[string]time.Time{} // the model: ids that must be gone
		clock := time.Duration(0)
		for range rapid.IntRange(1, 12).Draw(t, "inspections") {
			clock += rapid.SampledFrom([]time.Duration{500 * time.Millisecond, 10 * time.Second, time.Hour,
				9 * time.Hour}).Draw(t, "pause")
			var parts []any
			in := map[string]bool{}
			for i := range 8 {
				name := string(rune('a' + i))
				switch rapid.IntRange(0, 6).Draw(t, name) {
				case 0, 1:
					continue
				case 2:
					parts = append(parts, sandbox(name))
				case 3:
					parts = append(parts, agent.ListedSandbox{Sandbox: sandbox(name), IsIrrelevant: true})
				case 4:
					parts = append(parts, attachment(name, &yes))
				case 5:
					parts = append(parts, attachment(name, &no))
				case 6:
					parts = append(parts, attachment(name, nil))
				}
				in[name] = true
			}
			// Sometimes many appear at once and end together.
			if rapid.IntRange(0, 3).Draw(t, "many") == 0 {
				which := rapid.SampledFrom([]string{"m", "n", "o"}).Draw(t, "which")
				for i := range 300 {
					name := fmt.Sprintf("%s%03d", which, i)
					parts, in[name] = append(parts, sandbox(name)), true
				}
			}
			l := inspection(clock, parts...)
			if r != nil {
				for _, s := range r.Sandboxes {
					went[s.ID] = l.At
				}
				for _, a := range r.Attachments {
					if podstate.IsClosed(a.NetworkClosed) {
						went[a.ID] = l.At
					}
				}
			}
			for name := range in {
				delete(went, name)
			}
			before := r
			r = nextAfterEnds(before, l)
			gone := map[string]metav1.Time{}
			for _, g := range r.Gone {
				gone[g.ID] = g.Since
				if in[g.ID] {
					t.Fatalf("%s is in the inspection, and gone", g.ID)
				}
				if _, ok := went[g.ID]; !ok {
					t.Fatalf("%s is gone, and never was there", g.ID)
				}
			}
			if len(gone) != len(r.Gone) {
				t.Fatalf("an id is gone twice")
			}
			later := func(than time.Time) (n int) {
				for _, since := range went {
					if !since.Truncate(time.Second).Before(than.Truncate(time.Second)) {
						n++
					}
				}
				return n
			}
			var forgotten []string
			for id, since := range went {
				if _, ok := gone[id]; ok {
					continue
				}
				if l.At.Sub(since) <= 24*time.Hour && (len(gone) < 500 || later(since) <= 500) {
					t.Fatalf("%s went %s ago and is not among the %d that are gone", id, l.At.Sub(since), len(gone))
				}
				forgotten = append(forgotten, id)
			}
			for _, id := range forgotten {
				delete(went, id)
			}
			if again := nextAfterEnds(r, l); again != r {
				t.Fatalf("another report of the same inspection")
			}
		}
	})
}
