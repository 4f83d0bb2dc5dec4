// Package statuscmd checks whether the product is installed correctly, whether it works, and why nothing is released.
// workload.go finds the workloads, checks.go has the table of checks, and check_*.go the checks.
package statuscmd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Probe is the cluster, with the state that several checks read.
type Probe struct {
	Version string    // of this program, as in 0.1.0
	Now     time.Time // by the API server's clock; zero if it is unknown
	Core    kubernetes.Interface

	serves func(context.Context, schema.GroupVersionResource) (bool, error)
	may    func(ctx context.Context, account string, what authorizationv1.ResourceAttributes) (bool, error)
	// annotated returns which program wrote an annotation last, and when; nil for a snapshot.
	annotated func(ctx context.Context, r schema.GroupVersionResource, name types.NamespacedName, annotation string) (
		program string, at time.Time, err error)
	// as creates an object at a path, in a dry run as a ServiceAccount; nil where that is impossible.
	as func(ctx context.Context, account, path string, object any) error
	// namespace is that of the reconciler, leaseNamespace that of the agents' Leases.
	namespace, leaseNamespace string

	workloads
	unlisted error     // why not all workloads could be listed
	own      *workload // the reconciler; nil where it is unknown

	// The judgement and the plan of a pass that starts now.
	*findings.Assessment
	Checked  *reconciler.Result
	Plan     *plan.Plan
	pools    *usage.Pools
	Unjudged error // why addresses could not be judged
}

// line is the result of a check. The zero line is not printed.
type line = view.StatusLine

// A check makes a line. Its error becomes a line that says unknown.
type check struct {
	id    string
	needs need
	say   func(*Probe, context.Context) (line, error)
}

// checks are all checks, in the order of the document. Those of unknown sources follow.
var checks = []check{
	{"reconciler", anInstallation, (*Probe).reconciler},
	{"leader", aReconciler, (*Probe).leader},
	{"last-pass", aReconciler, (*Probe).lastPass},
	{"paused", aJudgement, (*Probe).paused},
	{"restore", aJudgement, (*Probe).restore},
	{"breaker", aJudgement, (*Probe).breaker},
	{"stale", anOutcome, (*Probe).stale},
	{"pools", aJudgement, (*Probe).fullPools},
	{"findings", aJudgement, (*Probe).findings},
	{"agents", aJudgement, (*Probe).agents},
	{"nodes", aJudgement, (*Probe).nodes},
	{"agent-nodes", aJudgement, (*Probe).selection},
	{"admission-policy", anInstallation, (*Probe).admissionPolicy},
	{"versions", aReconciler, (*Probe).versions},
	{"crds", anInstallation, (*Probe).definitions},
	{"rights", aReconciler, (*Probe).permissions},
	{"competing", anInstallation, (*Probe).competing},
}

// need is what a check needs. Where that is unknown, another check says so.
type need int

const (
	anInstallation need = iota // not only a judgement, as of a snapshot
	aReconciler
	aJudgement
	anOutcome // a judgement, or why addresses could not be judged
)

const (
	// askFor limits one check.
	askFor = 15 * time.Second
	// judgeFor limits reading and judging all addresses.
	judgeFor = time.Minute
)

// Lines reads and judges the cluster, and makes all checks.
func (p *Probe) Lines(ctx context.Context, r *reconciler.Reconciler, cluster *kube.Cluster) []view.StatusLine {
	p.serves, p.may, p.annotated = cluster.Serves, cluster.May, cluster.AnnotatedBy
	judging, cancel := context.WithTimeout(ctx, judgeFor)
	defer cancel()
	if p.Checked, p.Unjudged = r.Check(judging); p.Unjudged == nil {
		p.Assessment = p.Checked.Assessment
		p.Plan, p.pools = r.Plan(judging, p.Assessment), usage.Of(p.Assessment)
	}
	p.Now = cluster.Now()
	return p.say(ctx)
}

// OfJudgement makes the checks of a judgement and its plan, without those of the installation. core is nil for a
// snapshot.
func OfJudgement(
	ctx context.Context, j *findings.Assessment, planned *plan.Plan, o *flags.Common, core kubernetes.Interface,
) []view.StatusLine {
	p := &Probe{Core: core, Now: j.Observation.Now, Assessment: j, Plan: planned,
		pools: usage.Of(j), namespace: o.Namespace(), leaseNamespace: o.LeaseNamespace()}
	return p.say(ctx)
}

func (p *Probe) say(ctx context.Context) []line {
	isKnown := map[need]bool{anInstallation: p.serves != nil, aReconciler: p.own != nil, aJudgement: p.Unjudged == nil,
		anOutcome: true}
	checks := slices.Clone(checks)
	if p.Unjudged == nil {
		for _, s := range p.Observation.UnknownSources() {
			checks = append(checks, check{"source-" + string(s.Name), aJudgement,
				func(p *Probe, ctx context.Context) (line, error) { return p.source(ctx, s) }})
		}
	}
	lines := make([]line, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		if !isKnown[c.needs] {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askFor)
			defer cancel()
			l, err := c.say(p, ctx)
			if err != nil {
				l, _ = unknown("%s is unknown: %v.", c.id, err)
			}
			l.ID = c.id
			lines[i] = l
		})
	}
	all.Wait()
	return slices.DeleteFunc(lines, func(l line) bool { return l.Level == "" })
}

func ok(format string, args ...any) (line, error) {
	return line{Level: view.LevelOK, Message: fmt.Sprintf(format, args...)}, nil
}

func unknown(format string, args ...any) (line, error) {
	return line{Level: view.LevelUnknown, Message: fmt.Sprintf(format, args...)}, nil
}

// commandOn is a command with names of objects, each quoted for a shell; "" where no command can have one of them.
func commandOn(format string, names ...string) string {
	quoted := make([]any, len(names))
	for i, name := range names {
		text, isQuotable := advice.Quote(name)
		if !isQuotable {
			return ""
		}
		quoted[i] = text
	}
	return fmt.Sprintf(format, quoted...)
}

// warn and fail have the command to type next.
func warn(next, format string, args ...any) (line, error) {
	return line{Level: view.LevelWarning, Next: next, Message: fmt.Sprintf(format, args...)}, nil
}

func fail(next, format string, args ...any) (line, error) {
	return line{Level: view.LevelError, Next: next, Message: fmt.Sprintf(format, args...)}, nil
}

func (p *Probe) lease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	l, err := p.Core.CoordinationV1().Leases(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return &coordinationv1.Lease{}, unlessAbsent(err)
	}
	return l, nil
}

// unlessAbsent returns the error, nil for the API server's own answer that an object does not exist. A 404 of a proxy
// is an error.
func unlessAbsent(err error) error {
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return nil
	}
	return err
}

// renewTime returns when a Lease was renewed last, by the API server's clock where that is known.
func renewTime(l *coordinationv1.Lease) time.Time {
	if at := podstate.LeaseRenewTime(l); !at.IsZero() || l.Spec.RenewTime == nil {
		return at
	}
	return l.Spec.RenewTime.Time
}

func few(names []string) string { return facts.AtMost(names, 5) }

func ago(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
