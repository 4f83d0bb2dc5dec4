package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// A killer is a proxy that kills the product with SIGKILL at one of its writes.
type killer struct {
	at   func(writes []string) bool // whether this write is the one; the argument has all writes so far
	done bool                       // after the API server performed it; the answer is dropped

	victim *command
	begun  chan struct{} // closed when there is a victim
	dead   chan struct{} // closed when it has ended

	mu      sync.Mutex
	writes  []string          // without the many renewals of whereabouts' Lease
	holders map[string]string // of that Lease, by namespace, from the last write
	last    string            // at which it was killed
}

// kill runs the product until it is killed or ends, and reports which.
func (s *stage) kill(t testing.TB, at func(writes []string) bool, done bool, args ...string) (k *killer, killed bool) {
	t.Helper()
	k = &killer{at: at, done: done, begun: make(chan struct{}), dead: make(chan struct{}), holders: map[string]string{}}
	k.victim = s.beginProduct(t, append(args, "--kubeconfig", through(t, k.handler(s.reverseProxy(t))))...)
	close(k.begun)
	o := k.victim.wait()
	close(k.dead)
	if o.code > 0 {
		t.Errorf("exit code %d without being killed:\n%s", o.code, o.stderr)
	}
	return k, o.code < 0
}

func (k *killer) handler(to http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		<-k.begun
		if r.Method == http.MethodGet || !k.isAt(r) {
			to.ServeHTTP(w, r)
			return
		}
		if k.done {
			to.ServeHTTP(httptest.NewRecorder(), r)
		}
		_ = k.victim.cmd.Process.Kill()
		<-k.dead
		panic(http.ErrAbortHandler)
	}
}

// isAt records a write, and reports whether it is the one.
func (k *killer) isAt(r *http.Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.renews(r) {
		return false
	}
	k.writes = append(k.writes, r.Method+" "+path.Base(path.Dir(r.URL.Path))+"/"+path.Base(r.URL.Path))
	is := k.last == "" && k.at(k.writes)
	if is {
		k.last = map[bool]string{false: "before ", true: "after "}[k.done] + k.writes[len(k.writes)-1]
	}
	return is
}

// renews reports whether a write only renews whereabouts' Lease, and records the Lease's holder.
func (k *killer) renews(r *http.Request) bool {
	if !strings.Contains(r.URL.Path, "/leases") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return false
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	lease, isLease := object.(*coordinationv1.Lease)
	if err != nil || !isLease || lease.Name != ippool.SharedLease {
		return false
	}
	before, known := k.holders[lease.Namespace]
	k.holders[lease.Namespace] = ptr.Deref(lease.Spec.HolderIdentity, "")
	return known && k.holders[lease.Namespace] == before
}

// last reports whether the last write has a part.
func last(writes []string, part string) bool { return strings.Contains(writes[len(writes)-1], part) }
