package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// testLimit is how long the tests of one mutant may take. They take seconds.
const testLimit = 3 * time.Minute

// testRun is the outcome of 'go test'.
type testRun struct {
	passed, failed []string // top-level tests, in order of their ends
	built          bool
	ok             bool // everything succeeded
	timedOut       bool
	output         string // all other output
}

// event is a line that 'go test -json' prints (cmd/test2json).
type event struct {
	Action, Test, Output, FailedBuild string
}

// runTests runs the tests of one package that match a regular expression. overlay is a file for 'go build -overlay', ""
// for none. The error means that the go command could not run.
func runTests(ctx context.Context, root, folder, run, overlay string, more ...string) (*testRun, error) {
	// Most of the time is the compiler's: it need not optimise or save memory.
	args := append([]string{"test", "-json", "-vet=off", "-gcflags=github.com/ip-reconcile/ip-reconcile/...=-N -l",
		"-short", "-count=1", "-timeout", testLimit.String(), "-run", run}, more...)
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+folder)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOGC=800")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	t := &testRun{built: true, ok: err == nil, output: stderr.String()}
	if perr := t.read(out); perr != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), perr, stderr.String())
	}
	return t, nil
}

func (t *testRun) read(out []byte) error {
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var e event
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("read what it printed: %w", err)
		}
		t.built = t.built && e.FailedBuild == "" && e.Action != "build-fail"
		t.timedOut = t.timedOut || strings.HasPrefix(e.Output, "panic: test timed out")
		switch {
		case e.Test == "" || e.Action == "build-output":
			t.output += e.Output
		case strings.Contains(e.Test, "/"):
		case e.Action == "pass":
			t.passed = append(t.passed, e.Test)
		case e.Action == "fail" && !slices.Contains(t.failed, e.Test):
			t.failed = append(t.failed, e.Test)
		}
	}
	return nil
}
