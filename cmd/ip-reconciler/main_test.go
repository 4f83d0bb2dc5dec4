package main

import (
	"bytes"
	"io"
	"log/slog"
	"net"
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

func TestTheFlagsOfWhereaboutsAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		args string
		want *settings
		code int
		says string
	}{
		{args: "", want: &settings{timeout: 30 * time.Second, level: "debug"}},
		{args: "-log-level debug", want: &settings{timeout: 30 * time.Second, level: "debug"}},
		{args: "-log-level=verbose", want: &settings{timeout: 30 * time.Second, level: "info"}},
		{args: "--log-level ERROR", want: &settings{timeout: 30 * time.Second, level: "error"}},
		{args: "-log-level panic", want: &settings{timeout: 30 * time.Second, level: "error+4"}},
		{args: "-log-level warn", want: &settings{timeout: 30 * time.Second, level: "warn"}},
		{args: "-log-level info", want: &settings{timeout: 30 * time.Second, level: "info"}},
		{args: "-log-level loud", want: &settings{timeout: 30 * time.Second, level: "debug", badLevel: "loud"}},
		{args: "-timeout 5", want: &settings{timeout: 5 * time.Second, level: "debug", once: true}},
		{args: "-kubeconfig=/a/b", want: &settings{kubeconfig: "/a/b", timeout: 30 * time.Second, level: "debug", once: true}},
		{args: "-kubeconfig=", want: &settings{timeout: 30 * time.Second, level: "debug", once: true}},
		{args: "--trust-network-status", want: &settings{timeout: 30 * time.Second, level: "debug", trust: true}},
		{args: "-trust-network-status -timeout 5", want: &settings{timeout: 5 * time.Second, level: "debug", once: true, trust: true}},
		{args: "-timeout 0", code: exitNotObserved, says: "-timeout 0: must be above zero"},
		{args: "-timeout soon", code: exitNotObserved, says: "-timeout"},
		{args: "-dry-run", code: exitNotObserved, says: "-dry-run"},
		{args: "-h", code: exitDone, says: "-kubeconfig"},
	} {
		var stderr bytes.Buffer
		got, code := parse(strings.Fields(c.args), &stderr)
		switch {
		case code != c.code, (got == nil) != (c.want == nil), got != nil && *got != *c.want:
			t.Errorf("%q: got %+v and code %d, want %+v and code %d", c.args, got, code, c.want, c.code)
		case !strings.Contains(stderr.String(), c.says):
			t.Errorf("%q: said %q, want %q", c.args, stderr.String(), c.says)
		}
	}
}

func TestTheNetworkStatusIsTrustedByFlagOnly(t *testing.T) {
	for args, want := range map[string]bool{"": false, "-trust-network-status": true} {
		given, _ := parse(strings.Fields(args), &bytes.Buffer{})
		o, _, err := given.options(&bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		options, err := o.Options()
		if err != nil || options.TrustNetworkStatus != want {
			t.Errorf("%q: trusted %v, %v", args, options.TrustNetworkStatus, err)
		}
	}
}

func TestTheLogLevelsAreThoseOfWhereabouts(t *testing.T) {
	for level, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "verbose": slog.LevelInfo, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "panic": slog.LevelError + 4, "loud": slog.LevelDebug,
	} {
		given, _ := parse([]string{"-log-level", level}, &bytes.Buffer{})
		_, log, err := given.options(&bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		if !log.Enabled(t.Context(), want) || log.Enabled(t.Context(), want-1) {
			t.Errorf("-log-level %s does not begin at %s", level, want)
		}
	}
}

func TestAnUnknownLogLevelIsWarnedOf(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"-log-level", "loud"}, io.Discard, &stderr); code != exitNotObserved {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"level=WARN", "-log-level loud is not known", "reconciler run failed: no cluster to look at"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, stderr.String())
		}
	}
}

func TestTheVersionIsPrintedAndNothingElseIsDone(t *testing.T) {
	for _, flag := range []string{"-version", "--version"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{flag}, &stdout, &stderr); code != exitDone || stderr.Len() > 0 {
			t.Errorf("exit code %d: %s", code, stderr.String())
		}
		if want := "ip-reconciler version " + version.Get().String() + "\n"; stdout.String() != want {
			t.Errorf("got %q, want %q", stdout.String(), want)
		}
	}
}

func TestTheNamespaceIsTheOneOfWhereabouts(t *testing.T) {
	given, _ := parse(nil, &bytes.Buffer{})
	for _, want := range []string{"openshift-multus", "kube-system"} {
		t.Setenv("WHEREABOUTS_NAMESPACE", strings.TrimPrefix(want, "kube-system"))
		o, _, err := given.options(&bytes.Buffer{})
		if err != nil || o.Namespace() != want {
			t.Errorf("got %v (%v), want %s", o.Namespace(), err, want)
		}
	}
}

func TestAPortThatIsTakenIsGoneWithout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	var logs bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logs, nil))
	if got := freeOrNone(log, "metrics", address); got != "0" || !strings.Contains(logs.String(), "there are no metrics") || !strings.Contains(logs.String(), address) {
		t.Errorf("a taken address becomes %s; said: %s", got, logs.String())
	}
	l.Close()
	if got := freeOrNone(log, "metrics", address); got != address {
		t.Errorf("a free address becomes %s", got)
	}
}
