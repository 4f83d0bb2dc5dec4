package statuscmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

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
	// namespace is the reconciler's.
	namespace string
	// leaseNamespace is that of the agents' Leases.
	leaseNamespace string

	workloads answer[[]workload]
	// onlyIn is the only namespace of which workloads may be listed; "" for all.
	onlyIn string
	judged answer[judged]
	paused answer[bool]
	// leader, passes are Leases in the reconciler's namespace; nil where there is none.
	leader, passes answer[*coordinationv1.Lease]
	// addLeases are those that ADD and DEL take, of all pools.
	addLeases answer[[]coordinationv1.Lease]
	// schedule is that of the Deployment.
	schedule answer[configured]
	// definitions by name; nil where there is none.
	definitions map[string]*answer[*definition]
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

// answer is what the API server has told of one thing, or why it did not. The zero answer
// is that it was not asked.
type answer[T any] struct {
	value T
	err   error
	asked bool
}

func (a answer[T]) known() bool { return a.asked && a.err == nil }

// why says in a few words why it is not known.
func (a answer[T]) why() string {
	switch {
	case !a.asked:
		return "not asked"
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
func (a *answer[T]) ask(ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan answer[T], 1)
	go func() {
		v, err := f(ctx)
		done <- answer[T]{value: v, err: err, asked: true}
	}()
	select {
	case *a = <-done:
	case <-ctx.Done():
		*a = answer[T]{err: ctx.Err(), asked: true}
	}
}

// probe reads the cluster. Each question has a limit of its own, and one without an answer
// stops no other.
type probe struct {
	core    kubernetes.Interface
	objects dynamic.Interface
}

// read asks for everything but the workloads, which are read. check judges all addresses.
func (f *facts) read(ctx context.Context, p probe, check func(context.Context) (judged, error)) {
	var all sync.WaitGroup
	own := f.own()
	all.Go(func() { f.judged.ask(ctx, judgeFor, check) })
	all.Go(func() {
		f.paused.ask(ctx, askFor, func(ctx context.Context) (bool, error) { return p.paused(ctx, f.namespace) })
	})
	all.Go(func() { f.leader.ask(ctx, askFor, p.lease(f.namespace, kube.OwnLease)) })
	all.Go(func() { f.passes.ask(ctx, askFor, p.lease(f.namespace, kube.PassLease)) })
	all.Go(func() { f.policy.ask(ctx, askFor, p.policy) })
	if own != nil {
		all.Go(func() {
			f.schedule.ask(ctx, askFor, func(ctx context.Context) (configured, error) { return readSchedule(ctx, p.core, own) })
		})
	}
	f.definitions = map[string]*answer[*definition]{}
	for _, n := range neededDefinitions() {
		a := &answer[*definition]{}
		f.definitions[n.name()] = a
		all.Go(func() {
			a.ask(ctx, askFor, func(ctx context.Context) (*definition, error) { return readDefinition(ctx, p.objects, n) })
		})
	}
	all.Wait()

	leases := map[string][]string{f.namespace: {ippool.SharedLease}}
	f.addLeases = answer[[]coordinationv1.Lease]{asked: true, err: f.judged.err} // which they are is not known
	if f.judged.known() {
		taken := ippool.LeasesOf(f.judged.value.Observation.Pools)
		f.addLeases.ask(ctx, askFor, func(ctx context.Context) ([]coordinationv1.Lease, error) { return p.leases(ctx, taken) })
		if len(taken) > 0 {
			leases = taken
		}
	}
	f.readRights(ctx, p.core, leases)
}

// readRights asks for the rights of this user, and of the reconciler where it is known.
func (f *facts) readRights(ctx context.Context, core kubernetes.Interface, leases map[string][]string) {
	agents := f.usesAgents()
	ask := func(a *answer[[]right], account *workload, wanted []right) {
		a.ask(ctx, askFor, func(ctx context.Context) ([]right, error) {
			may := func(ctx context.Context, a *attributes) (bool, error) { return review(ctx, core, account, a) }
			return missingRights(ctx, may, wanted)
		})
	}
	wanted := rightsOfRun(f.namespace, f.leaseNamespace, leases, agents)
	ask(&f.ownRights, nil, wanted)
	own := f.own()
	if own == nil {
		return
	}
	if own.kind == "Deployment" {
		wanted = append(wanted, rightsOfServe(agents)...)
	}
	ask(&f.accountRights, own, wanted)
}

func (p probe) paused(ctx context.Context, namespace string) (bool, error) {
	ns, err := p.core.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	return err == nil && ns.Annotations[ippool.PausedAnnotation] == "true", err
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

// all are the workloads of which something holds.
func (f *facts) all(is func(*workload) bool) (some []*workload) {
	for i := range f.workloads.value {
		if w := &f.workloads.value[i]; is(w) {
			some = append(some, w)
		}
	}
	return some
}

// own is the reconciler that status is about: that of the namespace, the Deployment
// first; nil where none is known.
func (f *facts) own() (first *workload) {
	for _, w := range f.all((*workload).isReconciler) {
		if w.namespace == f.namespace && (first == nil || w.kind == "Deployment" && first.kind != "Deployment") {
			first = w
		}
	}
	return first
}

// expectsAgents reports that agents are deployed, or that the reconciler requires them.
func (f *facts) expectsAgents() bool {
	own := f.own()
	return len(f.all((*workload).isAgent)) > 0 || own != nil && own.argument("--agents") == "required"
}

// usesAgents reports that agents are expected, or seen, or that their reports are defined.
func (f *facts) usesAgents() bool {
	d := f.definitions[v1alpha1.Resource().GroupResource().String()]
	return f.expectsAgents() || f.judged.known() && !f.judged.value.WithoutAgents || d.known() && d.value != nil
}

// renewTime is when a Lease was renewed last, by the API server's clock where it tells.
func renewTime(l *coordinationv1.Lease) time.Time {
	if at := podstate.LeaseRenewed(l); !at.IsZero() {
		return at
	}
	return ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
}

// acquireTime is when its holder took a Lease; zero where that is not known.
func acquireTime(l *coordinationv1.Lease) time.Time {
	return ptr.Deref(l.Spec.AcquireTime, metav1.MicroTime{}).Time
}

// holdAge is for how long its holder has had a Lease.
func holdAge(l *coordinationv1.Lease) time.Duration {
	if l.Spec.AcquireTime == nil || l.Spec.RenewTime == nil {
		return 0
	}
	return l.Spec.RenewTime.Sub(l.Spec.AcquireTime.Time)
}
