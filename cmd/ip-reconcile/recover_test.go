package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// restored is an API server after a restore of etcd: a pod runs, and the pool lacks its address.
func restored(t *testing.T) (server *fakeapi.Client, kubeconfig string) {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	server = &fakeapi.Client{Server: fakeapi.NewServer()}
	server.NotServed = map[string]bool{"kubevirt.io": true}
	for _, o := range []struct{ resource, namespace, name, text string }{
		{fakeapi.Namespaces, "", "kube-system", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system",
			"uid":"uid-1"}}`},
		{fakeapi.Nodes, "", "worker-1", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"worker-1","uid":"n-1",
			"labels":{"kubernetes.io/os":"linux"}},"status":{"nodeInfo":{"bootID":"boot-1"},
			"conditions":[{"type":"Ready","status":"True"}]}}`},
		{fakeapi.Pods, "default", "web", `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"web",
			"uid":"p-1","annotations":{"k8s.v1.cni.cncf.io/networks":"wb"}},"spec":{"nodeName":"worker-1"},
			"status":{"phase":"Running"}}`},
		{fakeapi.Pools, "kube-system", "10.0.0.0-24", `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool",
			"metadata":{"namespace":"kube-system","name":"10.0.0.0-24"},"spec":{"range":"10.0.0.0/24","allocations":{}}}`},
		{fakeapi.NADs, "default", "wb", `{"apiVersion":"k8s.cni.cncf.io/v1","kind":"NetworkAttachmentDefinition",
			"metadata":{"namespace":"default","name":"wb"},"spec":{"config":"{\"cniVersion\":\"0.3.1\",\"type\":\"macvlan\",` +
			`\"ipam\":{\"type\":\"whereabouts\",\"range\":\"10.0.0.0/24\"}}"}}`},
	} {
		server.Put(fakeapi.At(o.resource, o.namespace, o.name), fakeapi.Decode([]byte(o.text)), server.Now(), "somebody")
	}
	api := httptest.NewServer(server)
	t.Cleanup(api.Close)
	return server, kubeconfigOf(t, api.URL)
}

// An API server that has just started, as after a restore, denies for a moment what RBAC grants. That must not end
// recover before its fence is raised: without the fence ADDs assign addresses in use.
func TestRecover_DeniedBeforeTheFence(t *testing.T) {
	server, config := restored(t)
	denials := 0
	server.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		if q.Resource != fakeapi.Pods || denials > 0 {
			return nil
		}
		denials++
		a := fakeapi.Failure(http.StatusForbidden, metav1.StatusReasonForbidden, "RBAC: clusterrole not found")
		return &a
	}
	code, out, errs := run(t, "recover", "--yes", "--kubeconfig", config, "--reconciler-namespace", "kube-system")
	if !strings.Contains(errs, "no node agent has reported") || denials != 1 { // what it says when it has read all
		t.Errorf("exit code %d after %d denials:\n%s%s", code, denials, out, errs)
	}
}

// reportOf puts worker-1's report, and a Lease that confirms it.
func reportOf(t *testing.T, server *fakeapi.Client, renewed time.Time, sandboxes ...v1alpha1.Sandbox) {
	t.Helper()
	r := &v1alpha1.SandboxReport{Sandboxes: sandboxes}
	r.APIVersion, r.Kind, r.Name, r.BootID = "ip-reconcile.dev/v1alpha1", "SandboxReport", "worker-1", "boot-1"
	r.ObservedAt = metav1.NewTime(renewed.UTC().Truncate(time.Second))
	content, err := json.Marshal(r)
	check(t, err)
	server.Put(fakeapi.At(fakeapi.Reports, "", r.Name), fakeapi.Decode(content), server.Now(), "agent")
	server.Put(fakeapi.At(fakeapi.Leases, "ip-reconcile-node-lease", r.Name), fakeapi.Decode([]byte(
		`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"worker-1",`+
			`"namespace":"ip-reconcile-node-lease","annotations":{"ip-reconcile.dev/report-hash":"`+podstate.Hash(r)+`"}},`+
			`"spec":{"holderIdentity":"worker-1","leaseDurationSeconds":60,"renewTime":"`+
			renewed.UTC().Format("2006-01-02T15:04:05.000000Z")+`"}}`)), server.Now(), "agent")
}

