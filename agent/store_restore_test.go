package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Every sign of a restore is noted on the report and on the Lease, dated to the
// last renewal that was answered before it.
func TestStore_DetectsRestore(t *testing.T) {
	for name, c := range map[string]struct {
		before bool // the backup is of before the agent's first write
		shows  func(*apiServer, *agent.APIStore) error
	}{
		"by a report that conflicts":  {false, func(s *apiServer, a *agent.APIStore) error { return a.Publish(s.Context(), aReport("c")) }},
		"by a Lease that conflicts":   {false, func(s *apiServer, a *agent.APIStore) error { return a.Renew(s.Context()) }},
		"by a report that is missing": {true, func(s *apiServer, a *agent.APIStore) error { return a.Publish(s.Context(), aReport("c")) }},
		"by a Lease that is missing":  {true, func(s *apiServer, a *agent.APIStore) error { return a.Renew(s.Context()) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			a := s.api()
			restore := s.backup()
			s.fine(a.Publish(t.Context(), aReport("a")))
			if !c.before {
				restore = s.backup()
			}
			for range 3 {
				s.fine(a.Renew(t.Context()))
			}
			s.fine(a.Publish(t.Context(), aReport("b")))
			last := podstate.LeaseRenewTime(s.lease())
			restore()
			s.restored(c.shows(s, a))
			// The report and the Lease may each show it, once.
			if err := a.Publish(t.Context(), aReport("c")); err != nil {
				s.restored(err)
				s.fine(a.Publish(t.Context(), aReport("c")))
			}
			s.confirmed(aReport("c"))
			for what, m := range map[string]metav1.ObjectMeta{"report": s.report().ObjectMeta, "Lease": s.lease().ObjectMeta} {
				equal(t, "noted on the "+what, m.Annotations[v1alpha1.RestoreAnnotation], last.UTC().Format(time.RFC3339))
			}
			s.fine(a.Renew(t.Context()))
			s.fine(a.Publish(t.Context(), aReport("d")))
			equal(t, "noted later", s.report().Annotations[v1alpha1.RestoreAnnotation], last.UTC().Format(time.RFC3339))
			// An agent that starts now keeps the note.
			s.fine(s.api().Publish(t.Context(), aReport("e")))
			equal(t, "noted by the next agent", s.report().Annotations[v1alpha1.RestoreAnnotation], last.UTC().Format(time.RFC3339))
		})
	}
}

// The first write after a restore may succeed without showing it: the backup has the
// very version that it replaces. Dated to that write, the restore would be later than
// what other agents have written since, and they have no cause to write again.
func TestStore_RestoreIsDatedToLostWrite(t *testing.T) {
	for name, c := range map[string]struct {
		lost, after func(*apiServer, *agent.APIStore) error // a write before the restore, and one after it
		shows       func(*apiServer, *agent.APIStore) error
	}{
		"a report whose Lease then shows it": {
			lost:  func(s *apiServer, a *agent.APIStore) error { return a.Renew(s.Context()) },
			shows: func(s *apiServer, a *agent.APIStore) error { return a.Publish(s.Context(), aReport("b")) }},
		"a Lease whose report then shows it": {
			lost: func(s *apiServer, a *agent.APIStore) error {
				s.fail["PUT leases"] = 500
				defer delete(s.fail, "PUT leases")
				if a.Publish(s.Context(), aReport("b")) == nil {
					s.Error("no error")
				}
				return nil
			},
			after: func(s *apiServer, a *agent.APIStore) error { return a.Renew(s.Context()) },
			shows: func(s *apiServer, a *agent.APIStore) error { return a.Publish(s.Context(), aReport("b")) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			a := s.api()
			s.fine(a.Publish(t.Context(), aReport("a")))
			restore := s.backup()
			s.fine(c.lost(s, a))
			lost := s.clock
			restore()
			s.clock = s.clock.Add(10 * time.Minute) // others write
			if c.after != nil {
				s.fine(c.after(s, a))
			}
			s.restored(c.shows(s, a))
			s.fine(a.Publish(t.Context(), aReport("c")))
			for what, m := range map[string]metav1.ObjectMeta{"report": s.report().ObjectMeta, "Lease": s.lease().ObjectMeta} {
				equal(t, "noted on the "+what, m.Annotations[v1alpha1.RestoreAnnotation], lost.UTC().Format(time.RFC3339))
			}
			s.confirmed(aReport("c"))
		})
	}
}

