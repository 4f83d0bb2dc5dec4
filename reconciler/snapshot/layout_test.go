package snapshot_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Of these objects default/a is live and carries 10.0.0.5, and default/b is gone, so that
// 10.0.0.6 of onePool is leaked.
const (
	runningPod = `apiVersion: v1
kind: Pod
metadata:
  annotations:
    k8s.v1.cni.cncf.io/network-status: '[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]}]'
  name: a
  namespace: default
  resourceVersion: "%s"
  uid: pod-a
spec:
  nodeName: w1
status:
  phase: Running
`
	readyNode = "apiVersion: v1\nkind: Node\nmetadata:\n  name: w1\nstatus:\n  conditions:\n  - status: \"True\"\n" +
		"    type: Ready\n"
	podOfList = `{"metadata":{"name":"a","namespace":"default","uid":"pod-a","resourceVersion":"7",` +
		`"annotations":{"k8s.v1.cni.cncf.io/network-status":"[{\"name\":\"default/wb\",\"interface\":\"net1\",` +
		`\"ips\":[\"10.0.0.5\"]}]"}},"spec":{"nodeName":"w1"},"status":{"phase":"Running"}}`
)

func runningPodAt(version string) string { return fmt.Sprintf(runningPod, version) }

// inspectTree is what 'oc adm inspect' of namespaces and of whereabouts' resources writes (oc,
// pkg/cli/admin/inspect): every file begins with a line of dashes, namespaced resources are in
// a folder of their group, a running pod stands in a file of its own as well, with its logs.
func inspectTree() map[string]string {
	return map[string]string{
		"namespaces/kube-system/whereabouts.cni.cncf.io/ippools/10.0.0.0-24.yaml": "---\n" + onePool,
		"namespaces/default/default.yaml": "---\napiVersion: v1\nkind: Namespace\n" +
			"metadata:\n  name: default\n",
		"namespaces/default/core/pods.yaml": "---\napiVersion: v1\nitems:\n- " +
			indentedBy2(runningPodAt("7")) + "kind: PodList\nmetadata:\n  resourceVersion: \"9\"\n",
		"namespaces/default/core/events.yaml": "---\napiVersion: v1\nitems: []\nkind: EventList\n" +
			"metadata: {}\n",
		"namespaces/default/pods/a/a.yaml":                      "---\n" + runningPodAt("8"),
		"namespaces/default/pods/a/main/main/logs/current.log":  "I1120 kind: Pod default/c\n{\"kind\":\"Pod\"}\n",
		"namespaces/default/pods/a/main/main/logs/previous.log": "",
		"namespaces/default/pods/a/main/main/metrics.json": "# HELP x of kind\n# TYPE x counter\n" +
			"x{kind=\"Pod\",name=\"c\"} 1\n",
		"namespaces/default/pods/a/main/main/version.json":  "{\"major\": \"1\"}",
		"namespaces/default/pods/a/main/main/healthz/index": "ok",
		"cluster-scoped-resources/core/nodes/w1.yaml":       "---\n" + readyNode,
		"cluster-scoped-resources/config.openshift.io/networks.yaml": "---\napiVersion: config.openshift.io/v1\n" +
			"items: []\nkind: NetworkList\n",
		"event-filter.html": "<html></html>",
		"timestamp":         "2026-11-20 12:00:00\n",
	}
}

// mustGatherTree is that below the folder of the image, with what the collection scripts of
// openshift/must-gather add: gather_etcd, gather_network_logs_basics, gather_multus_logs and
// gather_monitoring.
func mustGatherTree() map[string]string {
	const image = "quay-io-openshift-release-dev-sha256-0123/"
	tree := map[string]string{
		"must-gather.logs": "[must-gather] OUT\n", "timestamp": "x", "event-filter.html": "<html>",
		image + "etcd_info/endpoint_status.json": `[{"Endpoint":"https://10.0.0.1:2379",` +
			`"Status":{"header":{"cluster_id":1}}}]`,
		image + "etcd_info/member_list.json":  `{"header":{"cluster_id":1},"members":[]}`,
		image + "etcd_info/alarm_list.json":   "",
		image + "etcd_info/etcd_object_count": " 99 pods\n",
		image + "network_logs/ippools.whereabouts.cni.cncf.io": "Name:  10.0.0.0-24\n" +
			"API Version:  whereabouts.cni.cncf.io/v1alpha1\nKind:  IPPool\n",
		image + "network_logs/cluster_scale":                 "pods amount: 3\n",
		image + "network_logs/multus_logs/multus-log-w1.log": "kind: Pod\n",
		image + "network_logs/ovnk_database_store.tar.gz":    "\x1f\x8b\x08 no archive",
		image + "monitoring/prometheus/rules.json": `{"status":"success",` +
			`"data":{"groups":[]}}`,
		image + "audit_logs/kube-apiserver/w1-audit.log.gz":                        "\x1f\x8b",
		image + "host_service_logs/masters/kubelet_service.log":                    "kind: Pod\n",
		image + "static-pods/etcd-pod.tabs.yaml":                                   "a:\n\tb: tabs\n",
		image + "namespaces/kube-system/whereabouts.cni.cncf.io/ippools/broken.md": "# kind: IPPool\n",
	}
	for name, text := range inspectTree() {
		tree[image+name] = text
	}
	return tree
}

