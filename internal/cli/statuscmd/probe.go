package statuscmd

import (
	"context"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

const (
	// askFor is how long one thing may take.
	askFor = 15 * time.Second
	// judgeFor is how long it may take to read and judge all addresses.
	judgeFor = time.Minute
)

// probe reads the cluster. Each question has a limit of its own, and one without an answer
// stops no other.
type probe struct {
	core    kubernetes.Interface
	objects dynamic.Interface
	check   func(context.Context) (judged, error)
}

// askAll asks everything, of the reconciler that runs in f.namespace; f.workloads are read.
func (p *probe) askAll(ctx context.Context, f *facts) {
	own := ownWorkload(f)
	var all sync.WaitGroup
	all.Go(func() { f.judged = ask(ctx, judgeFor, p.check) })
	all.Go(func() { p.askAboutPasses(ctx, f, own) })
	all.Go(func() { f.policy = ask(ctx, askFor, p.policy) })
	var mu sync.Mutex
	f.definitions = map[string]answer[*definition]{}
	for _, n := range neededDefinitions() {
		all.Go(func() {
			a := ask(ctx, askFor, func(ctx context.Context) (*definition, error) {
				d, err := readDefinition(ctx, p.objects, n)
				return d, unlessAbsent(err)
			})
			mu.Lock()
			defer mu.Unlock()
			f.definitions[n.name()] = a
		})
	}
	all.Wait()
	p.askAboutPools(ctx, f, own)
}

// askAboutPasses asks for what the reconciler leaves in its namespace.
func (p *probe) askAboutPasses(ctx context.Context, f *facts, own *workload) {
	f.paused = ask(ctx, askFor, func(ctx context.Context) (bool, error) {
		ns, err := p.core.CoreV1().Namespaces().Get(ctx, f.namespace, metav1.GetOptions{})
		return err == nil && ns.Annotations[ippool.PausedAnnotation] == "true", err
	})
	f.leader = ask(ctx, askFor, p.lease(f.namespace, kube.OwnLease))
	f.passes = ask(ctx, askFor, p.lease(f.namespace, kube.PassLease))
	if own != nil {
		f.schedule = ask(ctx, askFor, func(ctx context.Context) (configured, error) { return readSchedule(ctx, p.core, own) })
	}
}

// askAboutPools asks for what there is where the pools are.
func (p *probe) askAboutPools(ctx context.Context, f *facts, own *workload) {
	leases := map[string][]string{f.namespace: {ippool.SharedLease}}
	f.addLeases = answer[[]coordinationv1.Lease]{asked: true, err: f.judged.err} // which they are is not known
	if f.judged.known() {
		taken := ippool.LeasesOf(f.judged.value.Observation.Pools)
		f.addLeases = ask(ctx, askFor, func(ctx context.Context) ([]coordinationv1.Lease, error) { return p.leases(ctx, taken) })
		if len(taken) > 0 {
			leases = taken
		}
	}
	agents := f.usesAgents()
	wanted := rightsOfRun(f.namespace, f.leaseNamespace, leases, agents)
	f.ownRights = ask(ctx, askFor, func(ctx context.Context) ([]missingRight, error) {
		return missingRights(ctx, ownReview(p.core), wanted)
	})
	if own == nil {
		return
	}
	if own.kind == "Deployment" {
		wanted = append(wanted, rightsOfServe(agents)...)
	}
	f.accountRights = ask(ctx, askFor, func(ctx context.Context) ([]missingRight, error) {
		return missingRights(ctx, accountReview(p.core, own.namespace, own.account()), wanted)
	})
}

// lease reads a Lease; nil where there is none.
func (p *probe) lease(namespace, name string) func(context.Context) (*coordinationv1.Lease, error) {
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
func (p *probe) leases(ctx context.Context, names map[string][]string) ([]coordinationv1.Lease, error) {
	var found []coordinationv1.Lease
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
func (p *probe) policy(ctx context.Context) (bool, error) {
	v1 := p.core.AdmissionregistrationV1()
	for _, name := range []string{"ip-reconcile-agent", "ip-reconcile-reports"} { // deploy/agent/admission.yaml
		_, err := v1.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
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

// ownWorkload is the reconciler that status is about: that of the namespace, the Deployment
// first; nil where none is known.
func ownWorkload(f *facts) *workload {
	var first *workload
	for _, w := range pick(f.workloads.value, (*workload).isReconciler) {
		if w.namespace == f.namespace && (first == nil || w.kind == "Deployment" && first.kind != "Deployment") {
			first = w
		}
	}
	return first
}

// usesAgents reports that agents are installed, or seen, or required.
func (f *facts) usesAgents() bool {
	if len(pick(f.workloads.value, (*workload).isAgent)) > 0 || f.judged.known() && !f.judged.value.WithoutAgents {
		return true
	}
	if w := ownWorkload(f); w != nil && w.argument("--agents") == "required" {
		return true
	}
	d := f.definitions[v1alpha1.Resource().GroupResource().String()]
	return d.known() && d.value != nil
}
