package e2e

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) && fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// eventually waits for others to act.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !within(3*time.Minute, 200*time.Millisecond, is) {
		t.Fatalf("waited too long for %s", what)
	}
}

// within polls until a condition holds, at first without a pause and then with longer ones, and reports whether it held
// in time.
func within(limit, longest time.Duration, is func() bool) bool {
	pause := 20 * time.Millisecond
	for deadline := time.Now().Add(limit); !is(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			return false
		}
		pause = min(pause*3/2, longest)
	}
	return true
}

func eventuallyWithin(t testing.TB, limit time.Duration, what string, is func() bool) {
	t.Helper()
	if !within(limit, time.Second, is) {
		t.Fatalf("waited too long for %s", what)
	}
}

// try(f()).must(t) is the value of a call that must not fail; try alone checks nothing.
func try[T any](v T, err error) tried[T] { return tried[T]{v, err} }

type tried[T any] struct {
	value T
	err   error
}

// must ends the test t on an error.
func (r tried[T]) must(t testing.TB) T {
	t.Helper()
	check(t, r.err)
	return r.value
}
