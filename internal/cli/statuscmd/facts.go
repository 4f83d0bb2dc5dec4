package statuscmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// facts are all that was read.
type facts struct {
	// now is the time by the API server's clock.
	now time.Time
	// version of this program, as in 0.1.0.
	version string
	cluster document.Cluster
	// namespace is the reconciler's, leaseNamespace that of the agents' Leases.
	namespace, leaseNamespace string

	workloads answer[inventory]
	judged    answer[judged]
	paused    answer[bool]
	// leader, passes are Leases in the reconciler's namespace; nil where there is none.
	leader, passes answer[*coordinationv1.Lease]
	// addLeases are those that ADD and DEL take, of all pools.
	addLeases answer[[]coordinationv1.Lease]
	// schedule is that of the reconciler.
	schedule answer[configured]
	// definitions by name; nil where there is none.
	definitions map[string]answer[*definition]
	// policy: the agents' admission policies are there, and their bindings deny.
	policy answer[bool]
	// ownRights are those that the user that runs this lacks, accountRights those that the reconciler lacks.
	ownRights, accountRights answer[[]right]
}

// judged is what a pass would see and do now.
type judged struct {
	*judge.Judgement
	plan  *reconciler.Plan
	pools *usage.Pools
}

// answer is what the API server has told of one thing, or why it did not.
type answer[T any] struct {
	value T
	err   error
}

// why says in a few words why it is not known.
func (a answer[T]) why() string {
	switch {
	case apierrors.IsForbidden(a.err):
		return "no right to it"
	case errors.Is(a.err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return fmt.Sprint(a.err)
}

const (
	// askFor is how long one thing may take.
	askFor = 15 * time.Second
	// judgeFor is how long it may take to read and judge all addresses.
	judgeFor = time.Minute
)

// ask waits for one answer until the limit, even where what is asked does not heed it.
func ask[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) answer[T] {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan answer[T], 1)
	go func() {
		v, err := f(ctx)
		done <- answer[T]{v, err}
	}()
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
		return answer[T]{err: ctx.Err()}
	}
}

// probe reads the cluster. Each question has a limit of its own, and one without an answer
// stops no other.
type probe struct {
	cluster *kube.Cluster
	core    kubernetes.Interface
	objects dynamic.Interface
}

// read asks for everything but the workloads, which are read. check judges all addresses.
func (f *facts) read(ctx context.Context, p probe, check func(context.Context) (judged, error)) {
	var all sync.WaitGroup
	all.Go(func() { f.judged = ask(ctx, judgeFor, check) })
	all.Go(func() {
		f.paused = ask(ctx, askFor, func(ctx context.Context) (bool, error) {
			ns, err := p.core.CoreV1().Namespaces().Get(ctx, f.namespace, metav1.GetOptions{})
			return err == nil && ns.Annotations[ippool.PausedAnnotation] == "true", err
		})
	})
	all.Go(func() { f.leader = ask(ctx, askFor, p.lease(f.namespace, kube.OwnLease)) })
	all.Go(func() { f.passes = ask(ctx, askFor, p.lease(f.namespace, kube.PassLease)) })
	all.Go(func() { f.policy = ask(ctx, askFor, p.policy) })
	if own := f.own(); own != nil {
		all.Go(func() {
			f.schedule = ask(ctx, askFor, func(ctx context.Context) (configured, error) { return readSchedule(ctx, p.core, own) })
		})
	}
	definitions := make([]answer[*definition], len(neededDefinitions))
	for i, n := range neededDefinitions {
		all.Go(func() {
			definitions[i] = ask(ctx, askFor, func(ctx context.Context) (*definition, error) { return readDefinition(ctx, p.objects, n) })
		})
	}
	all.Wait()
	f.definitions = map[string]answer[*definition]{}
	for i, n := range neededDefinitions {
		f.definitions[n.name()] = definitions[i]
	}

	leases := map[string][]string{f.namespace: {ippool.SharedLease}}
	f.addLeases.err = f.judged.err // which they are is not known
	if f.judged.err == nil {
		taken := ippool.LeasesOf(f.judged.value.Observation.Pools)
		f.addLeases = ask(ctx, askFor, func(ctx context.Context) ([]coordinationv1.Lease, error) { return p.leases(ctx, taken) })
		if len(taken) > 0 {
			leases = taken
		}
	}
	lacking := func(account string, wanted []right) answer[[]right] {
		return ask(ctx, askFor, func(ctx context.Context) ([]right, error) {
			return missingRights(ctx, func(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
				return p.cluster.May(ctx, account, what)
			}, wanted)
		})
	}
	wanted := rightsOfRun(f.namespace, f.leaseNamespace, leases, f.usesAgents())
	f.ownRights = lacking("", wanted)
	if own := f.own(); own != nil {
		if own.Kind == "Deployment" {
			wanted = append(wanted, rightsOfServe(f.usesAgents())...)
		}
		f.accountRights = lacking(own.account(), wanted)
	}
}

