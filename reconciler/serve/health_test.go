package serve

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		isSynced := false
		h := NewHealth(func() bool { return isSynced })
		is := func(what string, isAlive, isReady bool) {
			t.Helper()
			if alive, ready := h.Alive(nil), h.Ready(nil); (alive == nil) != isAlive || (ready == nil) != isReady {
				t.Errorf("%s: alive: %v, ready: %v", what, alive, ready)
			}
		}
		is("without caches", true, false)
		isSynced = true
		is("it does not lead", true, true)
		h.Lead()
		time.Sleep(48 * time.Hour)
		is("it waits for events", true, true)
		h.setBusy(true)
		time.Sleep(stuckAfter)
		is("a long pass", true, true)
		time.Sleep(time.Second)
		is("a pass that is stuck", false, true)
		h.Progress()
		is("another batch of a long pass", true, true)
		h.passEnded(nil)
		h.setBusy(false)
		h.passEnded(errors.New("the API server is away"))
		is("one pass failed", true, true)
		time.Sleep(notReadyAfter + time.Second)
		is("passes fail", true, false)
		h.passEnded(nil)
		time.Sleep(48 * time.Hour)
		is("nothing happens", true, true)
	})
}
