package main

import (
	"bytes"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// TestMain does what main begins with: of the requests that a test leaves behind the next one
// must not change the logger.
func TestMain(m *testing.M) {
	flags.DropClientLogs()
	m.Run()
}

func TestParse_FlagsOfWhereabouts(t *testing.T) {
	const usual = 30 * time.Second
	for _, c := range []struct {
		args    string
		level   slog.Level // from which on it logs
		timeout time.Duration
		once    bool
		trust   bool
	}{
		{"", slog.LevelDebug, usual, false, false},
		{"-log-level=verbose", slog.LevelInfo, usual, false, false},
		{"--log-level ERROR", slog.LevelError, usual, false, false},
		{"-log-level panic", slog.LevelError + 4, usual, false, false},
		{"-log-level loud", slog.LevelDebug, usual, false, false},
		{"-timeout 5", slog.LevelDebug, 5 * time.Second, true, false},
		{"-kubeconfig=/a/b", slog.LevelDebug, usual, true, false},
		{"-kubeconfig=", slog.LevelDebug, usual, true, false},
		{"--trust-network-status", slog.LevelDebug, usual, false, true},
		{"-trust-network-status -timeout 5", slog.LevelDebug, 5 * time.Second, true, true},
	} {
		got, code := parse(strings.Fields(c.args), io.Discard, io.Discard)
		if got == nil {
			t.Errorf("%q: exit code %d", c.args, code)
			continue
		}
		if got.once != c.once || got.Timeout != c.timeout || got.TrustNetworkStatus != c.trust || !got.WithoutPause ||
			got.Manager.Metrics.BindAddress != "0" || got.Manager.HealthProbeBindAddress != "0" {
			t.Errorf("%q: %+v", c.args, got)
		}
		if !got.log.Enabled(t.Context(), c.level) || got.log.Enabled(t.Context(), c.level-1) {
			t.Errorf("%q: the log does not begin at %s", c.args, c.level)
		}
	}
}

func TestRun_FlagsThatEndTheProgram(t *testing.T) {
	for _, c := range []struct {
		args         string
		code         int
		stdout, says string
	}{
		{"-timeout 0", exitNotObserved, "", "-timeout 0: must be above zero"},
		{"-timeout soon", exitNotObserved, "", "-timeout"},
		{"-dry-run", exitNotObserved, "", "-dry-run"},
		{"-trust-network-status false", exitNotObserved, "", `"false" is no flag`},
		{"run -timeout 30", exitNotObserved, "", `"run" is no flag`},
		{"-h", exitDone, "", "-kubeconfig"},
		{"-version", exitDone, "ip-reconciler version " + version.Get().String() + "\n", ""},
		{"--version", exitDone, "ip-reconciler version " + version.Get().String() + "\n", ""},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if code != c.code || stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%q: exit code %d, %q, %q", c.args, code, stdout.String(), stderr.String())
		}
	}
}

func TestRun_UnknownLogLevel(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-log-level", "loud"}, io.Discard, &stderr); code != exitNotObserved {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"level=WARN", "Unknown -log-level", "level=loud", "reconciler run failed",
		"no cluster: without a kubeconfig"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, stderr.String())
		}
	}
}

func TestParse_NamespaceOfWhereabouts(t *testing.T) {
	for _, want := range []string{"openshift-multus", "kube-system"} {
		t.Setenv("WHEREABOUTS_NAMESPACE", strings.TrimPrefix(want, "kube-system"))
		given, code := parse(nil, io.Discard, io.Discard)
		if given == nil || given.Namespace() != want {
			t.Errorf("exit code %d, %v, want %s", code, given, want)
		}
	}
}
