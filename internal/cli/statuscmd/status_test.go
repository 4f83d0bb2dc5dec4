package statuscmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
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
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

var update = flag.Bool("update", false, "write testdata/status.txt")

// sound is a cluster in which everything is as it should be.
func sound() *Probe {
	ours := map[string]string{kube.NameLabel: kube.Product, kube.ComponentLabel: "reconciler"}
	agents := map[string]string{kube.NameLabel: kube.Product, kube.ComponentLabel: "agent"}
	p := &Probe{
		Now: Now, Version: "0.1.0", namespace: "kube-system", leaseNamespace: "ip-reconcile-node-lease", core: fake.NewClientset(),
		inventory: inventory{workloads: []workload{
			{kube.Workload{Kind: "Deployment", Namespace: "kube-system", Name: "ip-reconcile", Labels: ours, Wanted: 2, Ready: 2, Spec: running("example.com/ip-reconcile:0.1.0", "--agents=required")}},
			{kube.Workload{Kind: "DaemonSet", Namespace: "kube-system", Name: "ip-reconcile-agent", Labels: agents, Wanted: 2, Ready: 2, Spec: running("example.com/ip-reconcile:0.1.0")}},
		}},
		may: func(context.Context, string, authorizationv1.ResourceAttributes) (bool, error) { return true, nil },
	}
	p.lacking()
	p.put(leaseOf(kube.OwnLease, "ip-reconcile-0_1", 10*time.Second, time.Hour), leaseOf("whereabouts", "", 0, 0))
	p.pass(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1.5s","succeeded":"2026-11-20T04:30:00Z","released":3,"schedule":"30 4 * * *"}`)
	for _, name := range []string{"ip-reconcile-agent", "ip-reconcile-reports"} {
		p.put(&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}, &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}})
	}
	p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), bothFresh)
	return p
}

// observed replaces what was judged.
func (p *Probe) observed(parts ...Part) {
	r := &reconciler.Reconciler{History: reconciler.NewHistory(), Options: reconciler.Options{ConfirmAfter: 15 * time.Minute}}
	o := Observe(parts...)
	o.Past = r.History
	p.Judgement = Judged(o, judge.Policy{})
	r.History.Remember(p.Judgement)
	p.pools = usage.Of(p.Judgement)
	p.plan = r.Plan(nil, p.Judgement) //nolint:staticcheck // nothing is asked for
}

func running(image string, args ...string) *corev1.PodSpec {
	return &corev1.PodSpec{ServiceAccountName: "ip-reconcile", Containers: []corev1.Container{{Name: "ip-reconcile", Image: image, Args: args}}}
}

// leaseOf is a Lease in kube-system with a holder, which has held it for so long when it renewed it.
func leaseOf(name, holder string, renewedAgo, heldFor time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(Now.Add(-renewedAgo))
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, AcquireTime: ptr.To(metav1.NewMicroTime(renewed.Add(-heldFor)))}}
}

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

func (p *Probe) tracker() k8stesting.ObjectTracker { return p.core.(*fake.Clientset).Tracker() }

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
	if err := p.tracker().Delete(admissionv1.SchemeGroupVersion.WithResource(kind), "", "ip-reconcile-reports"); err != nil {
		panic(err)
	}
}

func (p *Probe) pass(record string) {
	p.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: kube.PassLease, Annotations: map[string]string{kube.PassAnnotation: record}}})
}

