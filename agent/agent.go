package agent

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// relistEvery is the pause between inspections when nothing happens: events may be
	// lost, or not be sent at all.
	relistEvery = 10 * time.Second
	// renewEvery is the pause between renewals of the Lease, which confirms the
	// report for a minute.
	renewEvery = 20 * time.Second
	// For frequentFor after the API server was away the agent inspects and renews every
	// frequentEvery: if etcd was restored nothing is handed out until every node has
	// reported what it runs.
	frequentFor   = 30 * time.Second
	frequentEvery = 5 * time.Second
	// mergeWindow is how long changes are gathered: a burst is one report.
	mergeWindow = time.Second
	// retryAfter is the pause after an inspection that failed, rewriteAfter the one after
	// a write that failed.
	retryAfter   = 2 * time.Second
	rewriteAfter = 5 * time.Second
	// finalTimeout limits the last inspection and the report of it: less than the grace
	// period of the DaemonSet.
	finalTimeout = 4 * time.Second
	// guardEvery is the pause between two checks of the admission policy.
	guardEvery = 10 * time.Minute
)

// Inspector inspects a node; NodeInspector is the real one.
type Inspector interface {
	// Resume takes over what the report of an earlier agent knew, and is called before
	// the first Inspect; thisMachine is whether that agent ran on this machine.
	Resume(report *v1alpha1.SandboxReport, thisMachine bool)
	// Inspect returns an error where nothing may be concluded.
	Inspect(ctx context.Context) (*Inspection, error)
	// Unreadable returns what the last Inspect could not read, and did not fail for.
	Unreadable() map[string]error
}

// Store keeps the report and the Lease that confirms it; APIStore is the one at
// the API server, and describes the methods.
type Store interface {
	Load(ctx context.Context) (*v1alpha1.SandboxReport, error)
	Publish(ctx context.Context, report *v1alpha1.SandboxReport) error
	Renew(ctx context.Context) error
	IsOwn(resourceVersion string) bool
	RestoreNoteExpired() bool
}

// Agent publishes the state of its node for as long as it runs.
type Agent struct {
	Node      string
	Inspector Inspector
	Store     Store
	// Identity is a Confirmer's.
	Identity func(ctx context.Context, before *v1alpha1.SandboxReport) (Identity, error)
	// RuntimeEvents receives when the runtime changed something.
	RuntimeEvents <-chan struct{}
	// ReportChanges receives the resourceVersion of each change of the report, "" when
	// it is not there.
	ReportChanges <-chan string
	// Reconnected receives when the API server was away. If etcd was restored meanwhile,
	// and nothing of this node was lost by it, nothing else shows it; so the report is
	// rewritten.
	Reconnected <-chan struct{}
	// CheckPolicy is an APIStore's. The agent calls it at start and every ten minutes, and publishes nothing while
	// it returns an error. nil: nothing is checked.
	CheckPolicy func(ctx context.Context) error
	Health      *Health

	report        *v1alpha1.SandboxReport // as last made
	resumed       bool                    // the Inspector knows the report of before
	published     bool                    // the Store has the report
	rewrite       bool                    // the report must be written with a new observedAt, even if nothing changed
	lastRenewal   time.Time               // of the Lease
	guardedUntil  time.Time               // when CheckPolicy is called again
	frequentUntil time.Time
}

// Run inspects and publishes until the context ends, and then once more, so that the next
// agent on this node finds the state at the end of this one. Every failure is logged and
// retried; none ends it.
func (a *Agent) Run(ctx context.Context) {
	load := func(ctx context.Context) (bool, error) { return a.load(ctx), nil }
	if wait.PollUntilContextCancel(ctx, retryAfter, true, load) != nil {
		return
	}
	for ctx.Err() == nil {
		relist := time.After(a.inspectAndPublish(ctx))
		gathered := time.After(mergeWindow)
		a.wait(ctx, relist)
		select {
		case <-ctx.Done():
		case <-gathered:
		}
		select {
		case <-a.RuntimeEvents: // the next inspection covers it
		default:
		}
	}
	final, stop := context.WithTimeout(context.WithoutCancel(ctx), finalTimeout)
	defer stop()
	a.inspectAndPublish(final)
}

