//go:build slow

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A mending has pods that keep standing while their records are damaged by accident, on a
// network where no other pod comes: what is lost there nobody else gets.
type mending struct {
	*stage
	pods  []*pod
	whole contents
}

var mended = simple("mended", "10.9.0.0/24")

func (r *faultTrial) mending(t *testing.T) *mending {
	t.Helper()
	m := &mending{stage: r.stage}
	check(t, r.CreateNAD(t.Context(), mended))
	for _, name := range []string{"unrecorded", "unreserved", "whole"} {
		m.pods = append(m.pods, r.up(t, "worker-1", name, mended).age(t, 10*time.Minute))
	}
	r.mu.Lock()
	for _, p := range m.pods {
		r.content["worker-1"] = append(r.content["worker-1"], p.listed("Ready"))
	}
	r.mu.Unlock()
	m.whole = m.records(t)
	m.patch(t, harness.IPPools, "10.9.0.0-24", `{"spec":{"allocations":{"1":null}}}`)
	for _, address := range []string{"10.9.0.1", "10.9.0.2"} {
		check(t, m.of(harness.Reservations).Delete(t.Context(), address, metav1.DeleteOptions{}))
	}
	return m
}

// records are what is stored of the network: its entries, and whose the reservations are.
func (m *mending) records(t testing.TB) contents {
	t.Helper()
	c := contents{}
	for place, text := range m.contents(t) {
		if strings.HasPrefix(place, "10.9.") {
			c[place] = text
		} else if strings.HasPrefix(place, "reservation 10.9.") {
			_, c[place], _ = strings.Cut(text, " ") // it may be another object
		}
	}
	return c
}

// TestNothingIsFreedWronglyThoughAnyAnswerMayFail has every request of the product meet a
// fault with some probability, while ADDs and DELs go on beside it.
func TestNothingIsFreedWronglyThoughAnyAnswerMayFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seed  uint64
		works func(t *testing.T, r *faultTrial, kubeconfig string) (stop func())
	}{
		"run": {1, func(t *testing.T, r *faultTrial, kubeconfig string) func() {
			one, two, repairing := r.runs(t, kubeconfig), r.runs(t, kubeconfig), r.runs(t, kubeconfig, "--repair")
			return func() { one(); two(); repairing() }
		}},
		"serve": {2, func(t *testing.T, r *faultTrial, kubeconfig string) func() {
			v := r.beginServe(t, kubeconfig, "--repair", "--confirm-after", "2s", "--cron", "@every 10s")
			return func() { v.stop(t) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t, "worker-1", "worker-2").withRaceDetector()
			r := newFaultTrial(t, s)
			m := r.mending(t)
			plan, kubeconfig := newChaos(t, s, c.seed)
			stop := c.works(t, r, kubeconfig)
			rest := r.traffic(t, c.seed, 8)
			began := time.Now()
			eventuallyWithin(t, 15*time.Minute, "a minute, faults and ADDs", func() bool {
				return time.Since(began) > time.Minute && plan.injected() >= 60 && r.adds.Load() >= 60
			})
			injected, kinds := plan.over()
			rest()
			within(5*time.Minute, time.Second, func() bool { return len(m.records(t)) == len(m.whole) })
			left := r.settle(t)
			stop()
			equal(t, "what was damaged", m.records(t), m.whole)
			t.Logf("faults: %d injected (%s), %s", injected, kinds, r.verdict(t, left))
		})
	}
}