func (p *Probe) breakerHas(text string) {
	l := leaseOf(kube.OwnLease, "ip-reconcile-0_1", 10*time.Second, time.Hour)
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
func (p *Probe) deployment() *workload { return &p.workloads[0] }
func (p *Probe) daemonSet() *workload  { return &p.workloads[1] }

// cronJob has a CronJob in the place of the Deployment.
func (p *Probe) cronJob(active int, last time.Duration) {
	w := p.deployment()
	w.Kind, w.Schedule, w.Active = "CronJob", "*/15 * * * *", active
	at := clock(Now.Add(-last))
	p.pass(`{"at":"` + at + `","result":"Succeeded","took":"1s","succeeded":"` + at + `"}`)
}

// runs adds a workload of others.
func (p *Probe) runs(kind, name, program string) {
	w := workload{kube.Workload{Kind: kind, Namespace: "kube-system", Name: name, Wanted: 3, Spec: running("example.com/whereabouts:v0.9.4")}}
	w.Spec.Containers[0].Command = []string{"/bin/sh", "-c", program}
	p.workloads = append(p.workloads, w)
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
	p.inventory, p.unlisted = inventory{}, err
	p.serves = func(context.Context, schema.GroupVersionResource) (bool, error) { return false, err }
	p.everythingFails(err)
}

func (p *Probe) everythingFails(err error) {
	p.core.(*fake.Clientset).PrependReactor("*", "*", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	bounded   = NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges": false`))
	bothFresh = All(Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	twoFull   = Pool("10.0.0.0-30", "10.0.0.0/30", Alloc("1", "default/web-0", "box-1", "net1"), Alloc("2", "default/web-1", "box-2", "net1"))
	boundedBy = NAD("wb", WhereaboutsConfig("10.0.0.0/30", "", `"enable_overlapping_ranges": false`))
	leaked    = Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/a", "box-1", "net1"), Alloc("6", "default/b", "box-2", "net1"), Alloc("7", "default/c", "box-3", "net1"))
	oneGone   = All(Pod("other"), Node("worker-1"), FreshReport("worker-1", Gone("box-1", "uid-1")))
)

// A situation is a change of a sound cluster.
type situation struct {
	name   string
	change func(*Probe)
}

// situations are changes of a sound cluster.
func situations() []situation {
	const recorded = `{"at":"2026-11-20T09:30:00Z","result":"Failed","took":"1s","message":"on fire"`
	return []situation{
		// the workload
		{"workloads that cannot be listed", func(p *Probe) { p.inventory, p.unlisted = inventory{}, forbidden }},
		{"scaled to nothing", func(p *Probe) { p.deployment().Wanted, p.deployment().Ready = 0, 0 }},
		{"no replica is ready", func(p *Probe) { p.deployment().Ready = 0 }},
		{"one of two replicas", func(p *Probe) { p.deployment().Ready = 1 }},
		{"another namespace", func(p *Probe) { p.deployment().Namespace = "addresses" }},
		{"no reconciler", func(p *Probe) { p.workloads = p.workloads[1:] }},
		{"only one namespace may be listed", func(p *Probe) { p.onlyIn = "kube-system" }},
		{"only one namespace may be listed, and has none", func(p *Probe) { p.inventory = inventory{onlyIn: "kube-system"} }},
		{"a CronJob", func(p *Probe) { p.cronJob(0, 5*time.Minute) }},
		{"a CronJob that is suspended", func(p *Probe) { p.cronJob(0, 5*time.Minute); p.deployment().Suspended = true }},
		{"a CronJob without a pass, that never ran", func(p *Probe) { p.cronJob(0, 0); p.without(leases, kube.PassLease) }},
		{"a CronJob without a pass", func(p *Probe) {
			p.cronJob(0, 0)
			p.without(leases, kube.PassLease)
			p.deployment().LastSchedule = Now.Add(-time.Hour)
		}},
		{"a CronJob's pass is 30 minutes old", func(p *Probe) { p.cronJob(0, 30*time.Minute) }},
		{"a CronJob's pass is 40 minutes old", func(p *Probe) { p.cronJob(0, 40*time.Minute) }},
		{"a CronJob's pass is 40 minutes old, and a Job runs", func(p *Probe) { p.cronJob(1, 40*time.Minute) }},
		{"a CronJob's pass is 90 minutes old, and a Job runs", func(p *Probe) { p.cronJob(1, 90*time.Minute) }},
		{"a CronJob's pass is 100 minutes old, and a Job runs", func(p *Probe) { p.cronJob(1, 100*time.Minute) }},
		{"the drop-in in the place of whereabouts' own", func(p *Probe) { p.dropIn("example.com/ip-reconcile:0.1.0") }},
		{"whereabouts' own in that place", func(p *Probe) { p.dropIn("example.com/whereabouts:v0.9.4") }},
		// its leader and its passes
		{"nobody has led for long", func(p *Probe) { p.put(leaseOf(kube.OwnLease, "ip-reconcile-0_1", time.Hour, 0)) }},
		{"nobody has ever led", func(p *Probe) { p.without(leases, kube.OwnLease) }},
		{"nobody is elected", func(p *Probe) {
			p.without(leases, kube.OwnLease)
			p.deployment().Spec.Containers[0].Args = []string{"--leader-elect=false"}
		}},
		{"a pass is overdue", func(p *Probe) {
			p.Now = p.Now.Add(24 * time.Hour)
			p.put(leaseOf(kube.OwnLease, "x", -24*time.Hour, 0))
		}},
		{"a pass was never made", func(p *Probe) { p.without(leases, kube.PassLease) }},
		{"a pass was not made yet", func(p *Probe) {
			p.without(leases, kube.PassLease)
			p.put(leaseOf(kube.OwnLease, "x", 0, time.Minute))
		}},
		{"a record that is no JSON", func(p *Probe) { p.pass("?") }},
		{"a pass that failed", func(p *Probe) { p.pass(recorded + `,"succeeded":"2026-11-20T04:30:00Z"}`) }},
		{"passes that always failed", func(p *Probe) { p.pass(recorded + "}") }},
		{"a pass of an older version, without its schedule", func(p *Probe) {
			p.pass(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1s","succeeded":"2026-11-20T04:30:00Z"}`)
		}},
		// what stands against releases
		{"paused", func(p *Probe) { p.Observation.Paused = true }},
		{"a paused pool", func(p *Probe) { p.Observation.Pools[0].Paused = true }},
		{"two paused pools", func(p *Probe) {
			p.observed(UsualPool, Pool("10.9.0.0-24", "10.9.0.0/24"), UsualPod(Carrying("10.0.0.5")), bothFresh, func(o *Observed) { o.Pools[0].Paused, o.Pools[1].Paused = true, true })
		}},
		{"etcd was restored", func(p *Probe) {
			r := &judge.RestoreState{Restored: Now.Add(-time.Minute), Why: "a revision ran backwards", Awaiting: []string{"worker-2"}}
			p.plan.Standing = []reconciler.Gate{{Why: reconciler.EtcdRestored, Detail: r.Text()}}
		}},
		{"what is kept of restores cannot be read", func(p *Probe) {
			p.plan.Standing = []reconciler.Gate{{Why: reconciler.EtcdRestored, Detail: "what is kept of restores of etcd could not be read: it is no JSON"}}
		}},
		{"a breaker that has tripped", func(p *Probe) { p.breakerHas(`[{"at":"2026-11-20T09:50:00Z","count":30,"of":40}]`) }},
		{"a breaker that cannot be read", func(p *Probe) { p.breakerHas("?") }},
		{"a pass that was stopped by the breaker", func(p *Probe) {
			p.pass(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1s","succeeded":"2026-11-20T04:30:00Z","refused":{"Breaker":25}}`)
		}},
		// what was judged
		{"addresses cannot be judged", func(p *Probe) { p.unjudged = errors.New("500") }},
		{"stale items", func(p *Probe) { p.observed(leaked, oneGone) }},
		{"stale items of a paused pool", func(p *Probe) { p.observed(leaked, oneGone, func(o *Observed) { o.Pools[0].Paused = true }) }},
		{"two pods at one address", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Pod("web-1", Carrying("10.0.0.5"), UID("uid-2"), OnNode("worker-2")), bounded,
				Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
				Node("worker-2"), FreshReport("worker-2", Sandbox("box-2", "uid-2", OfPod("web-1"), NotReady(nil))))
		}},
		{"a reservation is missing", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")),
				Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))))
		}},
		{"a pool that is nearly full", func(p *Probe) {
			p.observed(twoFull, UsualPod(Carrying("10.0.0.1")), Pod("web-1", Carrying("10.0.0.2")), boundedBy, bothFresh)
		}},
		{"a pod that waits for a pool", func(p *Probe) {
			p.observed(twoFull, UsualPod(Carrying("10.0.0.1")), Pod("web-1", Carrying("10.0.0.2")), boundedBy, bothFresh, Pod("late", Phase("Pending"), func(p *corev1.Pod) {
				p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "default/wb"}
				p.CreationTimestamp = metav1.NewTime(Now.Add(-time.Hour))
			}))
		}},
		{"an allocation that cannot be read", func(p *Probe) {
			p.observed(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("x", "default/web-0", "box-1", "net1")), UsualPod(), bothFresh)
		}},
		// agents
		{"an agent that is silent", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), StaleReport("worker-2"))
		}},
		{"a node without an agent", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), Node("worker-3"))
		}},
		{"a node that is gone", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2", OutOfService, NotReadyFor(time.Hour)), StaleReport("worker-2"))
		}},
		{"agents that were never there", func(p *Probe) { p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1")) }},
		{"no agents", func(p *Probe) {
			p.workloads = p.workloads[:1]
			p.deployment().Spec.Containers[0].Args = nil
			p.lacking(v1alpha1.Resource())
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"))
		}},
		{"reports that must not be read", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), func(o *Observed) { o.ReportsUnreadable = true })
		}},
		{"agents' Leases that must not be read", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), StaleReport("worker-1"))
			p.core.(*fake.Clientset).PrependReactor("list", "leases", func(a k8stesting.Action) (bool, runtime.Object, error) {
				return a.GetNamespace() == p.leaseNamespace, nil, forbidden
			})
		}},
		{"no admission policy", func(p *Probe) { p.withoutPolicy("validatingadmissionpolicies") }},
		{"no binding of an admission policy", func(p *Probe) { p.withoutPolicy("validatingadmissionpolicybindings") }},
		{"an admission policy that only audits", func(p *Probe) {
			p.withoutPolicy("validatingadmissionpolicybindings")
			p.put(&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "ip-reconcile-reports"},
				Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{ValidationActions: []admissionv1.ValidationAction{admissionv1.Audit}}})
		}},
		// versions
		{"agents that are newer", func(p *Probe) { p.daemonSet().Spec = running("example.com/ip-reconcile:0.2.0") }},
		{"agents that are older", func(p *Probe) { p.daemonSet().Spec = running("example.com/ip-reconcile:0.0.9") }},
		{"a command that is newer", func(p *Probe) { p.Version = "0.2.0" }},
		{"a command without a version", func(p *Probe) { p.Version = "devel" }},
		{"an image without a tag", func(p *Probe) { p.deployment().Spec.Containers[0].Image = "registry:5000/ip-reconcile@sha256:00" }},
		// definitions
		{"no definition of reports", func(p *Probe) { p.lacking(v1alpha1.Resource()) }},
		{"no whereabouts", func(p *Probe) {
			p.unjudged = errors.New("the API server does not serve ippools")
			p.lacking(ippool.PoolResource, ippool.ReservationResource)
		}},
		// rights
		{"rights that little depends on", func(p *Probe) { p.forbid("events", "create", "patch") }},
		{"a right that everything depends on", func(p *Probe) { p.forbid("pods", "list", "watch") }},
		{"rights of another ServiceAccount", func(p *Probe) {
			p.deployment().Spec.ServiceAccountName = "custom"
			p.forbid("leases", "create", "list")
		}},
		{"rights that cannot be known", func(p *Probe) {
			p.may = func(context.Context, string, authorizationv1.ResourceAttributes) (bool, error) {
				return false, forbidden
			}
		}},
		// what competes
		{"whereabouts' control loop", func(p *Probe) { p.runs("DaemonSet", "whereabouts", "/install-cni.sh && /ip-control-loop") }},
		{"whereabouts' CronJob", func(p *Probe) { p.runs("CronJob", "ip-reconciler", "/ip-reconciler") }},
		{"whereabouts' Deployment", func(p *Probe) { p.runs("Deployment", "whereabouts-reconciler", "/ip-reconciler") }},
		{"a second Deployment", func(p *Probe) {
			second := *p.deployment()
			second.Namespace = "default"
			p.workloads = slices.Insert(p.workloads, 0, second)
		}},
		// whereabouts' Leases
		{"a holder that is dead", func(p *Probe) { p.put(leaseOf("whereabouts", "worker-1/dead", time.Minute, time.Hour)) }},
		{"a holder that is alive by the API server's clock", func(p *Probe) {
			l := leaseOf("whereabouts", "worker-1/late", time.Minute, time.Hour)
			l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: Now}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)}}
			p.put(l)
		}},
		{"a holder of long", func(p *Probe) {
			p.put(leaseOf("whereabouts", "", 0, 0), leaseOf("whereabouts", kube.FenceHolder, 0, 0), leaseOf("whereabouts", "worker-1/stuck", 0, 10*time.Minute))
		}},
		{"a holder of a moment", func(p *Probe) { p.put(leaseOf("whereabouts", "worker-1/add", 0, time.Second)) }},
		{"the fence", func(p *Probe) { p.put(leaseOf("whereabouts", kube.FenceHolder, time.Second, time.Hour)) }},
		// nothing is concluded from what could not be read
		{"Leases cannot be read", func(p *Probe) { p.everythingFails(forbidden) }},
		{"nothing could be read", func(p *Probe) { p.unread(forbidden); p.unjudged = forbidden }},
		{"nothing was answered in time", func(p *Probe) { p.unread(context.DeadlineExceeded) }},
	}
}

