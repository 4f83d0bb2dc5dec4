package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func TestTrail_WritesAndCounts(t *testing.T) {
	forbidden := fmt.Errorf("read: %w", ErrForbidden)
	for says, c := range map[string]struct {
		ring, file, actor error
		failed, warnings  int
	}{
		"all is well":               {},
		"the ring is forbidden":     {ring: forbidden, failed: 20, warnings: 2},
		"the API server is away":    {ring: errors.New("refused"), failed: 20, warnings: 2},
		"the file is full":          {file: errors.New("full"), failed: 20, warnings: 2},
		"the user name is unknown":  {actor: errors.New("not served"), warnings: 1},
		"neither ring nor the file": {ring: forbidden, file: errors.New("full"), failed: 20, warnings: 2},
	} {
		t.Run(says, func(t *testing.T) {
			s, file, failed := &objects{err: c.ring}, &buffer{err: c.file}, 0
			var log bytes.Buffer
			trail := &Trail{Ring: s.ring(), File: file, Now: func() time.Time { return Now },
				Origin: Origin{Command: "run", Run: "1"}, Failed: func(n int) { failed += n },
				Log: slog.New(slog.NewTextHandler(&log, nil)), WhoAmI: func(context.Context) (string, error) {
					if c.actor != nil {
						return "", c.actor
					}
					return "alice", nil
				}}
			for range 2 {
				for _, r := range some(0, 10, Now) {
					trail.add(r)
				}
				trail.Start()()
			}
			if n := strings.Count(log.String(), "Could not write the history"); failed != c.failed || n != c.warnings {
				t.Errorf("%d failed, %d warnings: %s", failed, n, log.String())
			}
			actor := "alice"
			if c.actor != nil {
				actor = "unknown"
			}
			if c.ring == nil {
				if lines, faults := verify(t, trail.Ring); len(lines) != 20 || len(faults) > 0 || lines[19].Actor != actor {
					t.Errorf("%d lines, %v", len(lines), faults)
				}
			}
			if c.file == nil {
				lines, err := ReadLog("audit.log", &file.Buffer)
				check(t, err)
				if faults := Verify(lines, false, oneSeries); len(lines) != 20 || len(faults) > 0 || lines[19].Command != "run" {
					t.Errorf("%d lines in the file, %v", len(lines), faults)
				}
			}
		})
	}
}

// What was written before an error is not counted as missing.
func TestTrail_CountsWhatIsMissing(t *testing.T) {
	for says, c := range map[string]struct {
		puts, lines, failed int // how many writes to the ring and the file succeed
	}{
		"the ring fails":               {1, 2000, 2000 - perObject},
		"the file fails":               {9, 1900, 100},
		"the ring and the file fail":   {2, 700, 1300},
		"the ring fails at the outset": {0, 2000, 2000},
	} {
		s, failed := &objects{}, 0
		s.onPut = func() {
			if s.puts > c.puts {
				s.err = errors.New("refused")
			}
		}
		trail := &Trail{Ring: s.ring(), File: &fillingFile{free: c.lines}, Now: func() time.Time { return Now },
			Failed: func(n int) { failed += n }, Log: slog.New(slog.DiscardHandler),
			WhoAmI: func(context.Context) (string, error) { return "alice", nil }}
		for _, r := range some(0, 2000, Now) {
			trail.add(r)
		}
		trail.Start()()
		if failed != c.failed {
			t.Errorf("%s: %d failed, want %d", says, failed, c.failed)
		}
	}
}

