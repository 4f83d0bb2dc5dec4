//go:build !slow && !cluster

package e2e

import (
	"errors"
	"runtime"
	"testing"
)

// TestAFailureEndsItsOwnTestOnly has a test that fails in a goroutine: a panic there
// would end the process and with it all the others.
func TestAFailureEndsItsOwnTestOnly(t *testing.T) {
	other, done := &failing{TB: t}, make(chan struct{})
	wentOn := false
	go func() {
		defer close(done)
		try(0, errors.New("the API server is slow")).must(other)
		wentOn = true
	}()
	<-done
	equal(t, "it failed, and went on", []bool{other.failed, wentOn}, []bool{true, false})
}

// A failing test is told of its failure and keeps it to itself.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Fatal(...any) {
	f.failed = true
	runtime.Goexit()
}
