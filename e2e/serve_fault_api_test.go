//go:build slow

package e2e

import (
	"maps"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"
)

// recovery is how long what is proven may wait after a fault has ended: the
// longest pause between attempts is 30 s, and the attempt itself takes its time.
const recovery = 2 * time.Minute

// inUse waits until so many entries of the network blue are seen with a Ready sandbox.
func (v *server) inUse(t testing.TB, n float64) {
	t.Helper()
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, n)
}

func TestServeWaitsWhileTheAPIServerIsAway(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")

	for name, outage := range map[string]func(t *testing.T, meanwhile func()){
		"stopped": func(t *testing.T, meanwhile func()) {
			s.StopAPI()
			meanwhile()
			check(t, s.StartAPI(t.Context()))
		},
		"stopped, and etcd with it": func(t *testing.T, meanwhile func()) { s.offline(t, meanwhile) },
	} {
		s.play(t, name, func(t *testing.T) {
			v := s.serve(t, s.Kubeconfig())
			web, keep := s.up(t, "worker-1", "web", blue), s.up(t, "worker-1", "keep", blue)
			one.writeReport(t, web.listed("Ready"), keep.listed("Ready"))
			v.inUse(t, 2)
			before := s.contents(t)
			one.change(func() { // it does not renew meanwhile
				outage(t, func() { v.said(t, `level=ERROR msg="reconciler run failed: .*cannot be reached`) })
			})
			web.forceDelete(t)
			one.writeReport(t, web.stopped(), keep.listed("Ready"))
			t.Logf("freed %s after the report", s.freed(t, recovery, "10.1.0.0-24", "1"))
			s.lost(t, before, stored(web)...)
			v.repeatsNothing(t)

			// And it judges from the caches again, not by full passes alone.
			s.judgedChange(t, v)
			last := s.up(t, "worker-1", "last", blue)
			one.writeReport(t, last.stopped(), keep.listed("Ready"))
			passes := v.metric(cachePasses)
			last.forceDelete(t)
			s.freed(t, recovery, "10.1.0.0-24", "1")
			v.counts(t, cachePasses, passes+1)
			v.is(t, `ip_reconcile_candidates`, 0)
		})
	}
}

func TestServeWaitsWhileTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")
	cast := func(t *testing.T, v *server) (web, keep *pod, before contents) {
		web, keep = s.up(t, "worker-1", "web", blue), s.up(t, "worker-1", "keep", blue)
		one.writeReport(t, web.listed("Ready"), keep.listed("Ready"))
		v.inUse(t, 2)
		return web, keep, s.contents(t)
	}
	is := func(method, resource string) func(*http.Request) bool {
		return func(r *http.Request) bool {
			return r.Method == method && !anyWatch(r) && (path.Base(r.URL.Path) == resource || strings.Contains(r.URL.Path, "/"+resource+"/"))
		}
	}
	aLease := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/leases/whereabouts") }
	for _, tt := range []struct {
		name string
		faults
		// cut: the watches are closed when the fault begins, so that it is met.
		cut bool
	}{
		{"every list with 429", just(http.StatusTooManyRequests, func(r *http.Request) bool { return r.Method == http.MethodGet && !anyWatch(r) }), true},
		{"every watch with 500", just(http.StatusInternalServerError, anyWatch), true},
		{"every watch with 429", just(http.StatusTooManyRequests, anyWatch), true},
		{"all with 503", everything(http.StatusServiceUnavailable), true},
		{"lists of pods with 500", just(http.StatusInternalServerError, is(http.MethodGet, "pods")), true},
		{"patches with 500", just(http.StatusInternalServerError, is(http.MethodPatch, "ippools")), false},
		{"deletes of reservations with 429", just(http.StatusTooManyRequests, is(http.MethodDelete, "overlappingrangeipreservations")), false},
		{"the Lease with 500", just(http.StatusInternalServerError, aLease), false},
	} {
		s.play(t, tt.name, func(t *testing.T) {
			l, kubeconfig := s.link(t)
			v := s.serve(t, kubeconfig)
			web, keep, before := cast(t, v)
			l.suffers(tt.faults)
			if tt.cut && l.cut(anyWatch) == 0 {
				t.Error("no watch was open")
			}
			web.forceDelete(t)
			one.writeReport(t, web.stopped(), keep.listed("Ready"))
			if tt.cut {
				l.met(t, 8)
			} else { // a write that fails is tried again after a pause that doubles
				l.met(t, 2)
			}
			s.waitRecreated(t, before)
			l.suffers(faults{})
			t.Logf("freed %s after the fault", s.freed(t, recovery, "10.1.0.0-24", "1"))
			v.is(t, `ip_reconcile_candidates`, 0)
			s.lost(t, before, stored(web)...)
			v.repeatsNothing(t)
		})
	}

	s.play(t, "nothing, and takes a second for each answer", func(t *testing.T) {
		l, kubeconfig := s.link(t)
		v := s.serve(t, kubeconfig)
		web, keep, before := cast(t, v)
		l.suffers(faults{delay: func(r *http.Request) time.Duration {
			if r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/namespaces/") {
				return time.Second // but not what is asked for while the Lease is held
			}
			return 0
		}})
		l.cut(anyWatch)
		web.forceDelete(t)
		one.writeReport(t, web.stopped(), keep.listed("Ready"))
		t.Logf("freed %s after the report", s.freed(t, 3*time.Minute, "10.1.0.0-24", "1"))
		s.lost(t, before, stored(web)...)
		v.repeatsNothing(t)
	})
}

// waitRecreated waits until all entries and reservations are there; one that was deleted
// for a release that failed is another object with the same content.
func (s *stage) waitRecreated(t testing.TB, before contents) {
	t.Helper()
	content := func(c contents) map[string]string {
		all := map[string]string{}
		for place, text := range c {
			if strings.HasPrefix(place, "reservation ") {
				_, text, _ = strings.Cut(text, " ")
			}
			all[place] = text
		}
		return all
	}
	eventuallyWithin(t, 3*time.Minute, "everything to be stored", func() bool {
		return maps.Equal(content(s.contents(t)), content(before))
	})
}
