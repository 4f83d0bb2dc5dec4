package schedule

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The clock of a synctest bubble starts at midnight UTC 2000-01-01.

// dueTimes runs a schedule and returns how long after its start each pass was due.
func dueTimes(t *testing.T, s *Schedule, during time.Duration) []time.Duration {
	t.Helper()
	var mu sync.Mutex // the first pass is due in Run's goroutine, the others in the scheduler's
	var due []time.Duration
	start := time.Now()
	add := func() {
		mu.Lock()
		defer mu.Unlock()
		due = append(due, time.Since(start))
	}
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	if err := s.Run(ctx, add); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	return due
}

func expect(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("passes were due after %v, want %v", got, want)
	}
}

func TestRun_DueAtStartAndByTheExpression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const due = 4*time.Hour + 30*time.Minute
		expect(t, dueTimes(t, &Schedule{}, 72*time.Hour), 0, due, due+24*time.Hour, due+48*time.Hour)
	})
	for _, expression := range []string{
		"@every 90s", "*/7 3 * * *", "CRON_TZ=America/New_York 30 4 * * *",
		"TZ=Europe/Berlin 30 2 29 10 *", // twice, in the hour that the clocks repeat
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Date(2000, 10, 28, 0, 0, 0, 0, time.UTC)))
			want, last := []time.Duration{0}, time.Now()
			for start := last; len(want) < 3; {
				next, err := Next(expression, last)
				if err != nil {
					t.Fatal(err)
				}
				want, last = append(want, next.Sub(start)), next
			}
			t.Log(expression, want)
			expect(t, dueTimes(t, &Schedule{Expression: expression}, want[2]+time.Millisecond), want...)
		})
	}
}

func TestRun_FileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	synctest.Test(t, func(t *testing.T) {
		s := &Schedule{File: file}
		time.AfterFunc(35*time.Second, func() { write(t, file, "@every 2m") })
		time.AfterFunc(85*time.Second, func() { write(t, file, "@every 2m\n") })         // the period continues
		time.AfterFunc(200*time.Second, func() { write(t, file, "every five minutes") }) // as it does here
		time.AfterFunc(335*time.Second, func() { _ = os.Remove(file) })
		expect(t, dueTimes(t, s, time.Hour), 0, 60*time.Second, 180*time.Second, 300*time.Second, 360*time.Second)
	})
}

// TestRun_FilesThatChange changes the files of a running schedule step by step.
func TestRun_FilesThatChange(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mnt", "config")
	flat1, flat2 := filepath.Join(dir, "1", "whereabouts.conf"), filepath.Join(dir, "2", "whereabouts.conf")
	flatOf := func(expression string) string {
		return fmt.Sprintf(`{"log_level": "debug", "reconciler_cron_expression": %q}`, expression)
	}
	content := func(file, content string) func() { return func() { write(t, file, content) } }
	remove := func(path string) func() { return func() { _ = os.RemoveAll(path) } }
	synctest.Test(t, func(t *testing.T) {
		states := make(chan Status, 100)
		s := &Schedule{File: file, FlatFiles: []string{flat1, flat2}, Changed: func(status Status) { states <- status }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		due := 0
		write(t, file, "")
		go func() { ended <- s.Run(ctx, func() { due++ }) }()
		for _, step := range []struct {
			change             func()
			expression, source string
			bad                bool
		}{
			{func() {}, Default, file, true}, // at start
			{content(file, Default), Default, file, false},
			{content(file, "TZ=Asia/Tokyo 3 3 * * *\n"), "TZ=Asia/Tokyo 3 3 * * *", file, false},
			{content(file, "TZ=UTC"), "TZ=Asia/Tokyo 3 3 * * *", file, true},
			{content(file, "0 0 30 2 *"), "TZ=Asia/Tokyo 3 3 * * *", file, true},
			{content(file, string(make([]byte, 1<<20))), "TZ=Asia/Tokyo 3 3 * * *", file, true},
			{remove(filepath.Dir(file)), Default, SourceDefault, false},
			{content(flat2, flatOf("2 2 * * *")), "2 2 * * *", flat2, false},
			{content(flat1, flatOf("1 1 * * *")), "1 1 * * *", flat1, false},
			{content(flat1, `{"reconciler_cron_expression": 5}`), "1 1 * * *", flat1, true},
			{content(file, "0 0 * * *"), "0 0 * * *", file, false},
			{remove(flat1), "", "", false}, // the file decides
			{remove(file), "2 2 * * *", flat2, false},
			{remove(flat2), Default, SourceDefault, false},
		} {
			step.change()
			time.Sleep(rereadEvery)
			synctest.Wait()
			if step.source == "" {
				continue
			}
			status := <-states
			if status.Expression != step.expression || status.Source != step.source || step.bad == (status.Err == nil) {
				t.Fatalf("got %+v, want %q from %s", status, step.expression, step.source)
			}
		}
		cancel()
		if err := <-ended; err != nil || due != 8 || len(states) != 0 {
			t.Errorf("%v; %d passes were due, %d more states", err, due, len(states))
		}
	})
}
