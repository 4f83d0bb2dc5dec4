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

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

var update = flag.Bool("update", false, "write testdata/status.txt")

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
	r := &reconciler.Reconciler{Process: &reconciler.Process{},
		Options: plan.Options{ConfirmAfter: 15 * time.Minute}}
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

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

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
		return true,
			nil, err
	})
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

// testdata/status.txt has the lines of each situation that differ from those of a sound cluster.
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

// A grant is one verb on one resource that a role of the manifests gives the reconciler.
type grant struct {
	namespace             string // of the Role; "" for a ClusterRole
	group, resource, verb string
	names                 []string // nil for all
}

func (g *grant) allows(a *authorizationv1.ResourceAttributes) bool {
	return g.group == a.Group && g.resource == a.Resource && g.verb == a.Verb &&
		(g.namespace == "" || g.namespace == a.Namespace) && (g.names == nil || slices.Contains(g.names, a.Name))
}

// grants are those of the roles of the reconciler's ServiceAccount.
func grants(t *testing.T) (all []grant) {
	t.Helper()
	for _, file := range []string{"base/rbac.yaml", "deployment/rbac.yaml", "leases/leases.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var role rbacv1.Role
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			if role.Name == "ip-reconcile-agent" {
				continue
			}
			for _, r := range role.Rules {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						all = append(all, grant{role.Namespace, r.APIGroups[0], resource, verb, r.ResourceNames})
					}
				}
			}
		}
	}
	return all
}

// rightsUnder returns the line of the check of rights for a ServiceAccount with these grants.
func rightsUnder(t *testing.T, given []grant) line {
	t.Helper()
	p := sound()
	p.own = p.deployment()
	p.may = func(_ context.Context, _ string, a authorizationv1.ResourceAttributes) (bool, error) {
		return slices.ContainsFunc(given, func(g grant) bool { return g.allows(&a) }), nil
	}
	l, err := p.permissions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// While a source is unknown, no line that rests on it says that all is well.
func TestStatus_UnknownSourcesAreNoAllClear(t *testing.T) {
	usual := All(UsualPool, UsualPod(Carrying("10.0.0.5")), bounded, bothFresh)
	for name, c := range map[string]struct {
		part  Part
		lines []string
	}{
		"definitions": {noDefinitions, []string{"stale", "pools", "findings"}},
		"no definition": {func(o *Observed) {
			o.NADs = facts.Complete(map[types.NamespacedName]*ippool.NAD{}, "1")
		}, []string{"pools"}},
		"nodes": {NodesUnknown, []string{"stale", "findings", "agents"}},
		"reports": {func(o *Observed) { o.Reports = facts.Unknown[[]*podstate.Report](forbidden) },
			[]string{"stale", "findings", "agents"}},
		"Leases": {func(o *Observed) { o.AgentLeases = facts.Unknown[bool](forbidden) }, []string{"stale", "findings"}},
		"reservations": {func(o *Observed) { o.Reservations = facts.Unknown[[]*ippool.Reservation](forbidden) },
			[]string{"stale", "findings"}},
	} {
		p := sound()
		p.observed(usual, c.part)
		isOK := map[string]string{}
		for _, l := range p.say(t.Context()) {
			if l.Level == view.LevelOK {
				isOK[l.ID] = l.Message
			}
		}
		for _, id := range c.lines {
			if isOK[id] != "" {
				t.Errorf("%s are unknown, and %s says %q", name, id, isOK[id])
			}
		}
	}
}

func TestStatus_FindingsThatAreNotListed(t *testing.T) {
	p := sound()
	parts := []Part{UsualPool, bothFresh}
	for i := range 1200 {
		parts = append(parts, RawReservation(fmt.Sprint("bad-", i), time.Hour, map[string]any{"podref": "?"}))
	}
	p.observed(parts...)
	l, err := p.findings(t.Context())
	if err != nil || !strings.Contains(l.Message, "1200 Malformed") ||
		!strings.Contains(l.Message, "which have 1,000 of a kind: 200.") {
		t.Errorf("%+v %v", l, err)
	}
}

// The rights that are asked for are those that the manifests give, and each of them.
func TestStatus_PermissionsAreThoseOfTheManifests(t *testing.T) {
	all := grants(t)
	if l := rightsUnder(t, all); l.Level != view.LevelOK {
		t.Errorf("with all rights: %s %s", l.Level, l.Message)
	}
	if len(all) < 40 {
		t.Errorf("%d rights", len(all))
	}
	for i, g := range all {
		t.Run(g.verb+" "+g.resource+" "+g.namespace, func(t *testing.T) {
			rest := slices.Delete(slices.Clone(all), i, i+1)
			if slices.ContainsFunc(rest, func(other grant) bool { // a ClusterRole gives it, too
				return other.namespace == "" && other.names == nil && other.group == g.group && other.resource == g.resource &&
					other.verb == g.verb
			}) {
				return
			}
			l := rightsUnder(t, rest)
			isNamed := slices.ContainsFunc(strings.Split(strings.TrimPrefix(l.Message,
				"RBAC forbids ServiceAccount kube-system/ip-reconcile to "), "; "), func(part string) bool {
				verbs, cost, hasCost := strings.Cut(part, " (")
				return strings.HasPrefix(verbs, g.verb+" "+g.resource) && hasCost && len(cost) > len("x).")
			})
			if l.Level != view.LevelWarning && l.Level != view.LevelError || !isNamed || l.Next == "" {
				t.Errorf("without it: %s %s", l.Level, l.Message)
			}
		})
	}
}

// A kind that the API server does not serve needs no rights.
func TestStatus_PermissionsOfKindsThatAreNotServed(t *testing.T) {
	p := sound()
	p.own = p.deployment()
	p.lacking(ippool.ClaimResource, podstate.GuestResource)
	p.may = func(_ context.Context, _ string, a authorizationv1.ResourceAttributes) (bool, error) {
		return a.Resource != "ipamclaims" && a.Resource != "virtualmachineinstances", nil
	}
	if l, err := p.permissions(t.Context()); err != nil || l.Level != view.LevelOK {
		t.Errorf("%s %s, %v", l.Level, l.Message, err)
	}
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
