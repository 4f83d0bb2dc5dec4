package statuscmd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func TestWhatDoesNotAnswerIsGivenUpAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		began := time.Now()
		a := ask(t.Context(), askFor, func(context.Context) (int, error) { <-release; return 7, nil })
		if a.err == nil || a.why() != "no answer in time" || time.Since(began) != askFor {
			t.Errorf("after %s: %+v: %s", time.Since(began), a, a.why())
		}
		close(release)
	})
}

// The schema that is installed has every field that the program uses.
func TestThePackagedDefinitionLacksNothing(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/crds/ip-reconcile.dev_sandboxreports.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		t.Fatal(err)
	}
	n := neededDefinitions[3]
	d, err := n.definition(o)
	if err != nil || len(d.lacks) > 0 || !slices.Equal(d.served, []string{n.resource.Version}) || len(n.fields) < 30 {
		t.Errorf("of %d fields it lacks %q; it serves %q (%v)", len(n.fields), d.lacks, d.served, err)
	}
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "machine")
	if err := unstructured.SetNestedSlice(o.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if d, err = n.definition(o); err != nil || !slices.Equal(d.lacks, []string{"machine", "machine.machineID", "machine.systemUUID"}) {
		t.Errorf("without one it lacks %q (%v)", d.lacks, err)
	}
}

func TestADefinitionThatKeepsUnknownFieldsLacksNone(t *testing.T) {
	open := map[string]any{"x-kubernetes-preserve-unknown-fields": true}
	properties := func(of map[string]any) map[string]any { return map[string]any{"properties": of} }
	for _, c := range []struct {
		schema      map[string]any
		spec, other bool // it has spec.config, and status
	}{{open, true, true}, {properties(map[string]any{"spec": open}), true, false}, {properties(map[string]any{"other": open}), false, false}} {
		if spec, other := keeps(c.schema, []string{"spec", "config"}), keeps(c.schema, []string{"status"}); spec != c.spec || other != c.other {
			t.Errorf("%v has spec.config: %v, status: %v", c.schema, spec, other)
		}
	}
}

