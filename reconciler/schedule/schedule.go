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
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// Schedule says when passes are due. Its fields are set before Run and not changed after;
// the zero Schedule is the Default expression.
type Schedule struct {
	// Expression, where set, overrules all files.
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

	mu     sync.Mutex
	status Status // as it was reported last
}

// InForce is the expression in force; "" before the first. It may be called by any goroutine.
func (s *Schedule) InForce() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Expression
}

// Status is what is in force, and what is wrong with what should be.
type Status struct {
	// Expression is the one in force; it parses.
	Expression string
	// Source is the path of the file that decides now, whether or not its
	// expression could be used (Err), or one of SourceOption and SourceDefault.
	Source string
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

// Run calls due when an expression comes into force, the first included, and whenever a pass is due by it, until the
// context ends; then it returns nil. The same expression again changes nothing. due must not block.
func (s *Schedule) Run(ctx context.Context, due func()) error {
	s.Log = cmp.Or(s.Log, slog.New(slog.DiscardHandler))
	scheduler, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return fmt.Errorf("the scheduler of passes: %w", err)
	}
	scheduler.Start()
	defer func() { _ = scheduler.Shutdown() }()
	task := gocron.NewTask(due)
	job, err := scheduler.NewJob(gocron.CronJob(Default, false), task)
	if err != nil {
		return fmt.Errorf("the scheduler of passes: %w", err)
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
			err = fmt.Errorf("%s: %w; until then %q stays in force", source, err, inForce)
		}
		before := s.InForce()
		s.report(Status{Expression: inForce, Source: source, Err: err})
		if inForce != before {
			due() // the record of that pass has the expression
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

// report reports what is in force, when it is not what was reported last.
func (s *Schedule) report(status Status) {
	if fmt.Sprint(status) == fmt.Sprint(s.status) {
		return
	}
	s.mu.Lock()
	s.status = status
	s.mu.Unlock()
	attrs := []any{"expression", status.Expression, "source", status.Source}
	if status.Err != nil {
		s.Log.Error("the schedule of passes cannot be used", append(attrs, "error", status.Err)...)
	} else {
		s.Log.Info("the schedule of passes is in force", attrs...)
	}
	if s.Changed != nil {
		s.Changed(status)
	}
}
