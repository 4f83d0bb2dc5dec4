//go:build !slow && !cluster

package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestWhatUpstreamLeavesBehind are the cases of part B of upstream-defects.md
// that apply to one pass; B7 to B9 are in TestMeasure_ReleaseInAFewHolds, and B10 to B14
// are about a process that stays.
func TestWhatUpstreamLeavesBehind(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	const key, reserved = "10.1.0.0-24 1", "reservation 10.1.0.1"

	s.play(t, "B1 a pool whose range is none", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.pool(t, "broken", "10.0.0.0", map[string]any{"1": entry("default/dead", noID)})
		s.pool(t, "empty", "", map[string]any{"1": entry("default/dead", noID)})
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		equal(t, "findings", len(out.found("Malformed")), 2)
		s.lost(t, before, key, reserved)
	})

	s.play(t, "B2 a pool that is written to between each read and its patch", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.up(t, "worker-1", "leaked-too", simple("green", "10.2.0.0/24")).leak(t)
		s.reservation(t, "10.1.0.9", "default/dead", 5*time.Minute)
		before := s.contents(t)
		met := 0
		p := &proxy{before: func(r *http.Request) int {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/10.1.0.0-24") && met < 3 {
				met++
				s.patch(t, harness.IPPools, "10.1.0.0-24", `{"metadata":{"annotations":{"written":"`+time.Now().String()+`"}}}`)
			}
			return 0
		}}
		out := s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
		out.exits(t, 0)
		equal(t, "conflicts", met, 3)
		s.lost(t, before, key, reserved, "10.2.0.0-24 1", "reservation 10.2.0.1", "reservation 10.1.0.9")
		t.Logf("with 3 conflicts the run took %.1fs", out.took.Seconds())
	})

	s.play(t, "B3 a key below the range beside a stale one", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"-1":{"id":"`+noID+`","podref":""}}}}`)
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		equal(t, "findings", len(out.found("Malformed")), 1)
		s.lost(t, before, key, reserved)
	})

	s.play(t, "B4 an allocation without podref is said, and kept", func(t *testing.T) {
		s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"1": entry("", noID)})
		before := s.contents(t)
		out := s.judges(t, "10.1.0.0-24 10.1.0.1", "Held Malformed")
		found := out.found("Malformed")
		equal(t, "findings", len(found), 1)
		contains(t, "the finding", found[0].Message, "10.1.0.0-24", `"1"`, "podref is missing")
		s.lost(t, before)
		s.product(t, "check").exits(t, 1)
	})

	s.play(t, "B5 a finished pod whose status still lists the address", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", blue).finish(t, corev1.PodSucceeded)
		contains(t, "its network-status", p.Annotations[statusAnnotation], "10.1.0.1")
		before := s.contents(t)
		s.judges(t, "10.1.0.0-24 10.1.0.1", "Stale PodFinished")
		s.lost(t, before, key, reserved)
	})

	s.play(t, "B6 an entry of a pod that has the same address on another network", func(t *testing.T) {
		red := network("red", harness.IPAM{"range": "10.1.0.0/24", "network_name": "red"})
		was := network("was", harness.IPAM{"range": "10.1.0.0/24", "network_name": "was"})
		check(t, s.CreateNAD(t.Context(), red))
		check(t, s.CreateNAD(t.Context(), was))
		s.up(t, "worker-1", "p", was).leak(t)
		s.up(t, "worker-2", "p", red)
		before := s.contents(t)
		equal(t, "entries and reservations", len(before), 4)
		out := s.run(t)
		out.exits(t, 0)
		// Without agents nothing tells that the definition was not edited: it counts for both.
		out.expect(t, "was-10.1.0.0-24 10.1.0.1", "InUse AddressOnPod", "red-10.1.0.0-24 10.1.0.1", "InUse AddressOnPod")
		s.lost(t, before)
	})

	s.play(t, "B15 a run that could not free everything ends with 1 and says why", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		before := s.contents(t)
		rules := without(upstreamRules(t), "overlappingrangeipreservations", "delete")
		out := s.productAs(t, s.account(t, "b15", rules), "run", "--confirm-after", "0")
		out.exits(t, 1)
		contains(t, "the message", out.message("10.1.0.0-24 10.1.0.1"), "not released", "delete reservation", "forbidden")
		s.lost(t, before)
	})

	s.play(t, "B16 a reservation that somebody else deleted first", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.reservation(t, "10.1.0.9", "default/dead", 5*time.Minute)
		before := s.contents(t)
		p := &proxy{before: func(r *http.Request) int {
			if r.Method == http.MethodDelete {
				name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				check(t, s.of(harness.Reservations).Delete(context.Background(), name, metav1.DeleteOptions{}))
			}
			return 0
		}}
		out := s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
		out.exits(t, 0)
		s.lost(t, before, key, reserved, "reservation 10.1.0.9")
	})
}
