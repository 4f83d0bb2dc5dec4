//go:build slow

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A chaos is a proxy between the product and the API server in which every request may fail,
// by dice with a seed.
type chaos struct {
	mu     sync.Mutex
	dice   *rand.Rand
	calm   bool
	counts map[string]int
}

// Of a hundred requests so many meet each fault. What is cut or lost after the API server has
// done it looks to the product like what it has not done.
var chaosPlan = []struct {
	kind string
	of   int
}{
	{"delayed", 10}, {"cut before", 4}, {"cut after", 5}, {"429", 3}, {"500", 3}, {"503", 3}, {"409", 3}, {"timeout though done", 5}, {"truncated", 4},
}

// newChaos starts a proxy and returns it with a kubeconfig that leads through it.
func newChaos(t *testing.T, s *stage, seed uint64) (c *chaos, kubeconfig string) {
	t.Helper()
	c = &chaos{dice: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
	to := s.reverseProxy(t)
	to.ErrorLog = log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(c.handler(to))
	server.Config.ErrorLog = to.ErrorLog
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return c, plainKubeconfig(t, server.URL)
}

// roll draws the fault of a request, "" for none, and how long it takes.
func (c *chaos) roll(r *http.Request) (kind string, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.dice.IntN(100)
	if c.calm {
		return "", 0
	}
	if anyWatch(r) {
		c.counts["watch dropped"]++
		return "watch dropped", time.Duration(200+c.dice.IntN(8000)) * time.Millisecond
	}
	for _, p := range chaosPlan {
		if at -= p.of; at < 0 {
			c.counts[p.kind]++
			return p.kind, time.Duration(50+c.dice.IntN(2000)) * time.Millisecond
		}
	}
	return "", 0
}

func (c *chaos) handler(to http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind, after := c.roll(r)
		switch kind {
		case "":
			to.ServeHTTP(w, r)
		case "watch dropped":
			ctx, cancel := context.WithTimeout(r.Context(), after)
			defer cancel()
			to.ServeHTTP(w, r.WithContext(ctx))
		case "delayed":
			// What is under way arrives, also where nobody waits for the answer by now.
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			time.Sleep(after)
			to.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
		case "cut before":
			panic(http.ErrAbortHandler)
		case "cut after":
			to.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case "truncated":
			answer := httptest.NewRecorder()
			to.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
			panic(http.ErrAbortHandler)
		case "timeout though done":
			to.ServeHTTP(httptest.NewRecorder(), r)
			refuse(w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
		case "429":
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
		case "409":
			refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
		case "500":
			refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		case "503":
			refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		}
	}
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: "the proxy of the test says so",
	})
}

// over ends the faults, and says how many there were.
func (c *chaos) over() (injected int, kinds string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm = true
	return c.sum(), inOrder(c.counts)
}

// injected is how many faults there were.
func (c *chaos) injected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum()
}

func (c *chaos) sum() (n int) {
	for _, count := range c.counts {
		n += count
	}
	return n
}
