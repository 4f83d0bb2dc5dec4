// Command mutants breaks the product on purpose, in one place at a time, and checks that the unit tests fail: a fault
// that no test detects is a missing test, or dead code. The lists are in the files list_*.go, by area; the rows of the
// verdict table are mutated without a list. A mutant is an expression or statement in a named function and its
// replacement. All mutants are in one program for each package, built by 'go test -overlay', and a variable of the
// environment chooses the one that runs: the tree is never changed, and little is compiled.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// mutants are all mutants of the module in root.
func mutants(root string) ([]Mutant, error) {
	rows, err := rowMutants(root)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(rows, gates(), executor(), evidence(), transport(), retirement(), agent(), ranges())
	places, err := findPlaces(root)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].number = i + 1
		if err := places.locate(&all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	run := flags.String("run", "", "only the mutants whose fault, function or tests match this regular expression")
	find := flags.Bool("find", false, "run all tests of the packages, and tell which ones catch each mutant")
	most := flags.Int("simulate", 0, "instead of the tests, play at most this many histories of e2e/sim for each seed")
	seeds := flags.Int("seeds", 5, "of -simulate")
	restores := flags.Bool("restores", false, "of -simulate: in its histories etcd is restored again and again")
	overlay := flags.String("overlay", "", "instead of the tests, write the mutant into this folder, by its absolute "+
		"path, and print the file for 'go build -overlay'")
	parallel := flags.Int("parallel", runtime.NumCPU(), "how many mutants are tested at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	by, err := regexp.Compile(*run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	all, err := mutants(".")
	if err != nil {
		return err
	}
	var chosen []*Mutant
	for i := range all {
		m := &all[i]
		if slices.ContainsFunc([]string{m.Fault, m.folder + "." + m.Decl, m.Tests}, by.MatchString) {
			chosen = append(chosen, m)
		}
	}
	if *overlay != "" {
		if len(chosen) != 1 {
			return fmt.Errorf("-overlay is for one mutant, and -run matches %d", len(chosen))
		}
		file, err := writeOverlay(*overlay, chosen, func(*Mutant) string { return "true" })
		fmt.Fprintln(out, file)
		return err
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	began := time.Now()
	r := &runner{root: ".", scratch: scratch, parallel: *parallel, find: *find, tell: func(o *result) { tell(out, o) }}
	if *most > 0 {
		s := &simulation{runner: r, most: *most, seeds: *seeds, restores: *restores}
		return s.calibrate(ctx, chosen, func(what string, needed []int) {
			fmt.Fprintf(out, "%6d histories (%d to %d)  %s\n", needed[len(needed)/2], needed[0], needed[len(needed)-1], what)
		})
	}
	if err := r.buildTests(ctx, chosen); err != nil {
		return err
	}
	if !*find {
		if err := r.checkUnmutated(ctx, chosen); err != nil {
			return err
		}
		fmt.Fprintf(out, "the tests pass without a mutant (%s)\n", time.Since(began).Round(time.Second))
	}
	results, err := r.run(ctx, chosen)
	if err != nil {
		return err
	}
	return summarize(out, results, time.Since(began))
}

func tell(out io.Writer, o *result) {
	fmt.Fprintf(out, "%-8s %5.1fs  %s: %s\n", o.outcome, o.took.Seconds(), o.Decl, o.Fault)
	if len(o.by) > 0 {
		fmt.Fprintf(out, "                 by %s\n", strings.Join(o.by, ", "))
	}
	if o.output != "" {
		fmt.Fprintln(out, o.output)
	}
}

// summarize counts the results and repeats what was not caught. The error has the number of those.
func summarize(out io.Writer, results []*result, took time.Duration) error {
	count := map[string]int{}
	for _, o := range results {
		if count[o.outcome]++; o.outcome != caught {
			fmt.Fprintf(out, "%s: %s: %s (expected %s)\n", o.outcome, o.Decl, o.Fault, o.Tests)
		}
	}
	fmt.Fprintf(out, "%d mutants in %s: %d caught\n", len(results), took.Round(time.Second), count[caught])
	if n := len(results) - count[caught]; n > 0 {
		return fmt.Errorf("%d of %d mutants were not caught: a test is missing, code has no purpose, or the list is wrong", n,
			len(results))
	}
	return nil
}