// dumpTree is what 'kubectl cluster-info dump -A --output-directory' writes (kubectl v0.36.3,
// pkg/cmd/clusterinfo), to which the pools were added.
func dumpTree() map[string]string {
	return map[string]string{
		"nodes.json": `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"w1"},` +
			`"status":{"conditions":[{"type":"Ready","status":"True"}]}}]}`,
		"default/events.json": `{"kind":"EventList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a.1",` +
			`"namespace":"default"},"involvedObject":{"kind":"Pod","namespace":"default","name":"c"}}]}`,
		"default/pods.json": `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` +
			podOfList + `]}`,
		"default/services.json":                      `{"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[]}`,
		"default/a/logs.txt":                         "==== START logs for container main of pod default/a ====\nkind: Pod\n",
		"kube-system/pods.json":                      `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`,
		"ippools.whereabouts.cni.cncf.io/pools.yaml": onePool,
	}
}

func indentedBy2(text string) string {
	return strings.TrimLeft(strings.ReplaceAll("\n"+strings.TrimSuffix(text, "\n"), "\n", "\n  "), "\n ") + "\n"
}

// judgedAs checks the verdicts on the two entries of onePool.
func judgedAs(t *testing.T, o *facts.Observation, onA, onB judge.Verdict) {
	t.Helper()
	found := map[string]judge.Verdict{}
	for _, it := range judgetest.AssessAlone(o, facts.Policy{}).Allocations {
		found[it.PodRef()] = it.Verdict
	}
	if want := map[string]judge.Verdict{"default/a": onA, "default/b": onB}; !maps.Equal(found, want) {
		t.Errorf("verdicts %v, want %v; unreadable: %q", found, want, o.Unreadable)
	}
}

func TestLayout_Trees(t *testing.T) {
	for title, c := range map[string]struct {
		tree    map[string]string
		skipped string
	}{
		"oc adm inspect": {inspectTree(), "files skipped because they hold no Kubernetes objects: 7, for example"},
		"oc adm must-gather": {mustGatherTree(),
			"files skipped because they hold no Kubernetes objects: 23, for example"},
		"kubectl cluster-info dump": {dumpTree(), "files skipped because they hold no Kubernetes objects: 1, for example"},
	} {
		t.Run(title, func(t *testing.T) {
			o := observe(t, open(t, folder(t, c.tree)))
			judgedAs(t, o, judge.InUse, judge.Stale)
			if len(o.Unreadable) > 0 || len(o.Nodes.Or(nil)) != 1 {
				t.Errorf("unreadable: %q; %d nodes", o.Unreadable, len(o.Nodes.Or(nil)))
			}
			notes := slices.DeleteFunc(slices.Clone(o.Warnings), func(text string) bool {
				return !strings.Contains(text, "skipped")
			})
			if len(notes) != 1 || !strings.Contains(notes[0], c.skipped) {
				t.Errorf("notes %q, want %q", notes, c.skipped)
			}
		})
	}
}

// Whatever the files of a must-gather are broken like, nothing that is in use becomes stale.
func TestLayout_BrokenFileIsAnError(t *testing.T) {
	tree := mustGatherTree()
	for name, text := range tree {
		if !strings.Contains(name, "/pods") || strings.Contains(name, "/main/") {
			continue
		}
		for title, broken := range map[string]string{
			"empty": "", "cut": text[:len(text)/2] +
				"\n  \"", "tabs": "---\nkind: Pod\n\tx", "an array": "[]", "text": "error: timed out", "dashes": "---\n",
			"an object of nobody": "{}",
		} {
			changed := maps.Clone(tree)
			changed[name] = broken
			dir := folder(t, changed)
			if f, err := openAt(dir); err == nil {
				t.Errorf("%s, %s: accepted", name, title)
				judgedAs(t, observe(t, f), judge.InUse, judge.Stale)
			} else if !strings.Contains(err.Error(), name) {
				t.Errorf("%s, %s: the error does not name the file: %v", name, title, err)
			}
		}
	}
}
