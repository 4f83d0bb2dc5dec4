package schedule

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The clock of a synctest bubble starts at midnight UTC 2000-01-01, and moves
// on while everything in it waits.

// starts runs a schedule for a time and returns when each pass began, counted from
// the beginning; a pass lasts as long as given.
func starts(t *testing.T, s *Schedule, during time.Duration, lasts time.Duration) []time.Duration {
	t.Helper()
	var begun []time.Duration
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	err := s.Run(ctx, func(context.Context) {
		begun = append(begun, time.Since(began))
		time.Sleep(lasts)
	})
	if err != nil {
		t.Error(err)
	}
	return begun
}

func expect(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("passes began after %v, want %v", got, want)
	}
}

func TestAPassRunsAtStartAndWheneverItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const due = 4*time.Hour + 30*time.Minute
		expect(t, starts(t, &Schedule{}, 72*time.Hour, time.Minute), 0, due, due+24*time.Hour, due+48*time.Hour)
	})
}

func TestPassesBeginWhenNextSays(t *testing.T) {
	for _, expression := range []string{
		"@every 90s", "*/7 3 * * *", "CRON_TZ=America/New_York 30 4 * * *", "@monthly",
		// Twice in the hour that the clocks repeat, not at all in the one they skip.
		"TZ=Europe/Berlin 30 2 29 10 *", "TZ=Europe/Berlin 30 2 26 3 *",
	} {
		synctest.Test(t, func(t *testing.T) {
			want, last := []time.Duration{0}, time.Now()
			for began := last; len(want) < 4; {
				next, err := Next(expression, last)
				if err != nil {
					t.Fatal(err)
				}
				want, last = append(want, next.Sub(began)), next
			}
			t.Log(expression, want)
			expect(t, starts(t, &Schedule{Expression: expression}, want[3]+time.Millisecond, 0), want...)
		})
	}
}

func TestAPassThatIsDueWhileAnotherRunsIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := starts(t, &Schedule{Expression: "@every 1m"}, 10*time.Minute, 150*time.Second)
		expect(t, got, 0, 3*time.Minute, 6*time.Minute, 9*time.Minute)
	})
}

func TestPassesNeverOverlapHoweverOftenTheScheduleChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	synctest.Test(t, func(t *testing.T) {
		var running, passes atomic.Int32
		s := &Schedule{File: file}
		write(t, file, "@every 10s")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- s.Run(ctx, func(context.Context) {
				if running.Add(1) > 1 {
					t.Error("two passes at once")
				}
				time.Sleep(95 * time.Second)
				running.Add(-1)
				passes.Add(1)
			})
		}()
		for i := range 60 {
			write(t, file, []string{"@every 7s", "* * * * *", "@every 1s"}[i%3])
			time.Sleep(6*recheckEvery + time.Second)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := passes.Load(); n < 20 {
			t.Errorf("%d passes", n)
		}
	})
}

func TestStoppingWaitsForThePassUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ended time.Time
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		began := time.Now()
		err := (&Schedule{Expression: "@every 1s"}).Run(ctx, func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Hour)
			ended = time.Now()
		})
		if err != nil || ended.Sub(began) != time.Hour+time.Second || time.Since(ended) != 0 {
			t.Errorf("the pass ended after %s, Run %s later with %v", ended.Sub(began), time.Since(ended), err)
		}
	})
}

func TestNoPassRunsWhenTheContextHasEndedAlready(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := (&Schedule{File: filepath.Join(t.TempDir(), "config")}).Run(ctx, func(context.Context) { t.Error("a pass ran") })
	if err != nil {
		t.Error(err)
	}
}

func TestAnOptionThatIsNoExpressionIsAnErrorBeforeAnyPass(t *testing.T) {
	err := (&Schedule{Expression: "every 5 minutes"}).Run(t.Context(), func(context.Context) { t.Error("a pass ran") })
	if err == nil || !strings.Contains(err.Error(), `"every 5 minutes" is no cron expression`) {
		t.Error(err)
	}
}

func TestAPanicOfAPassIsNotHeldUp(t *testing.T) {
	defer func() {
		if recover() != "broken" {
			t.Error("no panic")
		}
	}()
	_ = (&Schedule{File: filepath.Join(t.TempDir(), "config")}).Run(t.Context(), func(context.Context) { panic("broken") })
}

func TestAChangeCountsTenSecondsLater(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	synctest.Test(t, func(t *testing.T) {
		s := &Schedule{File: file}
		time.AfterFunc(35*time.Second, func() { write(t, file, "@every 2m") })
		time.AfterFunc(335*time.Second, func() { _ = os.Remove(file) })
		expect(t, starts(t, s, time.Hour, 0), 0, 160*time.Second, 280*time.Second)
	})
}

func TestReadingTheSameExpressionAgainDoesNotRestartItsPeriod(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	synctest.Test(t, func(t *testing.T) {
		reported := 0
		s := &Schedule{File: file, Changed: func(Status) { reported++ }}
		write(t, file, "@every 90s")
		time.AfterFunc(85*time.Second, func() { write(t, file, "@every 90s\n") })
		expect(t, starts(t, s, 5*time.Minute, 0), 0, 90*time.Second, 180*time.Second, 270*time.Second)
		if reported != 1 {
			t.Errorf("reported %d times", reported)
		}
	})
}

func TestABadExpressionLeavesTheLastGoodOneAndIsReportedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	synctest.Test(t, func(t *testing.T) {
		var reported []Status
		s := &Schedule{File: file, Changed: func(status Status) { reported = append(reported, status) }}
		write(t, file, "@every 90s")
		time.AfterFunc(95*time.Second, func() { write(t, file, "every 5 minutes") })
		time.AfterFunc(405*time.Second, func() { write(t, file, "@every 90s") })
		got := starts(t, s, 500*time.Second, 0)
		expect(t, got, 0, 90*time.Second, 180*time.Second, 270*time.Second, 360*time.Second, 450*time.Second)
		if len(reported) != 3 || reported[0].Err != nil || reported[1].Err == nil || reported[2].Err != nil {
			t.Fatalf("reported %v", reported)
		}
		for _, status := range reported {
			if status.Expression != "@every 90s" || status.Source != file {
				t.Errorf("reported %v", status)
			}
		}
		if next := reported[1].Next.Format(time.TimeOnly); next != "00:03:00" {
			t.Errorf("with the bad one the next pass is due at %s", next)
		}
		want := file + `: "every 5 minutes" is no cron expression: expected exactly 5 fields, found 3: [every 5 minutes]; ` +
			`write five fields as in "30 4 * * *", or @daily, or @every 5m, in UTC or with TZ=Area/City before it; until then "@every 90s" stays in force`
		if got := reported[1].Err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