func TestStore_RestoreNoteExpires(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	s.fine(a.Publish(t.Context(), aReport("a")))
	restore := s.backup()
	s.fine(a.Renew(t.Context()))
	restore()
	s.restored(a.Publish(t.Context(), aReport("b")))
	s.fine(a.Publish(t.Context(), aReport("b")))
	noted := s.report().Annotations[v1alpha1.RestoreAnnotation]
	s.clock = s.clock.Add(23 * time.Hour)
	s.fine(a.Renew(t.Context()))
	equal(t, "outdated after 23 hours", a.IsRestoreNoteExpired(), false)
	s.clock = s.clock.Add(time.Hour)
	s.fine(a.Renew(t.Context()))
	equal(t, "outdated after a day", a.IsRestoreNoteExpired(), true)
	equal(t, "noted until it is written", s.report().Annotations[v1alpha1.RestoreAnnotation], noted)
	s.fine(a.Publish(t.Context(), aReport("b")))
	s.noRestoreNoted()
	equal(t, "outdated", a.IsRestoreNoteExpired(), false)
	s.fine(s.api().Publish(t.Context(), aReport("b"))) // nor by an agent that starts then
	s.noRestoreNoted()
}

// A note of the future would count for as long as that is to come.
func TestStore_FutureRestoreNote(t *testing.T) {
	s := newAPIServer(t)
	s.fine(s.api().Publish(t.Context(), aReport("a")))
	s.edit(reportPath, func(o map[string]any) {
		o["metadata"].(map[string]any)["annotations"] = map[string]any{v1alpha1.RestoreAnnotation: "2099-01-01T00:00:00Z"}
	})
	written := s.clock
	s.fine(s.api().Publish(t.Context(), aReport("b")))
	equal(t, "noted", s.report().Annotations[v1alpha1.RestoreAnnotation], written.UTC().Format(time.RFC3339))
}

// After a restore others may have written so much that the resourceVersion is
// beyond the old one: the Lease's own time tells.
func TestStore_OlderLeaseIsRestore(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	s.fine(a.Publish(t.Context(), aReport("a")))
	// A restore that bumps the revisions: the Lease is older, its resourceVersion is not.
	s.clock = s.clock.Add(-5 * time.Minute)
	s.edit(leasePath, func(map[string]any) {})
	s.restored(a.Renew(t.Context()))
	s.fine(a.Publish(t.Context(), aReport("a")))
	s.confirmed(aReport("a"))
}

func TestStore_RefusedWrites(t *testing.T) {
	for _, what := range []string{"PUT sandboxreports", "PUT leases", "POST sandboxreports", "POST leases"} {
		for _, code := range []int{403, 500} {
			t.Run(fmt.Sprint(what, " ", code), func(t *testing.T) {
				s := newAPIServer(t)
				a := s.api()
				if strings.HasPrefix(what, "PUT") {
					s.fine(a.Publish(t.Context(), aReport("a")))
				}
				s.fail[what] = code
				err := a.Publish(t.Context(), aReport("b"))
				if err == nil || errors.As(err, new(*agent.RestoreError)) || !strings.Contains(err.Error(), "refused") {
					t.Errorf("got %v", err)
				}
				s.fail = map[string]int{}
				s.fine(a.Publish(t.Context(), aReport("b")))
				s.confirmed(aReport("b"))
				s.noRestoreNoted()
			})
		}
	}
}

// The Lease must not confirm a report that was not written.
func TestStore_RenewConfirmsStoredReport(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	s.fine(a.Publish(t.Context(), aReport("a")))
	s.fail["PUT sandboxreports"] = 500
	if a.Publish(t.Context(), aReport("b")) == nil {
		t.Error("no error")
	}
	s.fine(a.Renew(t.Context()))
	s.confirmed(aReport("a"))
}

func TestStore_LostAnswerIsNoRestore(t *testing.T) {
	for _, what := range []string{"PUT sandboxreports", "PUT leases", "POST sandboxreports", "POST leases"} {
		t.Run(what, func(t *testing.T) {
			s := newAPIServer(t)
			a := s.api()
			if strings.HasPrefix(what, "PUT") {
				s.fine(a.Publish(t.Context(), aReport("a")))
			}
			s.cut[what] = true
			if err := a.Publish(t.Context(), aReport("b")); err == nil || errors.As(err, new(*agent.RestoreError)) {
				t.Errorf("got %v", err)
			}
			s.fine(a.Publish(t.Context(), aReport("b", "c")))
			s.confirmed(aReport("b", "c"))
			s.noRestoreNoted()
		})
	}
}

