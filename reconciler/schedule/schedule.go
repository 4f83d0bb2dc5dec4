// Package schedule starts full passes: one at start, and then by a cron
// expression that is read from where whereabouts v0.9.4 reads it
// (cmd/reconciler/main.go, pkg/reconciler/config.go, pkg/config/config.go:
// GetFlatIPAM) and is read again whenever it changes there.
//
// A Schedule is Run with the pass to make. Its keeper (keeper.go) reads the expression from
// its source (source.go), every ten seconds; expression.go parses it.
//
// What differs from whereabouts v0.9.4: a pass runs at start, passes never
// overlap, an expression that does not parse is reported instead of ending the
// process, and a file that appears or goes later counts.
package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// Schedule starts passes. Its fields are set before Run and not changed after;
// the zero Schedule is the Default expression.
type Schedule struct {
	// Expression, where set, overrules all files; they are then not read.
	Expression string
	// File holds nothing but the expression: DefaultFile. "" is no file.
	File string
	// FlatFiles are whereabouts' own configuration files, asked when there is
	// no File: DefaultFlatFiles. The first that exists decides.
	FlatFiles []string
	// Changed, where set, is called with what is in force: at start, and whenever that
	// changes. It is called by one goroutine at a time, never by the one that
	// runs a pass; while it runs nothing is read again.
	Changed func(Status)
	// Log, where set, gets the same, and passes that were skipped.
	Log *slog.Logger
}

// Status is what is in force, and what is wrong with what should be.
type Status struct {
	// Expression is the one in force; it parses.
	Expression string
	// Source is the path of the file that decides now, whether or not its
	// expression could be used (Err), or one of SourceOption and SourceDefault.
	Source string
	// Next is when the next pass was due, in UTC, as this Status came to be.
	Next time.Time
	// Err is why Source's expression is not the one in force, with the file,
	// what is there, and what to do; nil when it is in force.
	Err error
}

// Sources that are no files.
const (
	SourceOption  = "option"
	SourceDefault = "default"
)

// Run makes a pass at once and then whenever one is due, until the context
// ends; then it waits for the pass under way, which has the same context, and
// returns nil. Passes never overlap and never queue up: one that is due while
// another runs is skipped, like a CronJob's with concurrencyPolicy Forbid, so
// that passes longer than their period leave pauses between them. A changed
// expression changes when the next pass is due; it starts none itself.
//
// The error is that of an Expression that does not parse, or of a scheduler
// that cannot start; no pass has run then.
func (s *Schedule) Run(ctx context.Context, pass func(context.Context)) error {
	if s.Expression != "" {
		if _, err := parse(s.Expression); err != nil {
			return err
		}
	}
	log := s.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return fmt.Errorf("the scheduler of passes: %w", err)
	}
	scheduler.Start()
	defer func() { _ = scheduler.Shutdown() }()

	due := make(chan struct{})
	k := &keeper{schedule: s, log: log, scheduler: scheduler, due: func() {
		select {
		case due <- struct{}{}:
		default:
			log.Info("a pass is due, and skipped: the one before it still runs")
		}
	}}
	if err := k.refresh(); err != nil {
		return err
	}

	var keeping sync.WaitGroup
	defer keeping.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.Expression == "" && len(s.files()) > 0 {
		keeping.Go(func() { k.keep(ctx) })
	}
	for ctx.Err() == nil {
		pass(ctx)
		select {
		case <-ctx.Done():
		case <-due:
		}
	}
	return nil
}
