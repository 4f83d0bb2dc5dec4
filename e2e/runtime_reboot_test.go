//go:build slow

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestRuntime_RebootWithoutAgent(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		bootID, bootIDFile := "00000000-0000-4000-8000-00000000b007", filepath.Join(t.TempDir(), "boot_id")
		check(t, os.WriteFile(bootIDFile, []byte(bootID+"\n"), 0o600))
		check(t, s.CreateNAD(t.Context(), blue))
		// The object of the first stays, that of the second is gone, the third was being deleted, and the fourth has a
		// successor of the same name that has not started.
		var pods []*livePod
		for _, name := range []string{"web", "gone", "leaving", "replaced"} {
			pods = append(pods, n.up(t, name, blue))
		}
		pods[1].forget(t)
		check(t, s.DeletePod(t.Context(), pods[2].Pod, 600))
		pods[3].forget(t)
		n.object(t, "replaced", blue)
		for i, p := range pods {
			n.sees(t, p.id, "Ready")
			n.answers(t, fmt.Sprint("10.1.0.", i+1), true)
		}
		before := s.contents(t)
		n.renews(t)
		on := n.Outside("/run")
		n.PowerOff()
		if off := n.Outside("/run"); off == on {
			t.Errorf("%s is the path into a node that is off: its process's number can be another's", off)
		}
		n.agent.wait()
		check(t, s.nodes["worker-1"].SetBootID(t.Context(), bootID)) // that it will have

		// Its last report is confirmed until a minute has passed, and decides.
		s.judges(t, slices.Concat(of(1, "InUse SandboxReady"), of(2, "Held PhantomPod"), of(3, "Held Terminating"),
			of(4, "Held PhantomPod"))...)
		s.checkReleased(t, before)

		s.silent(t, "worker-1", 2*time.Minute)
		// Without a fresh report of any agent, etcd may have been restored.
		s.judges(t, slices.Concat(of(1, "InUse AddressOnPod"), of(2, "Held NoFreshReport"), of(3, "Held NoFreshReport"),
			of(4, "InUse PodPending"))...)
		s.checkReleased(t, before)

		s.nodes["worker-2"] = harness.NewNode(t, s.ControlPlane, "worker-2")
		s.agent(t, "worker-2")
		// Its agent did not run before the boot, and cannot know of an earlier restore.
		s.judges(t, of(2, "Held NoFreshReport")...)
		s.checkReleased(t, before)
		s.hasReported(t, "worker-2", time.Hour)
		// Pods of these names may have returned there, also one that a restore of etcd has lost.
		s.judges(t, slices.Concat(of(1, "InUse AddressOnPod"), of(2, "Held NoFreshReport"), of(3, "Held NoFreshReport"),
			of(4, "InUse PodPending"))...)
		s.checkReleased(t, before)

		check(t, n.Boot(t.Context()))
		n.startAgent(t, "--boot-id-file", bootIDFile)
		for _, p := range pods {
			n.sees(t, p.id, "Stopped")
		}
		out := s.run(t)
		out.exits(t, 0)
		equal(t, "released", verdictsOf(out.Released), map[string]string{
			"10.1.0.0-24 10.1.0.2": "Stale PodGone proven", "reservation 10.1.0.2": "Stale PodGone proven",
			"10.1.0.0-24 10.1.0.3": "Stale SandboxStopped proven", "reservation 10.1.0.3": "Stale SandboxStopped proven",
			"10.1.0.0-24 10.1.0.4": "Stale PodReplaced proven", "reservation 10.1.0.4": "Stale PodReplaced proven",
		})
		s.checkReleased(t, before, slices.Concat(entryAndReservation(2), entryAndReservation(3), entryAndReservation(4))...)

		// The first pod has the same address in another sandbox, and others can get the released addresses.
		again := pods[0].spec()
		again.Attempt++
		id, place := try(n.RunPod(t.Context(), again)).must(t), entryAndReservation(1)
		n.sees(t, id, "Ready")
		now := s.contents(t)
		equal(t, "the entry", now[place[0]], strings.Replace(before[place[0]], pods[0].id, id, 1))
		equal(t, "the reservation", now[place[1]], before[place[1]])
		equal(t, "the pod's networks", len(pods[0].read(t).Annotations[statusAnnotation]) > 0, true)
		other := n.up(t, "other", blue)
		n.sees(t, other.id, "Ready")
		out = s.judges(t, slices.Concat(of(1, "InUse SandboxReady"), of(2, "InUse SandboxReady"))...)
		equal(t, "allocations", out.Summary.Allocations, 2)
		for ip, namespaces := range try(n.OnWire()).must(t) {
			equal(t, "network namespaces with "+ip.String(), len(namespaces), 1)
		}
		for ip, want := range map[string]bool{"10.1.0.1": true, "10.1.0.2": true, "10.1.0.3": false, "10.1.0.4": false} {
			n.answers(t, ip, want)
		}
	})
}

