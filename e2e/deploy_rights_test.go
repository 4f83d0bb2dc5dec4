//go:build slow

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestRBAC_CronJob(t *testing.T) {
	t.Parallel()
	for name, namespace := range map[string]string{"as shipped": "", "in another namespace": "addresses"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t, "worker-1")
			folder, in := overlay(t, "", []string{"cronjob"}, nil, ""), metav1.NamespaceSystem
			if namespace != "" {
				folder, in = overlay(t, namespace, []string{"cronjob"}, nil, ""), namespace
				s.namespace(t, namespace)
			}
			kubeconfig := s.applied(t, folder)
			check(t, s.CreateNAD(t.Context(), blue))
			leaked, live := s.up(t, "worker-1", "leaked", blue).leak(t), s.up(t, "worker-1", "live", blue)
			before := s.contents(t)
			s.productAs(t, kubeconfig, "check", "--reconciler-namespace", in).exits(t, 1)
			out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0", "--reconciler-namespace", in)
			out.exits(t, 0)
			out.expect(t, at(leaked), "Stale PodGone", at(live), "InUse AddressOnPod")
			s.checkReleased(t, before, stored(leaked)...)
			missesNone(t, out)

			// The pause of everything is on the reconciler's own namespace.
			again := s.up(t, "worker-1", "again", blue).leak(t)
			pause := thing{r: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}.
				patch(in, types.MergePatchType, `{"metadata":{"annotations":{"ip-reconcile.dev/paused":"true"}}}`)
			check(t, pause(t.Context(), newVisitor(t, s.Config(), "")))
			before = s.contents(t)
			paused := s.productAs(t, kubeconfig, "run", "--confirm-after", "0", "--reconciler-namespace", in)
			paused.exits(t, 1)
			paused.expect(t, at(again), "Stale PodGone")
			s.checkReleased(t, before)
		})
	}
}

// With agents: their Leases, in a namespace of their own, show which reports are fresh.
func TestRBAC_DeploymentPassWithReports(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	kubeconfig := s.applied(t, "../deploy/deployment-with-agent")
	node := s.agent(t, "worker-1")
	phantom, stopped := s.up(t, "worker-1", "phantom", blue), s.up(t, "worker-1", "stopped", blue)
	node.writeReport(t, phantom.listed(v1alpha1.SandboxReady), stopped.stopped())
	phantom.forceDelete(t)
	stopped.leak(t)
	before := s.contents(t)
	out := s.productAs(t, kubeconfig, "run", "--agents=required", "--repair")
	out.exits(t, 0)
	out.expect(t, at(phantom), "Held PhantomPod", at(stopped), "Stale PodGone proven")
	s.checkReleased(t, before, stored(stopped)...)
	missesNone(t, out)
}

// missesNone checks that RBAC forbade a command nothing.
func missesNone(t testing.TB, o *outcome) {
	t.Helper()
	if strings.Contains(o.stderr, ": forbidden") {
		t.Errorf("it misses rights:\n%s", o.stderr)
	}
}

