package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// reads are the answers to one read after another, each an observation or an error. After the last the context ends.
type reads struct {
	reconciler.Source
	answers []any
	takes   time.Duration // each read
	at      []time.Time
	end     func()
}

func (s *reads) List(context.Context) (*judge.Observation, error) {
	s.at = append(s.at, time.Now())
	time.Sleep(s.takes)
	if len(s.answers) == 0 {
		s.end()
		return nil, context.Canceled
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	if err, isError := next.(error); isError {
		return nil, err
	}
	return next.(*judge.Observation), nil
}

// watched is what check --watch prints of the reads.
func watched(t *testing.T, output string, source *reads) (stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	std := streams{out: open("out"), err: open("err")}
	o := &options{streams: std, component: "check", snapshot: sample}
	o.isWatch = true
	f := (&cobra.Command{}).Flags()
	o.addLive(f, "error")
	o.AddConfirmAfter(f)
	o.output = output
	r, err := o.reconciler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	source.end, r.Source = end, source
	first, err := r.Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rows := func(_ context.Context, j *judge.Judgement) ([]document.WatchRow, error) {
		return document.CheckRows(report.OfCheck(j, &reconciler.Plan{}, report.Filter{}), report.Filter{}), nil
	}
	if err := o.follow(ctx, r, first, errUnresolved, rows); err != nil {
		t.Error(err)
	}
	files := contents(t, dir)
	return files["out"], files["err"]
}

func observation(parts ...Part) *judge.Observation {
	return Observe(append(parts, Pod("bystander"))...).Observation
}

func TestWatch_NothingIsConcludedFromAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty := Pool("10.0.0.0-24", "10.0.0.0/24")
		paused, forbidden := observation(empty), observation(UsualPool)
		paused.Warnings, forbidden.Warnings = []string{"cannot get namespace"}, []string{"cannot list nodes: forbidden"}
		source := &reads{answers: []any{
			observation(empty, UsualPod(PodIPs("10.0.0.5"))),
			errors.New("410 Gone: the provided continue parameter is too old"),
			observation(UsualPool, UsualPod(PodIPs("10.0.0.5"))), // an entry is added
			errors.New("connection refused\nat\x1b[2J once"),
			observation(UsualPool, UsualPod(PodIPs("10.0.0.5"))),
			paused, // a part could not be read
			observation(UsualPool, UsualPod(PodIPs("10.0.0.5"))),
			forbidden, forbidden, // a part cannot be read, and stays so
			observation(empty, UsualPod(PodIPs("10.0.0.5"))), // the entry is released
		}}
		out, errs := watched(t, "table", source)
		at, place := Now.Format(time.RFC3339)+"  ", "10.0.0.5 of kube-system/10.0.0.0-24: default/web-0 "
		if want := at + "appeared  " + place + "InUse AddressOnPod\n" +
			at + "changed   " + place + "InUse AddressOnPod → default/web-0 Stale PodGone, can be released\n" +
			at + "vanished  " + place + "Stale PodGone, can be released\n"; out != want {
			t.Errorf("got\n%swant\n%s", out, want)
		}
		if strings.Count(errs, "\n") != 4 || strings.Count(errs, "; trying again\n") != 4 || strings.Contains(errs, "\x1b") {
			t.Errorf("stderr is %q", errs)
		}
	})
}

func TestWatch_JudgesATenthOfTheTime(t *testing.T) {
	for takes, pause := range map[time.Duration]time.Duration{0: 5 * time.Second, 2 * time.Second: 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			same := observation(UsualPool)
			source := &reads{takes: takes, answers: []any{same, same, same}}
			if out, errs := watched(t, "table", source); out+errs != "" {
				t.Errorf("%s%s", out, errs)
			}
			if got := source.at[3].Sub(source.at[2]); got.Round(time.Second) != pause {
				t.Errorf("a read of %s comes again after %s", takes, got)
			}
		})
	}
}

func TestWatch_JSONIsADocumentALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &reads{answers: []any{observation(UsualPool, UsualPod(Carrying("10.0.0.5"))), observation(UsualPool),
			observation(Pool("10.0.0.0-24", "10.0.0.0/24"), Reservation("10.0.0.9", "default/db-0", LongAgo))}}
		out, errs := watched(t, "json", source)
		want := []document.ChangeType{document.Changed, document.Vanished, document.Appeared}
		for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
			valid(t, []string{"-o", "json"}, line)
			var c document.Change
			if err := json.Unmarshal([]byte(line), &c); err != nil || i >= len(want) || c.Change != want[i] ||
				c.Kind != document.KindChange || (c.Allocation == nil) == (c.Reservation == nil) {
				t.Errorf("%v: line %d: %s%s", err, i, line, errs)
			}
		}
	})
}

func TestWatch_Refused(t *testing.T) {
	for args, want := range map[string]string{
		"check -w --snapshot " + sample:                "-w/--watch cannot be used with --snapshot",
		"pools --watch --snapshot -":                   "-w/--watch cannot be used with --snapshot",
		"check -w --fail-on none":                      "-w/--watch cannot be used with --fail-on",
		"pools -w --unused":                            "-w/--watch cannot be used with --unused",
		"pools 10.0.0.0-24 -w --new-range 10.0.0.0/25": "-w/--watch cannot be used with --new-range",
		"check -w -o yaml":                             "cannot be used with --output yaml",
	} {
		refused(t, strings.Fields(args), []string{want})
	}
}
