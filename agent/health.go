package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// readyFor is how long an agent counts as ready after its Lease was renewed:
	// as long as the Lease confirms its report.
	readyFor = leaseSeconds * time.Second
	// aliveFor is how long it may go without so much as a failed attempt: longer than
	// an inspection with a slow runtime, or the calls to a slow API server, which have their own
	// limits, take at worst.
	aliveFor = 5 * time.Minute
)

// Health is what an agent reports of itself: log lines, metrics and probes.
type Health struct {
	log *slog.Logger

	mu          sync.Mutex
	lastAttempt time.Time // at an inspection or a write, successful or not
	lastRenewal time.Time // the last renewal
	inspectErr  string    // why the last inspection failed; "" if it did not
	publishErr  string    // why the last write failed; "" if it did not
	unreadable  int

	inspections                                        *prometheus.CounterVec
	lastInspection, unread, addressesUnread, unguarded prometheus.Gauge
}

// NewHealth makes a Health with its metrics in the registry.
func NewHealth(log *slog.Logger, registry prometheus.Registerer) *Health {
	const prefix = "ip_reconcile_agent_"
	with := promauto.With(registry)
	gauge := func(name, help string) prometheus.Gauge {
		return with.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	return &Health{
		log: log, lastAttempt: time.Now(), publishErr: "no report was published yet",
		inspections: with.NewCounterVec(prometheus.CounterOpts{Name: prefix + "looks_total",
			Help: "Inspections of the container runtime and the CNI caches; failed ones publish nothing."}, []string{"result"}),
		lastInspection:  gauge("last_good_look_timestamp_seconds", "When the last successful inspection was made."),
		unread:          gauge("unread", "CNI cache files and sandboxes of which only the name could be read in the last inspection."),
		addressesUnread: gauge("addresses_unread", "Sandboxes in the last inspection whose addresses are not all known: they may hold back what their pods' networks have."),
		unguarded:       gauge("unguarded", "1 while the admission policy is not enforced, and the agent publishes nothing."),
	}
}

// inspectFailed notes an inspection that failed. It is logged when it begins and when it changes,
// not at every attempt.
func (h *Health) inspectFailed(err error) {
	h.inspections.WithLabelValues("failed").Inc()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttempt = time.Now()
	if h.inspectErr != err.Error() {
		h.log.Warn("the node could not be inspected: the last report stands, and goes stale in a minute", "error", err)
	}
	h.inspectErr = err.Error()
}

// inspected notes a successful inspection.
func (h *Health) inspected(inspection *Inspection, unread map[string]error) {
	h.inspections.WithLabelValues("good").Inc()
	h.lastInspection.SetToCurrentTime()
	h.unread.Set(float64(len(unread)))
	incomplete := 0
	for i := range inspection.Sandboxes {
		if inspection.Sandboxes[i].AddressesUnread {
			incomplete++
		}
	}
	h.addressesUnread.Set(float64(incomplete))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttempt = time.Now()
	if h.inspectErr != "" {
		h.log.Info("the node can be inspected again",
			"sandboxes", len(inspection.Sandboxes), "attachments", len(inspection.Attachments))
	}
	h.inspectErr = ""
	if len(unread) > h.unreadable {
		for file, err := range unread {
			h.log.Warn("a CNI cache file or the status of a sandbox cannot be read: it counts by its name only", "which", file, "error", err)
			break // the others are in the metric
		}
	}
	h.unreadable = len(unread)
}

// published notes that the report and its Lease are written.
func (h *Health) published(r *v1alpha1.SandboxReport) {
	h.unguarded.Set(0)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttempt, h.lastRenewal = time.Now(), time.Now()
	if h.publishErr != "" {
		h.log.Info("the report is published", "node", r.Name, "sandboxes", r.Summary.Sandboxes, "attachments", r.Summary.Attachments)
	}
	h.publishErr = ""
}

// publishFailed notes that the API server could not be read or written.
func (h *Health) publishFailed(err error) {
	if errors.Is(err, errUnguarded) {
		h.unguarded.Set(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttempt = time.Now()
	if h.publishErr != err.Error() {
		h.log.Warn("the report could not be read back or published: without a renewal it goes stale in a minute", "error", err)
	}
	h.publishErr = err.Error()
}

func (h *Health) restoreNoticed(err error) {
	h.log.Warn("the report is rewritten, and nothing is released until every node has done so", "error", err)
}

func (h *Health) reportChanged() {
	h.log.Warn("the report was changed or deleted by someone else: it is written again")
}

// otherMachine notes a report that is not known to be of this machine.
func (h *Health) otherMachine(r *v1alpha1.SandboxReport, now Identity) {
	if len(r.Sandboxes)+len(r.Attachments)+len(r.Gone) == 0 {
		return
	}
	h.log.Warn("the report of before is not known to be of this machine: what it had is not called gone",
		"node", r.Name, "sandboxes", len(r.Sandboxes), "booted", r.BootID, "machine", r.Machine, "booted here", now.BootID, "machine here", now.Machine)
}

// Ready returns why the agent's report cannot be relied upon; nil if it can.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case time.Since(h.lastRenewal) <= readyFor && h.inspectErr == "":
		return nil
	case h.inspectErr != "":
		return fmt.Errorf("the node could not be inspected: %s", h.inspectErr)
	case h.publishErr != "":
		return fmt.Errorf("the report could not be published: %s", h.publishErr)
	}
	return errors.New("the Lease was not renewed for a minute")
}

// Alive returns why the agent is stuck; nil if it is not.
func (h *Health) Alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastAttempt); since > aliveFor {
		return fmt.Errorf("no attempt was made for %s", since.Round(time.Second))
	}
	return nil
}

// Handler serves /healthz, /readyz and /metrics.
func (h *Health) Handler(gatherer prometheus.Gatherer) http.Handler {
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
	mux.Handle("GET /healthz", answer(h.Alive))
	mux.Handle("GET /readyz", answer(h.Ready))
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{}))
	return mux
}
