package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ip-reconcile/ip-reconcile/agent/hostdir"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// maxRenewalAge is how long an agent stays ready after a renewal of its Lease, which then confirms the report.
	maxRenewalAge = leaseSeconds * time.Second
	// maxAttemptAge is how long an agent stays alive without an attempt. It is longer than the slowest inspection
	// plus the slowest calls to the API server, which have their own timeouts.
	maxAttemptAge = 5 * time.Minute
	// maxUnreadLogged limits what is logged at once of what cannot be read.
	maxUnreadLogged = 5
)

// Health logs the agent's results and serves them as metrics and probes.
type Health struct {
	log *slog.Logger

	mu             sync.Mutex
	lastAttemptAt  time.Time        // last inspection or write, successful or not
	lastRenewalAt  time.Time        // last renewal of the Lease
	mustRestart    bool             // only a new container can inspect the node
	inspectFailure string           // error of the last inspection, "" if it succeeded
	publishFailure string           // error of the last write, "" if it succeeded
	lastUnread     map[string]error // what the last inspection could not read
	lastLeftOut    leftOut          // what the last report lacks of the inspection

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
	h.inspectFailure, h.mustRestart = err.Error(), errors.Is(err, hostdir.ErrReplaced)
}

// recordInspection records an inspection, and the report that was made of it.
func (h *Health) recordInspection(
	inspection *Inspection, report *v1alpha1.SandboxReport, unread map[string]error,
) {
	h.inspections.WithLabelValues("good").Inc()
	h.lastInspection.SetToCurrentTime()
	h.unread.Set(float64(len(unread)))
	addressesUnread := 0
	for i := range report.Sandboxes {
		if report.Sandboxes[i].AddressesUnread {
			addressesUnread++
		}
	}
	h.addressesUnread.Set(float64(addressesUnread))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastAttemptAt = time.Now()
	if h.inspectFailure != "" {
		h.log.Info("Inspected the node again",
			"sandboxes", len(inspection.Sandboxes), "attachments", len(inspection.Attachments))
	}
	h.inspectFailure, h.mustRestart = "", false
	h.recordLeftOut(leftOutOf(inspection, report), report)
	h.recordUnread(unread)
}

// recordUnread logs what the last inspection could not read and the one before could, up to maxUnreadLogged items. The
// caller holds h.mu.
func (h *Health) recordUnread(unread map[string]error) {
	var added []string
	for name := range unread {
		if _, wasUnread := h.lastUnread[name]; !wasUnread {
			added = append(added, name)
		}
	}
	h.lastUnread = unread
	slices.Sort(added)
	for i, name := range added {
		if i == maxUnreadLogged {
			h.log.Warn("Cannot read more CNI cache files or statuses of sandboxes", "more", len(added)-maxUnreadLogged)
			break
		}
		h.log.Warn("Cannot read a CNI cache file or the status of a sandbox", "name", name, "error", unread[name])
	}
}

// leftOut counts what a report lacks of its inspection, because the report would be too large.
type leftOut struct {
	endedSandboxes, endedAttachments int
	// sandboxes and attachments are those that are in the report without some of their addresses.
	sandboxes, attachments int
}

// leftOutOf compares a report with the inspection that it was made of.
func leftOutOf(inspection *Inspection, report *v1alpha1.SandboxReport) (out leftOut) {
	sandboxes := make(map[string]*v1alpha1.Sandbox, len(report.Sandboxes))
	for i := range report.Sandboxes {
		sandboxes[report.Sandboxes[i].ID] = &report.Sandboxes[i]
	}
	for i := range inspection.Sandboxes {
		switch s := &inspection.Sandboxes[i]; {
		case s.IsIrrelevant:
		case sandboxes[s.ID] == nil:
			out.endedSandboxes++
		case sandboxes[s.ID].AddressesUnread && !s.AddressesUnread:
			out.sandboxes++
		}
	}
	attachments := make(map[string]*v1alpha1.Attachment, len(report.Attachments))
	for i := range report.Attachments {
		attachments[report.Attachments[i].ID] = &report.Attachments[i]
	}
	for i := range inspection.Attachments {
		switch a := &inspection.Attachments[i]; {
		case attachments[a.ID] == nil:
			out.endedAttachments++
		case attachments[a.ID].AddressesUnread && !a.AddressesUnread:
			out.attachments++
		}
	}
	return out
}

func (l leftOut) hasEnded() bool     { return l.endedSandboxes+l.endedAttachments > 0 }
func (l leftOut) hasAddresses() bool { return l.sandboxes+l.attachments > 0 }

// recordLeftOut logs what the report lacks when ended entries or addresses begin to be left out, and when nothing is
// left out any more. The caller holds h.mu.
func (h *Health) recordLeftOut(now leftOut, report *v1alpha1.SandboxReport) {
	before := h.lastLeftOut
	switch h.lastLeftOut = now; {
	case now.hasEnded() && !before.hasEnded(), now.hasAddresses() && !before.hasAddresses():
		h.log.Warn("Leaving ended sandboxes or addresses out of the report, which would be too large",
			"usualCause", "finished pods that nobody deletes",
			"endedSandboxes", now.endedSandboxes, "endedAttachments", now.endedAttachments,
			"sandboxesWithoutAllAddresses", now.sandboxes, "attachmentsWithoutAllAddresses", now.attachments,
			"sandboxes", len(report.Sandboxes), "attachments", len(report.Attachments), "bytes", sizeOf(report))
	case now == (leftOut{}) && before != (leftOut{}):
		h.log.Info("The report has room for all sandboxes and addresses again", "bytes", sizeOf(report))
	}
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

// Alive returns an error if the agent is stuck, or if only a new container can inspect the node.
func (h *Health) Alive(*http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := time.Since(h.lastAttemptAt); since > maxAttemptAge {
		return fmt.Errorf("no attempt for %s", since.Round(time.Second))
	}
	if h.mustRestart {
		return fmt.Errorf("cannot inspect the node: %s", h.inspectFailure)
	}
	return nil
}
