//go:build slow

package e2e

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// balanced starts a balancer that sends the requests of the product to API servers in turn.
func balanced(t *testing.T, configs ...*rest.Config) (kubeconfig string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	var servers []http.Handler
	for _, config := range configs {
		to := httputil.NewSingleHostReverseProxy(try(url.Parse(config.Host)).must(t))
		to.Transport, to.ErrorLog = try(rest.TransportFor(config)).must(t), log.New(io.Discard, "", 0)
		servers = append(servers, to)
	}
	balancer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		servers[requests.Add(1)%int64(len(servers))].ServeHTTP(w, r)
	}))
	balancer.Config.ErrorLog = log.New(io.Discard, "", 0)
	balancer.Start()
	t.Cleanup(func() { balancer.CloseClientConnections(); balancer.Close() })
	return plainKubeconfig(t, balancer.URL), requests
}

// TestNothingIsFreedWronglyByTwoAPIServersAMinuteApart has two API servers on one etcd, one
// whose clock is a minute ahead of the other's, and the product ask both in turn.
func TestNothingIsFreedWronglyByTwoAPIServersAMinuteApart(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the clock of a process is put forward on amd64 alone")
	}
	s := newStageWithReports(t, "worker-1", "worker-2", "worker-3").withRaceDetector()
	r := newFaultTrial(t, s)
	ahead := s.AnotherAPI(t, time.Minute)
	through := func(a *agent) {
		a.change(func() {
			a.core, a.objects = try(kubernetes.NewForConfig(ahead)).must(t), try(dynamic.NewForConfig(ahead)).must(t)
		})
	}
	through(r.agents[1])
	silent := s.agent(t, "worker-3") // its last word is of a minute in the future
	through(silent)
	silent.writeReport(t)
	silent.change(func() { silent.silent = true })
	spoke := time.Now()

	kubeconfig, requests := balanced(t, s.Config(), ahead)
	v := r.beginServe(t, kubeconfig, "--repair", "--confirm-after", "10s", "--cron", "@every 10s")
	oneShot := r.runs(t, kubeconfig, "--agent-nodes", "kubernetes.io/hostname in (worker-1,worker-2)")
	rest := r.traffic(t, 4, 6)
	began := time.Now()
	eventuallyWithin(t, 15*time.Minute, "ADDs in 45 seconds and more", func() bool {
		return time.Since(began) > 45*time.Second && r.adds.Load() >= 20
	})
	rest()
	oneShot()
	eventuallyWithin(t, 3*time.Minute, "a report to be fresh no more, by both clocks", func() bool {
		return time.Since(spoke) > 2*time.Minute && v.metric(`ip_reconcile_nodes{state="NoFreshReport"}`) == 1
	})
	t.Logf("a report that is not renewed was fresh for %.0fs", time.Since(spoke).Seconds())
	phantom := s.up(t, "worker-3", "phantom", blue)
	phantom.forceDelete(t)
	passes := v.metric(`ip_reconcile_passes_total{result="done"}`)
	v.passes(t, passes+3)
	s.isWhole(t, s.contents(t), phantom)
	silent.change(func() { silent.silent = false })
	check(t, phantom.sandbox.Close())
	silent.writeReport(t, phantom.gone())
	left := r.settle(t)
	v.stop(t)
	t.Logf("faults: %d requests to two API servers whose clocks are a minute apart, %s", requests.Load(), r.verdict(t, left))
}
