package agent

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// relistEvery is the pause between looks when nothing happens: events may be
	// lost, or not be sent at all.
	relistEvery = 10 * time.Second
	// closingEvery is that pause while the network of a sandbox that stopped is to close.
	closingEvery = 2 * time.Second
	// renewEvery is the pause between renewals of the Lease, which vouches for the
	// report for a minute.
	renewEvery = 20 * time.Second
	// For soonFor after the API server was away it looks and renews every soonEvery: if
	// etcd was restored nothing is handed out until every node has told what it runs.
	frequentFor   = 30 * time.Second
	frequentEvery = 5 * time.Second
	// mergeWindow is how long changes are gathered: a burst is one report.
	mergeWindow = time.Second
	// retryAfter is the pause after a look or a write that failed; for writes it
	// doubles up to maxRetry.
	retryAfter    = 2 * time.Second
	maxRetryAfter = 15 * time.Second
	// finalTimeout is what the last look may take, and the report of it: less than the grace
	// that the DaemonSet gives.
	finalTimeout = 4 * time.Second
)

// Inspector makes looks; NodeInspector is the one that looks at a node.
type Inspector interface {
	Resume(report *v1alpha1.SandboxReport, thisMachine bool)
	Inspect(ctx context.Context) (*Inspection, error)
	Unreadable() map[string]error
}

// Store keeps the report and the Lease that vouches for it; API is the one at
// the API server.
type Store interface {
	Load(ctx context.Context) (*v1alpha1.SandboxReport, error)
	Publish(ctx context.Context, report *v1alpha1.SandboxReport) error
	Renew(ctx context.Context) error
	Intact(ctx context.Context, report *v1alpha1.SandboxReport) (bool, error)
	Wrote(resourceVersion string) bool
	RestoreNoteExpired() bool
}

// Agent publishes what it sees of its node, for as long as it runs.
type Agent struct {
	Node      string
	Inspector Inspector
	Store     Store
	// Identity is a Confirmer's.
	Identity func(ctx context.Context, before *v1alpha1.SandboxReport) (Identity, error)
	// RuntimeEvents tell that the runtime changed something; Changes, the resourceVersion
	// of each change of the report, "" where it is not there.
	RuntimeEvents <-chan struct{}
	ReportChanges <-chan string
	// Reconnected tells that the API server was away. If etcd was restored meanwhile, and
	// nothing of this node was lost by it, nothing else shows it; so the report is
	// rewritten.
	Reconnected <-chan struct{}
	Health      *Health

	report          *v1alpha1.SandboxReport // as last made
	resumed         bool                    // it is known whether that is of this machine, and what it was of another is dropped
	published       bool                    // it is what the Store has
	rewrite         bool                    // it must be written by a look of now, even if nothing changed
	lastRenewal     time.Time               // when the Lease last was
	frequentUntil   time.Time               // until when it is renewed soon
	publishFailures int                     // attempts to publish in a row
}

// Run looks and publishes until the context ends, and then once more: what the next
// agent on this node, or nobody, sees is then of the very end. Every failure is said
// and tried again; none ends it.
func (a *Agent) Run(ctx context.Context) {
	for !a.load(ctx) {
		if !pause(ctx, retryAfter) {
			return
		}
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
		case <-a.RuntimeEvents: // the next look answers it
		default:
		}
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), finalTimeout)
	defer stop()
	a.inspectAndPublish(last)
}

// wait waits for a reason to look again.
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
			if !a.intact(ctx, version) {
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

// confirmIdentity finds out which machine this is, and whether the report of an earlier agent is
// of the same. Of another machine by this node's name nothing is known here: what it
// ran is not in the report any more, and is not gone.
func (a *Agent) confirmIdentity(ctx context.Context) (Identity, error) {
	identity, err := a.Identity(ctx, a.report)
	if err != nil && a.report.BootID != "" {
		// What was there before the boot is proven dead by the boot id of the report
		// that stands. It is not replaced by one that cannot say so.
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

// inspectAndPublish makes a look and publishes what it changed, or renews the Lease where it
// changed nothing. Without a good look nothing is written. It says when to look
// again.
func (a *Agent) inspectAndPublish(ctx context.Context) time.Duration {
	identity, err := a.confirmIdentity(ctx)
	var look *Inspection
	if err == nil {
		look, err = a.Inspector.Inspect(ctx)
	}
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		a.Health.inspectFailed(err)
		return retryAfter
	}
	look.Identity = identity
	a.Health.inspected(look, a.Inspector.Unreadable())
	next := Next(a.report, look)
	a.rewrite = a.rewrite || a.Store.RestoreNoteExpired()
	if a.rewrite && next == a.report {
		again := *a.report
		again.ObservedAt = apiTime(look.At)
		next = &again
	}
	if next != a.report {
		a.report, a.published = next, false
	}
	wait, due := relistEvery, renewEvery-relistEvery/2
	if time.Now().Before(a.frequentUntil) {
		wait, due = frequentEvery, frequentEvery/2
	}
	if look.Closing {
		wait = closingEvery
	}
	switch {
	case !a.published:
		err = a.Store.Publish(ctx, a.report)
	case time.Since(a.lastRenewal) > due:
		err = a.Store.Renew(ctx)
	default:
		return wait
	}
	if a.handledRestore(err) {
		return 0
	}
	if err != nil {
		a.Health.publishFailed(err)
		a.publishFailures++
		return min(retryAfter<<min(a.publishFailures-1, 3), maxRetryAfter)
	}
	a.published, a.rewrite, a.lastRenewal, a.publishFailures = true, false, time.Now(), 0
	a.Health.published(a.report)
	return wait
}

// handledRestore reports whether an error is the sign of a restore. The report must then
// be rewritten, by a look that was made since.
func (a *Agent) handledRestore(err error) bool {
	if !isRestore(err) {
		return false
	}
	a.Health.restoreNoticed(err)
	a.rewriteSoon()
	return true
}

// rewriteSoon has the report written by a look that is yet to be made, and renewed soon.
func (a *Agent) rewriteSoon() {
	a.published, a.rewrite, a.frequentUntil = false, true, time.Now().Add(frequentFor)
}

// intact reports whether the report at the API server, which changed, is the one that
// was written.
func (a *Agent) intact(ctx context.Context, version string) bool {
	if !a.published || version != "" && a.Store.Wrote(version) {
		return true
	}
	intact, err := a.Store.Intact(ctx, a.report)
	switch {
	case a.handledRestore(err):
	case err != nil:
		a.Health.publishFailed(err)
		a.published = false // the event is gone; writing it again finds out
	case !intact:
		a.Health.reportChanged()
		a.published = false
	}
	return intact
}

// pause waits, and reports whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
