//go:build slow

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestTheReportDecidesOverTheAddressOfAPod(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	check(t, s.CreateNAD(t.Context(), blue))
	one, two := s.agent(t, "worker-1"), s.agent(t, "worker-2")
	make1 := func(name string) *pod { return s.up(t, "worker-1", name, blue) }

	ready := make1("ready")
	phantom := make1("phantom")
	phantom.forceDelete(t)
	moved := make1("moved").annotate(t, statusAnnotation, `[{"name":"default/blue","interface":"net1","ips":["10.1.0.200"]}]`)
	replaced := make1("replaced").leak(t)
	s.bare(t, "worker-1", "replaced") // a successor, still Pending
	attached := make1("attached")
	attached.forceDelete(t)
	closed := make1("closed").leak(t)
	stopped := make1("stopped").leak(t)
	gone := make1("gone").leak(t)
	done := make1("done").finish(t, corev1.PodSucceeded)
	absent := make1("absent").leak(t)
	elsewhere := s.up(t, "worker-2", "elsewhere", blue)

	say := func(t *testing.T) {
		one.writeReport(t, ready.listed(v1alpha1.SandboxReady), phantom.listed(v1alpha1.SandboxReady), moved.stopped(), replaced.stopped(),
			attached.attached(ptr.To(false)), closed.attached(ptr.To(true)), stopped.stopped(), gone.gone(), done.gone())
		two.writeReport(t, elsewhere.listed(v1alpha1.SandboxReady))
	}
	want := []string{
		at(ready), "InUse SandboxReady",
		at(phantom), "Held PhantomPod",
		at(moved), "Stale SandboxReplaced proven",
		at(replaced), "Stale PodReplaced", // for a minute: its node's agent may not know of the pod's sandbox yet
		at(attached), "Held Attached",
		at(closed), "Stale PodGone",
		at(stopped), "Stale PodGone proven",
		at(gone), "Stale PodGone proven",
		at(done), "Stale PodFinished proven",
		at(absent), "Stale PodGone",
		at(elsewhere), "InUse SandboxReady",
	}
	say(t)
	before := s.contents(t)

	// Ages in a report count by the clock that wrote it, freshness by the API
	// server's: a clock that is wrong by more than a report may be old changes nothing.
	var straight map[string]string
	for _, skew := range []time.Duration{0, -2 * time.Minute, 2 * time.Minute} {
		t.Run("with the agents' clocks off by "+skew.String(), func(t *testing.T) {
			one.change(func() { one.skew = skew })
			two.change(func() { two.skew = skew })
			say(t)
			out := s.product(t, "check")
			out.exits(t, 1)
			out.expect(t, want...)
			if straight == nil {
				straight = out.verdicts()
			}
			equal(t, "verdicts", out.verdicts(), straight)
			found := out.found("Phantom")
			if len(found) != 1 || found[0].IP != phantom.ips[0] || found[0].Node != "worker-1" || found[0].Pool != "kube-system/10.1.0.0-24" {
				t.Errorf("the phantoms are %+v", found)
			}
			equal(t, "silent nodes", len(out.found("NoFreshReport")), 0)
		})
	}
	one.change(func() { one.skew = 0 })
	two.change(func() { two.skew = 0 })
	say(t)
	s.lost(t, before)

	t.Run("and what is proven is freed at once, while the rest is waited for", func(t *testing.T) {
		c := begin(t, "run", "-o", "json", "--kubeconfig", s.Kubeconfig())
		eventually(t, "the run to wait", func() bool { return strings.Contains(c.stderr.String(), "waiting before the next pass") })
		var proven []string
		for _, p := range []*pod{moved, stopped, gone, done} {
			proven = append(proven, stored(p)...)
		}
		s.lost(t, before, proven...)
		check(t, c.cmd.Process.Signal(os.Interrupt))
		out := c.wait()
		out.exits(t, 1)
		equal(t, "failed", places(out.Failed), at(replaced)+", "+at(closed)+", "+at(absent))
		equal(t, "released", len(out.Released), 8)
		s.lost(t, before, proven...)
	})
	t.Run("and the rest when it is confirmed", func(t *testing.T) {
		before := s.contents(t)
		s.run(t).exits(t, 0)
		s.lost(t, before, slices.Concat(stored(replaced), stored(closed), stored(absent))...)
	})
}

