package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const caught = "caught"

type result struct {
	*Mutant
	outcome string   // caught, or the other outcome
	by      []string // the tests that failed
	took    time.Duration
	output  string // unless it was caught
}

// runner tests mutants of the module in root. Its files are in scratch, and the tree is never changed.
type runner struct {
	root, scratch string
	parallel      int
	find          bool // with all tests of the packages
	tell          func(*result)
}

// notNarrow are tests that prove little about a fault: those of pages and of memory, and the long ones, which try
// everything.
const notNarrow = "InTheDocs|EveryRowHasAName|Allocat|IsFollowedIsJudged|AnIndexThatWasAmended|InterleavedWith|" +
	"NoIDIsLostSilently|ArbitraryContent"

func pattern(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// checkUnmutated runs the expected tests of each package without a fault. Otherwise a test that always fails, or that
// does not exist, would seem to catch a mutant.
func (r *runner) checkUnmutated(ctx context.Context, mutants []*Mutant) error {
	expected := map[string][]string{}
	for _, m := range mutants {
		expected[m.testsIn] = append(expected[m.testsIn], m.tests()...)
	}
	for folder, tests := range expected {
		slices.Sort(tests)
		tests = slices.Compact(tests)
		t, err := runTests(ctx, r.root, folder, pattern(tests), "")
		if err != nil {
			return err
		}
		missing := slices.DeleteFunc(tests, func(name string) bool { return slices.Contains(t.passed, name) })
		if !t.ok || len(missing) > 0 {
			return fmt.Errorf("without any mutant the tests in %s fail (%s) or are not there or did not pass (%s): nothing "+
				"is told by them\n%s",
				folder, strings.Join(t.failed, ", "), strings.Join(missing, ", "), t.output)
		}
	}
	return nil
}

// run tests each mutant; the results are in their order.
func (r *runner) run(ctx context.Context, mutants []*Mutant) ([]*result, error) {
	results := make([]*result, len(mutants))
	var telling sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.parallel)
	for i, m := range mutants {
		g.Go(func() (err error) {
			if results[i], err = r.test(ctx, i, m); err != nil {
				return err
			}
			telling.Lock()
			defer telling.Unlock()
			r.tell(results[i])
			return nil
		})
	}
	return results, g.Wait()
}

// test runs the tests that should catch the i-th mutant.
func (r *runner) test(ctx context.Context, i int, m *Mutant) (*result, error) {
	began := time.Now()
	overlay, err := r.writeOverlay(i, m)
	if err != nil {
		return nil, err
	}
	run, more := pattern(m.tests()), []string{"-p", "1", "-failfast"}
	if r.find {
		run, more = "^Test", []string{"-p", "1", "-skip", notNarrow}
	}
	t, err := runTests(ctx, r.root, m.testsIn, run, overlay, more...)
	if err != nil {
		return nil, err
	}
	out := &result{Mutant: m, outcome: caught, by: t.failed, took: time.Since(began), output: t.output}
	switch {
	case !t.built:
		out.outcome = "DOES NOT COMPILE" // a mistake in the list
	case t.ok:
		out.outcome, out.output = "SURVIVED", ""
	case t.timedOut:
		out.outcome = "TIMED OUT"
	case len(t.failed) == 0:
		out.outcome = "NO TEST FAILED" // and yet the run failed
	default:
		out.output = ""
	}
	return out, nil
}

// writeOverlay writes the file with the fault, and the overlay for 'go test'.
func (r *runner) writeOverlay(i int, m *Mutant) (overlay string, err error) {
	text, err := m.mutated()
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	file, overlay := filepath.Join(r.scratch, fmt.Sprintf("%d.go", i)), filepath.Join(r.scratch, fmt.Sprintf("%d.json", i))
	names, err := json.Marshal(map[string]any{"Replace": map[string]string{original: file}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, names, 0o600)
}

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