// wait waits for a reason to inspect again.
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
			a.rewriteSoon()
			return
		case version := <-a.ReportChanges:
			if a.published && !a.Store.IsOwn(version) {
				a.Health.reportChanged()
				a.published = false
				return
			}
		}
	}
}

// load begins with the report of an earlier agent on this node, so that what was
// gone stays gone. It is rewritten in any case: since then etcd may have been
// restored.
func (a *Agent) load(ctx context.Context) bool {
	report, err := a.Store.Load(ctx)
	if err != nil {
		a.Health.publishFailed(err)
		return false
	}
	if report == nil {
		report = &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: a.Node}}
	}
	a.report, a.rewrite = report, true
	return true
}

// inspectAndPublish inspects the node and publishes what changed, or renews the Lease if
// nothing did. After a failed inspection nothing is written. It returns the pause until
// the next inspection.
func (a *Agent) inspectAndPublish(ctx context.Context) time.Duration {
	inspection, err := a.inspect(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		a.Health.inspectFailed(err)
		return retryAfter
	}
	a.Health.inspected(inspection, a.Inspector.Unreadable())
	a.update(inspection)
	interval, renewAfter := relistEvery, renewEvery-relistEvery/2
	if time.Now().Before(a.frequentUntil) {
		interval, renewAfter = frequentEvery, frequentEvery/2
	}
	if a.published && time.Since(a.lastRenewal) <= renewAfter {
		return interval
	}
	err = a.publish(ctx)
	switch {
	case errors.As(err, new(*RestoreError)):
		// The report must be rewritten, by an inspection that was made since.
		a.Health.restoreNoticed(err)
		a.rewriteSoon()
		return 0
	case err != nil:
		a.Health.publishFailed(err)
		return rewriteAfter
	}
	a.published, a.rewrite, a.lastRenewal = true, false, time.Now()
	a.Health.published(a.report)
	return interval
}

func (a *Agent) inspect(ctx context.Context) (*Inspection, error) {
	identity, err := a.confirmIdentity(ctx)
	if err != nil {
		return nil, err
	}
	inspection, err := a.Inspector.Inspect(ctx)
	if err != nil {
		return nil, err
	}
	inspection.Identity = identity
	return inspection, nil
}

// confirmIdentity finds out which machine this is, and before the first inspection
// whether the report of an earlier agent is of the same one. Of another machine by this
// node's name nothing is known here: what it ran is dropped from the report, and is not
// gone.
func (a *Agent) confirmIdentity(ctx context.Context) (Identity, error) {
	identity, err := a.Identity(ctx, a.report)
	if err != nil {
		return identity, err
	}
	if !a.resumed {
		a.resumed = true
		same := identity.matches(a.report)
		a.Inspector.Resume(a.report, same)
		if !same {
			a.Health.otherMachine(a.report, identity)
			a.report = &v1alpha1.SandboxReport{ObjectMeta: a.report.ObjectMeta}
		}
	}
	return identity, nil
}

// update makes the next report of an inspection.
func (a *Agent) update(inspection *Inspection) {
	next := Next(a.report, inspection)
	a.rewrite = a.rewrite || a.Store.RestoreNoteExpired()
	if a.rewrite && next == a.report {
		rewritten := *a.report
		rewritten.ObservedAt = apiTime(inspection.At)
		next = &rewritten
	}
	if next != a.report {
		a.report, a.published = next, false
	}
}

func (a *Agent) publish(ctx context.Context) error {
	if a.CheckPolicy != nil && !time.Now().Before(a.guardedUntil) {
		if err := a.CheckPolicy(ctx); err != nil {
			return err
		}
		a.guardedUntil = time.Now().Add(guardEvery)
	}
	if !a.published {
		for len(a.ReportChanges) > 0 {
			<-a.ReportChanges // the write meets whatever they were
		}
		return a.Store.Publish(ctx, a.report)
	}
	return a.Store.Renew(ctx)
}

// rewriteSoon has the report written by the next inspection, and renewed frequently.
func (a *Agent) rewriteSoon() {
	a.published, a.rewrite, a.frequentUntil = false, true, time.Now().Add(frequentFor)
}
