package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// deployed is a cluster with a stale allocation, and a Deployment of the reconciler in the namespace ip-recon.
type deployed struct {
	*fakeapi.Client
	config string
}

func newDeployed(t *testing.T, isPaused bool, args ...any) *deployed {
	t.Helper()
	d := &deployed{Client: &fakeapi.Client{Server: fakeapi.NewServer()}}
	d.NotServed = map[string]bool{"ip-reconcile.dev": true, "kubevirt.io": true}
	annotations := `{}`
	if isPaused {
		annotations = `{"ip-reconcile.dev/paused":"true"}`
	}
	d.put(fakeapi.Namespaces, "", "kube-system", `{"apiVersion":"v1","kind":"Namespace",
		"metadata":{"name":"kube-system","uid":"uid-1"}}`)
	d.put(fakeapi.Namespaces, "", "ip-recon", `{"apiVersion":"v1","kind":"Namespace",
		"metadata":{"name":"ip-recon","uid":"uid-2","annotations":`+annotations+`}}`)
	d.put(fakeapi.Nodes, "", "worker-1", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"worker-1","uid":"n-1",
		"labels":{"kubernetes.io/os":"linux"}},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	d.put(fakeapi.Pods, "default", "other", `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default",
		"name":"other","uid":"p-1"},"spec":{"nodeName":"worker-1"},"status":{"phase":"Running"}}`)
	d.put(fakeapi.Pools, "kube-system", "10.0.0.0-24", `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool",
		"metadata":{"namespace":"kube-system","name":"10.0.0.0-24"},"spec":{"range":"10.0.0.0/24",
		"allocations":{"7":{"id":"box-1","podref":"default/gone","ifname":"net1"}}}}`)
	d.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		if q.Resource != "apps/deployments" {
			return nil
		}
		return listOfWorkloads("apps/v1", "DeploymentList", map[string]any{"metadata": ours("ip-recon"),
			"spec": map[string]any{"replicas": 1, "template": podTemplate(append([]any{"serve"}, args...)...)}})
	}
	api := httptest.NewServer(d)
	t.Cleanup(api.Close)
	d.config = kubeconfigOf(t, api.URL)
	return d
}

func (d *deployed) put(resource, namespace, name, text string) {
	d.Put(fakeapi.At(resource, namespace, name), fakeapi.Decode([]byte(text)), d.Now(), "somebody")
}

func listOfWorkloads(version, kind string, items ...any) *fakeapi.Answer {
	a := fakeapi.OK(map[string]any{"apiVersion": version, "kind": kind,
		"metadata": map[string]any{"resourceVersion": "1"}, "items": append([]any{}, items...)})
	return &a
}

func ours(namespace string) map[string]any {
	return map[string]any{"namespace": namespace, "name": "ip-reconcile",
		"labels": map[string]any{"app.kubernetes.io/name": "ip-reconcile"}}
}

func podTemplate(args ...any) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "a",
		"image": "example.com/ip-reconcile:1", "args": args}}}}
}

// isNotReleased checks that release by hand refuses, and says why.
func (d *deployed) isNotReleased(t *testing.T, why string, args ...string) {
	t.Helper()
	code, out, errs := run(t, append([]string{"release", "10.0.0.7", "--yes", "--kubeconfig", d.config}, args...)...)
	d.Lock()
	defer d.Unlock()
	pool := d.Get(fakeapi.At(fakeapi.Pools, "kube-system", "10.0.0.0-24"))
	if code == exitClean || !strings.Contains(string(pool.JSON), "box-1") || !strings.Contains(out+errs, why) {
		t.Errorf("exit code %d, without %q, or it was released:\n%s%s", code, why, out, errs)
	}
}

// The pause of the deployed reconciler counts wherever a person, or a pipeline's pod, releases by hand.
func TestRelease_RespectsThePauseOfTheDeployedReconciler(t *testing.T) {
	for says, host := range map[string]string{"outside of a pod": "", "in a pod of any cluster": "10.96.0.1"} {
		t.Run(says, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", host)
			newDeployed(t, true).isNotReleased(t, "is paused")
		})
	}
}

// Whoever names the namespace of the deployed reconciler judges by the same flags as whoever does not.
func TestRelease_AdoptsFlagsFromTheNamespaceThatIsGiven(t *testing.T) {
	for says, args := range map[string][]string{
		"not given": nil, "given": {"--reconciler-namespace", "ip-recon"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			newDeployed(t, false, "--agents=required").isNotReleased(t, "NoFreshReport", args...)
		})
	}
}

// Neither a namespace without a reconciler, nor one that does not exist, says that nothing is paused.
func TestRelease_TheGivenNamespaceHasNoReconciler(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	d := newDeployed(t, true)
	d.isNotReleased(t, "no reconciler is installed there, and Deployment ip-recon/ip-reconcile is",
		"--reconciler-namespace", "kube-system")
	d.Instead = func(q *fakeapi.Request) *fakeapi.Answer { // nothing is installed
		if q.Resource == "apps/deployments" {
			return listOfWorkloads("apps/v1", "DeploymentList")
		}
		return nil
	}
	d.isNotReleased(t, "cannot get namespace ip-reocn: it does not exist", "--reconciler-namespace", "ip-reocn")
}

// Deployments may be listed everywhere, and CronJobs only in kube-system, which has one of an earlier installation.
func TestRelease_ADeploymentThatWasListedCounts(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	d := newDeployed(t, true)
	everywhere := d.Instead
	d.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		switch {
		case q.Resource == "batch/cronjobs" && q.Namespace == "":
			a := fakeapi.Failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no")
			return &a
		case q.Resource == "batch/cronjobs":
			return listOfWorkloads("batch/v1", "CronJobList", map[string]any{"metadata": ours("kube-system"),
				"spec": map[string]any{"suspend": true, "jobTemplate": map[string]any{"spec": map[string]any{
					"template": podTemplate("run", "--yes")}}}})
		case q.Resource == "apps/deployments" && q.Namespace != "":
			return listOfWorkloads("apps/v1", "DeploymentList")
		}
		return everywhere(q)
	}
	d.isNotReleased(t, "name the namespace with --reconciler-namespace")
}
