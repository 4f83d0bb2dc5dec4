package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// Each kind of restore is noted on the Lease, once, by a nonce that stays until the next restore: who reads it knows
// whether he has answered it, so that it does not expire.
func TestStore_DetectsRestore(t *testing.T) {
	publish := func(a *agent.APIStore, ctx context.Context) error { return a.Publish(ctx, reportOf("c")) }
	for name, c := range map[string]struct {
		before bool // the backup is older than the agent's first write
		shows  func(*agent.APIStore, context.Context) error
	}{
		"by a report that conflicts":  {false, publish},
		"by a Lease that conflicts":   {false, (*agent.APIStore).Renew},
		"by a report that is missing": {true, publish},
		"by a Lease that is missing":  {true, (*agent.APIStore).Renew},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			a := s.newStore()
			restore := s.backup()
			s.must(a.Publish(t.Context(), reportOf("a")))
			if !c.before {
				restore = s.backup()
			}
			for range 3 {
				s.must(a.Renew(t.Context()))
			}
			s.must(a.Publish(t.Context(), reportOf("b")))
			s.expectNoRestoreNote()
			restore()
			s.expectRestore(c.shows(a, t.Context()))
			// The report and the Lease may each show the restore once.
			if err := a.Publish(t.Context(), reportOf("c")); err != nil {
				s.expectRestore(err)
				s.must(a.Publish(t.Context(), reportOf("c")))
			}
			s.expectConfirmed(reportOf("c"))
			noted := s.nonce()
			s.clock = s.clock.Add(365 * 24 * time.Hour)
			s.must(a.Renew(t.Context()))
			s.must(a.Publish(t.Context(), reportOf("d")))
			equal(t, "noted a year later", s.nonce(), noted)
			// An agent that starts now keeps the nonce.
			s.must(s.newStore().Publish(t.Context(), reportOf("e")))
			equal(t, "noted by the next agent", s.nonce(), noted)
		})
	}
}

// The first write after a restore may succeed if the backup has the version that it replaces. The other object then
// shows the restore.
func TestStore_RestoreShownByTheOtherObject(t *testing.T) {
	s, a := newPublished(t)
	s.loseRenewal(a)
	s.expectRestore(a.Publish(t.Context(), reportOf("b")))
	s.must(a.Publish(t.Context(), reportOf("c")))
	s.nonce()
	s.expectConfirmed(reportOf("c"))
}

// Two restores have two nonces, however soon one follows the other, and whatever the clock says.
func TestStore_EachRestoreHasItsNonce(t *testing.T) {
	s, a := newPublished(t)
	drawn := map[string]bool{}
	for range 3 {
		s.loseRenewal(a)
		s.expectRestore(a.Renew(t.Context()))
		s.must(a.Publish(t.Context(), reportOf("a")))
		drawn[s.nonce()] = true
	}
	equal(t, "nonces", len(drawn), 3)
}

// An earlier version has dated the restore, on the report and on the Lease. The date is the Lease's nonce until the
// next restore, so that the upgrade of an agent shows none.
func TestStore_DateOfAnEarlierVersion(t *testing.T) {
	const dated = "2026-11-20T10:00:00Z"
	for name, on := range map[string][]fakeapi.Key{"on both": {reportKey, leaseKey}, "on the report": {reportKey}} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			s.must(s.newStore().Publish(t.Context(), reportOf("a")))
			for _, k := range on {
				s.edit(k, func(o map[string]any) { annotate(o, v1alpha1.RestoreAnnotation, dated) })
			}
			s.must(s.newStore().Publish(t.Context(), reportOf("b")))
			equal(t, "noted", s.nonce(), dated)
		})
	}
}

// After a restore so many writes may follow that the resourceVersion exceeds the old one. The Lease's time still
// shows the restore.
func TestStore_OlderLeaseIsRestore(t *testing.T) {
	s, a := newPublished(t)
	s.loseRenewal(a)
	// The Lease is older, but its resourceVersion is not.
	s.api.Revision, s.clock = s.api.Revision+100, s.clock.Add(-5*time.Minute)
	s.edit(leaseKey, func(o map[string]any) { o["metadata"].(map[string]any)["labels"] = map[string]any{"team": "blue"} })
	s.expectRestore(a.Renew(t.Context()))
	s.must(a.Publish(t.Context(), reportOf("a")))
	s.expectConfirmed(reportOf("a"))
}

