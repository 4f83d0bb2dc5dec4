package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
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
		t, err := r.runTests(ctx, folder, pattern(tests), "")
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
			if results[i], err = r.test(ctx, m); err != nil {
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

// test runs the tests that should catch a mutant.
func (r *runner) test(ctx context.Context, m *Mutant) (*result, error) {
	began := time.Now()
	run, more := pattern(m.tests()), "-test.failfast"
	if r.find {
		run, more = "^Test", "-test.skip="+notNarrow
	}
	t, err := r.runTests(ctx, m.testsIn, run, strconv.Itoa(m.number), more)
	if err != nil {
		return nil, err
	}
	out := &result{Mutant: m, outcome: caught, by: t.failed, took: time.Since(began), output: t.output}
	switch {
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

// testLimit is how long the tests of one mutant may take. They take seconds.
const testLimit = 3 * time.Minute

// testRun is the outcome of the tests of a package.
type testRun struct {
	passed, failed []string // top-level tests, in order of their ends
	ok             bool     // everything succeeded
	timedOut       bool
	output         string // all other output
}

// event is a line that test2json prints.
type event struct {
	Action, Test, Output string
}

// runTests runs the tests of a package that match a regular expression, with the mutant of a number, "" for none. The
// error means that they could not run.
func (r *runner) runTests(ctx context.Context, folder, run, number string, more ...string) (*testRun, error) {
	program, err := filepath.Abs(filepath.Join(r.scratch, path.Base(folder)+".test"))
	if err != nil {
		return nil, err
	}
	args := []string{"tool", "test2json", program, "-test.v=test2json", "-test.short",
		"-test.timeout=" + testLimit.String(), "-test.run=" + run}
	cmd := exec.CommandContext(ctx, "go", append(args, more...)...)
	cmd.Dir, cmd.Env = filepath.Join(r.root, folder), append(os.Environ(), environment+"="+number)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	t := &testRun{ok: err == nil, output: stderr.String()}
	if perr := t.read(out); perr != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), perr, stderr.String())
	}
	return t, nil
}

func (t *testRun) read(out []byte) error {
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var e event
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("read what it printed: %w", err)
		}
		t.timedOut = t.timedOut || strings.HasPrefix(e.Output, "panic: test timed out")
		switch {
		case e.Test == "":
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