// texts are the lines, as text.
func texts(t *testing.T, p *Probe) (all []string) {
	for _, w := range p.reconcilers() {
		if w.Namespace == p.namespace && p.own == nil {
			p.own = w
		}
	}
	for _, l := range p.say(t.Context()) {
		text := fmt.Sprintf("%s %s: %s\n", l.Level, l.ID, l.Message)
		if l.Next != "" {
			text += "    " + l.Next + "\n"
		}
		all = append(all, text)
	}
	return all
}

// What is said of each situation is in testdata/status.txt, but for what is said of a sound cluster, too.
func TestStatus_Situations(t *testing.T) {
	var out strings.Builder
	usual := texts(t, sound())
	fmt.Fprintf(&out, "# a sound cluster\n%s", strings.Join(usual, ""))
	for _, s := range situations() {
		p := sound()
		s.change(p)
		said := texts(t, p)
		fmt.Fprintf(&out, "\n# %s\n", s.name)
		for _, text := range usual {
			if id, _, _ := strings.Cut(text, ":"); !slices.Contains(said, text) {
				fmt.Fprintf(&out, "not %s\n", id)
			}
		}
		for _, text := range said {
			if !slices.Contains(usual, text) {
				out.WriteString(text)
			}
		}
	}
	const golden = "testdata/status.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("it says (see with -update and git diff):\n%s", out.String())
	}
}

