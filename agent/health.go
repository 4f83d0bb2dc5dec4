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

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// maxRenewalAge is how long an agent stays ready after a renewal of its Lease, which then confirms the report.
	maxRenewalAge = leaseSeconds * time.Second
	// maxAttemptAge is how long an agent stays alive without an attempt. It is longer than the slowest inspection
	// plus the slowest calls to the API server, which have their own timeouts.
	maxAttemptAge = 5 * time.Minute
)

// Health logs the agent's results and serves them as metrics and probes.
type Health struct {
	log *slog.Logger

	mu              sync.Mutex
	lastAttemptAt   time.Time // last inspection or write, successful or not
	lastRenewalAt   time.Time // last renewal of the Lease
	inspectFailure  string    // error of the last inspection, "" if it succeeded
	publishFailure  string    // error of the last write, "" if it succeeded
	unreadableCount int
	leavesOut       bool // the last report lacks addresses of the inspection

	inspections                                        *prometheus.CounterVec
	lastInspection, unread, addressesUnread, unguarded prometheus.Gauge
}

// NewHealth returns a Health whose metrics are in the registry.
func NewHealth(log *slog.Logger, registry prometheus.Registerer) *Health {
	const prefix = "ip_reconcile_agent_"
	with := promauto.With(registry)
	gauge := func(name, help string) prometheus.Gauge {
		return with.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	return &Health{
		log: log, lastAttemptAt: time.Now(), publishFailure: "not published yet",
		inspections: with.NewCounterVec(prometheus.CounterOpts{Name: prefix + "inspections_total",
			Help: "Inspections of the container runtime and the CNI caches, by result (good, failed)."}, []string{"result"}),
		lastInspection: gauge("last_successful_inspection_timestamp_seconds", "Time of the last successful inspection."),
		unread:         gauge("unread", "CNI cache files and sandboxes that the last inspection could not read."),
		addressesUnread: gauge("addresses_unread",
			"Sandboxes whose addresses are not all known: stale allocations are held for them."),
		unguarded: gauge("unguarded", "1 while the admission policy is not enforced and the agent publishes nothing."),
	}
}

// recordInspectFailure counts a failed inspection, and logs the error if it is a new one.
func (h *Health) recordInspectFailure(err error) {
	h.inspections.WithLabelValues("failed").Inc()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttemptAt = time.Now()
	if h.inspectFailure != err.Error() {
		h.log.Warn("Cannot inspect the node", "error", err)
	}
	h.inspectFailure = err.Error()
}

// recordInspection records an inspection, and the report that was made of it.
func (h *Health) recordInspection(
	inspection *Inspection, report *v1alpha1.SandboxReport, unread map[string]error,
) {
	h.inspections.WithLabelValues("good").Inc()
	h.lastInspection.SetToCurrentTime()
	h.unread.Set(float64(len(unread)))
	incomplete, inReport := 0, 0
	for i := range inspection.Sandboxes {
		if inspection.Sandboxes[i].AddressesUnread {
			incomplete++
		}
	}
	for i := range report.Sandboxes {
		if report.Sandboxes[i].AddressesUnread {
			inReport++
		}
	}
	h.addressesUnread.Set(float64(inReport))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttemptAt = time.Now()
	if h.inspectFailure != "" {
		h.log.Info("Inspected the node again",
			"sandboxes", len(inspection.Sandboxes), "attachments", len(inspection.Attachments))
	}
	h.inspectFailure = ""
	if leavesOut := inReport > incomplete; leavesOut != h.leavesOut {
		if h.leavesOut = leavesOut; leavesOut {
			h.log.Warn("Leaving addresses out of the report, which would be too large", "sandboxes", inReport-incomplete,
				"of", len(report.Sandboxes), "bytes", sizeOf(report))
		} else {
			h.log.Info("The report has room for all addresses again", "bytes", sizeOf(report))
		}
	}
	if len(unread) > h.unreadableCount {
		for name, err := range unread {
			h.log.Warn("Cannot read a CNI cache file or the status of a sandbox", "name", name, "error", err)
			break // the metric counts the others
		}
	}
	h.unreadableCount = len(unread)
}

func (h *Health) recordPublish(r *v1alpha1.SandboxReport) {
	h.unguarded.Set(0)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttemptAt, h.lastRenewalAt = time.Now(), time.Now()
	if h.publishFailure != "" {
		h.log.Info("Published the report",
			"node", r.Name, "sandboxes", r.Summary.Sandboxes, "attachments", r.Summary.Attachments)
	}
	h.publishFailure = ""
}

// recordPublishFailure records that the API server could not be read or written.
func (h *Health) recordPublishFailure(err error) {
	if errors.Is(err, errPolicyNotEnforced) {
		h.unguarded.Set(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttemptAt = time.Now()
	if h.publishFailure != err.Error() {
		h.log.Warn("Cannot publish the report", "error", err)
	}
	h.publishFailure = err.Error()
}

// Ready returns nil if the report is fresh, otherwise the reason why it is not.
func (h *Health) Ready(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case time.Since(h.lastRenewalAt) <= maxRenewalAge && h.inspectFailure == "":
		return nil
	case h.inspectFailure != "":
		return fmt.Errorf("cannot inspect the node: %s", h.inspectFailure)
	case h.publishFailure != "":
		return fmt.Errorf("cannot publish the report: %s", h.publishFailure)
	}
	return errors.New("the Lease was not renewed for a minute")
}

// Alive returns an error if the agent is stuck.
func (h *Health) Alive(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastAttemptAt); since > maxAttemptAge {
		return fmt.Errorf("no attempt for %s", since.Round(time.Second))
	}
	return nil
}