// lease reads a Lease; nil where there is none.
func (p probe) lease(namespace, name string) func(context.Context) (*coordinationv1.Lease, error) {
	return func(ctx context.Context) (*coordinationv1.Lease, error) {
		l, err := p.core.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, unlessAbsent(err)
		}
		return l, nil
	}
}

// leases reads those that ADD and DEL take, by namespace; those that were never taken are
// not there.
func (p probe) leases(ctx context.Context, names map[string][]string) (found []coordinationv1.Lease, err error) {
	for namespace, of := range names {
		list, err := p.core.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, l := range list.Items {
			if slices.Contains(of, l.Name) {
				found = append(found, l)
			}
		}
	}
	return found, nil
}

// policy reports whether the agents' admission policies are there and their bindings deny.
func (p probe) policy(ctx context.Context) (bool, error) {
	v1 := p.core.AdmissionregistrationV1()
	for _, name := range []string{"ip-reconcile-agent", "ip-reconcile-reports"} { // deploy/agent/admission.yaml
		if _, err := v1.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, unlessAbsent(err)
		}
		binding, err := v1.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil || !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny) {
			return false, unlessAbsent(err)
		}
	}
	return true, nil
}

// unlessAbsent is the error but for the API server's own answer that there is no such
// object. A 404 of something in between is no answer.
func unlessAbsent(err error) error {
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return nil
	}
	return err
}

// own is the reconciler that status is about: that of the namespace, the Deployment
// first; nil where none is known.
func (f *facts) own() *workload {
	for _, w := range f.workloads.value.reconcilers() {
		if w.Namespace == f.namespace {
			return w
		}
	}
	return nil
}

// agents are the DaemonSets of the node agents.
func (f *facts) agents() (found []*workload) {
	for i := range f.workloads.value.workloads {
		if w := &f.workloads.value.workloads[i]; w.IsAgent() {
			found = append(found, w)
		}
	}
	return found
}

// expectsAgents reports that agents are deployed, or that the reconciler requires them.
func (f *facts) expectsAgents() bool {
	own := f.own()
	return len(f.agents()) > 0 || own != nil && own.argument("--agents") == "required"
}

// usesAgents reports that agents are expected, or seen, or that their reports are defined.
func (f *facts) usesAgents() bool {
	return f.expectsAgents() || f.judged.err == nil && !f.judged.value.WithoutAgents ||
		f.definitions[v1alpha1.Resource().GroupResource().String()].value != nil
}

// renewTime is when a Lease was renewed last, by the API server's clock where it tells.
func renewTime(l *coordinationv1.Lease) time.Time {
	if at := podstate.LeaseRenewed(l); !at.IsZero() || l.Spec.RenewTime == nil {
		return at
	}
	return l.Spec.RenewTime.Time
}
