//go:build !slow && !cluster

package e2e

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestTheAuditLogTellsADELFromARelease has the oracles rely on who it says did what.
func TestTheAuditLogTellsADELFromARelease(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	ended, lost := s.up(t, "worker-1", "ended", blue), s.up(t, "worker-1", "lost", blue)
	log := s.AuditLog()
	try(log.Next()).must(t)
	ended.del(t)
	lost.leak(t)
	s.run(t).exits(t, 0)
	s.forget(t, s.up(t, "worker-1", "forgotten", blue))

	by := map[string][]harness.Write{}
	eventually(t, "the log to have it", func() bool {
		for _, w := range try(log.Next()).must(t) {
			by[w.Program] = append(by[w.Program], w)
		}
		return len(by["e2e.test"]) > 0
	})
	removed := func(program string) (keys, reservations []string) {
		for _, w := range by[program] {
			keys = append(keys, w.Removed...)
			if w.Verb == "delete" {
				reservations = append(reservations, w.Name)
			}
		}
		return keys, reservations
	}
	for program, address := range map[string]string{"whereabouts": "1", "ip-reconcile": "2"} {
		keys, reservations := removed(program)
		equal(t, "entries removed by "+program, keys, []string{address})
		equal(t, "reservations removed by "+program, reservations, []string{"10.1.0." + address})
	}
	keys, _ := removed("e2e.test")
	equal(t, "entries removed by the test", keys, []string{"1"})
	for _, w := range by["ip-reconcile"] {
		if w.Resource == harness.IPPools.Resource && w.Base == 0 {
			t.Errorf("it is for no version: %s", w)
		}
	}
}