// The Lease's renewTime is the node's clock, which may be set back between two
// renewals; only the API server's time tells.
func TestStore_ClockSetBackIsNoRestore(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	s.fine(a.Publish(t.Context(), aReport("a")))
	a.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	s.cut["PUT leases"] = true
	if a.Renew(t.Context()) == nil {
		t.Error("no error")
	}
	s.fine(a.Renew(t.Context()))
	s.noRestoreNoted()
}

func TestStore_LimitsConflicts(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	s.fine(a.Publish(t.Context(), aReport("a")))
	s.asked = nil
	s.fail["PUT sandboxreports"] = 409
	s.fail["PUT leases"] = 409
	if a.Publish(t.Context(), aReport("b")) == nil || a.Renew(t.Context()) == nil {
		t.Error("no error")
	}
	if len(s.asked) > 12 {
		t.Errorf("%d requests: %v", len(s.asked), s.asked)
	}
}

func TestNodeIdentity(t *testing.T) {
	s := newAPIServer(t)
	s.objects["/api/v1/nodes/worker-1"] = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"worker-1"},"status":{"nodeInfo":{"bootID":"boot-1","systemUUID":"uuid-1","machineID":"machine-1"}}}`
	want := agent.Identity{BootID: "boot-1", Machine: v1alpha1.Machine{SystemUUID: "uuid-1", MachineID: "machine-1"}}
	if id, err := agent.NodeIdentity(t.Context(), s.config, "worker-1"); err != nil || id != want {
		t.Errorf("got %v, %v", id, err)
	}
	s.fail["GET nodes"] = 403
	if id, err := agent.NodeIdentity(t.Context(), s.config, "worker-1"); err == nil || id != (agent.Identity{}) {
		t.Errorf("refused: got %v, %v", id, err)
	}
}

// k3s elects its leader with a Lease named k3s in kube-system: a node of that name
// must not break it.
func TestStore_LeaseOfAnotherProgram(t *testing.T) {
	s := newAPIServer(t)
	foreign := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"worker-1"},"spec":{"holderIdentity":"another-program"}}`
	s.put(leasePath, foreign)
	before := s.objects[leasePath]
	starting, err := agent.NewAPIStore(s.config, "worker-1", "own-ns")
	s.fine(err)
	if _, err := starting.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "another-program") {
		t.Errorf("got %v", err)
	}
	delete(s.objects, leasePath)
	a := s.api()
	s.objects[leasePath] = before // it comes while the agent starts
	if err := a.Publish(t.Context(), aReport("a")); err == nil || !strings.Contains(err.Error(), "another-program") {
		t.Errorf("got %v", err)
	}
	equal(t, "the Lease", s.objects[leasePath], before)
}

func TestStore_UndecodableReportIsOverwritten(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	s.fine(a.Publish(t.Context(), aReport("a")))
	s.edit(reportPath, func(o map[string]any) { o["sandboxes"] = []any{map[string]any{"id": "x", "attempt": -1}} })
	s.fine(a.Publish(t.Context(), aReport("a")))
	s.confirmed(aReport("a"))
	s.edit(reportPath, func(o map[string]any) { o["sandboxes"] = "none" })
	s.fine(s.api().Publish(t.Context(), aReport("a"))) // an agent that starts
	s.confirmed(aReport("a"))
}

// Two API servers behind one address, of which the clock of one is two seconds ahead. A
// write arrives at the other, and its answer is lost.
func TestStore_TwoClocksAreNoRestore(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	s.fine(a.Publish(t.Context(), aReport("a")))
	s.mu.Lock()
	s.clock = s.clock.Add(-2*time.Minute - 2*time.Second) // the next write is 2 s before the last by its own clock
	s.cut["PUT sandboxreports"] = true
	s.mu.Unlock()
	if err := a.Publish(t.Context(), aReport("b")); err == nil {
		t.Fatal("no answer was lost")
	}
	s.fine(a.Publish(t.Context(), aReport("b")))
	if note, there := s.lease().Annotations[v1alpha1.RestoreAnnotation]; there {
		t.Errorf("nothing was restored, and resourceVersions only rose: noted %s", note)
	}
}