// A sound cluster has neither a fault nor anything to type, and nothing of it is unknown.
func TestStatus_SoundClusterIsOK(t *testing.T) {
	for _, text := range texts(t, sound()) {
		if !strings.HasPrefix(text, string(document.LevelOK)) || strings.Contains(text, "\n    ") {
			t.Error(text)
		}
	}
}

func TestStatus_FlagAndVersionOfAWorkload(t *testing.T) {
	w := workload{kube.Workload{Spec: running("registry:5000/ip-reconcile:1.2.3@sha256:00", "serve", "--cron=@every 5m", "--agent-nodes", "kubernetes.io/os=linux", "--repair")}}
	for flag, want := range map[string]string{"--cron": "@every 5m", "--agent-nodes": "kubernetes.io/os=linux", "--repair": "", "--agents": ""} {
		if got := w.argument(flag); got != want {
			t.Errorf("%s is %q, want %q", flag, got, want)
		}
	}
	for image, want := range map[string]string{
		"registry:5000/ip-reconcile:1.2.3@sha256:00": "1.2.3", "registry:5000/ip-reconcile": "", "ip-reconcile@sha256:00": "", "ip-reconcile:1.2.3": "1.2.3",
	} {
		w.Spec.Containers[0].Image = image
		if got := w.version(); got != want {
			t.Errorf("the version of %s is %q, want %q", image, got, want)
		}
	}
}

