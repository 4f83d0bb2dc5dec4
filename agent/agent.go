// Package agent is the node agent. It inspects the container runtime and the CNI caches of one node. It publishes
// the result as the node's SandboxReport, with a Lease that confirms the report. Read agent.go first, then inspect.go,
// report.go and store.go.
package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// inspectInterval is the pause between inspections without an event. Runtimes may drop events, or send none.
	inspectInterval = 10 * time.Second
	// renewInterval is the pause between renewals of the Lease. A renewal confirms the report for a minute.
	renewInterval = 20 * time.Second
	// frequentPeriod is how long the agent inspects and renews every frequentInterval after the API server was
	// unreachable. If etcd was restored, no address is handed out until every node has reported.
	frequentPeriod   = 30 * time.Second
	frequentInterval = 5 * time.Second
	// batchWindow is how long the agent collects changes before the next inspection.
	batchWindow = time.Second
	// inspectRetryDelay is the pause after a failed inspection, publishRetryDelay the pause after a failed write.
	inspectRetryDelay = 2 * time.Second
	publishRetryDelay = 5 * time.Second
	// finalTimeout limits the last inspection and its report. It is shorter than the grace period of the DaemonSet.
	finalTimeout = 4 * time.Second
	// publishTimeout is how long after the start of an inspection its report and Lease may be written: a Lease says that
	// the report was right a moment ago. Each request has a timeout of its own, and a write takes several.
	publishTimeout = 30 * time.Second
	// minPublishTime is how much of publishTimeout an inspection must leave for the write.
	minPublishTime = 2 * time.Second
	// policyCheckInterval is the pause between two checks of the admission policy.
	policyCheckInterval = 10 * time.Minute
)

// errTooOld means that an inspection took so long that its result must not be confirmed.
var errTooOld = errors.New("what was inspected is too old")

// Inspector inspects a node. NodeInspector implements it.
type Inspector interface {
	// Resume takes over the report of an earlier agent, on this machine or another one, before the first Inspect.
	Resume(report *v1alpha1.SandboxReport, thisMachine bool)
	// Inspect returns the state of the node, or an error if nothing may be concluded.
	Inspect(ctx context.Context) (*Inspection, error)
	// Unreadable returns what the last Inspect could not read without failing.
	Unreadable() map[string]error
}

// Store keeps the report and the Lease that confirms it. APIStore implements it and documents the methods.
type Store interface {
	Load(ctx context.Context) (*v1alpha1.SandboxReport, error)
	Publish(ctx context.Context, report *v1alpha1.SandboxReport) error
	Renew(ctx context.Context) error
	IsOwn(resourceVersion string) bool
}

// Agent publishes the state of its node until its context ends.
type Agent struct {
	Node      string
	Inspector Inspector
	Store     Store
	// Identity is Confirmer.Identity.
	Identity func(ctx context.Context, before *v1alpha1.SandboxReport) (Identity, error)
	// RuntimeEvents receives a value when something changed in the runtime.
	RuntimeEvents <-chan struct{}
	// ReportChanges receives the resourceVersion of each change of the report, "" for a deletion.
	ReportChanges <-chan string
	// Reconnected receives a value when the API server was unreachable. The agent then rewrites its report, because
	// a restore of etcd in the meantime may show nowhere else.
	Reconnected <-chan struct{}
	// CheckPolicy is APIStore.CheckPolicy; nil checks nothing. The agent calls it at start and every ten minutes,
	// and publishes nothing while it returns an error.
	CheckPolicy func(ctx context.Context) error
	Health      *Health

	report          *v1alpha1.SandboxReport // the last report that was made
	hasResumed      bool                    // Inspector.Resume was called
	isPublished     bool                    // the Store has the report
	mustRewrite     bool                    // write the report with a new observedAt, even if nothing changed
	lastRenewalAt   time.Time               // time of the last renewal of the Lease
	nextPolicyCheck time.Time               // time of the next CheckPolicy
	frequentUntil   time.Time
	inspectedAt     time.Time // start of the last inspection
}

// Run inspects and publishes until the context ends, and then once more. Failures are logged and retried.
func (a *Agent) Run(ctx context.Context) {
	if wait.PollUntilContextCancel(ctx, inspectRetryDelay, true, a.load) != nil {
		return
	}
	for ctx.Err() == nil {
		relist := time.After(a.inspectAndPublish(ctx))
		batch := time.After(batchWindow)
		a.wait(ctx, relist)
		select {
		case <-ctx.Done():
		case <-batch:
		}
		select {
		case <-a.RuntimeEvents: // the next inspection covers this event
		default:
		}
	}
	final, stop := context.WithTimeout(context.WithoutCancel(ctx), finalTimeout)
	defer stop()
	a.inspectAndPublish(final)
}

// wait returns when there is a reason to inspect again.
func (a *Agent) wait(ctx context.Context, relist <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-relist:
			return
		case <-a.RuntimeEvents:
			return
		case <-a.Reconnected:
			a.scheduleRewrite()
			return
		case version := <-a.ReportChanges:
			if a.isPublished && !a.Store.IsOwn(version) {
				a.Health.log.Warn("Rewriting a report that somebody else changed or deleted")
				a.isPublished = false
				return
			}
		}
	}
}