// The golden files of TestDeploy_Rendered have all permissions.
func TestRBAC_ReconcilerHasNoMore(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	v := s.withToken(t, s.applied(t, "../deploy/deployment"))
	namespaces := thing{r: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	pods := thing{r: podsResource, namespace: metav1.NamespaceSystem}
	checkTrials(t, "in fact it has none for", []trial{
		{"reading Secrets", v, thing{r: secrets, namespace: metav1.NamespaceSystem}.list(), noRight},
		{"deleting a pod", v, pods.delete(reconcilerName + "-0"), noRight},
		{"changing a pod", v, pods.merge(reconcilerName + "-0"), noRight},
		{"changing a node", v, thing{r: nodesResource}.merge("worker-1"), noRight},
		{"replacing a pool", v, thing{r: harness.IPPools, namespace: metav1.NamespaceSystem}.deleteAll(), noRight},
		{"deleting a pool", v, thing{r: harness.IPPools, namespace: metav1.NamespaceSystem}.delete("10.1.0.0-24"), noRight},
		{"writing a report", v, thing{sandboxReports, "", newReport}.create("worker-1"), noRight},
		{"deleting a Lease of its own namespace", v, thing{r: leasesResource,
			namespace: metav1.NamespaceSystem}.delete("whereabouts"), noRight},
		{"deleting a Lease of another namespace", v, thing{r: leasesResource,
			namespace: "kube-node-lease"}.delete("worker-1"), noRight},
		{"getting another namespace", v, namespaces.get(metav1.NamespaceDefault), noRight},
		{"listing all namespaces", v, namespaces.list(), noRight},
		{"changing its own namespace", v, namespaces.merge(metav1.NamespaceSystem), noRight},
	})
	checkTrials(t, "it may", []trial{
		{"get its own namespace", v, namespaces.get(metav1.NamespaceSystem), ""},
		{"list its own namespace", v, namespaces.list(metav1.NamespaceSystem), ""},
		{"write a reservation back", v, thing{harness.Reservations, metav1.NamespaceSystem,
			reserves("default/live")}.create("10.9.0.1"), ""},
		{"create a ConfigMap of any name in its namespace", v, thing{configMaps, metav1.NamespaceSystem,
			objects(configMaps, "ConfigMap", nil)}.dryRun("aws-auth"), ""},
	})
	checkTrials(t, "but it has none for", []trial{
		{"changing a ConfigMap of another name", v, thing{r: configMaps,
			namespace: metav1.NamespaceSystem}.merge("whereabouts-config"), noRight},
		{"creating a ConfigMap in another namespace", v, thing{configMaps, metav1.NamespaceDefault,
			objects(configMaps, "ConfigMap", nil)}.dryRun("any"), noRight},
	})
}

// The Deployment's own ServiceAccount and arguments, except the addresses. What an event proves is released at once:
// after the end of a sandbox, and after a pause.
func TestRBAC_DeploymentServes(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	kubeconfig := s.applied(t, "../deploy/deployment-with-agent")
	check(t, s.CreateNAD(t.Context(), blue))
	node := s.agent(t, "worker-1")
	v := s.serve(t, kubeconfig, "--leader-elect", "--agents=required", "--repair")
	v.said(t, `msg="Watch caches are synced" kinds=8`)
	equal(t, "the leader's Lease is held", s.heldBy(t, "ip-reconcile") != "", true)

	stopped := s.up(t, "worker-1", "stopped", blue)
	node.writeReport(t, stopped.listed(v1alpha1.SandboxReady))
	stopped.forceDelete(t)
	v.said(t, `msg=Held pool=kube-system/10.1.0.0-24 address=10.1.0.1 podRef=default/stopped .*reason=PhantomPod.* age=`)
	node.writeReport(t, stopped.stopped())
	t.Logf("released %s after the report", s.waitReleased(t, promptly, "10.1.0.0-24", "1"))
	v.is(t, `ip_reconcile_released_total{reason="PodGone"}`, 2)
	s.event(t, "IPAddressGarbageCollected", "IPPool", "10.1.0.0-24")
	v.said(t, `msg=Released pool=kube-system/10.1.0.0-24 address=10.1.0.1 podRef=default/stopped ifName=net1 `+
		`verdict=Stale reason=PodGone rule=gone-ended evidence=.* containerID=`+stopped.sandbox.ID+` age=`)

	const refused = `ip_reconcile_refused_total{reason="Paused"}`
	for name, pause := range map[string]func(value string){
		"in-a-pool":  func(value string) { s.patch(t, harness.IPPools, "10.1.0.0-24", pausing(value)) },
		"everywhere": func(value string) { s.pauseAll(t, value) },
	} {
		paused, before := s.up(t, "worker-1", "paused-"+name, blue), v.metric(refused)
		pause("true")
		paused.forceDelete(t)
		node.writeReport(t, paused.stopped())
		v.is(t, "ip_reconcile_candidates", 1)
		v.counts(t, refused, before+1)
		equal(t, "paused "+name, v.metric("ip_reconcile_paused") == 1, name == "everywhere")
		pause("false")
		s.waitReleased(t, promptly, "10.1.0.0-24", "1")
	}
	v.is(t, "ip_reconcile_paused", 0)

	if log := v.stderr.String(); strings.Contains(log, "forbidden") {
		t.Errorf("it misses rights")
	}
}

// TestDeploy_RecoverJob runs the command of deploy/recover-job with the token of its pod, in a cluster that has only
// the agents of ip-reconcile after a restore.
func TestDeploy_RecoverJob(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), blue))
	kubeconfig := s.applied(t, "../deploy/recover-job")
	objects := byName(t, kustomized(t, "../deploy/recover-job"))
	job := as[batchv1.Job](t, objects["Job ip-reconcile-recover-job"])
	for _, name := range []string{"ClusterRole ip-reconcile-check-recover-job", "ServiceAccount ip-reconcile"} {
		if objects[name] != nil {
			t.Errorf("it has %s", name)
		}
	}
	node := s.agent(t, "worker-1")
	live, leaked := s.up(t, "worker-1", "live", blue), s.up(t, "worker-1", "leaked", blue)
	node.writeReport(t, live.listed(v1alpha1.SandboxReady), leaked.stopped())
	leaked.leak(t)
	complete := s.contents(t)
	s.forget(t, live)
	s.unreserve(t, live.ips[0])

	c := job.Spec.Template.Spec.Containers[0]
	equal(t, "the command", c.Command, []string{"/ip-reconcile"})
	account := try(clientcmd.BuildConfigFromFlags("", kubeconfig)).must(t)
	out := start(t, inPod(t, account, shipped.program(t, "ip-reconcile"), c.Args...)).wait()
	out.exits(t, 0)
	missesNone(t, out)
	equal(t, "what is recorded, with the leaked allocation", slices.Sorted(maps.Keys(s.contents(t))),
		slices.Sorted(maps.Keys(complete)))
}
