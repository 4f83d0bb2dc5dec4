//go:build slow

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A chaos is a proxy between the product and the API server in which every request may fail, by a seeded random number.
type chaos struct {
	mu     sync.Mutex
	dice   *rand.Rand
	calm   bool
	counts map[string]int
}

// The plan is how many of 300 requests meet each fault: if more failed, nothing would be released. A request that is
// cut or lost after the API server performed it seems unperformed to the product.
var chaosPlan = []struct {
	kind string
	of   int
}{
	{"delayed", 10}, {"cut before", 4}, {"cut after", 5}, {"429", 3}, {"500", 3}, {"503", 3}, {"409", 3},
	{"timeout though done", 5}, {"truncated", 4},
}

// newChaos starts a proxy and returns it with a kubeconfig that leads through it.
func newChaos(t *testing.T, s *stage, seed uint64) (c *chaos, kubeconfig string) {
	t.Helper()
	c = &chaos{dice: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
	return c, through(t, c.handler(s.reverseProxy(t)))
}

// roll draws the fault of a request, "" for none, and its delay.
func (c *chaos) roll(r *http.Request) (kind string, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.dice.IntN(300)
	if c.calm {
		return "", 0
	}
	if anyWatch(r) {
		c.counts["watch dropped"]++
		return "watch dropped", time.Duration(200+c.dice.IntN(8000)) * time.Millisecond
	}
	for _, p := range chaosPlan {
		if at -= p.of; at < 0 && (p.kind != "409" || r.Method != http.MethodGet) { // an API server answers no GET so
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
			// A request in progress is performed even if nobody waits for the answer.
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

// over ends the faults and counts them.
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

// A mending has pods that keep running while their records are damaged, on a network where no other pod is created:
// nobody else gets a lost address.
type mending struct {
	*stage
	pods  []*pod
	whole contents
}

var mended = simple("mended", "10.9.0.0/24")

func (r *faultTrial) mending(t *testing.T) *mending {
	t.Helper()
	m := &mending{stage: r.stage}
	check(t, r.CreateNAD(t.Context(), mended))
	for _, name := range []string{"unrecorded", "unreserved", "whole"} {
		m.pods = append(m.pods, r.up(t, "worker-1", name, mended).age(t, 10*time.Minute))
	}
	r.mu.Lock()
	for _, p := range m.pods {
		r.content["worker-1"] = append(r.content["worker-1"], p.listed("Ready"))
	}
	r.mu.Unlock()
	m.whole = m.records(t)
	m.patch(t, harness.IPPools, "10.9.0.0-24", `{"spec":{"allocations":{"1":null}}}`)
	for _, address := range []string{"10.9.0.1", "10.9.0.2"} {
		m.unreserve(t, address)
	}
	r.since = try(r.now(t.Context())).must(t)
	for _, p := range m.pods {
		r.answered(r.called(adds, p.attachments[0], "10.9.0.0-24", "", 0), key(p.ips[0]), r.since)
	}
	return m
}

// records are the stored allocations of the network, and the owners of its reservations.
func (m *mending) records(t testing.TB) contents {
	t.Helper()
	c := m.contents(t).withoutUIDs()
	maps.DeleteFunc(c, func(place, _ string) bool {
		return !strings.HasPrefix(strings.TrimPrefix(place, "reservation "), "10.9.")
	})
	return c
}

// TestFaults_AnyRequestMayFail lets every request of the product fail with some probability, while pods ADD and DEL.
func TestFaults_AnyRequestMayFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seed  uint64
		works func(t *testing.T, r *faultTrial, kubeconfig string) (stop func())
	}{
		"run": {1, func(t *testing.T, r *faultTrial, kubeconfig string) func() {
			one, two, repairing := r.runs(t, kubeconfig), r.runs(t, kubeconfig), r.runs(t, kubeconfig, "--repair")
			return func() { one(); two(); repairing() }
		}},
		"serve": {2, func(t *testing.T, r *faultTrial, kubeconfig string) func() {
			v := r.beginServe(t, kubeconfig, "--repair", "--confirm-after", "2s", "--cron", "@every 10s")
			return func() { v.stop(t) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t, "worker-1", "worker-2").withRaceDetector()
			r := newFaultTrial(t, s, true, theNames(blue))
			m := r.mending(t)
			plan, kubeconfig := newChaos(t, s, c.seed)
			stop := c.works(t, r, kubeconfig)
			rest := r.traffic(t, c.seed, 8)
			began := time.Now()
			least, limit := int64(60), 15*time.Minute
			if *full { // 'make linearize': with the releases more than 5,000 operations
				least, limit = 4500, 2*time.Hour
			}
			eventuallyWithin(t, limit, "a minute, faults, ADDs and DELs", func() bool {
				return time.Since(began) > time.Minute && plan.injected() >= 60 && r.adds.Load()+r.dels.Load() >= least
			})
			injected, kinds := plan.over()
			rest()
			within(5*time.Minute, time.Second, func() bool { return len(m.records(t)) == len(m.whole) })
			left := r.settle(t)
			stop()
			equal(t, "what was damaged", m.records(t), m.whole)
			t.Logf("faults: %d injected (%s), %s", injected, kinds, r.verdict(t, left))
		})
	}
}

// A balancer sends each request to a random one of its API servers. In turn would not do: passes with an even number of
// requests would always read the time from the same one.
type balancer struct {
	servers  []http.Handler
	first    atomic.Bool // only the first one is used
	requests atomic.Int64
}

// balanced starts a balancer.
func balanced(t *testing.T, configs ...*rest.Config) (b *balancer, kubeconfig string) {
	t.Helper()
	b = &balancer{}
	for _, config := range configs {
		b.servers = append(b.servers, proxyTo(t, config))
	}
	return b, through(t, b)
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.requests.Add(1)
	n := len(b.servers)
	if b.first.Load() {
		n = 1
	}
	b.servers[rand.N(n)].ServeHTTP(w, r)
}

// TestFaults_TwoAPIServersAMinuteApart has two API servers on one etcd, whose clocks differ by a
// minute. The product uses both. A pass dates itself by the latest answer, and most passes get one of the server ahead,
// by whose clock no report of worker-1 is fresh. So what remains at the end is released once the other server is used
// alone; before that nothing may be released wrongly, and no more is expected.
func TestFaults_TwoAPIServersAMinuteApart(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the clock of a process is put forward on amd64 alone")
	}
	s := newStageWithReports(t, "worker-1", "worker-2", "worker-3").withRaceDetector()
	r := newFaultTrial(t, s, true, theNames(blue))
	ahead := s.AnotherAPI(t, time.Minute)
	through := func(a *agent) {
		a.change(func() {
			a.core, a.objects = try(kubernetes.NewForConfig(ahead)).must(t), try(dynamic.NewForConfig(ahead)).must(t)
		})
	}
	through(r.agents[1])
	silent := s.agent(t, "worker-3") // its last renewal is a minute in the future
	through(silent)
	silent.writeReport(t)
	silent.change(func() { silent.silent = true })
	spoke := time.Now()

	b, kubeconfig := balanced(t, s.Config(), ahead)
	v := r.beginServe(t, kubeconfig, "--repair", "--confirm-after", "10s", "--cron", "@every 10s")
	oneShot := r.runs(t, kubeconfig, "--agent-nodes", "kubernetes.io/hostname in (worker-1,worker-2)")
	rest := r.traffic(t, 4, 6)
	began := time.Now()
	eventuallyWithin(t, 15*time.Minute, "ADDs in 45 seconds and more", func() bool {
		return time.Since(began) > 45*time.Second && r.adds.Load() >= 20
	})
	rest()
	oneShot()
	time.Sleep(time.Until(spoke.Add(2*time.Minute + time.Second))) // then the silent report is expired by both clocks
	phantom := s.up(t, "worker-3", "phantom", blue)
	phantom.forceDelete(t)
	passes := v.metric(`ip_reconcile_passes_total{result="done"}`)
	v.passes(t, passes+3)
	if n := v.metric(`ip_reconcile_nodes{state="NoFreshReport"}`); n < 1 {
		t.Errorf("%v nodes without a fresh report, although one is silent", n)
	}
	s.isWhole(t, s.contents(t), phantom)
	b.first.Store(true)
	silent.change(func() { silent.silent = false })
	check(t, phantom.sandbox.Close())
	silent.writeReport(t, phantom.gone())
	left := r.settle(t)
	v.stop(t)
	t.Logf("faults: %d requests to two API servers whose clocks are a minute apart, %s", b.requests.Load(),
		r.verdict(t, left))
}
