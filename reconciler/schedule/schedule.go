// Package schedule says when full passes are due: once at start, and then by a cron
// expression that is read from where whereabouts v0.9.4 reads it
// (cmd/reconciler/main.go, pkg/reconciler/config.go, pkg/config/config.go:
// GetFlatIPAM). The files are read again every 30 seconds.
//
// What differs from whereabouts v0.9.4: a pass is due at start, an expression that does
// not parse is reported instead of ending the process, and a file that appears or goes
// later counts.
package schedule

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// Schedule says when passes are due. Its fields are set before Run and not changed after;
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
	// changes. It is called by the goroutine of Run.
	Changed func(Status)
	// Log, where set, gets the same.
	Log *slog.Logger

	job      gocron.Job // of the expression in force; nil before the first
	inForce  string
	reported Status // without Next
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

// rereadEvery is how often the files are read again. kubelet takes longer to update a ConfigMap volume.
const rereadEvery = 30 * time.Second

// Run calls due at once and then whenever a pass is due, until the context ends; then it
// returns nil. A changed expression changes when the next pass is due; it makes none due
// itself. due must not block.
//
// The error is that of an Expression that does not parse, or of a scheduler
// that cannot start; due has not been called then.
func (s *Schedule) Run(ctx context.Context, due func()) error {
	if s.Expression != "" {
		if _, err := parse(s.Expression); err != nil {
			return err
		}
	}
	s.Log = cmp.Or(s.Log, slog.New(slog.DiscardHandler))
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return fmt.Errorf("the scheduler of passes: %w", err)
	}
	scheduler.Start()
	defer func() { _ = scheduler.Shutdown() }()
	if err := s.refresh(scheduler, due); err != nil {
		return err
	}
	due()
	var reread <-chan time.Time
	if s.Expression == "" && len(s.files()) > 0 {
		ticker := time.NewTicker(rereadEvery)
		defer ticker.Stop()
		reread = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reread:
			_ = s.refresh(scheduler, due) // there is a job already: it stays
		}
	}
}

// refresh reads the expression and puts it in force, where it is another. When
// it cannot be used the last good one, or Default, stays. The error means that
// nothing is in force.
func (s *Schedule) refresh(scheduler gocron.Scheduler, due func()) error {
	source, expression, err := s.find()
	if err == nil {
		_, err = parse(expression)
	}
	if err == nil {
		err = s.replaceJob(scheduler, due, expression)
	}
	if err != nil && s.job == nil {
		if err := s.replaceJob(scheduler, due, Default); err != nil {
			return fmt.Errorf("the scheduler of passes: %w", err)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w; until then %q stays in force", source, err, s.inForce)
	}
	s.report(Status{Expression: s.inForce, Source: source, Err: err})
	return nil
}

// replaceJob makes passes due by the expression. The same one again changes nothing:
// the period of an @every goes on.
func (s *Schedule) replaceJob(scheduler gocron.Scheduler, due func(), expression string) error {
	if s.job != nil && expression == s.inForce {
		return nil
	}
	job, err := scheduler.NewJob(gocron.CronJob(expression, false), gocron.NewTask(due))
	if err != nil {
		return err
	}
	if s.job != nil {
		_ = scheduler.RemoveJob(s.job.ID())
	}
	s.job, s.inForce = job, expression
	return nil
}

// report reports what is in force, when it is not what was reported last.
func (s *Schedule) report(status Status) {
	if status.Expression == s.reported.Expression && status.Source == s.reported.Source && fmt.Sprint(status.Err) == fmt.Sprint(s.reported.Err) {
		return
	}
	s.reported = status
	if next, err := s.job.NextRun(); err == nil {
		status.Next = next.UTC()
	}
	attrs := []any{"expression", status.Expression, "source", status.Source, "next", status.Next}
	if status.Err != nil {
		s.Log.Error("the schedule of passes cannot be used", append(attrs, "error", status.Err)...)
	} else {
		s.Log.Info("the schedule of passes is in force", attrs...)
	}
	if s.Changed != nil {
		s.Changed(status)
	}
}
