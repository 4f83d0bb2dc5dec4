package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// asMain is the variable with which the test's program is the command.
const asMain = "IP_RECONCILE_TEST_MAIN"

// TestMain does what main begins with: of the requests that a test leaves behind the next one
// must not change the logger.
func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
	}
	flags.DropClientLogs()
	m.Run()
}

const sample = "../../samples/cluster"

// run executes a command as a user would and returns what it printed.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		check(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	stdoutFile, stderrFile := open("out"), open("err")
	code = execute(args, streams{out: stdoutFile, err: stderrFile, outDisplay: display{columns: 100}})
	read := func(f *os.File) string {
		text, err := os.ReadFile(f.Name())
		check(t, err)
		return string(text)
	}
	out := read(stdoutFile)
	if code != exitFailed {
		valid(t, args, out)
	}
	return code, out, read(stderrFile)
}

func TestVersion(t *testing.T) {
	code, out, errs := run(t, "--version")
	if want := "ip-reconcile version " + version.Get().String() + "\n"; code != exitClean || out != want || errs != "" {
		t.Errorf("exit code %d: got %q, want %q; stderr: %s", code, out, want, errs)
	}
}

func TestSample_EveryVerdictAndFinding(t *testing.T) {
	code, out, errs := run(t, "check", "--snapshot", sample, "-o", "json")
	if code != exitUnresolved {
		t.Fatalf("exit code %d, want %d; stderr: %s", code, exitUnresolved, errs)
	}
	var d view.CheckReport
	check(t, json.Unmarshal([]byte(out), &d))
	seen := map[string]bool{}
	for _, a := range d.Allocations {
		seen[a.Reason.String()] = true
	}
	for _, r := range d.Reservations {
		seen[r.Reason.String()] = true
	}
	for _, f := range d.Findings {
		seen["finding "+string(f.Kind)] = true
	}
	for _, want := range strings.Fields(`Malformed UnknownField PhantomPod TerminalButRunning Terminating StuckTerminating
		SandboxReady PodReplaced PodPending AddressOnPod Attached SandboxNotReady NodeDead NodeMissing PodFinished
		NodeUnreachable NoFreshReport SandboxReplaced NetworkStatusMissing AddressNotOnPod SandboxStopped PodGone
		ClaimedByOther Recent`) {
		if !seen[want] {
			t.Errorf("the sample shows no %s", want)
		}
	}
	for _, want := range strings.Fields("Phantom Conflict Unrecorded Misrecorded MissingReservation NoFreshReport " +
		"Malformed StatusMismatch") {
		if !seen["finding "+want] {
			t.Errorf("the sample shows no finding %s", want)
		}
	}
}

// The comment before each entry of the sample says what becomes of it.
func TestSample_Comments(t *testing.T) {
	_, out, _ := run(t, "check", "--snapshot", sample, "-o", "json")
	var d view.CheckReport
	check(t, json.Unmarshal([]byte(out), &d))
	text, err := os.ReadFile(filepath.Join(sample, "ippools.yaml"))
	check(t, err)
	said := 0
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		comment, isComment := strings.CutPrefix(line, "    # ")
		if !isComment {
			continue
		}
		var podRef string
		for _, field := range lines[i+1 : i+5] {
			if v, ok := strings.CutPrefix(strings.TrimSpace(field), "podref: "); ok {
				podRef = strings.Trim(v, `"`)
			}
		}
		for _, a := range d.Allocations {
			if a.PodRef != podRef {
				continue
			}
			said++
			if strings.HasSuffix(comment, ")") && !strings.Contains(comment, "("+a.Reason.String()+")") &&
				!strings.Contains(comment, "MissingReservation") {
				t.Errorf("%s: the comment says %q, the verdict is %s", podRef, comment, a.Reason)
			}
			want := map[judge.Verdict]string{judge.InUse: "in use", judge.Held: "held", judge.Stale: "stale"}[a.Verdict]
			if !strings.HasPrefix(comment, want) {
				t.Errorf("%s: the comment says %q, the verdict is %s", podRef, comment, a.Verdict)
			}
			if a.Verdict == judge.Stale && a.Proven == strings.Contains(comment, "unconfirmed") &&
				a.Reason != judge.NodeMissingReason {
				t.Errorf("%s: the comment says %q, proven is %v", podRef, comment, a.Proven)
			}
		}
	}
	if said != len(d.Allocations) {
		t.Errorf("%d of %d allocations have a comment", said, len(d.Allocations))
	}
}

func TestRecover_WithoutReports(t *testing.T) {
	dir := copySample(t)
	check(t, os.Remove(filepath.Join(dir, "sandboxreports.yaml")))
	if code, _, errs := run(t, "recover", "--snapshot", dir); code != exitFailed ||
		!strings.Contains(errs, "no node agent has reported") {
		t.Errorf("exit code %d; stderr: %s", code, errs)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	files, err := os.ReadDir(dir)
	check(t, err)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		check(t, err)
		all[f.Name()] = string(text)
	}
	return all
}

// refused checks that a command line ends with exit code 2 and one line that says so.
func refused(t *testing.T, args, want []string) {
	t.Helper()
	code, out, errs := run(t, args...)
	if code != exitFailed || out != "" {
		t.Errorf("exit code %d, stdout %q", code, out)
	}
	if strings.Count(errs, "\n") != 1 {
		t.Errorf("not one line: %q", errs)
	}
	for _, w := range want {
		if !strings.Contains(errs, w) {
			t.Errorf("%q lacks %q", errs, w)
		}
	}
}

func copySample(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	check(t, os.CopyFS(dir, os.DirFS(sample)))
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
