//go:build slow

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestRuntime_ContainerdForgetsItsPods(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		check(t, s.CreateNAD(t.Context(), blue))
		web, phantom := n.up(t, "web", blue), n.up(t, "phantom", blue)
		var ends []func()
		for _, p := range []*livePod{web, phantom} {
			n.sees(t, p.id, "Ready")
			ends = append(ends, n.end(t, p.id))
		}
		phantom.forget(t)

		n.Kill()
		check(t, n.LoseState())
		check(t, n.Start(t.Context()))
		equal(t, "sandboxes", len(try(n.Sandboxes(t.Context())).must(t)), 0)
		n.sees(t, web.id, "Attached")
		for _, a := range n.sees(t, phantom.id, "Attached").Attachments {
			// From the cache of Multus; containerd's has both, but without these addresses.
			p, ip := web, "10.1.0.1"
			if a.ID == phantom.id {
				p, ip = phantom, "10.1.0.2"
			}
			equal(t, "whose it is", a.Namespace+"/"+a.Name+" "+a.UID, "default/"+p.Name+" "+string(p.UID))
			equal(t, "addresses", a.Addresses, []v1alpha1.Address{{IP: ip, IfName: "net1", Network: "blue",
				Range: "10.1.0.0/24"}})
			equal(t, "its network is open", a.NetworkClosed != nil && !*a.NetworkClosed, true)
		}
		before := s.contents(t)
		attached := func(webs string) {
			t.Helper()
			out := s.judges(t, of(1, webs)...)
			out.expect(t, of(2, "Held Attached")...)
			s.checkReleased(t, before)
		}
		attached("InUse AddressOnPod")
		web.forget(t)
		attached("Held Attached")
		n.answers(t, "10.1.0.1", true)
		n.answers(t, "10.1.0.2", true)

		// A namespace that is missing in the folder proves nothing until the agent knows that the folder is the right one.
		n.agent.stop(t)
		n.startAgent(t)
		ends[1]()
		n.answers(t, "10.1.0.2", false)
		n.waitNetwork(t, phantom.id, nil)
		attached("Held Attached")
		// The namespace of a running sandbox confirms the folder.
		next := n.up(t, "next", blue)
		closed := true
		n.waitNetwork(t, phantom.id, &closed)
		before = s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		equal(t, "released", places(out.Released), "10.1.0.0-24 10.1.0.2, reservation 10.1.0.2")
		for _, freed := range out.Released {
			equal(t, "verdict", freed.verdict(), "Stale PodGone")
		}
		s.checkReleased(t, before, entryAndReservation(2)...)
		out.expect(t, of(1, "Held Attached")...)
		out.expect(t, of(3, "InUse SandboxReady")...)
		n.answers(t, "10.1.0.1", true)
		n.answers(t, "10.1.0.3", true)

		ends[0]()
		n.waitNetwork(t, web.id, &closed)
		n.sees(t, next.id, "Ready")
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, slices.Concat(entryAndReservation(1), entryAndReservation(2))...)
	})
}

func TestRuntime_DeadContainerdHasNoFreshReport(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		health := n.serving(t)
		check(t, s.CreateNAD(t.Context(), blue))
		web, phantom, leaving, stopping := n.up(t, "web", blue), n.up(t, "phantom", blue), n.up(t, "leaving", blue),
			n.up(t, "stopping", blue)
		phantom.forget(t)
		check(t, s.DeletePod(t.Context(), leaving.Pod, 600))
		for _, p := range []*livePod{web, phantom, leaving, stopping} {
			n.sees(t, p.id, "Ready")
		}
		health.turns(t, http.StatusOK)
		before, report, end := s.contents(t), s.report(t, "worker-1"), n.end(t, stopping.id)
		n.Kill()
		end()
		stopping.forget(t)
		health.turns(t, http.StatusInternalServerError, "cannot inspect the node", harness.Socket)
		lease := s.leaseOf(t, "worker-1")
		failed := health.failedLooks()
		if failed == 0 {
			t.Error("no pass has failed")
		}

		// The Lease confirms it for a minute, by the API server's clock.
		for until := podstate.LeaseRenewTime(lease).Add(61 * time.Second); time.Now().Before(until); {
			time.Sleep(time.Until(until))
		}
		eventuallyWithin(t, 3*time.Minute, "ten more passes to fail", func() bool {
			return health.failedLooks() >= failed+10
		})
		equal(t, "the Lease", s.leaseOf(t, "worker-1").ResourceVersion, lease.ResourceVersion)
		equal(t, "the report", s.report(t, "worker-1").ResourceVersion, report.ResourceVersion)
		unheard := func(why string) {
			t.Helper()
			out := s.judges(t, of(1, "InUse AddressOnPod")...)
			for _, i := range []int{2, 3, 4} {
				out.expect(t, of(i, why)...)
			}
			s.checkReleased(t, before)
			if silent := out.found("NoFreshReport"); len(silent) != 1 || silent[0].Node != "worker-1" {
				t.Errorf("the silent nodes are %+v", silent)
			}
		}
		unheard("Held NoFreshReport")
		check(t, s.nodes["worker-1"].SetReady(t.Context(), false))
		unheard("Held NodeUnreachable")
		check(t, s.nodes["worker-1"].SetReady(t.Context(), true))
		health.turns(t, http.StatusInternalServerError, "cannot inspect the node", harness.Socket)

		check(t, n.Start(t.Context()))
		health.turns(t, http.StatusOK)
		n.sees(t, stopping.id, "Stopped")
		out := s.judges(t, of(1, "InUse SandboxReady")...)
		out.expect(t, of(2, "Held PhantomPod")...)
		out.expect(t, of(3, "Held Terminating")...)
		s.checkReleased(t, before, entryAndReservation(4)...)
		equal(t, "silent nodes", len(out.found("NoFreshReport")), 0)
		for ip, want := range map[string]bool{"10.1.0.1": true, "10.1.0.2": true, "10.1.0.3": true, "10.1.0.4": false} {
			n.answers(t, ip, want)
		}
	})
}

