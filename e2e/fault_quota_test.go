//go:build slow

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestFaults_EtcdFullDuringARelease raises the alarm after the reservation is deleted and before
// the allocation is: then neither the allocation can be removed nor the reservation created again.
func TestFaults_EtcdFullDuringARelease(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2").withRaceDetector()
	check(t, s.CreateNAD(t.Context(), blue))
	live, web, lost := s.up(t, "worker-1", "live", blue), s.up(t, "worker-1", "web", blue).leak(t),
		s.up(t, "worker-2", "lost", blue).leak(t)
	before := s.contents(t)
	full := sync.OnceFunc(func() {
		s.etcd(t, "maintenance/alarm", map[string]any{"action": "ACTIVATE",
			"alarm": "NOSPACE"})
	})
	through := s.onRequest(t, func(r *http.Request) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/ippools/") {
			full()
		}
	})
	out := s.productAs(t, through, "run", "--confirm-after", "0")
	out.exits(t, 1)
	equal(t, "failed", places(out.Failed), at(web)+", "+at(lost))
	contains(t, "what is said", out.judged(at(web)).Message, "database space exceeded")
	s.checkReleased(t, before, stored(web)[1], stored(lost)[1])
	s.etcdHasRoom(t)

	web = s.up(t, "worker-2", "web", blue) // it takes its allocation over and creates its reservation
	s.isWhole(t, s.contents(t), live, web)
	s.run(t).exits(t, 0)
	after := s.contents(t)
	s.isWhole(t, after, live, web)
	equal(t, "entries and reservations", len(after), 4)
	s.sums(t, "etcd full between reservation and entry, 4 ADDs")
}

// etcdHasRoom disarms the alarm, as an operator does when etcd has room again.
func (s *stage) etcdHasRoom(t testing.TB) {
	t.Helper()
	var raised struct{ Alarms []map[string]any }
	check(t, json.Unmarshal(s.etcd(t, "maintenance/alarm", map[string]any{"action": "GET"}), &raised))
	for _, alarm := range raised.Alarms {
		s.etcd(t, "maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": alarm["memberID"],
			"alarm": alarm["alarm"]})
	}
}
