// Package schedule starts full passes: once at start, and then by a cron expression from the files that whereabouts
// v0.9.4 reads (cmd/reconciler/main.go, pkg/reconciler/config.go, pkg/config/config.go: GetFlatIPAM). It reads the
// files again every 30 seconds.
//
// It differs from whereabouts v0.9.4 in three ways: it starts a pass at start, it reports an invalid expression instead
// of ending the process, and it reads files that appear later.
package schedule

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// Schedule starts passes. Its fields are set before Run and do not change. The zero Schedule is the Default expression.
type Schedule struct {
	Expression string       // overrules all files
	File       string       // contains only the expression; "" is no file
	FlatFiles  []string     // whereabouts' own files, of which the first that exists decides where File does not exist
	Changed    func(Status) // if set, receives the status at start and whenever it changes, in the goroutine of Run
	Log        *slog.Logger // if set, gets the same

	mu     sync.Mutex
	status Status // the last that was reported
}

// InForce returns the expression in force, "" before Run. It is safe for concurrent use.
func (s *Schedule) InForce() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Expression
}

// Status is the expression in force, and why it is not the configured one.
type Status struct {
	Expression string // valid
	Source     string // the file that decides, even if its expression is invalid; or SourceOption, or SourceDefault
	Err        error  // why the expression of Source is not in force; nil if it is
}

// Sources that are not files.
const (
	SourceOption  = "option"
	SourceDefault = "default"
)

const rereadEvery = 30 * time.Second // of files; kubelet takes longer to update a ConfigMap volume

// Run calls due, which must not block, when an expression comes into force and whenever it is due, until ctx ends.
func (s *Schedule) Run(ctx context.Context, due func()) error {
	s.Log = cmp.Or(s.Log, slog.New(slog.DiscardHandler))
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return fmt.Errorf("create the scheduler: %w", err)
	}
	scheduler.Start()
	defer func() { _ = scheduler.Shutdown() }()
	task := gocron.NewTask(due)
	job, err := scheduler.NewJob(gocron.CronJob(Default, false), task)
	if err != nil {
		return fmt.Errorf("create the scheduler: %w", err)
	}
	inForce := Default
	refresh := func() {
		source, expression, err := s.find()
		if err == nil && expression != inForce {
			_, err = parse(expression)
			if err == nil {
				_, err = scheduler.Update(job.ID(), gocron.CronJob(expression, false), task)
			}
			if err == nil {
				inForce = expression
			}
		}
		if err != nil {
			err = fmt.Errorf("%s: %w; %q stays in force", source, err, inForce)
		}
		before := s.InForce()
		s.report(Status{Expression: inForce, Source: source, Err: err})
		if inForce != before {
			due() // its pass records the expression
		}
	}
	refresh()
	for reread := time.Tick(rereadEvery); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-reread:
			refresh()
		}
	}
}

// report logs and publishes a status, unless it is the last one.
func (s *Schedule) report(status Status) {
	if fmt.Sprint(status) == fmt.Sprint(s.status) {
		return
	}
	s.mu.Lock()
	s.status = status
	s.mu.Unlock()
	attrs := []any{"expression", status.Expression, "source", status.Source}
	if status.Err != nil {
		s.Log.Error("Cannot use the configured schedule", append(attrs, "error", status.Err)...)
	} else {
		s.Log.Info("Schedule is in force", attrs...)
	}
	if s.Changed != nil {
		s.Changed(status)
	}
}