// A write that is refused, or whose answer is lost, is made again. It is no restore of etcd.
func TestStore_FailedWriteIsNoRestore(t *testing.T) {
	for _, what := range []string{"PUT sandboxreports", "PUT leases", "POST sandboxreports", "POST leases"} {
		for how, c := range map[string]struct {
			fail func(s *apiServer)
			next *v1alpha1.SandboxReport
			says string // by the error
		}{
			"refused with 403": {func(s *apiServer) { s.fail[what] = 403 }, reportOf("b"), "refused"},
			"refused with 500": {func(s *apiServer) { s.fail[what] = 500 }, reportOf("b"), "refused"},
			"answer lost":      {func(s *apiServer) { s.loseAnswer[what] = true }, reportOf("b", "c"), ""},
		} {
			t.Run(what+" "+how, func(t *testing.T) {
				s := newAPIServer(t)
				a := s.newStore()
				if strings.HasPrefix(what, "PUT") {
					s.must(a.Publish(t.Context(), reportOf("a")))
				}
				c.fail(s)
				err := a.Publish(t.Context(), reportOf("b"))
				if err == nil || errors.As(err, new(*agent.RestoreError)) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v", err)
				}
				delete(s.fail, what)
				s.must(a.Publish(t.Context(), c.next))
				s.expectConfirmed(c.next)
				s.expectNoRestoreNote()
			})
		}
	}
}

// The Lease must not confirm a report that was not written.
func TestStore_RenewConfirmsStoredReport(t *testing.T) {
	s, a := newPublished(t)
	s.fail["PUT sandboxreports"] = 500
	if a.Publish(t.Context(), reportOf("b")) == nil {
		t.Error("no error")
	}
	s.must(a.Renew(t.Context()))
	s.expectConfirmed(reportOf("a"))
}

// Somebody annotates or labels an object and removes that later. The entry of these fields in managedFields goes then,
// so that the newest time of all entries runs backwards.
func TestStore_RemovedAnnotationIsNoRestore(t *testing.T) {
	for name, k := range map[string]fakeapi.Key{"report": reportKey, "Lease": leaseKey} {
		for _, what := range []string{"annotations", "labels"} {
			t.Run(name+" "+what, func(t *testing.T) {
				s, a := newPublished(t)
				meta := func(o map[string]any) map[string]any { return o["metadata"].(map[string]any) }
				s.edit(k, func(o map[string]any) {
					all, _ := meta(o)[what].(map[string]any)
					if all == nil {
						all = map[string]any{}
						meta(o)[what] = all
					}
					all["note"] = "x"
				})
				s.must(a.Publish(t.Context(), reportOf("a")))
				for range 3 {
					s.must(a.Renew(t.Context()))
				}
				s.edit(k, func(o map[string]any) { delete(meta(o)[what].(map[string]any), "note") })
				s.must(a.Publish(t.Context(), reportOf("a")))
				s.must(a.Renew(t.Context()))
				s.expectConfirmed(reportOf("a"))
			})
		}
	}
}

// The renewTime is from the node's clock, which may be set back. Only the API server's time counts.
func TestStore_ClockSetBackIsNoRestore(t *testing.T) {
	s, a := newPublished(t)
	a.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	s.loseAnswer["PUT leases"] = true
	if a.Renew(t.Context()) == nil {
		t.Error("no error")
	}
	s.must(a.Renew(t.Context()))
	s.expectNoRestoreNote()
}

func TestStore_LimitsConflicts(t *testing.T) {
	s, a := newPublished(t)
	s.requests = nil
	s.fail = map[string]int{"PUT sandboxreports": 409, "PUT leases": 409}
	if a.Publish(t.Context(), reportOf("b")) == nil || a.Renew(t.Context()) == nil {
		t.Error("no error")
	}
	if len(s.requests) > 12 {
		t.Errorf("%d requests: %v", len(s.requests), s.requests)
	}
}

