//go:build slow

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServeRefusesAMassReleaseUntilAnOperatorMakesIt(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1").withRaceDetector()
	entries, leaks := map[string]any{}, []string{}
	for i := range 40 {
		key, name := fmt.Sprint(100+i), fmt.Sprint("gone-", i)
		if i >= 30 {
			name = fmt.Sprint("live-", i)
			s.bare(t, "worker-1", name)
		} else {
			leaks = append(leaks, "10.1.0.0-24 "+key)
		}
		entries[key] = entry("default/"+name, fmt.Sprintf("%064x", 0xdead0000+i))
	}
	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "4s")
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", entries)
	before := s.contents(t)
	v.counts(t, `ip_reconcile_refused_total{reason="Breaker"}`, 30)
	contains(t, "the event", s.event(t, "MassReleaseRefused", "Namespace", metav1.NamespaceSystem), "30 unconfirmed releases", "of 40 allocations", "--allow-mass-release")
	v.said(t, `level=ERROR msg="mass release refused" why="30 unconfirmed`)
	v.is(t, `ip_reconcile_candidates`, 30)
	s.lost(t, before)
	v.repeatsNothing(t)

	s.run(t, "--allow-mass-release").exits(t, 0)
	s.lost(t, before, leaks...)
	v.is(t, `ip_reconcile_candidates`, 0)
	v.is(t, `ip_reconcile_released_total`, 0)
}

func TestServeFreesWhatADeletedNodeHeldAfterItsQuarantine(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2").withRaceDetector()
	one, two := s.agent(t, "worker-1"), s.agent(t, "worker-2")
	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "31s")
	web, keep := s.up(t, "worker-2", "web", blue), s.up(t, "worker-1", "keep", blue)
	one.writeReport(t, keep.listed("Ready"))
	two.writeReport(t, web.listed("Ready"))
	v.inUse(t, 2)
	web.forceDelete(t)
	check(t, s.Client().CoreV1().Nodes().Delete(context.Background(), "worker-2", metav1.DeleteOptions{}))
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	before := s.contents(t)
	// Its agent is not heard any more: what the Lease vouches for is nothing.
	two.change(func() { two.lie = "no report has this hash" })
	check(t, two.renew())
	two.mu.Lock()
	t.Cleanup(two.mu.Unlock)
	v.is(t, `ip_reconcile_allocations{reason="NodeMissing",verdict="Stale"}`, 1)
	took := s.freed(t, 2*time.Minute, "10.1.0.0-24", "1")
	if took < 36*time.Second {
		t.Errorf("freed after %s", took)
	}
	t.Logf("freed after %s", took)
	s.lost(t, before, stored(web)...)
}
