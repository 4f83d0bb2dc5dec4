//go:build slow

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAFullEtcdIsToldAndNothingIsFreedWrongly fills etcd to its quota, where it takes no
// write any more but deletes.
func TestAFullEtcdIsToldAndNothingIsFreedWrongly(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2").withRaceDetector()
	check(t, s.CreateNAD(t.Context(), blue))
	live, first := s.up(t, "worker-1", "live", blue), s.up(t, "worker-1", "first", blue).leak(t)
	leaks := []*pod{first}
	for i := range 3 {
		leaks = append(leaks, s.up(t, "worker-2", fmt.Sprint("lost-", i), blue).leak(t))
	}
	before := s.contents(t)
	s.fillEtcd(t)

	for range 2 { // the second finds what the first has left
		out := s.run(t)
		out.exits(t, 1)
		contains(t, "what is said", out.message(at(first)), "database space exceeded")
	}
	during := s.contents(t)
	s.isWhole(t, during, live)
	for place, text := range before {
		if during[place] == "" {
			t.Logf("while etcd was full this went: %s %s", place, text)
		}
	}
	s.etcdHasRoom(t)
	var gone []string
	for _, p := range leaks {
		gone = append(gone, stored(p)...)
	}
	s.run(t, "--allow-mass-release").exits(t, 0)
	s.lost(t, before, gone...)
	next := s.up(t, "worker-2", "next", blue)
	s.isWhole(t, s.contents(t), live, next)
	s.sums(t, "etcd full for 2 runs, 6 ADDs")
}

// TestAnEtcdThatGetsFullDuringAReleaseLeavesNothingForGood has the alarm raised when the
// reservation is deleted and the entry is about to be: neither can the entry be removed then,
// nor the reservation be put back.
func TestAnEtcdThatGetsFullDuringAReleaseLeavesNothingForGood(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2").withRaceDetector()
	check(t, s.CreateNAD(t.Context(), blue))
	live, web, lost := s.up(t, "worker-1", "live", blue), s.up(t, "worker-1", "web", blue).leak(t), s.up(t, "worker-2", "lost", blue).leak(t)
	before := s.contents(t)
	full := sync.OnceFunc(func() { s.etcd(t, "maintenance/alarm", map[string]any{"action": "ACTIVATE", "alarm": "NOSPACE"}) })
	p := &proxy{before: func(r *http.Request) int {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/ippools/") {
			full()
		}
		return 0
	}}
	out := s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
	out.exits(t, 1)
	equal(t, "failed", places(out.Failed), at(web)+", "+at(lost))
	contains(t, "what is said", out.message(at(web)), "database space exceeded")
	s.lost(t, before, stored(web)[1], stored(lost)[1])
	s.etcdHasRoom(t)

	web = s.up(t, "worker-2", "web", blue) // it takes its entry over, and makes its reservation
	s.isWhole(t, s.contents(t), live, web)
	s.run(t).exits(t, 0)
	after := s.contents(t)
	s.isWhole(t, after, live, web)
	equal(t, "entries and reservations", len(after), 4)
	s.sums(t, "etcd full between reservation and entry, 4 ADDs")
}

// fillEtcd gives etcd a quota and writes until it raises the alarm NOSPACE.
func (s *stage) fillEtcd(t testing.TB) {
	t.Helper()
	s.StopEtcd()
	s.EtcdQuota = 24 << 20
	check(t, s.StartEtcd())
	check(t, s.WaitReady(t.Context()))
	filling := strings.Repeat("of no interest ", 60000)
	for range 100 {
		_, err := s.Client().CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "filling-"}, Data: map[string]string{"filling": filling},
		}, metav1.CreateOptions{})
		if err != nil {
			contains(t, "the API server", err.Error(), "database space exceeded")
			return
		}
	}
	t.Fatal("etcd does not get full")
}

// etcdHasRoom does what an operator does: delete, compact, defragment, disarm the alarm.
func (s *stage) etcdHasRoom(t testing.TB) {
	t.Helper()
	check(t, s.Client().CoreV1().ConfigMaps("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.etcd(t, "kv/compaction", map[string]any{"revision": fmt.Sprint(s.revision(t)), "physical": true})
	s.etcd(t, "maintenance/defragment", map[string]any{})
	var raised struct{ Alarms []map[string]any }
	check(t, json.Unmarshal(s.etcd(t, "maintenance/alarm", map[string]any{"action": "GET"}), &raised))
	for _, alarm := range raised.Alarms {
		s.etcd(t, "maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": alarm["memberID"], "alarm": alarm["alarm"]})
	}
}
