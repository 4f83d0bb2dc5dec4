package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// watchEvery is the pause between two judgements of --watch. On a large cluster the pause is watchPauses times as long
	// as a judgement takes.
	watchEvery  = 5 * time.Second
	watchPauses = 9
)

const watchHelp = `
--watch prints the first result, then one line for each change, until Ctrl-C (exit code 0).
It judges again every 5 seconds, and spends at most a tenth of the time on that. It does
not wait for events, because verdicts also change with time. Where a read fails, stderr
says so, and the next read decides. With -o json each line is a document.
`

func (o *options) addWatch(f *pflag.FlagSet) {
	f.BoolVarP(&o.isWatch, "watch", "w", false, "print changes after the first result, until Ctrl-C")
}

func (o *options) checkWatch(others ...string) error {
	if !o.isWatch {
		return nil
	}
	for _, name := range append(others, "snapshot") {
		if o.given.Changed(name) {
			return fmt.Errorf("-w/--watch cannot be used with --%s", name)
		}
	}
	if !slices.Contains([]string{"table", "wide", "json"}, o.output) {
		return fmt.Errorf("-w/--watch prints table, wide or json, and cannot be used with --output %s", o.output)
	}
	return nil
}

// follow prints what changes after the first judgement, which was printed. It ends without an error when the context
// ends. Without --watch it returns what printing returned.
func (o *options) follow(
	ctx context.Context, r *reconciler.Reconciler, first *judge.Judgement, printed error,
	rowsOf func(context.Context, *judge.Judgement) ([]document.WatchRow, error),
) error {
	if !o.isWatch || printed != nil && !errors.Is(printed, errUnresolved) {
		return printed
	}
	rows, err := rowsOf(ctx, first)
	if err != nil {
		return err
	}
	if o.clusterUID != nil {
		o.cluster.UID = o.clusterUID(ctx)
	}
	r.Progress = nil // what changes is printed
	warnings, took := first.Observation.Warnings, time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(watchEvery, watchPauses*took)):
		}
		began := time.Now()
		j, err := r.Check(ctx)
		var next []document.WatchRow
		if err == nil {
			err, warnings = newWarning(warnings, j.Observation.Warnings), j.Observation.Warnings
		}
		if err == nil {
			next, err = rowsOf(ctx, j)
		}
		took = time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			fmt.Fprintf(o.err, "%s: %s; trying again\n", commandName(), document.Clean(err.Error()))
			continue
		}
		header := document.NewHeader(document.KindChange, version.Get().Version, o.cluster, j.Observation.Now)
		for _, c := range document.Diff(header, rows, next) {
			if err := o.printChange(&c); err != nil {
				return err
			}
		}
		rows = next
	}
}

// newWarning returns an error for a warning that the last judgement did not have: something could not be read. The next
// judgement that has it, too, counts.
func newWarning(before, now []string) error {
	for _, text := range now {
		if !slices.Contains(before, text) {
			return errors.New(text)
		}
	}
	return nil
}

func (o *options) printChange(c *document.Change) error {
	if o.isTable() {
		s := &screen.Screen{Wide: o.output == "wide"}
		s.Change(c)
		return o.write([]byte(s.String()))
	}
	text, err := document.Encode(document.FormLine, c)
	if err == nil {
		_, err = o.out.Write(text)
	}
	return err
}
