package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// recheckEvery is how often the files are read again. kubelet takes longer to update a ConfigMap volume.
const recheckEvery = 10 * time.Second

// keeper keeps in force the expression that the files have.
type keeper struct {
	schedule  *Schedule
	log       *slog.Logger
	scheduler gocron.Scheduler
	due       func()

	job        gocron.Job // of expression; nil before the first
	expression string
	reported   Status // without Next
}

// keep reads the files again until the context ends.
func (k *keeper) keep(ctx context.Context) {
	recheck := time.NewTicker(recheckEvery)
	defer recheck.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-recheck.C:
			_ = k.refresh() // there is a job already: it stays
		}
	}
}

// refresh reads the expression and puts it in force, where it is another. When
// it cannot be used the last good one, or Default, stays. The error means that
// nothing is in force.
func (k *keeper) refresh() error {
	source, expression, err := k.schedule.find()
	if err == nil {
		_, err = parse(expression)
	}
	if err == nil {
		err = k.replaceJob(expression)
	}
	if err != nil && k.job == nil {
		if err := k.replaceJob(Default); err != nil {
			return fmt.Errorf("the scheduler of passes: %w", err)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w; until then %q stays in force", source, err, k.expression)
	}
	k.report(Status{Expression: k.expression, Source: source, Err: err})
	return nil
}

// replaceJob makes passes due by the expression. The same one again changes nothing:
// the period of an @every goes on.
func (k *keeper) replaceJob(expression string) error {
	if k.job != nil && expression == k.expression {
		return nil
	}
	job, err := k.scheduler.NewJob(gocron.CronJob(expression, false), gocron.NewTask(k.due))
	if err != nil {
		return err
	}
	if k.job != nil {
		_ = k.scheduler.RemoveJob(k.job.ID())
	}
	k.job, k.expression = job, expression
	return nil
}

// report reports what is in force, when it is not what was reported last.
func (k *keeper) report(status Status) {
	if status.Expression == k.reported.Expression && status.Source == k.reported.Source && text(status.Err) == text(k.reported.Err) {
		return
	}
	k.reported = status
	if next, err := k.job.NextRun(); err == nil {
		status.Next = next.UTC()
	}
	attrs := []any{"expression", status.Expression, "source", status.Source, "next", status.Next}
	if status.Err != nil {
		k.log.Error("the schedule of passes cannot be used", append(attrs, "error", status.Err)...)
	} else {
		k.log.Info("the schedule of passes is in force", attrs...)
	}
	if k.schedule.Changed != nil {
		k.schedule.Changed(status)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
