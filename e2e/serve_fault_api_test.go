//go:build slow

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// recovery is how long a proven release may wait after a fault has ended: the longest pause between attempts is 30 s,
// and the attempt itself takes its time.
const recovery = 2 * time.Minute

// inUse waits until this many allocations of the network blue have a Ready sandbox.
func (v *server) inUse(t testing.TB, n float64) {
	t.Helper()
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, n)
}

// A serveFault is met by a server that has an allocation to release.
type serveFault struct {
	name       string
	flags      []string
	begin, end func(t *testing.T, m *meeting)
	away       bool   // the API server is unreachable meanwhile: there is nothing to release before the end
	says       string // in the log, before there is something to release; late: after it
	late       bool
	hits       int  // requests that meet it
	frees      bool // all the same
}

// A meeting is a server that meets a fault.
type meeting struct {
	*stage
	v          *server
	l          *link
	kubeconfig string // of the Deployment's account, where the fault is about rights
}

// serveFaults are what may go wrong between a server and the API server. In TestServe_FieldFaults the API server itself
// answers lists and watches with 429, and in TestServe_Restore a proof comes while all is answered with 503.
func serveFaults() []serveFault {
	is := func(method, resource string) func(*http.Request) bool {
		return func(r *http.Request) bool {
			return r.Method == method && !anyWatch(r) && (path.Base(r.URL.Path) == resource || strings.Contains(r.URL.Path, "/"+
				resource+"/"))
		}
	}
	lists := func(r *http.Request) bool { return r.Method == http.MethodGet && !anyWatch(r) }
	aLease := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/leases/whereabouts") }
	slowReads := faults{delay: func(r *http.Request) time.Duration {
		if r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/namespaces/") {
			return time.Second // except what is requested while the Lease is held
		}
		return 0
	}}
	watches := refuses("every watch with 500", just(http.StatusInternalServerError, anyWatch), true)
	watches.frees = true // full passes list, whatever becomes of the watches
	all := []serveFault{
		{name: "the API server is away", away: true,
			begin: func(_ *testing.T, m *meeting) { m.StopAPI() },
			end:   func(t *testing.T, m *meeting) { check(t, m.StartAPI(t.Context())) }},
		{name: "the API server is away, and etcd with it", away: true,
			begin: func(_ *testing.T, m *meeting) { m.StopAPI(); m.StopEtcd() },
			end:   func(t *testing.T, m *meeting) { check(t, m.StartEtcd()); check(t, m.StartAPI(t.Context())) }},
		refuses("every list with 429", just(http.StatusTooManyRequests, lists), true),
		watches,
		refuses("lists of pods with 500", just(http.StatusInternalServerError, is(http.MethodGet, "pods")), true),
		refuses("patches with 500", just(http.StatusInternalServerError, is(http.MethodPatch, "ippools")), false),
		refuses("deletes of reservations with 429", just(http.StatusTooManyRequests,
			is(http.MethodDelete, "overlappingrangeipreservations")), false),
		refuses("the Lease with 500", just(http.StatusInternalServerError, aLease), false),
		{name: "each answer takes a second", frees: true,
			begin: func(_ *testing.T, m *meeting) { m.l.suffers(slowReads); m.l.cut(anyWatch) },
			end:   func(*testing.T, *meeting) {}},
	}
	all[0].says = `level=ERROR msg="reconciler run failed" error=.*is unreachable`
	all[1].says = all[0].says
	all = append(all,
		ofRights(serveFault{says: `reconciler run failed" error="cannot list pods: forbidden`}, podsResource, "list", "get",
			"watch"),
		ofRights(serveFault{says: `cannot list nodes: forbidden`, frees: true}, nodesResource, "list", "get", "watch"),
		ofRights(serveFault{says: `Not released.*forbidden.*cannot patch resource`, late: true}, harness.IPPools, "patch"))
	return all
}

// refuses is a fault that refuses requests. If watches are cut at its beginning, requests meet it again and again. A
// write that fails is retried after a pause that doubles.
func refuses(what string, f faults, cut bool) serveFault {
	c := serveFault{name: "the API server answers " + what, hits: 2, end: func(_ *testing.T, m *meeting) {
		m.l.suffers(faults{})
	}}
	if cut {
		c.hits = 8
	}
	c.begin = func(t *testing.T, m *meeting) {
		if m.l.suffers(f); cut && m.l.cut(anyWatch) == 0 {
			t.Error("no watch was open")
		}
	}
	return c
}

// ofRights is a fault that takes verbs on a resource from the server's account. Open watches outlive the permission,
// but passes ask again. TestRemoval_Rights takes list and watch of each kind.
func ofRights(c serveFault, r schema.GroupVersionResource, verbs ...string) serveFault {
	var giveBack func()
	c.name = fmt.Sprintf("it may not %s %s", strings.Join(verbs, ", "), r.Resource)
	c.flags = []string{"--cron", "@every 5s"}
	c.begin = func(t *testing.T, m *meeting) { giveBack = m.loses(t, m.kubeconfig, r, verbs...) }
	c.end = func(*testing.T, *meeting) { giveBack() }
	return c
}