// Right after a restore the reports are those of the backup, so that nothing is to be written yet. A person must be
// asked all the same before the Leases are taken and what the agents report meanwhile is written. This one says no.
func TestRecover_AsksBeforeItKnowsWhatToWrite(t *testing.T) {
	server, config := restored(t)
	reportOf(t, server, time.Now().Add(-time.Hour))
	server.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		if q.Method != http.MethodGet {
			t.Errorf("%s %s %s", q.Method, q.Resource, q.Name)
		}
		return nil
	}
	std, shown := terminalWith(t, "n\n")
	code := execute([]string{"recover", "--kubeconfig", config, "--reconciler-namespace", "kube-system"}, std)
	want := "Hold all ADDs and DELs, and write what the nodes report meanwhile, nothing so far? [y/N] Nothing was written."
	if code != exitUnresolved || !strings.Contains(shown(), want) {
		t.Errorf("exit code %d:\n%s", code, shown())
	}
}

// What a silent node runs is unknown, so that recover cannot say that everything is written.
func TestRecover_SilentNode(t *testing.T) {
	dir := t.TempDir()
	dead := strings.NewReplacer(`status: "True"`, `status: "Unknown"`, "spec: {}", "spec: {taints: [{key: "+
		"node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}]}").Replace(silent)
	for name, c := range map[string]struct {
		text, now string
		want      int
	}{
		"silent":      {silent, "2026-11-20T10:00:00Z", exitUnresolved},
		"proven dead": {dead, "2026-11-20T10:00:00Z", exitClean},
	} {
		write(t, filepath.Join(dir, "all.yaml"), c.text)
		code, out, errs := run(t, "recover", "--dry-run", "--snapshot", dir, "--now", c.now)
		if code != c.want {
			t.Errorf("%s: exit code %d:\n%s%s", name, code, out, errs)
		}
	}
}

// silent is a cluster whose only agent is silent for forty minutes, as after a restore of etcd. Its last report is
// that of the backup, and does not have the pods that started since.
const silent = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: worker-1, labels: {kubernetes.io/os: linux}},
   spec: {}, status: {nodeInfo: {bootID: boot-1},
   conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-11-20T07:00:00Z"}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: other, namespace: default, uid: u-1},
   spec: {nodeName: worker-1}, status: {phase: Running}}
- {apiVersion: whereabouts.cni.cncf.io/v1alpha1, kind: IPPool, metadata: {name: 10.0.0.0-24, namespace: kube-system},
   spec: {range: 10.0.0.0/24, allocations: {"5": {id: box-5, podref: default/other, ifname: net1}}}}
- {apiVersion: whereabouts.cni.cncf.io/v1alpha1, kind: OverlappingRangeIPReservation,
   metadata: {name: 10.0.0.5, namespace: kube-system,
   creationTimestamp: "2026-11-20T05:00:00Z", uid: r-1}, spec: {podref: default/other, ifname: net1}}
- {apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: storage, namespace: default},
   spec: {config: '{"cniVersion":"0.3.1","type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}'}}
- {apiVersion: ip-reconcile.dev/v1alpha1, kind: SandboxReport, metadata: {name: worker-1}, bootID: boot-1,
   runtime: {name: containerd, version: 2.4.2}, observedAt: "2026-11-20T09:20:55Z"}
- {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: worker-1, namespace: ip-reconcile-node-lease,
   annotations: {ip-reconcile.dev/report-hash: 2e096ef7978798dc32986e5e44a19d9f774d6088895db5ea9b32cf2b71e51c84}},
   spec: {holderIdentity: worker-1, leaseDurationSeconds: 60, renewTime: "2026-11-20T09:21:00.000000Z"}}
`
