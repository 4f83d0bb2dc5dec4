package serve

import (
	"errors"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestALoopThatWaitsForEventsIsAliveAndOneThatIsStuckIsNot(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	s := NewHealth(clock, func() bool { return true })
	alive := func(want bool) {
		t.Helper()
		if err := s.Alive(nil); (err == nil) != want {
			t.Errorf("alive: %v", err)
		}
	}
	alive(true) // it does not lead
	s.Lead()
	clock.SetTime(clock.Now().Add(48 * time.Hour))
	alive(true)
	s.begin()
	clock.SetTime(clock.Now().Add(stuckAfter))
	alive(true)
	clock.SetTime(clock.Now().Add(time.Second))
	alive(false)
	s.Tick() // another batch of a long pass
	alive(true)
	s.end()
	clock.SetTime(clock.Now().Add(48 * time.Hour))
	alive(true)
}

func TestAReplicaIsReadyWhenItHasCachesAndALeaderWhenItCanObserve(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	synced := false
	s := NewHealth(clock, func() bool { return synced })
	ready := func(want string) {
		t.Helper()
		switch err := s.Ready(nil); {
		case (err == nil) != (want == ""), err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("ready: %v", err)
		}
	}
	ready("caches")
	synced = true
	ready("")
	s.Lead()
	s.passEnded(errors.New("the API server is away"))
	ready("")
	clock.SetTime(clock.Now().Add(notReadyAfter + time.Second))
	ready("the API server is away")
	s.passEnded(nil)
	ready("")
	clock.SetTime(clock.Now().Add(48 * time.Hour)) // nothing happens
	ready("")
}
