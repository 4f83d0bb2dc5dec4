package statuscmd

import (
	"errors"
	"testing"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func TestStatus_FlagAndVersionOfAWorkload(t *testing.T) {
	w := workload{kube.Workload{Spec: running("registry:5000/ip-reconcile:1.2.3@sha256:00", "serve", "--cron=@every 5m",
		"--agent-nodes", "kubernetes.io/os=linux", "--repair")}}
	for flag, want := range map[string]string{"--cron": "@every 5m", "--agent-nodes": "kubernetes.io/os=linux",
		"--repair": "", "--agents": ""} {
		if got := w.argument(flag); got != want {
			t.Errorf("%s is %q, want %q", flag, got, want)
		}
	}
	for image, want := range map[string]string{
		"registry:5000/ip-reconcile:1.2.3@sha256:00": "1.2.3", "registry:5000/ip-reconcile": "", "ip-reconcile@sha256:00": "",
		"ip-reconcile:1.2.3": "1.2.3",
	} {
		w.Spec.Containers[0].Image = image
		if got := w.version(); got != want {
			t.Errorf("the version of %s is %q, want %q", image, got, want)
		}
	}
}

func TestStatus_WorkloadsOfOneNamespace(t *testing.T) {
	core := fake.NewClientset(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ours"},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: *running("ip-reconcile:1")}}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "agent"},
			Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: *running("ip-reconcile:1")}}})
	if all, err := list(t.Context(), core, "kube-system", ""); err != nil || len(all) != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
	core.PrependReactor("list", "daemonsets", func(a k8stesting.Action) (bool, runtime.Object, error) {
		return a.GetNamespace() == "", nil, apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "", nil)
	})
	if all, err := list(t.Context(), core, "kube-system", ""); !apierrors.IsForbidden(err) || len(all) != 1 {
		t.Errorf("where DaemonSets of other namespaces are forbidden: %+v, %v", all, err)
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
		p.deployment().Spec = running("ip-reconcile:0.1.0", "serve", "--agent-nodes=role=worker", "--lease-namespace",
			"leases", "--unreachable-node-timeout=1h", more)
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
		t.Errorf("it confirms after %s, and releases what an unreachable node has after %s", o.ConfirmAfter,
			o.UnreachableNodeTimeout)
	}
	for flag, want := range map[string]bool{"--trust-network-status": true, "--trust-network-status=true": true,
		"--trust-network-status=false": false, "--repair": false} {
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
	if _, p = read("--reconciler-namespace", "mine"); p.namespace != "mine" {
		t.Errorf("the namespace that is given is %s", p.namespace)
	}
	if _, p = read("--lease-namespace", "own"); p.leaseNamespace != "own" {
		t.Errorf("the namespace of Leases that is given is %s", p.leaseNamespace)
	}
}

// A command that writes must not miss the annotation that pauses the reconciler, wherever that is.
func TestAdopt_OnlyReconcilerOrAnError(t *testing.T) {
	one := workloads{{kube.Workload{Kind: "Deployment", Namespace: "addresses", Spec: running("ip-reconcile:0.1.0"),
		Labels: map[string]string{kube.NameLabel: kube.Product}}}}
	other := *one[0]
	other.Namespace = "other"
	second := workloads{one[0], &other}
	away := errors.New("no route to host")
	for name, c := range map[string]struct {
		found         workloads
		err           error
		namespace     string
		refusesWrites bool
	}{
		"one":                        {one, nil, "addresses", false},
		"one, and others forbidden":  {one, forbidden, "addresses", false},
		"none":                       {nil, nil, "kube-system", false},
		"none, and others forbidden": {nil, forbidden, "kube-system", true},
		"several":                    {second, nil, "kube-system", true},
		"no answer":                  {nil, away, "kube-system", true},
		"half an answer":             {one, away, "kube-system", true},
	} {
		for _, writes := range []bool{false, true} {
			o, given := &clusterflags.Flags{}, pflag.NewFlagSet("run", pflag.ContinueOnError)
			o.Add(given, "error")
			err := c.found.adoptOnly(c.err, given, writes)
			if o.Namespace() != c.namespace || (err != nil) != (writes && c.refusesWrites) {
				t.Errorf("%s, writes %v: namespace %s, %v", name, writes, o.Namespace(), err)
			}
		}
	}
}
