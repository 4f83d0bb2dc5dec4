package reconciler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// From the delete of a reservation on, some calls hang or fail for a while. The delete is answered late in the hold. If
// an ADD has adopted the reservation, it is recreated. Otherwise what is gone is recorded as released.
func TestRelease_NothingCanBeReadAfterTheHold(t *testing.T) {
	for _, c := range []struct {
		calls  []string
		hang   bool
		lasts  time.Duration
		within time.Duration // from the delete until the reservation is recreated
	}{
		{[]string{"fresh"}, true, time.Minute, 20 * time.Second},
		{[]string{"create"}, false, 12 * time.Second, 20 * time.Second}, // not four tries within three seconds
		{[]string{"fresh", "create"}, true, 40 * time.Second, 75 * time.Second},
		{[]string{"fresh", "create"}, false, 30 * time.Second, 40 * time.Second},
		{[]string{"fresh", "create", "refresh"}, false, 30 * time.Second, 40 * time.Second},
	} {
		for _, isAlone := range []bool{true, false} {
			for _, isAdded := range []bool{true, false} {
				says := fmt.Sprintf("%v, hang %v, alone %v, an ADD %v", c.calls, c.hang, isAlone, isAdded)
				inBubble(t, says, func(t *testing.T, s *simulator) {
					podRef := "default/gone-1"
					if isAlone {
						podRef = "default/lost-1"
						s.alone(1, 1)
					} else {
						s.leaks(bluePool, 1)
					}
					s.entry(bluePool, 2, "default/stays", "box-2", false)
					s.pod("stays", "uid", 2)
					time.Sleep(5 * time.Minute)
					before := len(s.stored())
					var deleted, back time.Time
					isOut := func(call string) bool {
						return slices.Contains(c.calls, call) && !deleted.IsZero() && time.Since(deleted) < c.lasts
					}
					s.takes["delete"] = 4200 * time.Millisecond
					s.step = func(call, _ string) {
						if call != "delete" || !deleted.IsZero() {
							return
						}
						if deleted = time.Now(); isAdded {
							s.adopt(podRef)
						}
					}
					s.slow = func(call, _ string) time.Duration {
						if c.hang && isOut(call) {
							return c.lasts
						}
						return 0
					}
					s.fault = func(call, _ string) (error, bool) {
						if isOut(call) {
							return errServer, false
						}
						if call == "create" && back.IsZero() {
							back = time.Now()
						}
						return nil, false
					}
					out, _ := run(t, s.reconciler(t))
					if !isAdded {
						same(t, "stored or released", len(s.stored())+len(out.Released), before)
						return
					}
					if took := back.Sub(deleted); took < 0 || took > c.within { // negative: never
						t.Errorf("the reservation was recreated after %s", took)
					}
					same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, "reservation " + blueAddress: true,
						bluePool + " 2": true})
					same(t, "released", len(out.Released), 0)
				})
			}
		}
	}
}

// adopt has an ADD of a pod take the first address of the blue pool by a reservation that exists.
func (s *simulator) adopt(podRef string) {
	s.pod(podRef[len("default/"):], "back", 1)
	s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": podRef, "ifname": "net1"})
}

// An ADD has adopted a reservation, and writes the pool after the check that follows the hold. Then reports cannot be
// read again for a minute.
func TestRelease_ReportsCannotBeReadAfterTheHold(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 2, "default/stays", "box-2", false)
		s.pod("stays", "uid", 2)
		s.alone(1, 1)
		time.Sleep(5 * time.Minute)
		var deleted, back time.Time
		s.takes["delete"] = 5200 * time.Millisecond
		s.step = func(call, _ string) {
			switch {
			case call == "delete" && deleted.IsZero():
				deleted = time.Now()
			case call == "refresh" && !deleted.IsZero() && s.takes["refresh"] == 0:
				s.takes["refresh"] = time.Minute
				s.adopt("default/lost-1")
			case call == "create" && back.IsZero():
				back = time.Now()
			}
		}
		run(t, s.reconciler(t))
		if took := back.Sub(deleted); took < 0 || took > 25*time.Second { // negative: never
			t.Errorf("the reservation was recreated after %s", took)
		}
	})
}
