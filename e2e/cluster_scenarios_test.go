//go:build cluster

package e2e

import (
	"errors"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A scenario is played in a cluster that other scenarios use before and after it.
type scenario struct {
	name string
	play func(i *installation, t *testing.T)
}

// scenarios leave a cluster as it was, except the last of each cluster.
var scenarios = map[string][]scenario{
	"pods": {
		{"a bug report has the logs and metrics of each pod of the product", (*installation).playSysdump},
		{"a pod that is deleted by force keeps its address while it runs", (*installation).playDeletedByForce},
		{"a pod that is reported failed keeps its address while it runs", (*installation).playReportedFailed},
		{"an evicted pod loses its address although it stays in the API", (*installation).playEvicted},
		{"the other replica takes over, whether the leader ends in order or crashes", (*installation).playFailover},
		{"pods wait for an address of a full pool", (*installation).playFullPool},
		{"a successor that shares an address is reported and keeps it", (*installation).playSuccessor},
	},
	"sandboxes": {
		{"fifty addresses that leak at once are released together", (*installation).playFiftyLeaks},
		{"a static pod keeps its address as long as it runs", (*installation).playStatic},
		{"the pods of a Job keep their addresses as long as they run", (*installation).playJob},
		{"a sandbox that is stopped loses its address although it stays listed", (*installation).playStopped},
		{"a sandbox whose DEL fails keeps its address until it is closed", (*installation).playFailingDELs},
	},
	"nodes": {
		{"a pod deleted while containerd is down keeps its address until it has ended", (*installation).playContainerdDown},
		{"a node that is unreachable keeps its addresses until it is back", (*installation).playNodeCutOff},
		{"a pod that a shutdown ends loses its address and not before", (*installation).playShutdown},
	},
	"boots": {
		{"pods that run when the product is installed keep their addresses", (*installation).playInstalled},
		{"a pod whose termination hangs keeps its address until its network is closed", (*installation).playHungTermination},
		{"a reboot releases what does not come back", (*installation).playReboot},
		{"a node that is lost keeps its addresses until it is out of service", (*installation).playNodeLost},
	},
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	for cluster, group := range scenarios {
		t.Run(cluster, func(t *testing.T) {
			t.Parallel()
			i := installScraped(t, 2)
			played := 0
			for n, s := range group {
				if n > 0 {
					i.clean(t)
				}
				if !t.Run(s.name, func(t *testing.T) { s.play(i, t); i.oracle.check(t); played++ }) {
					return // its remains are not known
				}
			}
			i.checkAlerts(t, cluster)
			if cluster == "pods" && played == len(group) { // where most happens, unless -run selects some
				i.checkPanels(t)
			}
		})
	}
}

func (i *installation) playSysdump(t *testing.T) {
	i.leader(t)
	path := filepath.Join(t.TempDir(), "bundle.tgz")
	out := i.product(t, "sysdump", path)
	files := bundle(t, path)
	if out.exits(t, 0); t.Failed() {
		t.Fatal(files["sysdump/manifest.json"])
	}
	pods := try(i.Client().CoreV1().Pods(metav1.NamespaceSystem).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=ip-reconcile"})).must(t).Items
	for _, p := range pods {
		logs, started := files["sysdump/logs/"+p.Name+"-"+p.Spec.Containers[0].Name+".log"], `msg="Starting the node agent"`
		if p.Labels["app.kubernetes.io/component"] == "reconciler" {
			started = "msg=Starting namespace="
			contains(t, "the metrics of "+p.Name, files["sysdump/metrics/"+p.Name+".txt"], "ip_reconcile_build_info")
		}
		contains(t, "the logs of "+p.Name, logs, started)
	}
	equal(t, "the pods", len(pods), 4) // two replicas, and an agent on each of two nodes
	i.product(t, "check", "--snapshot", path).exits(t, 0)
}

// clean waits until a scenario has no records, so that the next pod gets the first address again.
func (i *installation) clean(t *testing.T) {
	t.Helper()
	for _, w := range i.cluster.Workers {
		check(t, errors.Join(w.LoseDELs(false), w.FailDELs(false)))
	}
	i.mustKubectl(t, "delete", "statefulsets,jobs,pods", "--all", "--grace-period=1", "--timeout=180s")
	eventually(t, "nothing to remain", func() bool {
		return len(i.contents(t)) == 0 && len(i.onWire(t)) == 0 && i.leader(t).metric("ip_reconcile_candidates") == 0
	})
}

// from remembers a counter and returns a function that waits until it has grown by an amount.
func (v *server) from(series string) (grown func(t *testing.T, by float64)) {
	before := v.metric(series)
	return func(t *testing.T, by float64) {
		t.Helper()
		v.is(t, series, before+by)
	}
}