// TestServe_Faults: while a fault lasts nothing unconfirmed is released. What was proven is released after its end, and
// nothing is logged twice.
func TestServe_Faults(t *testing.T) {
	t.Parallel()
	for _, c := range serveFaults() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t, "worker-1").withRaceDetector()
			one, m := s.agent(t, "worker-1"), &meeting{stage: s}
			l, kubeconfig := s.link(t)
			m.l = l
			if c.away {
				kubeconfig = s.Kubeconfig()
			} else if c.flags != nil {
				m.kubeconfig = s.applied(t, "../deploy/deployment")
				kubeconfig = m.kubeconfig
			}
			m.v = s.serve(t, kubeconfig, c.flags...)
			web, keep := s.up(t, "worker-1", "web", blue), s.up(t, "worker-1", "keep", blue)
			one.writeReport(t, web.listed("Ready"), keep.listed("Ready"))
			m.v.inUse(t, 2)
			before := s.contents(t)
			fault := func() {
				c.begin(t, m)
				if c.says != "" && !c.late {
					m.v.said(t, c.says)
				}
			}
			if c.away {
				one.change(func() { fault(); c.end(t, m) }) // it does not renew meanwhile
			} else {
				fault()
			}
			web.forceDelete(t)
			one.writeReport(t, web.stopped(), keep.listed("Ready"))
			if !c.away {
				m.v.said(t, c.says)
				l.met(t, c.hits)
				if c.frees {
					s.waitReleased(t, recovery, "10.1.0.0-24", "1")
				} else {
					s.waitRecreated(t, before)
				}
				c.end(t, m)
			}
			t.Logf("released %s after the fault", s.waitReleased(t, recovery, "10.1.0.0-24", "1"))
			m.v.is(t, `ip_reconcile_candidates`, 0)
			s.checkReleased(t, before, stored(web)...)
			m.v.repeatsNothing(t)
			if !c.away {
				return
			}
			equal(t, "fences", m.v.metric("ip_reconcile_fences_total{")+m.v.metric("ip_reconcile_fence "), 0)
			// The server judges from the caches again, not by full passes alone.
			s.judgedChange(t, m.v)
			last := s.up(t, "worker-1", "last", blue)
			one.writeReport(t, last.stopped(), keep.listed("Ready"))
			passes := m.v.metric(cachePasses)
			last.forceDelete(t)
			s.waitReleased(t, recovery, "10.1.0.0-24", "1")
			m.v.counts(t, cachePasses, passes+1)
			m.v.is(t, `ip_reconcile_candidates`, 0)
		})
	}
}

// waitRecreated waits until all allocations and reservations exist. A reservation that was deleted for a failed release
// is another object with the same content.
func (s *stage) waitRecreated(t testing.TB, before contents) {
	t.Helper()
	eventually(t, "everything to be stored", func() bool {
		return maps.Equal(s.contents(t).withoutUIDs(), before.withoutUIDs())
	})
}

// Without definitions releases go on. TestRemoval_Definitions has what each kind without a CRD holds.
func TestServe_WithoutDefinitions(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	v, one := s.serve(t, s.Kubeconfig()), s.agent(t, "worker-1")
	keep, web := s.up(t, "worker-1", "keep", blue), s.up(t, "worker-1", "web", blue)
	one.writeReport(t, keep.listed("Ready"), web.listed("Ready"))
	v.inUse(t, 2)
	s.removeCRD(t, harness.NADs)
	before := s.contents(t)
	web.leak(t)
	one.writeReport(t, keep.listed("Ready"), web.stopped())
	s.waitReleased(t, recovery, "10.1.0.0-24", "2")
	s.checkReleased(t, before, stored(web)...)
	v.repeatsNothing(t)
}

func TestServe_ReportsAreServedLater(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	reports := s.crd(t, sandboxReports)
	s.removeCRD(t, sandboxReports)
	v := s.serve(t, s.Kubeconfig(), "--cron", "@every 3s")
	phantom := s.up(t, "worker-1", "phantom", blue)
	phantom.forceDelete(t)
	v.is(t, `ip_reconcile_candidates`, 1)
	s.serves(t, sandboxReports, reports)
	one := s.agent(t, "worker-1")
	one.writeReport(t, phantom.listed("Ready"))
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	v.said(t, `Started watching a resource that was forbidden or missing`)
	before := s.contents(t)
	one.writeReport(t, phantom.stopped())
	s.waitReleased(t, recovery, "10.1.0.0-24", "1")
	s.checkReleased(t, before, stored(phantom)...)
}