// of are pairs for expect: a verdict on the allocation and the reservation of an address in 10.1.0.0/24.
func of(i int, verdict string) []string {
	return []string{fmt.Sprint("10.1.0.0-24 10.1.0.", i), verdict, fmt.Sprint("reservation 10.1.0.", i), verdict}
}

// end returns a function that ends a sandbox behind containerd's back: its process and its network namespace. Call end
// while containerd knows them.
func (n *realNode) end(t testing.TB, id string) func() {
	t.Helper()
	pid, netNS := try(n.Info(t.Context(), id)).must(t).PID, try(n.NetNS(t.Context(), id)).must(t)
	return func() {
		t.Helper()
		n.onNode(t, fmt.Sprint("kill -9 ", pid))
		n.removeNetNS(t, netNS)
	}
}

// removeNetNS removes a network namespace by its name, as containerd does. The namespace ends when nothing else holds
// it.
func (n *realNode) removeNetNS(t testing.TB, netNS string) {
	t.Helper()
	n.onNode(t, "umount -l "+netNS+" && rm "+netNS)
}

func (n *realNode) onNode(t testing.TB, script string) {
	t.Helper()
	if out, err := n.Command(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// waitNetwork waits until the report has this state of an attachment's network.
func (n *realNode) waitNetwork(t testing.TB, id string, closed *bool) {
	t.Helper()
	n.s.reported(t, n.name, id[:12]+" as attached, its network as it is", func(r *v1alpha1.SandboxReport) bool {
		return slices.ContainsFunc(r.Attachments, func(a v1alpha1.Attachment) bool {
			return a.ID == id && (a.NetworkClosed == nil) == (closed == nil) &&
				podstate.IsClosed(a.NetworkClosed) == podstate.IsClosed(closed)
		})
	})
	n.s.fresh(t, n.name)
}

// renews waits until the node's agent renews its Lease: its report is fresh for a minute from now.
func (n *realNode) renews(t testing.TB) {
	t.Helper()
	before := n.s.leaseOf(t, n.name).ResourceVersion
	eventually(t, "the agent of "+n.name+" to renew its Lease", func() bool {
		return n.s.leaseOf(t, n.name).ResourceVersion != before
	})
}

func (s *stage) leaseOf(t testing.TB, node string) *coordinationv1.Lease {
	t.Helper()
	return try(s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), node,
		metav1.GetOptions{})).must(t)
}

// A health is the URL of an agent's readiness.
type health string

// serving starts the agent again, with a port that is known.
func (n *realNode) serving(t testing.TB, more ...string) health {
	t.Helper()
	if n.agent.cmd.ProcessState == nil {
		n.agent.stop(t)
	}
	h := health(freeAddress(t))
	n.startAgent(t, append(more, "--metrics-bind-address", string(h))...)
	return h
}

// turns waits until /readyz answers with this status and text.
func (h health) turns(t testing.TB, status int, says ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("/readyz to answer %d and %q", status, says), func() bool {
		resp, err := http.Get("http://" + string(h) + "/readyz")
		if err != nil {
			return false // it does not listen yet
		}
		defer resp.Body.Close()
		text := string(try(io.ReadAll(resp.Body)).must(t))
		return resp.StatusCode == status && !slices.ContainsFunc(says, func(s string) bool {
			return !strings.Contains(text, s)
		})
	})
}

func (h health) failedLooks() float64 {
	return (&server{metrics: string(h)}).metric(`ip_reconcile_agent_inspections_total{result="failed"}`)
}