// An API server that is away for a while, as for the restore of etcd, that forbids everything while it starts, or whose
// answers are lost takes nothing from the history, and nothing is in it twice.
func TestTrail_TriesAgain(t *testing.T) {
	for says, c := range map[string]struct {
		away, lost   time.Duration // from the outset, and then
		forbidden    bool          // while it is away
		lines, fails int
		warnings     int
	}{
		"all is well":             {lines: 40},
		"away":                    {away: 4 * time.Minute, lines: 40, warnings: 1},
		"answers are lost":        {lost: 4 * time.Minute, lines: 40, warnings: 2},
		"both":                    {away: 2 * time.Minute, lost: 2 * time.Minute, lines: 40, warnings: 2},
		"away for too long":       {away: 6 * time.Minute, lines: 20, fails: 20, warnings: 2},
		"away for much too long":  {away: time.Hour, fails: 40, warnings: 3},
		"forbids while it starts": {away: 20 * time.Second, forbidden: true, lines: 40, warnings: 1},
		"is forbidden":            {away: time.Hour, forbidden: true, fails: 40, warnings: 2},
	} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, file, failed, began := &objects{}, &buffer{}, 0, time.Now()
				var log bytes.Buffer
				away := errors.New("away")
				if c.forbidden {
					away = ErrForbidden
				}
				s.onGet = func() {
					s.err, s.answer = nil, nil
					if since := time.Since(began); since < c.away {
						s.err = away
					} else if since < c.away+c.lost {
						s.answer = errors.New("lost")
					}
				}
				trail := &Trail{Ring: s.ring(), File: file, Now: time.Now, Failed: func(n int) { failed += n },
					Origin: Origin{Actor: "alice"}, Log: slog.New(slog.NewTextHandler(&log, nil))}
				stop := trail.Start()
				for range 2 {
					for _, r := range some(0, 20, time.Now()) {
						trail.add(r)
					}
					time.Sleep(3 * time.Minute)
				}
				time.Sleep(5 * time.Minute)
				stop()
				s.err, s.onGet = nil, nil
				lines, faults := verify(t, trail.Ring)
				if len(lines) != c.lines || failed != c.fails || len(faults) > 0 {
					t.Errorf("%d lines, %d failed, %v", len(lines), failed, faults)
				}
				if n := strings.Count(log.String(), "Could not write the history"); n != c.warnings {
					t.Errorf("%d warnings:\n%s", n, log.String())
				}
				written, err := ReadLog("audit.log", &file.Buffer)
				check(t, err)
				if faults := Verify(written, false, oneSeries); len(written) != 40 || len(faults) > 0 {
					t.Errorf("%d lines in the file, %v", len(written), faults)
				}
			})
		})
	}
}

// fillingFile takes so many lines.
type fillingFile struct{ free int }

func (f *fillingFile) Write(line []byte) (int, error) {
	if f.free--; f.free < 0 {
		return 0, errors.New("full")
	}
	return len(line), nil
}

// A user name that could not be read is read for the next records.
func TestTrail_LearnsTheActorLater(t *testing.T) {
	s, names := &objects{}, []string{"", "", "alice"}
	var log bytes.Buffer
	trail := &Trail{Ring: s.ring(), Now: func() time.Time { return Now }, Failed: func(int) {},
		Log: slog.New(slog.NewTextHandler(&log, nil)), WhoAmI: func(context.Context) (name string, err error) {
			if name, names = names[0], names[1:]; name == "" {
				err = errors.New("the API server is away")
			}
			return name, err
		}}
	for range 4 {
		trail.add(some(0, 1, Now)[0])
		trail.Start()()
	}
	lines, _ := verify(t, trail.Ring)
	got := []string{}
	for _, l := range lines {
		got = append(got, l.Actor)
	}
	if want := []string{"unknown", "unknown", "alice", "alice"}; !slices.Equal(got, want) {
		t.Errorf("the actors are %q, want %q", got, want)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

// A release does not wait for its record.
func TestTrail_DoesNotBlock(t *testing.T) {
	s, failed, release := &objects{}, 0, make(chan struct{})
	var once sync.Once
	writes := make(chan struct{})
	s.onPut = func() { once.Do(func() { close(writes); <-release }) }
	trail := &Trail{Ring: s.ring(), Now: time.Now, Failed: func(n int) { failed += n }, Log: slog.New(slog.DiscardHandler),
		WhoAmI: func(context.Context) (string, error) { return "alice", nil }}
	stop := trail.Start()
	trail.add(some(0, 1, Now)[0])
	<-writes                                     // the API server does not answer from here on
	for _, r := range some(0, maxQueue+7, Now) { // would wait for ever if it waited for the write
		trail.add(r)
	}
	if failed != 8 { // the one that is being written counts, too
		t.Errorf("%d records failed", failed)
	}
	close(release)
	stop()
	if lines, faults := verify(t, trail.Ring); len(lines) < (Objects-1)*perObject || len(faults) > 0 {
		t.Errorf("%d lines, %v", len(lines), faults)
	}
}