func TestNodeIdentity(t *testing.T) {
	s := newAPIServer(t)
	store := s.newStore()
	s.api.Put(fakeapi.At(fakeapi.Nodes, "", "worker-1"), fakeapi.Decode([]byte(`{"apiVersion":"v1","kind":"Node",`+
		`"status":{"nodeInfo":{"bootID":"boot-1","systemUUID":"uuid-1","machineID":"machine-1"}}}`)), noon, "kubelet")
	want := agent.Identity{BootID: "boot-1", Machine: v1alpha1.Machine{SystemUUID: "uuid-1", MachineID: "machine-1"}}
	if id, err := store.NodeIdentity(t.Context()); err != nil || id != want {
		t.Errorf("got %v, %v", id, err)
	}
	s.fail["GET nodes"] = 403
	if id, err := store.NodeIdentity(t.Context()); err == nil || id != (agent.Identity{}) {
		t.Errorf("refused: got %v, %v", id, err)
	}
}

// k3s elects its leader with a Lease named k3s in kube-system, and a node may have that name.
func TestStore_LeaseOfAnotherProgram(t *testing.T) {
	s := newAPIServer(t)
	before := s.api.Put(leaseKey, fakeapi.Decode([]byte(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",`+
		`"spec":{"holderIdentity":"another-program"}}`)), noon, "another")
	starting, err := agent.NewAPIStore(s.config, "worker-1", "own-ns")
	s.must(err)
	if _, err := starting.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "another-program") {
		t.Errorf("got %v", err)
	}
	s.api.Delete(leaseKey)
	a := s.newStore()
	s.api.Objects[leaseKey] = before // it appears while the agent starts
	if err := a.Publish(t.Context(), reportOf("a")); err == nil || !strings.Contains(err.Error(), "another-program") {
		t.Errorf("got %v", err)
	}
	equal(t, "the Lease", s.api.Get(leaseKey), before)
}

func TestStore_UndecodableReportIsOverwritten(t *testing.T) {
	s, a := newPublished(t)
	s.edit(reportKey, func(o map[string]any) { o["sandboxes"] = []any{map[string]any{"id": "x", "attempt": -1}} })
	s.must(a.Publish(t.Context(), reportOf("a")))
	s.expectConfirmed(reportOf("a"))
	s.edit(reportKey, func(o map[string]any) { o["sandboxes"] = "none" })
	s.must(s.newStore().Publish(t.Context(), reportOf("a"))) // an agent that starts
	s.expectConfirmed(reportOf("a"))
}

// Of two API servers behind one address, the clock of one is two seconds ahead. The other receives a write whose
// answer is lost.
func TestStore_TwoClocksAreNoRestore(t *testing.T) {
	s, a := newPublished(t)
	s.clock = s.clock.Add(-2*time.Minute - 2*time.Second) // the next write is 2 s before the last by its own clock
	s.loseAnswer["PUT sandboxreports"] = true
	if err := a.Publish(t.Context(), reportOf("b")); err == nil {
		t.Fatal("no answer was lost")
	}
	s.must(a.Publish(t.Context(), reportOf("b")))
	s.expectNoRestoreNote() // resourceVersions only rose
}

// Helm never upgrades a CustomResourceDefinition. A report that is changed on its way matches no Lease.
func TestStore_PartlyStoredReportIsNotConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		refuses, drops string
		want           []string
	}{
		"an older CustomResourceDefinition": {refuses: "machine", want: []string{`unknown field "machine"`,
			"sandboxreports.ip-reconcile.dev", "deploy/crds"}},
		"something that drops a field": {drops: "machine", want: []string{"stored a changed SandboxReport"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			s.unknownField, s.dropField = c.refuses, c.drops
			a := s.newStore()
			s.must(a.Publish(t.Context(), reportOf("a"))) // without new fields
			before := s.api.Get(leaseKey)
			full := reportOf("a", "b")
			full.Machine = v1alpha1.Machine{SystemUUID: "uuid-1", MachineID: "machine-1"}
			for range 3 {
				err := a.Publish(t.Context(), full)
				for _, want := range c.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%v lacks %q", err, want)
					}
				}
				equal(t, "the Lease", s.api.Get(leaseKey), before)
			}
			s.unknownField, s.dropField = "", ""
			s.must(a.Publish(t.Context(), full))
			s.expectConfirmed(full)
		})
	}
}
