//go:build cluster

package e2e

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestWhereaboutsOwnDeploymentWorksWithOurImage(t *testing.T) {
	t.Parallel()
	i := ready(t, 2)
	check(t, i.cluster.ImportImage(t.Context(), productImage, shipped.program(t, "ip-reconcile"), shipped.program(t, "ip-reconciler")))
	i.removeCRD(t, sandboxReports) // whereabouts alone has none
	i.mustKubectl(t, "apply", "-f", harness.UpstreamManifest(t, "daemonset-install.yaml"), "-f", harness.UpstreamManifest(t, "reconciler-deployment.yaml"))
	i.mustKubectl(t, "delete", "-n", "kube-system", "daemonset/whereabouts") // the plugin is installed, and its image not to be had
	check(t, i.CreateNAD(t.Context(), blue))
	i.start(t, workload("stays", "worker-1", "blue"))
	lost := i.start(t, workload("lost", "worker-2", "blue"))
	before := i.contents(t)

	// As in deploy/whereabouts, but that an image without a registry cannot be pulled.
	i.mustKubectl(t, "patch", "-n", "kube-system", "deployment/whereabouts-reconciler", "--type=json",
		"-p", `[{"op": "replace", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Never"},
			{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"kubernetes.io/hostname": "worker-1"}}]`)
	i.mustKubectl(t, "set", "image", "-n", "kube-system", "deployment/whereabouts-reconciler", "whereabouts-reconciler="+productImage)
	i.rolledOut(t, "deployment/whereabouts-reconciler")
	t.Cleanup(func() { i.oracle.check(t) })
	i.lost(t, before)

	i.cluster.Worker("worker-2").PowerOff()
	i.mustKubectl(t, "wait", "--for=condition=Ready=Unknown", "--timeout=60s", "node/worker-2")
	i.lost(t, before)
	i.outOfService(t, "worker-2")
	t.Logf("freed %s after the taint", i.freed(t, soon, "10.1.0.0-24", "2"))
	i.lost(t, before, entryAndReservation(2)...)
	eventually(t, "the controllers to remove its pod", func() bool {
		_, err := i.Client().CoreV1().Pods("default").Get(t.Context(), lost.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
