//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// comparable is the document of a check without its head, and without when and why an item is not released yet: that
// depends on the time of the command.
func (o *outcome) comparable(t testing.TB) string {
	t.Helper()
	var d map[string]any
	check(t, json.Unmarshal([]byte(o.stdout), &d))
	for _, field := range []string{"cluster", "observedAt", "toolVersion"} {
		delete(d, field)
	}
	for _, list := range []string{"allocations", "reservations"} {
		for _, it := range d[list].([]any) {
			delete(it.(map[string]any), "detail")
			delete(it.(map[string]any), "releasableAt")
		}
	}
	return string(try(json.MarshalIndent(d, "", " ")).must(t))
}

func TestSysdump_JudgedAsTheLiveCluster(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	s := newStageWithReports(t, "worker-1", "worker-2", "worker-3")
	s.applied(t, "../deploy/deployment-with-agent")
	one := s.agent(t, "worker-1") // worker-2 has no report, and the Lease of worker-3 is of another content
	check(t, s.CreateNAD(t.Context(), blue))
	live, leaked := s.up(t, "worker-1", "live", blue), s.up(t, "worker-1", "leaked", blue)
	silent, odd := s.up(t, "worker-2", "silent", blue), s.up(t, "worker-2", "odd", blue)
	phantom := s.up(t, "worker-1", "phantom", blue)
	s.pending(t, "worker-1", "pending", blue)
	leaked.leak(t)
	silent.leak(t)
	phantom.forceDelete(t)
	odd.finish(t, corev1.PodFailed)
	one.writeReport(t, live.listed(v1alpha1.SandboxReady), leaked.gone(), phantom.listed(v1alpha1.SandboxReady))
	s.pool(t, "10.9.0.0-24", "10.9.0.0/24", map[string]any{"1": entry("default/gone", noID), "x": entry("", noID)})
	s.reservation(t, "10.1.0.77", "default/nobody", time.Hour)
	for _, object := range []string{"pod/live", "node/worker-1", "ippools.whereabouts.cni.cncf.io/10.1.0.0-24",
		"sandboxreports.ip-reconcile.dev/worker-1", "network-attachment-definitions.k8s.cni.cncf.io/blue"} {
		for _, verb := range []string{"annotate", "label"} {
			namespace := "default"
			if strings.HasPrefix(object, "ippools") {
				namespace = "kube-system"
			}
			s.mustKubectl(t, "-n", namespace, verb, object, "example.org/password="+secret)
		}
	}
	dir := t.TempDir()
	whole, redacted := filepath.Join(dir, "whole.tgz"), filepath.Join(dir, "redacted.tgz")

	before := s.product(t, "check", "--all")
	out := s.product(t, "sysdump", whole)
	s.product(t, "sysdump", redacted, "--redact-names").exits(t, 0)
	out.exits(t, 1) // nothing serves logs and metrics here
	offline := product(t, "check", "--all", "--snapshot", whole, "-o", "json")
	equal(t, "the document of the bundle", offline.comparable(t), before.comparable(t))
	equal(t, "the exit code", offline.code, before.code)
	if before.Summary.Stale == 0 || before.Summary.Held == 0 || len(before.Findings) < 2 {
		t.Errorf("there is not some of everything: %+v", before.Summary)
	}
	files := bundle(t, whole)
	contains(t, "the manifest", files["sysdump/manifest.json"], `"kind": "Sysdump"`,
		"logs/ip-reconcile-0-ip-reconcile.log: ", "metrics/ip-reconcile-0.txt: ")
	contains(t, "the status", files["sysdump/status.txt"], "Deployment kube-system/ip-reconcile")

	renamed := product(t, "check", "--all", "--snapshot", redacted, "-o", "json")
	rules := func(o *outcome) (all []string) {
		for _, i := range slices.Concat(o.Allocations, o.Reservations) {
			all = append(all, strings.Join([]string{i.IP, i.verdict(), i.Rule}, " "))
		}
		return all
	}
	equal(t, "the verdicts with other names", strings.Join(rules(renamed), "\n"), strings.Join(rules(before), "\n"))
	for _, path := range []string{whole, redacted} {
		for name, text := range bundle(t, path) {
			if strings.Contains(text, secret) {
				t.Errorf("%s of %s has the secret", name, filepath.Base(path))
			}
			for _, name := range []string{"leaked", "silent", `"worker-1"`} {
				if path == redacted && strings.Contains(text, name) {
					at := strings.Index(text, name)
					t.Errorf("the redacted bundle names %s: %s", name, text[max(0, at-100):min(len(text), at+50)])
				}
			}
		}
	}
	s.product(t, "sysdump", whole).exits(t, 2) // it exists
}
