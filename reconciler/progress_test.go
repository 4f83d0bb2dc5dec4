package reconciler_test

import (
	"strings"
	"testing"
	"time"
)

// A run says what it waits for, and until when.
func TestRun_SaysWhatItWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 1, "default/gone", "box", true)
		r := s.confirming(t)
		first := ""
		r.Progress = func(text string) {
			if strings.HasPrefix(text, "Waiting") && first == "" {
				first = text
			}
		}
		at := func(after time.Duration) string { return time.Now().UTC().Add(after).Format("15:04:05 UTC") }
		want := "Waiting for confirmations, 1 to go: the first is due at " + at(15*time.Minute) +
			"; the next pass is at " + at(time.Minute)
		run(t, r)
		same(t, "it says", first, want)
	})
}

// recover names the nodes for whose reports it waits behind a fence.
func TestRecover_SaysForWhichNodesItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.misrecorded()
		r := s.reconciler(t)
		raised, says := time.Now(), map[string]bool{}
		r.Fence = fence(func() time.Time { return raised })
		r.Progress = func(text string) { says[text] = true }
		if _, err := r.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "it names the node", says["Waiting for new reports from worker-1"], true)
	})
}
