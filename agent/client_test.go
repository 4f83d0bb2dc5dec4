package agent_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// watchServer answers a list and a watch, which lasts for some time.
type watchServer struct {
	list, watch int // status codes
	text        string
	lasts       time.Duration
}

func (w watchServer) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := w.list, io.ReadCloser(io.NopCloser(strings.NewReader(
		`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[]}`)))
	asked := r.URL.Query()
	if asked.Has("watch") {
		status = w.watch
	}
	switch limit, err := time.ParseDuration(asked.Get("timeoutSeconds") + "s"); {
	case status != http.StatusOK:
		body = io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1"}`))
	case asked.Has("watch") && err != nil:
		return nil, err
	case asked.Has("watch"):
		from, to := io.Pipe()
		body = from
		go func() {
			fmt.Fprint(to, w.text)
			time.Sleep(min(w.lasts, limit))
			to.Close()
		}()
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
		Request: r}, nil
}

// In the pause between two watches the API server may be unreachable and etcd restored.
func TestWatcher_DetectsInterruption(t *testing.T) {
	const ok, long = http.StatusOK, 24 * time.Hour
	for name, c := range map[string]struct {
		first watchServer
		again int
	}{
		"it lasted its full time": {watchServer{list: ok, watch: ok, lasts: long}, 0},
		"it ended early":          {watchServer{list: ok, watch: ok, lasts: 15 * time.Second}, 1},
		"it ended with an error": {watchServer{list: ok, watch: ok, lasts: long,
			text: `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410}}`}, 1},
		"it was refused":            {watchServer{list: ok, watch: http.StatusInternalServerError}, 1},
		"it was forbidden once":     {watchServer{list: ok, watch: http.StatusForbidden}, 1},
		"the list before it failed": {watchServer{list: http.StatusInternalServerError}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers, again := &c.first, 0
				w := newWatcher(t, func(r *http.Request) (*http.Response, error) { return answers.RoundTrip(r) }, &again)
				w.Watch(t.Context(), func(string) {})
				equal(t, "again, by the first watch", again, 0)
				answers = &watchServer{list: ok, watch: ok, lasts: long}
				for range 2 {
					if err := w.Watch(t.Context(), func(string) {}); err != nil {
						t.Error(err)
					}
				}
				equal(t, "again", again, c.again)
			})
		})
	}
}

// RBAC does not allow watches: that is no interruption each time.
func TestWatcher_StaysForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, again := &watchServer{list: http.StatusOK, watch: http.StatusForbidden}, 0
		w := newWatcher(t, answers.RoundTrip, &again)
		for range 5 {
			_ = w.Watch(t.Context(), func(string) {})
		}
		equal(t, "again", again, 1)
	})
}

// newWatcher counts the interruptions that it reports.
func newWatcher(t *testing.T, answer transport, again *int) *agent.Watcher {
	t.Helper()
	w, err := agent.NewWatcher(&rest.Config{Host: "http://api", Transport: answer}, "worker-1", func() { *again++ })
	check(t, err)
	return w
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// docs/operate/metrics.md states how many series each agent has. Histograms would count as one here.
func TestHealth_Cardinality(t *testing.T) {
	registry := prometheus.NewRegistry()
	agent.NewHealth(slog.New(slog.DiscardHandler), registry)
	registry.MustRegister(version.Get().Collector(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	check(t, err)
	own, runtime := 2, 0 // inspections_total has both results after the first of each
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "ip_reconcile_") {
			own += len(f.GetMetric())
		} else {
			runtime += len(f.GetMetric())
		}
	}
	page, err := os.ReadFile("../docs/operate/metrics.md")
	check(t, err)
	if own != 7 || runtime < 35 || runtime > 55 || !strings.Contains(string(page), "has 7 series of its own") {
		t.Errorf("an agent has %d series of its own and %d of the runtime, and the page states another number", own, runtime)
	}
}
