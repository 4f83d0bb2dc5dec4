package reconciler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

func TestRepairHoldsNoLeaseForAPausedPool(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.entry(bluePool, 1, "default/web", "box-1", false)
		s.pod("web", "u", 1)
		s.pools[bluePool].SetAnnotations(map[string]string{ippool.PausedAnnotation: "true"})
		time.Sleep(5 * time.Minute)
		r := s.reconciler(t)
		r.Options.Repair = true
		began := time.Now()
		for range 5 {
			if _, _, err := r.Pass(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		same(t, "calls", s.made("hold", "create", "patch"), []string{})
		same(t, "it took", time.Since(began), 5*time.Minute)
	})
}

// One busy Lease must not keep the loop from everything else.
func TestRepairDoesNotWaitForABusyLeaseAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		s.entry(bluePool, 1, "default/web", "box-1", false)
		s.pod("web", "u", 1)
		time.Sleep(5 * time.Minute)
		s.fault = func(call, _ string) (error, bool) {
			if call == "hold" {
				return reconciler.ErrLeaseBusy, false
			}
			return nil, false
		}
		r := s.reconciler(t)
		r.Options.Repair = true
		for range 2 {
			if _, _, err := r.Pass(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		same(t, "holds", fmt.Sprint(s.made("hold")), "[hold [whereabouts]]")
	})
}

// A thousand of either kind: holds and patches are counted, not findings.
func TestRepairWritesManyUnderOneHold(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aNetwork()
		const n = 300
		report := &v1alpha1.SandboxReport{}
		report.Name = "worker-1"
		for i := 1; i <= n; i++ { // entries without a reservation, and sandboxes without an entry
			name, id := fmt.Sprint("web-", i), fmt.Sprint("box-", i)
			s.entry(bluePool, i, "default/"+name, id, false)
			s.pod(name, "u", i)
			report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: "lost-" + id, Namespace: "default", Name: "lost-" + name, UID: "u", State: v1alpha1.SandboxReady,
				Addresses: []v1alpha1.Address{{IP: addressOf(n + i).String(), IfName: "net1", Network: "wb", Range: "10.0.0.0/16"}}})
			report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: id, Namespace: "default", Name: name, UID: "u", State: v1alpha1.SandboxReady})
		}
		time.Sleep(5 * time.Minute)
		s.step = func(string, string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			report.ObservedAt.Time = time.Now()
			s.reports = []*podstate.Report{{SandboxReport: report, Renewed: time.Now(), LeaseRenewed: time.Now(), Written: time.Now()}}
		}
		r := s.reconciler(nil)
		r.Options.Repair, r.Options.AllowMassRepair = true, true // one node does not have so many
		out, _ := run(t, r)
		same(t, "not repaired", len(out.Unrepaired), 0)
		same(t, "entries and reservations written", len(out.Repaired), 3*n)
		same(t, "left", out.ToRepair, 0)
		same(t, "entries", len(entriesOf(s.pools[bluePool])), 2*n)
		same(t, "reservations", len(s.reservations), 2*n)
		same(t, "holds and patches", len(s.made("hold", "patch")), 2)
	})
}
