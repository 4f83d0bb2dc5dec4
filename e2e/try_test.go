package e2e

import (
	"testing"
)

// try(f()).must(t) is the value of a call that may not fail; by itself try does nothing.
func try[T any](v T, err error) tried[T] { return tried[T]{v, err} }

type tried[T any] struct {
	value T
	err   error
}

// must ends the test t on an error, and no other.
func (r tried[T]) must(t testing.TB) T {
	t.Helper()
	check(t, r.err)
	return r.value
}
