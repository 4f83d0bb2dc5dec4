//go:build slow

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// The phantom is on one node and its successor of the same name on another: ADD
// takes the entry over, and both are on one wire with one address. That the phantom
// is one counts when it is a minute old by its node's report, on which nothing else
// happens meanwhile: this test waits for that.
func TestASuccessorThatTookAPhantomsAddressOverIsReportedAsAConflict(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1", "worker-2")
		one, two := s.realNode(t, "worker-1", flavour), s.realNode(t, "worker-2", flavour)
		blue := s.runtimeNetwork(t, "blue", "10.1.0.0/24")
		reports := s.record(t, sandboxReports)
		phantom := one.up(t, "web-0", blue)
		seen := one.sees(t, phantom.id, "Ready")
		phantom.forget(t)
		web := two.up(t, "web-0", blue)
		two.sees(t, web.id, "Ready")
		before := s.contents(t)
		equal(t, "entries and reservations", len(before), 2)
		equal(t, "the entry", before["10.1.0.0-24 1"], written(web, "net1", "default/web-0"))

		conflict := func(out *outcome) {
			t.Helper()
			one.answers(t, "10.1.0.1", true)
			two.answers(t, "10.1.0.1", true)
			out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "reservation 10.1.0.1", "InUse SandboxReady")
			equal(t, "whose the entry is", []string{out.Allocations[0].PodUID, out.Allocations[0].ContainerID, out.Allocations[0].Node},
				[]string{string(web.UID), web.id, "worker-2"})
			found := out.found("Conflict")
			if len(found) != 1 {
				t.Fatalf("the conflicts are %+v", found)
			}
			f := found[0]
			equal(t, "the conflict", []string{f.IP, f.Pool, strings.Join(f.Pods, " ")}, []string{"10.1.0.1", "kube-system/10.1.0.0-24", "default/web-0"})
			equal(t, "sandboxes in conflict", f.ContainerIDs, []string{phantom.id, web.id})
			contains(t, "the conflict", f.Message, "default/web-0 on worker-1", "default/web-0 on worker-2")
			equal(t, "unrecorded", len(out.found("Unrecorded")), 0)
			s.lost(t, before)
		}
		out := s.product(t, "check")
		out.exits(t, 1)
		conflict(out)
		out = s.run(t)
		out.exits(t, 0) // it is nothing that a run could release
		conflict(out)

		s.settled(t, phantom)
		check(t, reports.catchUp(t.Context()))
		versions, aged := reports.during("worker-1", revisionOf(seen), 1<<62), 0
		for _, v := range versions {
			r := &v1alpha1.SandboxReport{}
			check(t, runtime.DefaultUnstructuredConverter.FromUnstructured(v.object.Object, r))
			equal(t, "the sandboxes of each version of the report", r.Sandboxes, seen.Sandboxes)
			if r.ObservedAt.Sub(seen.Sandboxes[0].CreatedAt.Time) > time.Minute {
				aged++
			}
		}
		if aged == 0 {
			t.Error("no version of the report is of when the sandbox was a minute old")
		}
		// The agent writes what is there already only for that, and when it has lost sight of the report.
		lost := strings.Count(one.agent.stderr.String(), "following the report ended")
		if len(versions) > 2+lost {
			t.Errorf("the report had %d versions, and the agent lost sight of it %d times", len(versions), lost)
		}

		out = s.product(t, "check")
		out.exits(t, 1)
		conflict(out)
		s.phantomIs(t, out, phantom)
		contains(t, "the phantom", out.found("Phantom")[0].Message, "no pool records its 10.1.0.1")
		out = s.run(t)
		out.exits(t, 0)
		conflict(out)
		s.phantomIs(t, out, phantom)

		// Its own DEL finds nothing that is the phantom's, and the run nothing at all.
		check(t, one.StopPod(t.Context(), phantom.id))
		one.sees(t, phantom.id, "Stopped")
		one.answers(t, "10.1.0.1", false)
		two.answers(t, "10.1.0.1", true)
		s.lost(t, before)
		out = s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady")
		equal(t, "findings", len(out.Findings), 0)
		s.lost(t, before)
	})
}

// settled waits until a sandbox is older than a minute by its node's report.
func (s *stage) settled(t testing.TB, p *livePod) {
	t.Helper()
	what := "the report of " + p.n.name + " to tell that " + p.Name + " is a minute old"
	eventuallyWithin(t, 5*time.Minute, what, func() bool {
		r := s.report(t, p.n.name)
		return slices.ContainsFunc(r.Sandboxes, func(b v1alpha1.Sandbox) bool {
			return b.ID == p.id && r.ObservedAt.Sub(b.CreatedAt.Time) > time.Minute
		})
	})
	s.fresh(t, p.n.name)
}

// phantomIs checks that a pod is the only phantom that was found.
func (s *stage) phantomIs(t testing.TB, o *outcome, p *livePod) {
	t.Helper()
	found := o.found("Phantom")
	if len(found) != 1 || found[0].Node != p.n.name || !slices.Equal(found[0].Pods, []string{p.Namespace + "/" + p.Name}) ||
		!slices.Equal(found[0].ContainerIDs, []string{p.id}) {
		t.Fatalf("the phantoms are %+v", found)
	}
}