func TestStatus_WorkloadsOfOneNamespace(t *testing.T) {
	core := fake.NewClientset(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ours"}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: *running("ip-reconcile:1")}}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "agent"}, Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: *running("ip-reconcile:1")}}})
	if all, err := readWorkloads(t.Context(), core, "kube-system", ""); err != nil || len(all.workloads) != 2 || all.onlyIn != "" {
		t.Errorf("got %+v, %v", all, err)
	}
	core.PrependReactor("list", "daemonsets", func(a k8stesting.Action) (bool, runtime.Object, error) {
		return a.GetNamespace() == "", nil, apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "", nil)
	})
	if all, err := readWorkloads(t.Context(), core, "kube-system", ""); err != nil || len(all.workloads) != 1 || all.onlyIn != "kube-system" {
		t.Errorf("where DaemonSets of other namespaces are forbidden: %+v, %v", all, err)
	}
}

// The rights that are asked for are those that the manifests give.
func TestStatus_RightsAreInTheManifests(t *testing.T) {
	p := sound()
	p.own = p.deployment()
	for _, w := range p.wantedRights() {
		for verb := range strings.SplitSeq(w.verbs, ", ") {
			if !granted(t, w.Group, w.Resource, verb) {
				t.Errorf("no manifest gives %s %s", verb, w.Resource)
			}
		}
	}
}