// silent makes the last renewal of a node's Lease older; its agent does not run.
func (s *stage) silent(t testing.TB, node string, by time.Duration) {
	t.Helper()
	rewrite(t, s, "/registry/leases/"+harness.LeaseNamespace+"/"+node, func(o metav1.Object) {
		fields := o.GetManagedFields()
		for i := range fields {
			earlier := metav1.NewTime(fields[i].Time.Add(-by))
			fields[i].Time = &earlier
		}
		o.SetManagedFields(fields)
	})
	// The API server observes such a write a moment later.
	eventually(t, "the API server to see the older Lease",
		func() bool { return time.Since(podstate.LeaseRenewTime(s.leaseOf(t, node))) > by })
}

// hasReported makes a node's report older, by the API server's clock.
func (s *stage) hasReported(t testing.TB, node string, since time.Duration) {
	t.Helper()
	key, stored := "/registry/ip-reconcile.dev/sandboxreports/"+node, &unstructured.Unstructured{}
	check(t, stored.UnmarshalJSON(s.etcdGet(t, key)))
	stored.SetCreationTimestamp(metav1.NewTime(stored.GetCreationTimestamp().Add(-since)))
	s.etcdPut(t, key, try(stored.MarshalJSON()).must(t))
	eventually(t, "the API server to see the older report",
		func() bool { return time.Since(s.report(t, node).CreationTimestamp.Time) >= since })
}

// TestRuntime_ThickMultus starts pods by the daemon of Multus. Its build takes minutes: `make test-runtimes` runs it.
func TestRuntime_ThickMultus(t *testing.T) {
	if !harness.OtherRuntimes() {
		t.Skip("only `make test-runtimes` runs it")
	}
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		log := try(n.UseThickMultus(t.Context())).must(t)
		check(t, s.CreateNAD(t.Context(), blue))
		live, lost := n.up(t, "live", blue), n.up(t, "lost", blue)
		for _, p := range []*livePod{live, lost} {
			contains(t, "the log of the daemon", string(try(os.ReadFile(log)).must(t)),
				`ADD starting CNI request ContainerID:"`+p.id)
		}
		r := n.sees(t, live.id, "Ready")
		for _, b := range r.Sandboxes {
			equal(t, "addresses that the report has of "+b.Name, len(b.Addresses), 1)
		}
		before := s.contents(t)
		equal(t, "its entry", before["10.1.0.0-24 1"], written(live, "net1", "default/live"))
		s.judges(t, append(of(1, "InUse SandboxReady"), of(2, "InUse SandboxReady")...)...)

		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), lost.id))
		check(t, n.LoseDELs(false))
		lost.forget(t)
		n.sees(t, lost.id, "Stopped")
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, entryAndReservation(2)...)

		n.agent.stop(t)
		s.removeCRD(t, sandboxReports) // so that only the network-status speaks for the pod
		s.judges(t, of(1, "InUse AddressOnPod")...)
		check(t, n.StopPod(t.Context(), live.id))
		equal(t, "entries and reservations after DEL", len(s.contents(t)), 0)
		equal(t, "DELs by the daemon", strings.Count(string(try(os.ReadFile(log)).must(t)), "DEL starting CNI request") >= 2,
			true)
	})
}
