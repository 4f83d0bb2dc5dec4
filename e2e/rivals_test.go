//go:build slow

package e2e

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestWhereaboutsOwnReconcilerBesideOursIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	warned := func(t *testing.T, who string, is bool) {
		t.Helper()
		out := s.product(t, "check")
		if is {
			contains(t, "stderr", out.stderr, who, "frees addresses that are held here")
		} else {
			containsNot(t, "stderr", out.stderr, "frees addresses that are held here")
		}
	}
	warned(t, "nobody", false)

	for _, manifest := range []string{"daemonset-install.yaml", "reconciler-deployment.yaml"} {
		_, errs, err := s.Kubectl(t.Context(), "create", "-f", harness.UpstreamManifest(t, manifest))
		if err != nil {
			t.Fatal(err, errs)
		}
	}
	warned(t, "DaemonSet kube-system/whereabouts runs whereabouts' own /ip-control-loop", true)
	warned(t, "Deployment kube-system/whereabouts-reconciler runs whereabouts' own /ip-reconciler", true)

	s.mustKubectl(t, "set", "image", "-n", "kube-system", "deployment/whereabouts-reconciler", "whereabouts-reconciler=example.com/ip-reconcile:v1")
	containsNot(t, "what is said when the image is ours", s.product(t, "check").stderr, "whereabouts-reconciler")
	s.mustKubectl(t, "set", "image", "-n", "kube-system", "deployment/whereabouts-reconciler", "whereabouts-reconciler=example.com/whereabouts:v1")
	s.mustKubectl(t, "scale", "-n", "kube-system", "deployment/whereabouts-reconciler", "--replicas=0")
	containsNot(t, "what is said when it is scaled to nothing", s.product(t, "check").stderr, "whereabouts-reconciler")
	s.mustKubectl(t, "delete", "-n", "kube-system", "daemonset/whereabouts")
	warned(t, "nobody", false)
}