// TestWhatIsMissingIsWrittenBack has all that --repair mends in one run, since a
// run observes twice, a minute apart.
func TestWhatIsMissingIsWrittenBack(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	check(t, s.CreateNAD(t.Context(), blue))
	one := s.agent(t, "worker-1")
	s.agent(t, "worker-2")

	phantom, second := s.up(t, "worker-1", "web-0", blue), s.up(t, "worker-1", "web-1", blue)
	// These two are old enough that their ADDs are over.
	live, lacking := s.up(t, "worker-1", "live", blue).age(t, 10*time.Minute), s.up(t, "worker-1", "lacking", blue).age(t, 10*time.Minute)
	sandboxes := []any{phantom.listed(v1alpha1.SandboxReady), second.listed(v1alpha1.SandboxReady), live.listed(v1alpha1.SandboxReady), lacking.listed(v1alpha1.SandboxReady)}
	one.writeReport(t, sandboxes...)
	whole := s.contents(t)
	s.product(t, "check").exits(t, 0)

	// Phantoms after an etcd restore: neither pod, nor entry, nor reservation. And
	// two accidents of ADD: an entry whose patch failed, a reservation not made.
	for _, p := range []*pod{phantom, second} {
		p.forceDelete(t)
		s.forget(t, p)
		check(t, s.of(harness.Reservations).Delete(t.Context(), p.ips[0], metav1.DeleteOptions{}))
	}
	s.forget(t, live)
	check(t, s.of(harness.Reservations).Delete(t.Context(), lacking.ips[0], metav1.DeleteOptions{}))
	before := s.contents(t)
	equal(t, "what is left", len(before), len(whole)-6)
	out := s.run(t)
	out.exits(t, 0)
	equal(t, "phantoms, unrecorded, missing reservations",
		[]int{len(out.found("Phantom")), len(out.found("Unrecorded")), len(out.found("MissingReservation"))}, []int{2, 3, 1})
	s.lost(t, before) // without --repair nothing is written

	c := begin(t, "run", "--repair", "-o", "json", "--kubeconfig", s.Kubeconfig())
	eventually(t, "the run to wait", func() bool { return strings.Contains(c.stderr.String(), "waiting before the next pass") })
	s.lost(t, before) // one observation is not enough
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

	// A pod of the same name neither takes the entry over nor gets the address.
	successor := s.up(t, "worker-2", "web-0", blue)
	equal(t, "the address of the successor", successor.ips[0], "10.1.0.5")
	equal(t, "the phantom's entry", s.contents(t)[stored(phantom)[0]], after[stored(phantom)[0]])
	out = s.judges(t, at(phantom), "Held PhantomPod", at(second), "Held PhantomPod", at(live), "InUse SandboxReady", at(lacking), "InUse SandboxReady")
	equal(t, "findings that were mended", len(out.found("Unrecorded"))+len(out.found("MissingReservation")), 0)
	equal(t, "conflicts", len(out.found("Conflict")), 0)

	// It goes with the sandbox: at the next run, or by the sandbox's own DEL.
	before = s.contents(t)
	second.del(t)
	s.lost(t, before, stored(second)...)
	check(t, phantom.sandbox.Close())
	one.writeReport(t, append(sandboxes[2:], phantom.stopped(), second.gone())...)
	out = s.product(t, "run")
	out.exits(t, 0)
	out.expect(t, at(phantom), "Stale PodGone proven", at(successor), "InUse AddressOnPod")
	s.lost(t, before, append(stored(second), stored(phantom)...)...)
}
