package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// calledBy has the commands of a test be called by another name.
func calledBy(t *testing.T, name string, args ...string) {
	t.Helper()
	was := os.Args
	os.Args = append([]string{filepath.Join("/usr/local/bin", name)}, args...)
	t.Cleanup(func() { os.Args = was })
}

func TestPlugin_HelpAndErrors(t *testing.T) {
	calledBy(t, "kubectl-ip_reconcile")
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"--help"}, []string{"kubectl ip-reconcile [command]", "\n  kubectl ip-reconcile explain 10.0.0.7"}},
		{[]string{"check", "--help"}, []string{"kubectl ip-reconcile check [flags]", "\n  kubectl ip-reconcile check --all"}},
		{[]string{"check", "10.0.0.7"}, []string{`kubectl ip-reconcile: check takes no arguments, got "10.0.0.7"`}},
		{[]string{"check", "--fast"}, []string{"'kubectl ip-reconcile check --help'"}},
		{[]string{"release"}, []string{"'kubectl ip-reconcile release --help'"}},
		{[]string{"pools", "retire"}, []string{"'kubectl ip-reconcile pools retire --help'"}},
		{[]string{"plan", "--retire", "10.0.0.0-24", "--snapshot", sample},
			[]string{"'kubectl ip-reconcile pools retire kube-system/10.0.0.0-24 --dry-run'"}},
		{[]string{"check", "--pool", "x", "--snapshot", sample}, []string{"'kubectl ip-reconcile pools' lists"}},
	} {
		_, out, errs := run(t, c.args...)
		for _, want := range c.says {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%v: lacks %q:\n%s%s", c.args, want, out, errs)
			}
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "  ip-reconcile ") || strings.Contains(line, "'ip-reconcile ") {
				t.Errorf("%v: says %q", c.args, line)
			}
		}
	}
}

func TestPlugin_AdvisedCommands(t *testing.T) {
	calledBy(t, "kubectl-ip_reconcile")
	_, d := explained(t, sample, "10.0.0.20", "--context", "prod")
	for i, want := range []string{
		"kubectl ip-reconcile release 10.0.0.20 --context=prod",
		"kubectl --context=prod annotate ippools.whereabouts.cni.cncf.io -n kube-system 10.0.0.0-24 " +
			"ip-reconcile.dev/paused=true",
	} {
		if got := d.Advice[i].Command; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestPlugin_Completion(t *testing.T) {
	calledBy(t, "kubectl_complete-ip_reconcile", "check", "--verdict", "")
	if code, out, _ := run(t, "completion", "bash"); code != exitClean || !strings.Contains(out, "__start_") {
		t.Errorf("completion bash: exit code %d", code)
	}
	if _, out, _ := run(t, arguments()...); out != "InUse\nHeld\nStale\n:4\n" {
		t.Errorf("got %q", out)
	}
}

func TestKubectlFlags_ClusterAndUser(t *testing.T) {
	var mu sync.Mutex
	var asked []http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Header)
		mu.Unlock()
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	config := kubeconfigOf(t, "https://192.0.2.1")
	refused(t, []string{"check", "--kubeconfig", config, "--context", "production", "--server", server.URL,
		"--insecure-skip-tls-verify", "--token", "other",
		"--as", "jane", "--as-group", "dev", "--as-group", "ops"}, []string{server.URL})
	mu.Lock()
	defer mu.Unlock()
	if len(asked) == 0 {
		t.Fatal("the server was not asked")
	}
	for _, h := range asked {
		if h.Get("Authorization") != "Bearer other" || h.Get("Impersonate-User") != "jane" ||
			!slices.Equal(h.Values("Impersonate-Group"), []string{"dev", "ops"}) {
			t.Errorf("asked with %v", h)
		}
	}
	if _, out, _ := run(t, "check", "--help"); strings.Contains(out, "--as-group") || !strings.Contains(out, "--context") {
		t.Error("the help of check has other flags of kubectl than the common ones")
	}
}
