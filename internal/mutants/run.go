package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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
		expected[m.testFolder()] = append(expected[m.testFolder()], m.tests()...)
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
	t, err := runTests(ctx, r.root, m.testFolder(), run, overlay, more...)
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
	mutated, text, err := m.mutated(r.root)
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(mutated)
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
