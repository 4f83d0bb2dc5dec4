package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A cluster that is named and never asked.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestBadFlagsOfTheAgentAreOneClearLineAndExitCode2(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	t.Setenv("POD_UID", "")
	dir := t.TempDir()
	config, empty, bootID := filepath.Join(dir, "config"), filepath.Join(dir, "empty"), filepath.Join(dir, "boot_id")
	write(t, config, kubeconfig)
	write(t, empty, " \n")
	write(t, bootID, "boot-1\n")
	// agent is a command line that is good but for what comes after.
	agent := func(more ...string) []string {
		return append([]string{"agent", "--kubeconfig", config, "--node", "worker-1", "--outside-pod",
			"--cri", filepath.Join(dir, "cri.sock"), "--boot-id-file", bootID, "--metrics-bind-address", "0"}, more...)
	}
	check := func(more ...string) []string { return append([]string{"check", "--kubeconfig", config}, more...) }
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"an argument", agent("worker-1"), []string{"worker-1"}},
		{"an unknown flag", agent("--fast"), []string{"unknown flag: --fast", "ip-reconcile agent --help"}},
		{"no node", agent("--node", ""), []string{"--node", "NODE_NAME"}},
		{"no UID of the own pod", agent("--outside-pod=false"), []string{"--pod-uid", "--outside-pod"}},
		{"a socket that is relative", agent("--cri", "cri.sock"), []string{`--cri "cri.sock"`, "absolute"}},
		{"a socket that is relative, as an address", agent("--cri", "unix://cri.sock"), []string{`--cri "unix://cri.sock"`, "absolute"}},
		{"a folder of results that is relative", agent("--cni-results", "results"), []string{`--cni-results "results"`, "absolute"}},
		{"a folder of Multus that is relative", agent("--cni-multus", "multus"), []string{`--cni-multus "multus"`, "absolute"}},
		{"a folder of namespaces that is relative", agent("--netns-dir", "/run/netns,netns"), []string{`--netns-dir "netns"`, "absolute"}},
		{"a boot id that is not there", agent("--boot-id-file", filepath.Join(dir, "nowhere")), []string{"--boot-id-file", "nowhere", "no such file"}},
		{"a boot id that is empty", agent("--boot-id-file", empty), []string{"--boot-id-file", empty, "empty"}},
		{"a metrics address without a port", agent("--metrics-bind-address", "127.0.0.1"), []string{"--metrics-bind-address 127.0.0.1"}},
		{"a metrics address that is none", agent("--metrics-bind-address", "here:there"), []string{"--metrics-bind-address here:there"}},
		{"a log level that is not known", agent("--log-level", "loud"), []string{"--log-level", "loud"}},
		{"a log format that is not known", agent("--log-format", "xml"), []string{"--log-format", "xml"}},
		{"a kubeconfig that is not there", agent("--kubeconfig", filepath.Join(dir, "nowhere")), []string{"kubeconfig", "no such file"}},
		{"a context that is not there", agent("--context", "y"), []string{"kubeconfig", `"y"`}},

		{"check: a runtime beside a snapshot", []string{"check", "--snapshot", sample, "--cri", "/run/cri.sock", "--node", "worker-1"}, []string{"--cri", "--snapshot"}},
		{"check: a runtime without its node", check("--cri", "/run/cri.sock"), []string{"--node"}},
		{"check: a socket that is relative", check("--cri", "cri.sock", "--node", "worker-1"), []string{`--cri "cri.sock"`, "absolute"}},
		{"run: a runtime without its node", []string{"run", "--kubeconfig", config, "--cri", "/run/cri.sock"}, []string{"--node"}},
		{"explain: a runtime beside a snapshot", []string{"explain", "10.0.0.5", "--snapshot", sample, "--cri", "/run/cri.sock"}, []string{"--cri", "--snapshot"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, c.args, c.want)
		})
	}
}

func TestTheAgentTakesItsNodeAndPodFromTheEnvironment(t *testing.T) {
	t.Setenv("NODE_NAME", "worker-1")
	t.Setenv("POD_UID", "uid-1")
	// The first complaint is of what comes after them.
	code, _, errs := run(t, "agent", "--cri", "cri.sock")
	if code != exitFailed || !strings.Contains(errs, "--cri") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