func TestAFlagAndAVersionAreReadFromAWorkload(t *testing.T) {
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

func TestTheScheduleIsFoundWhereTheProgramFindsIt(t *testing.T) {
	mounted := func(optional bool) *corev1.PodSpec {
		spec := running("ip-reconcile", "serve")
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cron-schedule", MountPath: "/cron-schedule"}}
		spec.Volumes = []corev1.Volume{{Name: "cron-schedule", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "whereabouts-config"}, Optional: ptr.To(optional),
			Items: []corev1.KeyToPath{{Key: "cron-expression", Path: "config"}},
		}}}}
		return spec
	}
	there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "whereabouts-config"}, Data: map[string]string{"cron-expression": "@every 5m\n"}}
	withFlag := mounted(true)
	withFlag.Containers[0].Args = []string{"serve", "--cron=@hourly"}
	onNodes := mounted(true)
	onNodes.Containers[0].VolumeMounts = append(onNodes.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "cni", MountPath: "/host/etc/cni/net.d"})
	for name, c := range map[string]struct {
		spec    *corev1.PodSpec
		objects []*corev1.ConfigMap
		want    string
	}{
		"a flag":                         {withFlag, []*corev1.ConfigMap{there}, "@hourly"},
		"the ConfigMap":                  {mounted(true), []*corev1.ConfigMap{there}, "@every 5m"},
		"no ConfigMap":                   {mounted(true), nil, "30 4 * * *"},
		"a ConfigMap without the key":    {mounted(true), []*corev1.ConfigMap{{ObjectMeta: there.ObjectMeta}}, "30 4 * * *"},
		"no ConfigMap, where it must be": {mounted(false), nil, ""},
		"a file on the nodes":            {onNodes, nil, ""},
		"nothing mounted":                {running("ip-reconcile", "serve"), []*corev1.ConfigMap{there}, "30 4 * * *"},
	} {
		core := fake.NewClientset()
		for _, o := range c.objects {
			if _, err := core.CoreV1().ConfigMaps(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := readSchedule(t.Context(), core, &workload{kube.Workload{Kind: "Deployment", Namespace: "kube-system", Name: "ip-reconcile", Spec: c.spec}})
		if (err != nil) != (c.want == "") || got.expression != c.want {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestWorkloadsOfOneNamespaceWhereNoOtherMayBeListed(t *testing.T) {
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

func TestMissingRightsAreNamedByWhatTheyAreFor(t *testing.T) {
	has := func(_ context.Context, a authorizationv1.ResourceAttributes) (bool, error) {
		return a.Resource != "leases" || a.Verb == "get" && a.Namespace == "pools", nil
	}
	missing, err := missingRights(t.Context(), has, rightsOfRun("own", "agents", map[string][]string{"pools": {"blue-10.0.0.0-24", "whereabouts"}}, true))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range missing {
		got = append(got, m.String()+": "+m.without)
	}
	want := []string{
		"list leases in agents: no agent's report counts as fresh",
		"create, update leases in pools: nothing is released",
		"get, create, update leases in own: no replica leads, and the breaker forgets at a restart",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The rights that are asked for are those that the manifests give.
func TestTheRightsAskedForAreInTheManifests(t *testing.T) {
	for _, w := range slices.Concat(rightsOfRun("kube-system", "ip-reconcile-node-lease", map[string][]string{"kube-system": {"whereabouts"}}, true), rightsOfServe(true)) {
		for verb := range strings.SplitSeq(w.verbs, ", ") {
			if !granted(t, w.group, w.resource, verb) {
				t.Errorf("no manifest gives %s %s", verb, w.resource)
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
func TestOnlyTheAPIServersOwnAnswerSaysThatSomethingIsNotThere(t *testing.T) {
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

func TestTheReconcilersOwnFlagsAndNamespaceCount(t *testing.T) {
	more := "--repair"
	read := func(args ...string) (*options, *facts) {
		o := &options{given: pflag.NewFlagSet("status", pflag.ContinueOnError)}
		o.Add(o.given, "error")
		if err := o.given.Parse(args); err != nil {
			t.Fatal(err)
		}
		f := sound()
		f.deployment().Namespace = "addresses"
		f.deployment().Spec = running("ip-reconcile:0.1.0", "serve", "--agent-nodes=role=worker", "--lease-namespace", "leases", "--unreachable-node-timeout=1h", more)
		if err := o.adopt(f); err != nil {
			t.Fatal(err)
		}
		return o, f
	}
	o, f := read()
	options, err := o.Options()
	if err != nil || f.namespace != "addresses" || f.leaseNamespace != "leases" || options.AgentNodes.String() != "role=worker" {
		t.Errorf("%s, %s, %+v, %v", f.namespace, f.leaseNamespace, options, err)
	}
	if options.ConfirmAfter != 15*time.Minute || options.UnreachableNodeTimeout != time.Hour {
		t.Errorf("it confirms after %s, and frees what an unreachable node has after %s", options.ConfirmAfter, options.UnreachableNodeTimeout)
	}
	for flag, want := range map[string]bool{"--trust-network-status": true, "--trust-network-status=true": true, "--trust-network-status=false": false, "--repair": false} {
		more = flag
		o, _ = read()
		if options, err = o.Options(); err != nil || options.TrustNetworkStatus != want {
			t.Errorf("with %s it trusts network-status: %v, %v", flag, options.TrustNetworkStatus, err)
		}
	}
	more = "--confirm-after=1h"
	if o, _ = read(); o.ConfirmAfter != time.Hour {
		t.Errorf("it confirms after %s", o.ConfirmAfter)
	}
	if _, f = read("--namespace", "mine"); f.namespace != "mine" {
		t.Errorf("the namespace that is given is %s", f.namespace)
	}
	if _, f = read("--lease-namespace", "own"); f.leaseNamespace != "own" {
		t.Errorf("the namespace of Leases that is given is %s", f.leaseNamespace)
	}
}
