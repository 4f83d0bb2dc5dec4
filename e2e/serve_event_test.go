//go:build slow

package e2e

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestServeFreesWhatAnEventProves(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2").withRaceDetector()
	blue := simple("blue", "10.1.0.0/24")
	check(t, s.CreateNAD(t.Context(), blue))
	one, two := s.agent(t, "worker-1"), s.agent(t, "worker-2")
	v := s.serve(t, s.Kubeconfig())

	s.play(t, "a pod that was deleted by force, when its sandbox has stopped and not before", func(t *testing.T) {
		p := s.up(t, "worker-1", "web", blue)
		one.writeReport(t, p.listed("Ready"))
		v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)
		p.forceDelete(t)
		v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
		v.said(t, `msg=held pool=kube-system/10.1.0.0-24 address=10.1.0.1 podRef=default/web .*reason=PhantomPod.* age=`)
		one.writeReport(t, p.stopped())
		t.Logf("freed %s after the report", s.freed(t, promptly, "10.1.0.0-24", "1"))
		v.is(t, `ip_reconcile_candidates`, 0)
		v.is(t, `ip_reconcile_released_total{reason="PodGone"}`, 2)
		equal(t, "the event", s.event(t, "IPAddressGarbageCollected", "IPPool", "10.1.0.0-24"), "successful cleanup of IP address [10.1.0.1] from network 10.1.0.0/24: PodGone (rule gone-ended)")
		v.said(t, `msg=released pool=kube-system/10.1.0.0-24 address=10.1.0.1 podRef=default/web ifName=net1 verdict=Stale reason=PodGone rule=gone-ended evidence=.* containerID=`+p.sandbox.ID+` age=`)
		equal(t, "what is left", len(s.contents(t)), 0)
	})

	s.play(t, "a StatefulSet pod that was replaced", func(t *testing.T) {
		old := s.up(t, "worker-1", "db-0", blue)
		one.writeReport(t, old.listed("Ready"))
		v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)
		old.forceDelete(t)
		next := s.bare(t, "worker-1", "db-0") // its ADD has not begun, and for a minute nobody can know that
		stopped := time.Now()
		one.writeReport(t, old.stopped())
		v.is(t, `ip_reconcile_candidates`, 1)
		s.freed(t, 2*time.Minute+promptly, "10.1.0.0-24", "1")
		if took := time.Since(stopped); took < 50*time.Second {
			t.Errorf("freed %s after the report: a sandbox of the pod that replaced it may not be known yet", took)
		}
		v.is(t, `ip_reconcile_released_total{reason="PodReplaced"}`, 2)
		next.forceDelete(t)
	})

	s.play(t, "a pod whose containers ended, with the event on the pod", func(t *testing.T) {
		p := s.up(t, "worker-1", "job", blue)
		one.writeReport(t, p.listed("Ready"))
		v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)
		p.finish(t, "Succeeded")
		v.is(t, `ip_reconcile_allocations{reason="TerminalButRunning",verdict="Held"}`, 1)
		one.writeReport(t, p.stopped())
		s.freed(t, promptly, "10.1.0.0-24", "1")
		s.event(t, "IPAddressGarbageCollected", "Pod", "job")
	})

	s.play(t, "nothing while it is paused, and at once when it is not any more", func(t *testing.T) {
		p := s.up(t, "worker-1", "web", blue)
		s.patch(t, harness.IPPools, "10.1.0.0-24", pausing("true"))
		one.writeReport(t, p.listed("Ready"))
		p.forceDelete(t)
		one.writeReport(t, p.stopped())
		v.is(t, `ip_reconcile_candidates`, 1)
		v.counts(t, `ip_reconcile_refused_total{reason="Paused"}`, 1)
		s.patch(t, harness.IPPools, "10.1.0.0-24", pausing("false"))
		s.freed(t, promptly, "10.1.0.0-24", "1")

		s.pauseAll(t, "true")
		v.is(t, `ip_reconcile_paused`, 1)
		p = s.up(t, "worker-1", "web", blue)
		p.forceDelete(t)
		one.writeReport(t, p.stopped())
		v.is(t, `ip_reconcile_candidates`, 1)
		s.pauseAll(t, "false")
		s.freed(t, promptly, "10.1.0.0-24", "1")
	})

	s.play(t, "a node that is out of service", func(t *testing.T) {
		p := s.up(t, "worker-2", "web", blue)
		two.writeReport(t, p.listed("Ready"))
		v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)
		two.change(func() { two.lie = "no report has this hash" }) // the agent is not heard any more
		check(t, two.renew())
		s.notReady(t, "worker-2", time.Hour)
		v.is(t, `ip_reconcile_allocations{reason="AddressOnPod",verdict="InUse"}`, 1)
		p.delete(t, 0)
		s.outOfService(t, "worker-2")
		s.freed(t, promptly, "10.1.0.0-24", "1")
		two.remove(t)
	})

}
