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
		check := func(what string, isAlive, isReady bool) {
			t.Helper()
			if alive, ready := h.Alive(nil), h.Ready(nil); (alive == nil) != isAlive || (ready == nil) != isReady {
				t.Errorf("%s: alive: %v, ready: %v", what, alive, ready)
			}
		}
		check("without caches", true, false)
		isSynced = true
		time.Sleep(48 * time.Hour)
		check("not the leader", true, true)
		h.Lead()
		time.Sleep(stuckAfter)
		check("long pass", true, true)
		time.Sleep(time.Second)
		check("stuck pass", false, true)
		h.Progress()
		check("long pass with progress", true, true)
		h.passEnded(nil)
		h.passEnded(errors.New("unreachable"))
		check("failed pass", true, true)
		time.Sleep(notReadyAfter + time.Second)
		check("failed passes", true, false)
		h.passEnded(nil)
		time.Sleep(observeEvery)
		check("no pass is due", true, true)
	})
}
