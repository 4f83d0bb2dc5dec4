package statuscmd

import (
	"context"
	"errors"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// sound is a cluster in which everything is as it should be.
func sound() *Probe {
	ours := map[string]string{kube.NameLabel: kube.Product, kube.ComponentLabel: "reconciler"}
	agents := map[string]string{kube.NameLabel: kube.Product, kube.ComponentLabel: "agent"}
	p := &Probe{
		Now: Now, Version: "0.1.0", namespace: "kube-system", leaseNamespace: "ip-reconcile-node-lease",
		Core: fake.NewClientset(),
		workloads: workloads{
			{Kind: "Deployment", Namespace: "kube-system", Name: "ip-reconcile", Labels: ours, Wanted: 2, Ready: 2,
				Spec: running("example.com/ip-reconcile:0.1.0", "--agents=required")},
			{Kind: "DaemonSet", Namespace: "kube-system", Name: "ip-reconcile-agent", Labels: agents, Wanted: 2,
				Ready: 2, Spec: running("example.com/ip-reconcile:0.1.0")},
		},
		may: func(context.Context, string, authorizationv1.ResourceAttributes) (bool, error) { return true, nil },
	}
	p.lacking()
	p.put(leads(10 * time.Second))
	p.pass(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1.5s","succeeded":"2026-11-20T04:30:00Z",` +
		`"released":3,"schedule":"30 4 * * *"}`)
	guards, err := shippedGuards("kube-system", p.leaseNamespace)
	if err != nil {
		panic(err)
	}
	for _, g := range guards {
		p.put(&g.policy, &g.binding)
	}
	p.as = func(_ context.Context, _, path string, _ any) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: path}, probeName,
			errors.New("ValidatingAdmissionPolicy 'x' with binding 'x' denied request"))
	}
	p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), bounded, bothFresh)
	return p
}

// observed replaces what was judged.
func (p *Probe) observed(parts ...Part) {
	r := &reconciler.Reconciler{Process: &reconciler.Process{}, Options: plan.Options{ConfirmAfter: 15 * time.Minute}}
	o := Observe(parts...)
	p.Assessment = Judged(o, facts.Policy{})
	r.Process.Known = r.Process.Known.After(p.Judgement)
	p.pools = usage.Of(p.Assessment)
	p.Plan = r.Plan(nil, p.Assessment) //nolint:staticcheck // nothing is asked for
}

func running(image string, args ...string) *corev1.PodSpec {
	return &corev1.PodSpec{ServiceAccountName: "ip-reconcile",
		Containers: []corev1.Container{{Name: "ip-reconcile", Image: image, Args: args}}}
}

// leads is the Lease of a leader, which has held it for an hour when it renewed it.
func leads(renewedAgo time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(Now.Add(-renewedAgo))
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: kube.OwnLease},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("ip-reconcile-0_1"), RenewTime: &renewed,
			AcquireTime: ptr.To(metav1.NewMicroTime(renewed.Add(-time.Hour)))}}
}

func (p *Probe) tracker() k8stesting.ObjectTracker { return p.Core.(*fake.Clientset).Tracker() }

// put stores objects in the place of those of the same names.
func (p *Probe) put(objects ...runtime.Object) {
	for _, o := range objects {
		if l, ok := o.(*coordinationv1.Lease); ok {
			p.without(leases, l.Name)
		}
		if err := p.tracker().Add(o); err != nil {
			panic(err)
		}
	}
}

func (p *Probe) without(r schema.GroupVersionResource, name string) {
	_ = p.tracker().Delete(r, "kube-system", name)
}

func (p *Probe) withoutPolicy(kind string) {
	if err := p.tracker().Delete(admissionv1.SchemeGroupVersion.WithResource(kind), "",
		"ip-reconcile-reports"); err != nil {
		panic(err)
	}
}

func (p *Probe) pass(record string) {
	p.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: kube.PassLease,
		Annotations: map[string]string{kube.PassAnnotation: record}}})
}

func (p *Probe) breakerHas(text string) {
	l := leads(10 * time.Second)
	l.Annotations = map[string]string{kube.ReleasedAnnotation: text}
	p.put(l)
}

// lacking has the API server not serve these.
func (p *Probe) lacking(kinds ...schema.GroupVersionResource) {
	p.serves = func(_ context.Context, r schema.GroupVersionResource) (bool, error) {
		return !slices.Contains(kinds, r), nil
	}
}

// forbid forbids the ServiceAccount verbs on a resource.
func (p *Probe) forbid(resource string, verbs ...string) {
	p.may = func(_ context.Context, _ string, a authorizationv1.ResourceAttributes) (bool, error) {
		return a.Resource != resource || !slices.Contains(verbs, a.Verb), nil
	}
}

// deployment and daemonSet are the workloads of sound.
func (p *Probe) deployment() *workload { return p.workloads[0] }
func (p *Probe) daemonSet() *workload  { return p.workloads[1] }

// replica is a pod of the Deployment with a sidecar in front, as some injectors put it.
func (p *Probe) replica(name, version string, phase corev1.PodPhase) *corev1.Pod {
	spec := running("example.com/ip-reconcile:" + version)
	spec.Containers = append([]corev1.Container{{Name: "sidecar", Image: "example.com/sidecar:3.0.0"}}, spec.Containers...)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: p.deployment().Labels},
		Spec: *spec, Status: corev1.PodStatus{Phase: phase}}
}

// cronJob has a CronJob in the place of the Deployment.
func (p *Probe) cronJob(last time.Duration) {
	p.deployment().Kind, p.deployment().Schedule = "CronJob", "*/15 * * * *"
	at := clock(Now.Add(-last))
	p.pass(`{"at":"` + at + `","result":"Succeeded","took":"1s","succeeded":"` + at + `"}`)
}

// runs adds a workload of others.
func (p *Probe) runs(kind, name, program string) {
	w := workload{Kind: kind, Namespace: "kube-system", Name: name, Wanted: 3,
		Spec: running("example.com/whereabouts:v0.9.4")}
	w.Spec.Containers[0].Command = []string{"/bin/sh", "-c", program}
	p.workloads = append(p.workloads, &w)
}

// dropIn has the Deployment be one of whereabouts' manifests, with this image.
func (p *Probe) dropIn(image string) {
	w := p.deployment()
	w.Name, w.Labels = "whereabouts-reconciler", map[string]string{"app": "whereabouts-reconciler"}
	w.Spec = running(image)
	w.Spec.Containers[0].Command = []string{"/ip-reconciler"}
}

// unread has every question fail.
func (p *Probe) unread(err error) {
	p.workloads, p.unlisted = nil, err
	p.serves = func(context.Context, schema.GroupVersionResource) (bool, error) { return false, err }
	p.everythingFails(err)
}

func (p *Probe) everythingFails(err error) {
	p.Core.(*fake.Clientset).PrependReactor("*", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, err
	})
}
