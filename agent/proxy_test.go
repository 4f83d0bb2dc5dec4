package agent_test

import (
	"net/http"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// A 404 that is not the API server's (as kube.TestAnswer_404OfAProxy has it) is no proof that no earlier report
// exists. An agent that believed it would overwrite what only that report knows: what is gone, which sandboxes run
// although no runtime lists them, and the nonce of a restore.
func TestLoad_404OfAProxy(t *testing.T) {
	for _, what := range []string{"GET sandboxreports", "GET leases"} {
		t.Run(what, func(t *testing.T) {
			s, _ := newPublished(t)
			s.api.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
				if kindOf(q) == what {
					return &fakeapi.Answer{Status: http.StatusNotFound, Body: []byte("<html>404 Not Found</html>\n")}
				}
				return s.instead(q)
			}
			next, err := agent.NewAPIStore(s.config, "worker-1", "own-ns")
			s.must(err)
			if before, err := next.Load(t.Context()); err == nil {
				t.Errorf("Load took the page of a proxy for an answer: %v", before)
			}
		})
	}
}
