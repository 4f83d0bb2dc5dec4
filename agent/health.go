package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// readyFor is how long an agent counts as ready after its Lease was renewed:
	// as long as the Lease vouches for its report.
	readyFor = leaseSeconds * time.Second
	// aliveFor is how long it may go without so much as a failed attempt: longer than
	// a look of a slow runtime or the calls to a slow API server, which have their own
	// limits, take at worst.
	aliveFor = 5 * time.Minute
)

// Health is what an agent tells of itself: log lines, metrics, health.
type Health struct {
	log *slog.Logger

	mu          sync.Mutex
	lastAttempt time.Time // the last attempt at a look or a write, good or not
	lastRenewal time.Time // the last renewal
	inspectErr  string    // why the last look failed; "" if it did not
	publishErr  string    // why the last write failed; "" if it did not
	unreadable  int

	metrics *metrics
}

type metrics struct {
	inspections, writes, signs                           *prometheus.CounterVec
	lastInspection, lastRenewal, unreadable, attachments prometheus.Gauge
	addressesUnread                                      prometheus.Gauge
	sandboxes                                            *prometheus.GaugeVec
}

// NewHealth makes a State with its metrics in the registry.
func NewHealth(log *slog.Logger, registry prometheus.Registerer) *Health {
	counter := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ip_reconcile_agent_" + name, Help: help}, []string{label})
		registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ip_reconcile_agent_" + name, Help: help})
		registry.MustRegister(g)
		return g
	}
	m := &metrics{
		inspections:     counter("looks_total", "Looks at the container runtime and the CNI caches; failed ones publish nothing.", "result"),
		writes:          counter("report_writes_total", "Attempts to write the SandboxReport or to renew its Lease.", "result"),
		signs:           counter("signs_total", "Signs that the report at the API server is not what was written: etcd restored, or someone else's change.", "sign"),
		lastInspection:  gauge("last_good_look_timestamp_seconds", "When the last good look was made."),
		lastRenewal:     gauge("lease_renewed_timestamp_seconds", "When the Lease that vouches for the report was last renewed."),
		unreadable:      gauge("unread", "CNI cache files and sandboxes of which only the name could be read in the last look."),
		addressesUnread: gauge("addresses_unread", "Sandboxes in the last look of which nothing tells all addresses: they may hold back what their pods' networks have."),
		attachments:     gauge("attachments", "Container ids in a CNI cache that the runtime does not list."),
		sandboxes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ip_reconcile_agent_sandboxes", Help: "Sandboxes in the report, by state."}, []string{"state"}),
	}
	registry.MustRegister(m.sandboxes)
	return &Health{log: log, metrics: m, lastAttempt: time.Now(), publishErr: "no report was published yet"}
}

// inspectFailed notes a look that failed. It is said when it begins and when it changes,
// not at every attempt.
func (s *Health) inspectFailed(err error) {
	s.metrics.inspections.WithLabelValues("failed").Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastAttempt = time.Now()
	if s.inspectErr != err.Error() {
		s.log.Warn("the node could not be looked at: the last report stands, and goes stale in a minute", "error", err)
	}
	s.inspectErr = err.Error()
}

// inspected notes a good look.
func (s *Health) inspected(look *Inspection, unread map[string]error) {
	s.metrics.inspections.WithLabelValues("good").Inc()
	s.metrics.lastInspection.SetToCurrentTime()
	s.metrics.unreadable.Set(float64(len(unread)))
	untold := 0
	for i := range look.Sandboxes {
		if look.Sandboxes[i].AddressesUnread {
			untold++
		}
	}
	s.metrics.addressesUnread.Set(float64(untold))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastAttempt = time.Now()
	if s.inspectErr != "" {
		s.log.Info("the node can be looked at again", "seen", look)
	}
	s.inspectErr = ""
	if len(unread) > s.unreadable {
		for file, err := range unread {
			s.log.Warn("a CNI cache file or the status of a sandbox cannot be read: it counts by its name only", "which", file, "error", err)
			break // the others are in the metric
		}
	}
	s.unreadable = len(unread)
}

// published notes that the report and its Lease are written.
func (s *Health) published(r *v1alpha1.SandboxReport) {
	s.metrics.writes.WithLabelValues("done").Inc()
	s.metrics.lastRenewal.SetToCurrentTime()
	s.metrics.attachments.Set(float64(r.Summary.Attachments))
	s.metrics.sandboxes.WithLabelValues("Ready").Set(float64(r.Summary.Sandboxes - r.Summary.NotReady))
	s.metrics.sandboxes.WithLabelValues("NotReady").Set(float64(r.Summary.NotReady))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastAttempt, s.lastRenewal = time.Now(), time.Now()
	if s.publishErr != "" {
		s.log.Info("the report is published", "node", r.Name, "sandboxes", r.Summary.Sandboxes, "attachments", r.Summary.Attachments)
	}
	s.publishErr = ""
}

// publishFailed notes that the API server could not be read or written.
func (s *Health) publishFailed(err error) {
	s.metrics.writes.WithLabelValues("failed").Inc()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastAttempt = time.Now()
	if s.publishErr != err.Error() {
		s.log.Warn("the report could not be read back or published: without a renewal it goes stale in a minute", "error", err)
	}
	s.publishErr = err.Error()
}

func (s *Health) restoreNoticed(err error) {
	s.metrics.signs.WithLabelValues("restored").Inc()
	s.log.Warn("the report is rewritten, and nothing is released until every node has done so", "error", err)
}

func (s *Health) reportChanged() {
	s.metrics.signs.WithLabelValues("changed").Inc()
	s.log.Warn("the report was changed or deleted by someone else: it is written again")
}

// otherMachine notes a report that is not known to be of this machine.
func (s *Health) otherMachine(r *v1alpha1.SandboxReport, now Identity) {
	if len(r.Sandboxes)+len(r.Attachments)+len(r.Gone) == 0 {
		return
	}
	s.log.Warn("the report of before is not known to be of this machine: what it had is not called gone",
		"node", r.Name, "sandboxes", len(r.Sandboxes), "booted", r.BootID, "machine", r.Machine, "booted here", now.BootID, "machine here", now.Machine)
}

// Ready says why the agent's report is not to be relied upon; nil if it is.
func (s *Health) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Since(s.lastRenewal) <= readyFor && s.inspectErr == "":
		return nil
	case s.inspectErr != "":
		return fmt.Errorf("the node could not be looked at: %s", s.inspectErr)
	case s.publishErr != "":
		return fmt.Errorf("the report could not be published: %s", s.publishErr)
	}
	return errors.New("the Lease was not renewed for a minute")
}

// Alive says why the agent is stuck; nil if it is not.
func (s *Health) Alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := time.Since(s.lastAttempt); since > aliveFor {
		return fmt.Errorf("no attempt was made for %s", since.Round(time.Second))
	}
	return nil
}

// Handler serves /healthz, /readyz and /metrics.
func (s *Health) Handler(gatherer prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	answer := func(check func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		}
	}
	mux.Handle("GET /healthz", answer(s.Alive))
	mux.Handle("GET /readyz", answer(s.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	return mux
}
