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
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "time/tzdata" // the zones of TZ= and CRON_TZ= in an image without files

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"
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

// Default is the expression without any configuration: daily at 04:30 UTC, as in whereabouts v0.9.4
// (script/lib.sh, doc/crds/daemonset-install.yaml).
const Default = "30 4 * * *"

// Next returns the first time after a moment at which an expression is due, in UTC. The expression is one of robfig's
// standard parser: five fields, a descriptor such as @daily, or @every with a duration of whole seconds. TZ= or
// CRON_TZ= and a zone before it replace UTC. An hour that the zone's clocks skip is not due, a repeated one twice.
func Next(expression string, after time.Time) (time.Time, error) {
	parsed, err := parse(expression)
	if err != nil {
		return time.Time{}, err
	}
	return parsed.Next(after.UTC()).UTC(), nil
}

const maxLength = 1024 // of an expression in bytes; the parser needs seventy times as much memory

// parse reads an expression. An expression that is never due, such as one for February 30, is an error.
func parse(expression string) (parsed cron.Schedule, err error) {
	expression = strings.TrimSpace(expression)
	hasZone := strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ=")
	switch {
	case len(expression) > maxLength:
		err = fmt.Errorf("it is longer than %d bytes", maxLength)
	case hasZone && !strings.Contains(expression, " "): // the parser would panic
		err = errors.New("nothing follows the time zone")
	case hasZone:
		parsed, err = cron.ParseStandard(expression)
	default:
		parsed, err = cron.ParseStandard("CRON_TZ=UTC " + expression)
	}
	if err == nil && parsed.Next(time.Now().UTC()).IsZero() {
		err = errors.New("it is never due")
	}
	if err != nil {
		return nil, fmt.Errorf(`invalid cron expression %.80q: %w; write five fields as in "30 4 * * *", or @daily, `+
			`or @every 5m, in UTC or with TZ=Area/City before it`, expression, err)
	}
	return parsed, nil
}

// DefaultFile is where whereabouts v0.9.4 mounts the expression out of its ConfigMap (cmd/reconciler/main.go).
const DefaultFile = "/cron-schedule/config"

// DefaultFlatFiles are the paths of whereabouts' own configuration file, in the order of whereabouts v0.9.4
// (pkg/config/config.go: GetFlatIPAM).
func DefaultFlatFiles() []string {
	return []string{
		"/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
		"/etc/cni/net.d/whereabouts.d/whereabouts.conf",
		"/host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
	}
}

// find reads the expression and its source, and does not parse the expression. Only a file that does not exist is
// skipped: an unreadable file is an error, since the next file may have another expression.
func (s *Schedule) find() (source, expression string, err error) {
	if s.Expression != "" {
		return SourceOption, strings.TrimSpace(s.Expression), nil
	}
	for _, file := range append([]string{s.File}, s.FlatFiles...) {
		content, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // or File is ""
			continue
		case err != nil:
			return file, "", fmt.Errorf("cannot be read: %w; make the file readable, or remove it", err)
		case file == s.File:
			return file, strings.TrimSpace(string(content)), nil
		}
		expression, err := fromFlat(content)
		if err == nil && expression == "" {
			return SourceDefault, Default, nil
		}
		return file, expression, err
	}
	return SourceDefault, Default, nil
}

// fromFlat returns the expression in a whereabouts.conf, "" if the field is missing as in releases before v0.6.
func fromFlat(content []byte) (string, error) {
	var flat struct {
		Expression string `json:"reconciler_cron_expression"`
	}
	if err := json.Unmarshal(content, &flat); err != nil {
		return "", fmt.Errorf("cannot be parsed: %w; write JSON with a reconciler_cron_expression such as %q, "+
			"or remove it", err, Default)
	}
	return strings.TrimSpace(flat.Expression), nil
}