func granted(t *testing.T, group, resource, verb string) bool {
	t.Helper()
	for _, file := range []string{"base/rbac.yaml", "deployment/rbac.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var role struct {
				Rules []struct {
					APIGroups, Resources, Verbs []string
				}
			}
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			for _, r := range role.Rules {
				if slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb) {
					return true
				}
			}
		}
	}
	return false
}

// A 404 of a load balancer is no answer, and a 403 is none.
func TestStatus_AbsentByTheAPIServersOwnAnswer(t *testing.T) {
	thing := schema.GroupResource{Resource: "leases"}
	if err := unlessAbsent(apierrors.NewNotFound(thing, "x")); err != nil {
		t.Errorf("the API server's own 404: %v", err)
	}
	for name, err := range map[string]error{
		"a 403":               apierrors.NewForbidden(thing, "x", nil),
		"a 404 of in between": apierrors.NewGenericServerResponse(404, "get", thing, "x", "404 page not found", 0, true),
	} {
		if unlessAbsent(err) == nil {
			t.Errorf("%s is taken for an answer", name)
		}
	}
}

func TestStatus_AdoptsFlagsAndNamespace(t *testing.T) {
	more := "--repair"
	read := func(args ...string) (*clusterflags.Flags, *Probe) {
		o, given := &clusterflags.Flags{}, pflag.NewFlagSet("status", pflag.ContinueOnError)
		o.Add(given, "error")
		if err := given.Parse(args); err != nil {
			t.Fatal(err)
		}
		p := sound()
		p.deployment().Namespace = "addresses"
		p.deployment().Spec = running("ip-reconcile:0.1.0", "serve", "--agent-nodes=role=worker", "--lease-namespace", "leases", "--unreachable-node-timeout=1h", more)
		if err := p.adopt(o, given); err != nil {
			t.Fatal(err)
		}
		return o, p
	}
	o, p := read()
	_, err := o.Reconciler(nil)
	if err != nil || p.namespace != "addresses" || p.leaseNamespace != "leases" || o.AgentNodes.String() != "role=worker" {
		t.Errorf("%s, %s, %+v, %v", p.namespace, p.leaseNamespace, o.Options, err)
	}
	if o.ConfirmAfter != 15*time.Minute || o.UnreachableNodeTimeout != time.Hour {
		t.Errorf("it confirms after %s, and frees what an unreachable node has after %s", o.ConfirmAfter, o.UnreachableNodeTimeout)
	}
	for flag, want := range map[string]bool{"--trust-network-status": true, "--trust-network-status=true": true, "--trust-network-status=false": false, "--repair": false} {
		more = flag
		o, _ = read()
		if _, err = o.Reconciler(nil); err != nil || o.TrustNetworkStatus != want {
			t.Errorf("with %s it trusts network-status: %v, %v", flag, o.TrustNetworkStatus, err)
		}
	}
	more = "--confirm-after=1h"
	if o, _ = read(); o.ConfirmAfter != time.Hour {
		t.Errorf("it confirms after %s", o.ConfirmAfter)
	}
	if _, p = read("--namespace", "mine"); p.namespace != "mine" {
		t.Errorf("the namespace that is given is %s", p.namespace)
	}
	if _, p = read("--lease-namespace", "own"); p.leaseNamespace != "own" {
		t.Errorf("the namespace of Leases that is given is %s", p.leaseNamespace)
	}
}
