//go:build slow

package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
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
		reports := try(record(t.Context(), s.Dynamic().Resource(sandboxReports))).must(t)
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

// Phantom and entry were made after the backup that is put back.
func TestAfterARestoreARepairKeepsThePhantomsAddressFromTheNextPod(t *testing.T) {
	t.Parallel()
	flavour := harness.ContainerdV2
	if why := flavour.Unsupported(); why != "" {
		t.Skip(why)
	}
	s := newStageWithReports(t, "worker-1", "worker-2")
	one, two := s.realNode(t, "worker-1", flavour), s.realNode(t, "worker-2", flavour)
	blue, red := s.runtimeNetwork(t, "blue", "10.1.0.0/24"), s.runtimeNetwork(t, "red", "10.2.0.0/24")
	live, leaked := two.up(t, "live", blue), one.up(t, "leaked", red)
	two.sees(t, live.id, "Ready")
	one.sees(t, leaked.id, "Ready")
	check(t, one.LoseDELs(true))
	check(t, one.StopPod(t.Context(), leaked.id))
	check(t, one.LoseDELs(false))
	leaked.forget(t)
	one.sees(t, leaked.id, "Stopped")
	before := s.contents(t)
	equal(t, "entries and reservations", len(before), 4)

	restore := s.backup(t)
	phantom := one.up(t, "web-0", blue)
	one.sees(t, phantom.id, "Ready")
	contains(t, "the phantom's entry", s.contents(t)["10.1.0.0-24 2"], phantom.id)
	s.settled(t, phantom)

	// No agent can inspect the node before the first run.
	check(t, one.Freeze())
	check(t, two.Freeze())
	restore()
	one.answers(t, "10.1.0.2", true)
	s.lost(t, before)
	out := s.run(t)
	out.exits(t, 0)
	out.expect(t, "10.2.0.0-24 10.2.0.1", "Held NoFreshReport", "10.1.0.0-24 10.1.0.1", "InUse AddressOnPod")
	s.lost(t, before)

	check(t, one.Thaw())
	at := s.waitRestoreSeen(t, "worker-1")
	one.sees(t, phantom.id, "Ready")
	refused := func() *outcome {
		t.Helper()
		out := s.run(t)
		out.exits(t, 1)
		out.expect(t, "10.2.0.0-24 10.2.0.1", "Stale PodGone proven")
		equal(t, "released", places(out.Released), "")
		equal(t, "failed", places(out.Failed), "10.2.0.0-24 10.2.0.1")
		contains(t, "what is said", out.message("10.2.0.0-24 10.2.0.1"), "etcd was restored at "+at, "worker-2 has not written")
		return out
	}
	out = refused()
	s.lost(t, before)
	bare := func(out *outcome) {
		t.Helper()
		s.phantomIs(t, out, phantom)
		contains(t, "the phantom", out.found("Phantom")[0].Message, "no pool records its 10.1.0.2")
		found := out.found("Unrecorded")
		if len(found) != 1 {
			t.Fatalf("unrecorded are %+v", found)
		}
		equal(t, "what is unrecorded", []string{found[0].IP, found[0].Pool, found[0].Node, strings.Join(found[0].Pods, " "), strings.Join(found[0].ContainerIDs, " ")},
			[]string{"10.1.0.2", "kube-system/10.1.0.0-24", "worker-1", "default/web-0", phantom.id})
	}
	bare(out)
	out = s.product(t, "check")
	out.exits(t, 1)
	bare(out)

	// Without a repair the next pod gets the phantom's address.
	next := one.up(t, "next", blue)
	equal(t, "the next entry", s.contents(t)["10.1.0.0-24 2"], written(next, "net1", "default/next"))
	equal(t, "namespaces with the phantom's address", len(try(one.OnWire()).must(t)[netip.MustParseAddr("10.1.0.2")]), 2)
	one.sees(t, next.id, "Ready")
	twice := s.contents(t)
	out = refused()
	s.lost(t, twice)
	if found := out.found("Conflict"); len(found) != 1 || found[0].IP != "10.1.0.2" || !slices.Equal(found[0].Pods, []string{"default/next", "default/web-0"}) {
		t.Errorf("the conflicts are %+v", found)
	}
	check(t, one.StopPod(t.Context(), next.id))
	next.forget(t)
	one.sees(t, next.id, "Stopped")
	s.lost(t, before)

	check(t, two.Thaw())
	s.waitRestoreSeen(t, "worker-2")
	two.sees(t, live.id, "Ready")
	out = s.run(t)
	out.exits(t, 0)
	out.expect(t, "10.2.0.0-24 10.2.0.1", "Stale PodGone proven", "10.1.0.0-24 10.1.0.1", "InUse SandboxReady")
	bare(out)
	s.lost(t, before, "10.2.0.0-24 1", "reservation 10.2.0.1")

	before = s.contents(t)
	out = s.run(t, "--repair")
	out.exits(t, 0)
	if out.took < time.Minute {
		t.Errorf("it was written back after %s", out.took)
	}
	after := s.contents(t)
	owner := "default/web-0_" + string(phantom.UID)
	contains(t, "the phantom's reservation", after["reservation 10.1.0.2"], `"`+owner+`"`)
	before["10.1.0.0-24 2"], before["reservation 10.1.0.2"] = written(phantom, "net1", owner), after["reservation 10.1.0.2"]
	equal(t, "what is stored", after, before)

	// Now neither a pod of another name gets it, nor one of the same.
	for key, p := range map[string]*livePod{"3": one.up(t, "later", blue), "4": two.up(t, "web-0", blue)} {
		equal(t, "the entry of "+p.Name, s.contents(t)["10.1.0.0-24 "+key], written(p, "net1", "default/"+p.Name))
		p.n.sees(t, p.id, "Ready")
	}
	equal(t, "namespaces with the phantom's address", len(try(one.OnWire()).must(t)[netip.MustParseAddr("10.1.0.2")]), 1)
	two.answers(t, "10.1.0.2", false)
	before = s.contents(t)
	out = s.run(t)
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 10.1.0.2", "Held PhantomPod", "10.1.0.0-24 10.1.0.3", "InUse SandboxReady", "10.1.0.0-24 10.1.0.4", "InUse SandboxReady")
	s.phantomIs(t, out, phantom)
	equal(t, "findings", len(out.Findings), 1)
	s.lost(t, before)

	check(t, one.LoseDELs(true))
	check(t, one.StopPod(t.Context(), phantom.id))
	one.answers(t, "10.1.0.2", false)
	s.lost(t, before) // its DEL was lost
	one.sees(t, phantom.id, "Stopped")
	out = s.product(t, "run") // with the default --confirm-after
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 10.1.0.2", "Stale PodGone proven")
	equal(t, "findings", len(out.Findings), 0)
	s.lost(t, before, "10.1.0.0-24 2", "reservation 10.1.0.2")
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

// waitRestoreSeen waits until a node's agent says that etcd was restored, on its report
// and on the Lease, and returns when it says that was. The report must have been
// written since.
func (s *stage) waitRestoreSeen(t testing.TB, node string) (at string) {
	t.Helper()
	r := s.reported(t, node, "the restore", func(r *v1alpha1.SandboxReport) bool { return r.Annotations[v1alpha1.RestoreAnnotation] != "" })
	at = r.Annotations[v1alpha1.RestoreAnnotation]
	s.fresh(t, node)
	lease := try(s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), node, metav1.GetOptions{})).must(t)
	equal(t, "when the Lease says etcd was restored", lease.Annotations[v1alpha1.RestoreAnnotation], at)
	if report := podstate.ReadReport(r, lease); report.Written.Before(report.RestoreSeen) || report.RestoreSeen.IsZero() {
		t.Errorf("the report of %s was written at %s, and etcd restored at %s", node, report.Written, at)
	}
	return at
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
