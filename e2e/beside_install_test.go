//go:build cluster

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const upstreamImage = "e2e.invalid/whereabouts:0.9.4"

// A contender is a way to free what leaks.
type contender struct {
	name string
	// restores: it plays the restores of etcd alone.
	restores bool
	// install starts a cluster of two workers with it. Passes are made by the schedule.
	install func(t *testing.T, schedule string) *installation
}

var contenders = []contender{
	{name: "ip-reconcile", install: func(t *testing.T, schedule string) *installation {
		return install(t, 2, "--cron="+schedule)
	}},
	{name: "ip-reconcile, no fence", restores: true, install: func(t *testing.T, schedule string) *installation {
		i := ready(t, 2)
		i.apply(t, "--cron="+schedule, "--fence-timeout=0")
		return i
	}},
	{name: "whereabouts v0.9.4", install: installUpstream},
}

// installUpstream starts a cluster with whereabouts' own ip-reconciler and, on every
// worker, ip-control-loop, by its own manifests.
func installUpstream(t *testing.T, schedule string) *installation {
	t.Helper()
	i := ready(t, 2)
	i.removeCRD(t, sandboxReports)
	programs := harness.Upstream(t)
	check(t, i.cluster.ImportImage(t.Context(), upstreamImage, filepath.Join(programs, "ip-reconciler"), filepath.Join(programs, "ip-control-loop")))
	patches := `patches:
- target: {kind: ConfigMap, name: whereabouts-config}
  patch: |
    - {op: replace, path: /data/cron-expression, value: "%[1]s"}
- target: {kind: Deployment}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %[2]s}
    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
    - {op: add, path: /spec/template/spec/nodeSelector, value: {kubernetes.io/hostname: worker-1}}
- target: {kind: DaemonSet}
  patch: |
    # The plugin is installed already.
    - {op: replace, path: /spec/template/spec/containers/0/command, value: [/ip-control-loop]}
    - {op: replace, path: /spec/template/spec/containers/0/args, value: [-log-level, debug]}
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %[2]s}
    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
`
	folder, resources := t.TempDir(), "resources:\n"
	for _, file := range []string{"daemonset-install.yaml", "reconciler-deployment.yaml"} {
		check(t, os.WriteFile(filepath.Join(folder, file), try(os.ReadFile(harness.UpstreamManifest(t, file))).must(t), 0o600))
		resources += "- " + file + "\n"
	}
	check(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, resources+patches, schedule, upstreamImage), 0o600))
	i.mustKubectl(t, "apply", "-k", folder)
	i.rolledOut(t, "daemonset/whereabouts", "deployment/whereabouts-reconciler")
	return i
}
