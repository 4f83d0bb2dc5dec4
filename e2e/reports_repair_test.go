//go:build slow

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// TestRepair_WritesWhatIsMissing has all that --repair mends in one run, since a run observes twice, a minute apart.
func TestRepair_WritesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	check(t, s.CreateNAD(t.Context(), blue))
	one := s.agent(t, "worker-1")
	s.agent(t, "worker-2")

	phantom, second := s.up(t, "worker-1", "web-0", blue), s.up(t, "worker-1", "web-1", blue)
	// These two are old enough that their ADDs are over.
	live, lacking := s.up(t, "worker-1", "live", blue).age(t, 10*time.Minute), s.up(t, "worker-1", "lacking", blue).age(t,
		10*time.Minute)
	sandboxes := []any{phantom.listed(v1alpha1.SandboxReady), second.listed(v1alpha1.SandboxReady),
		live.listed(v1alpha1.SandboxReady), lacking.listed(v1alpha1.SandboxReady)}
	one.writeReport(t, sandboxes...)
	whole := s.contents(t)
	s.product(t, "check").exits(t, 0)

	// Phantoms after an etcd restore have neither pod, allocation nor reservation. Two failed ADDs: one without the
	// allocation, one without the reservation.
	for _, p := range []*pod{phantom, second} {
		p.forceDelete(t)
		s.forget(t, p)
		s.unreserve(t, p.ips[0])
	}
	s.forget(t, live)
	s.unreserve(t, lacking.ips[0])
	before := s.contents(t)
	equal(t, "what remains", len(before), len(whole)-6)
	out := s.run(t)
	out.exits(t, 0)
	equal(t, "phantoms, unrecorded, missing reservations",
		[]int{len(out.found("Phantom")), len(out.found("Unrecorded")), len(out.found("MissingReservation"))}, []int{2, 3, 1})
	s.checkReleased(t, before) // without --repair nothing is written

	c := begin(t, "run", "--repair", "-o", "json", "--kubeconfig", s.Kubeconfig())
	c.waits(t)
	s.checkReleased(t, before) // one observation is not enough
	out = c.wait()
	out.exits(t, 0)
	if out.took < time.Minute {
		t.Errorf("it was written back after %s", out.took)
	}
	after := s.contents(t)
	equal(t, "what is there", len(after), len(whole))
	equal(t, "the entry of the live pod", after[stored(live)[0]], whole[stored(live)[0]])
	equal(t, "the reservation of the live pod", after[stored(live)[1]], whole[stored(live)[1]])
	_, spec, _ := strings.Cut(whole[stored(lacking)[1]], " ")
	contains(t, "the reservation that was missing", after[stored(lacking)[1]], " "+spec)
	for _, p := range []*pod{phantom, second} {
		want := strings.Replace(whole[stored(p)[0]], `"default/`+p.Name+`"`, `"default/`+p.Name+"_"+string(p.UID)+`"`, 1)
		equal(t, "the entry of the phantom", after[stored(p)[0]], want)
		contains(t, "its reservation", after[stored(p)[1]], `"default/`+p.Name+"_"+string(p.UID)+`"`)
	}

	// A pod of the same name neither takes the allocation over nor gets the address.
	successor := s.up(t, "worker-2", "web-0", blue)
	equal(t, "the address of the successor", successor.ips[0], "10.1.0.5")
	equal(t, "the phantom's entry", s.contents(t)[stored(phantom)[0]], after[stored(phantom)[0]])
	out = s.judges(t, at(phantom), "Held PhantomPod", at(second), "Held PhantomPod", at(live), "InUse SandboxReady",
		at(lacking), "InUse SandboxReady")
	equal(t, "findings that were mended", len(out.found("Unrecorded"))+len(out.found("MissingReservation")), 0)
	equal(t, "conflicts", len(out.found("Conflict")), 0)

	// The allocation is released after the sandbox ended: by the next run, or by the sandbox's own DEL.
	before = s.contents(t)
	second.del(t)
	s.checkReleased(t, before, stored(second)...)
	check(t, phantom.sandbox.Close())
	one.writeReport(t, append(sandboxes[2:], phantom.stopped(), second.gone())...)
	out = s.product(t, "run")
	out.exits(t, 0)
	out.expect(t, at(phantom), "Stale PodGone proven", at(successor), "InUse AddressOnPod")
	s.checkReleased(t, before, append(stored(second), stored(phantom)...)...)
}
