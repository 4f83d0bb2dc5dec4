package agent_test

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// A 404 that is not the API server's (as kube.TestAnswer_404OfAProxy has it) is no proof that no earlier report
// exists. Otherwise an agent that starts forgets what only that report knows, and then overwrites it: here the nonce of
// a restore that no process has answered yet, and what is gone.
func TestLoad_404OfAProxy(t *testing.T) {
	for _, what := range []string{"GET sandboxreports", "GET leases"} {
		t.Run(what, func(t *testing.T) {
			s := newAPIServer(t)
			a := s.newStore()
			r := reportOf("a")
			r.Gone = []v1alpha1.Gone{{ID: id("9f"), UID: "u", Since: metav1.NewTime(noon)}}
			s.must(a.Publish(t.Context(), r))
			restore := s.backup()
			s.must(a.Renew(t.Context()))
			restore()
			s.expectRestore(a.Renew(t.Context()))
			s.must(a.Publish(t.Context(), r))
			noted := s.nonce()

			page := 1
			s.api.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
				if kindOf(q) == what && page > 0 {
					page--
					return &fakeapi.Answer{Status: http.StatusNotFound, Body: []byte("<html>404 Not Found</html>\n")}
				}
				return s.instead(q)
			}
			next, err := agent.NewAPIStore(s.config, "worker-1", "own-ns")
			s.must(err)
			before, err := next.Load(t.Context())
			if err != nil {
				return // it is tried again, as any failure
			}
			t.Errorf("Load took the page of a proxy for an answer: %v", before)
			if before == nil {
				before = &v1alpha1.SandboxReport{}
			}
			s.must(next.Publish(t.Context(), agent.NextReport(before, inspection(time.Minute, sandbox("a")))))
			equal(t, "nonce that no process has answered yet", s.lease().Annotations[v1alpha1.RestoreAnnotation], noted)
			equal(t, "ids that are gone", goneIDs(s.report()), id("9f"))
		})
	}
}

// The runtime has lost its state, and somebody has emptied the CNI caches
// (TestInspect_UnlistedIsGoneOnlyWithItsNetwork). The earlier report is all that knows of the sandbox, which runs. An
// agent for which it does not exist reports freshly, and of this node, that nothing has the id: Absent.
func TestLoad_404OfAProxyForgetsNoSandbox(t *testing.T) {
	s := newAPIServer(t)
	n := newNode(t, critest.Containerd)
	lost, other := web("1a"), web("2b")
	lost.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
	n.setSandboxes(lost, other)
	first, err := n.Report(t.Context(), nil)
	s.must(err)
	first.Name = "worker-1"
	s.must(s.newStore().Publish(t.Context(), first))
	n.setSandboxes(other) // its network namespace remains

	page := 1
	s.api.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		if kindOf(q) == "GET sandboxreports" && page > 0 {
			page--
			return &fakeapi.Answer{Status: http.StatusNotFound, Body: []byte("<html>404 Not Found</html>\n")}
		}
		return s.instead(q)
	}
	store, err := agent.NewAPIStore(s.config, "worker-1", "own-ns")
	s.must(err)
	before, err := store.Load(t.Context())
	for err != nil { // as Agent.load
		before, err = store.Load(t.Context())
	}
	n.NodeInspector = n.newInspector() // the agent has started again
	last, err := n.Report(t.Context(), before)
	s.must(err)
	last.Name = "worker-1"
	s.must(store.Publish(t.Context(), last))
	equal(t, "what the report says of the sandbox that runs", stateInReport(s.report(), lost.ID), "open")
}
