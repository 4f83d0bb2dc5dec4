//go:build slow

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestAgent_OlderCRDConfirmsNothing removes a field from the CRD. Helm never upgrades CRDs, and the
// API server drops unknown fields without an error.
func TestAgent_OlderCRDConfirmsNothing(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	// The field machine is not in the definition, as in an older version.
	definition := s.crd(t, sandboxReports)
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	check(t, err)
	machine, there, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties",
		"machine")
	check(t, err)
	equal(t, "the field is in the CRD", there, true)
	change := func(op string, stored bool) {
		patch := []map[string]any{{"op": op, "path": "/spec/versions/0/schema/openAPIV3Schema/properties/machine",
			"value": machine}}
		try(s.Dynamic().Resource(crds).Patch(t.Context(), definition.GetName(), types.JSONPatchType,
			try(json.Marshal(patch)).must(t), metav1.PatchOptions{})).must(t)
		eventually(t, "the API server to know, or not to know, the field", func() bool {
			probe := newReport("probe")
			probe.Object["machine"] = map[string]any{"machineID": "m"}
			probe = try(s.Dynamic().Resource(sandboxReports).Create(t.Context(), probe,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})).must(t)
			_, there := probe.Object["machine"]
			return there == stored
		})
	}
	change("remove", false)

	n := newFakeNode(t, "worker-1", critest.Containerd)
	n.Set(n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"))
	a := n.agent(t, s.Kubeconfig())
	eventually(t, "the agent to say why", func() bool {
		said := a.stderr.String()
		return strings.Contains(said, "unknown field") && strings.Contains(said, "machine") && strings.Contains(said,
			"deploy/crds")
	})
	_, err = s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), "worker-1", metav1.GetOptions{})
	equal(t, "no Lease exists", apierrors.IsNotFound(err), true)

	change("add", true)
	eventuallyWithin(t, time.Minute, "the report to have it", func() bool {
		r := s.report(t, "worker-1")
		return r != nil && r.Machine.MachineID != ""
	})
	s.fresh(t, "worker-1")
	a.stop(t)
}

// TestCheck_InspectsANodeByHand uses --cri, which asks the runtime itself.
func TestCheck_InspectsANodeByHand(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	check(t, s.CreateNAD(t.Context(), blue))
	n := &realNode{Runtime: harness.NewRuntime(t, s.nodes["worker-1"], harness.ContainerdV2), s: s, name: "worker-1"}
	live, phantom, stopped := n.up(t, "live", blue), n.up(t, "phantom", blue), n.up(t, "stopped", blue)
	elsewhere := s.up(t, "worker-2", "elsewhere", blue)
	phantom.forget(t)
	stopped.forget(t)
	elsewhere.leak(t)
	check(t, n.LoseDELs(true))
	check(t, n.StopPod(t.Context(), stopped.id))
	before := s.contents(t)
	_ = live

	// From the API alone a phantom cannot be distinguished from a leak.
	s.product(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "Stale PodGone")
	out := n.byHand(t, "run", "--confirm-after", "0")
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "Held PhantomPod",
		"10.1.0.0-24 10.1.0.4", "Held NoFreshReport")
	s.checkReleased(t, before, "10.1.0.0-24 3", "reservation 10.1.0.3")

	out = n.byHand(t, "check", "--node", "worker-3")
	out.exits(t, 2)
	contains(t, "an unknown node", out.stderr, "worker-3", "--node")
	n.Kill()
	out = n.byHand(t, "check")
	out.exits(t, 2)
	contains(t, "a dead runtime", out.stderr, harness.Socket)
}

// byHand runs the product on the node with access to its runtime.
func (n *realNode) byHand(t testing.TB, args ...string) *outcome {
	t.Helper()
	return start(t, n.Command(context.Background(), shipped.program(t, "ip-reconcile"),
		consenting(append([]string{args[0], "--cri", harness.Socket, "--node", n.name,
			"--kubeconfig", n.s.Kubeconfig(), "-o", "json"}, args[1:]...))...)).wait()
}

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
