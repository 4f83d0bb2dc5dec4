//go:build !slow && !cluster

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

func TestALeaseIsTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")

	s.play(t, "by a run, which takes what the pools need", func(t *testing.T) {
		red := network("red", harness.IPAM{"range": "10.1.0.0/24", "network_name": "red"})
		blue := simple("blue", "10.1.0.0/24")
		s.up(t, "worker-1", "web", blue, red).leak(t)
		leases := s.record(t, leasesResource)
		s.run(t).exits(t, 0)
		check(t, leases.catchUp(t.Context()))
		began, ended := uint64(0), uint64(1<<62) // from when on and until when both were held, under one hold
		for _, name := range []string{"whereabouts", "red-10.1.0.0-24"} {
			taken, given := uint64(0), uint64(0)
			for _, v := range leases.during(name, 1, 1<<62) {
				if v.object == nil {
					continue
				}
				spec, _ := v.object.Object["spec"].(map[string]any)
				switch holder := fmt.Sprint(spec["holderIdentity"]); {
				case strings.HasPrefix(holder, "ip-reconcile"):
					taken = cmp.Or(taken, v.revision)
				case taken > 0:
					given = cmp.Or(given, v.revision)
				}
			}
			if taken == 0 || given == 0 {
				t.Errorf("%s was taken at %d and given back at %d", name, taken, given)
			}
			equal(t, "the holder of "+name+" afterwards", s.heldBy(t, name), "")
			began, ended = max(began, taken), min(ended, given)
		}
		if began >= ended {
			t.Errorf("both were taken by %d, and one was given back at %d", began, ended)
		}
	})
}

func TestWeWaitForWhoeverHoldsTheLease(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")

	s.play(t, "a real ADD that takes its time", func(t *testing.T) {
		slow := network("slow", harness.IPAM{"range": "10.1.0.0/24", "sleep_for_race": 2})
		added := make(chan *pod, 1)
		go func() {
			defer close(added) // an ADD that fails ends this goroutine
			added <- s.pending(t, "worker-1", "web", slow)
		}()
		eventually(t, "ADD to hold the Lease", func() bool { return s.heldBy(t, "whereabouts") == "default/web" })
		check(t, s.holder(t, "us").Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(context.Context, *reconciler.Hold) error {
			equal(t, "entries and reservations at our turn", len(s.contents(t)), 2)
			return nil
		}))
		if p := <-added; p != nil {
			equal(t, "the address of the ADD", p.ips, []string{"10.1.0.1"})
		}
	})

}