// load reads the report of an earlier agent on this node, so that gone ids stay gone. The agent rewrites that
// report, because etcd may have been restored in the meantime.
func (a *Agent) load(ctx context.Context) (done bool, _ error) {
	report, err := a.Store.Load(ctx)
	if err != nil {
		a.Health.recordPublishFailure(err)
		return false, nil
	}
	if report == nil {
		report = &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: a.Node}}
	}
	a.report, a.mustRewrite = report, true
	return true, nil
}

// inspectAndPublish inspects the node, and publishes a changed report or renews the Lease. After a failed
// inspection it writes nothing. It returns the pause until the next inspection.
func (a *Agent) inspectAndPublish(ctx context.Context) time.Duration {
	inspection, err := a.inspect(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		a.Health.recordInspectFailure(err)
		return inspectRetryDelay
	}
	a.update(inspection)
	a.Health.recordInspection(inspection, a.report, a.Inspector.Unreadable())
	interval, renewAfter := inspectInterval, renewInterval-inspectInterval/2
	if time.Now().Before(a.frequentUntil) {
		interval, renewAfter = frequentInterval, frequentInterval/2
	}
	if a.isPublished && time.Since(a.lastRenewalAt) <= renewAfter {
		return interval
	}
	err = a.publishInTime(ctx)
	switch {
	case errors.As(err, new(*RestoreError)):
		// The next report must come from an inspection that was made after the restore.
		a.Health.log.Warn("Detected a restore of etcd", "error", err)
		a.scheduleRewrite()
		return 0
	case err != nil:
		a.Health.recordPublishFailure(err)
		return publishRetryDelay
	}
	a.isPublished, a.mustRewrite, a.lastRenewalAt = true, false, time.Now()
	a.Health.recordPublish(a.report)
	return interval
}

// inspect finds out which machine this is and inspects the node. Before the first inspection it compares the earlier
// report with this machine. Nothing is known here about another machine with this node's name, so its sandboxes are
// dropped from the report and not listed as gone.
func (a *Agent) inspect(ctx context.Context) (*Inspection, error) {
	identity, err := a.Identity(ctx, a.report)
	if err != nil {
		return nil, err
	}
	if !a.hasResumed {
		a.hasResumed = true
		if identity == (Identity{}) {
			a.Health.log.Warn("The Node object does not confirm this machine, so the report does not prove that a sandbox "+
				"is absent; allow this account to get its Node", "node", a.Node)
		}
		isSame := identity.matches(a.report)
		a.Inspector.Resume(a.report, isSame)
		if r := a.report; !isSame {
			if len(r.Sandboxes)+len(r.Attachments)+len(r.Gone) > 0 {
				a.Health.log.Warn("Dropped an earlier report that may be of another machine", "node", r.Name,
					"sandboxes", len(r.Sandboxes), "reportBootID", r.BootID, "reportMachine", r.Machine,
					"bootID", identity.BootID, "machine", identity.Machine)
			}
			a.report = &v1alpha1.SandboxReport{ObjectMeta: r.ObjectMeta}
		}
	}
	a.inspectedAt = time.Now()
	inspection, err := a.Inspector.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	inspection.Identity = identity
	return inspection, nil
}

// update makes the next report from an inspection.
func (a *Agent) update(inspection *Inspection) {
	next := NextReport(a.report, inspection)
	if a.mustRewrite && next == a.report {
		rewritten := *a.report
		rewritten.ObservedAt = apiTime(inspection.At)
		next = &rewritten
	}
	if next != a.report {
		a.report, a.isPublished = next, false
	}
}

// publishInTime publishes what the last inspection found. It fails if the Lease would confirm content older than
// publishTimeout.
func (a *Agent) publishInTime(ctx context.Context) error {
	took := time.Since(a.inspectedAt)
	tooSlow := func(err error) error {
		return fmt.Errorf("%w: the inspection took %s, and its result may be published until %s after its start: "+
			"look for a slow container runtime or disk on the node", err, took.Round(time.Second), publishTimeout)
	}
	if publishTimeout-took < minPublishTime {
		return tooSlow(errTooOld)
	}
	publishing, cancel := context.WithTimeout(ctx, publishTimeout-took)
	defer cancel()
	err := a.publish(publishing)
	if err != nil && publishing.Err() != nil && took > publishTimeout/2 {
		return tooSlow(err)
	}
	return err
}

func (a *Agent) publish(ctx context.Context) error {
	if a.CheckPolicy != nil && !time.Now().Before(a.nextPolicyCheck) {
		if err := a.CheckPolicy(ctx); err != nil {
			return err
		}
		a.nextPolicyCheck = time.Now().Add(policyCheckInterval)
	}
	if !a.isPublished {
		for len(a.ReportChanges) > 0 {
			<-a.ReportChanges // the write covers these changes
		}
		return a.Store.Publish(ctx, a.report)
	}
	return a.Store.Renew(ctx)
}

// scheduleRewrite makes the next inspection write the report, and raises the frequency of renewals.
func (a *Agent) scheduleRewrite() {
	a.isPublished, a.mustRewrite, a.frequentUntil = false, true, time.Now().Add(frequentPeriod)
}
