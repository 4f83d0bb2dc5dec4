//go:build slow

package e2e

import (
	"maps"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	kubeconfig string // of a ServiceAccount with servingRules, where the fault is about rights
}

// serveFaults are what may go wrong between a server and the API server.
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
	all := []serveFault{
		{name: "the API server is away", away: true,
			begin: func(_ *testing.T, m *meeting) { m.StopAPI() },
			end:   func(t *testing.T, m *meeting) { check(t, m.StartAPI(t.Context())) }},
		{name: "the API server is away, and etcd with it", away: true,
			begin: func(_ *testing.T, m *meeting) { m.StopAPI(); m.StopEtcd() },
			end:   func(t *testing.T, m *meeting) { check(t, m.StartEtcd()); check(t, m.StartAPI(t.Context())) }},
		refuses("every list with 429", just(http.StatusTooManyRequests, lists), true),
		refuses("every watch with 500", just(http.StatusInternalServerError, anyWatch), true).whichReleases(),
		refuses("every watch with 429", just(http.StatusTooManyRequests, anyWatch), true).whichReleases(),
		refuses("all with 503", everything(http.StatusServiceUnavailable), true),
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
	for _, right := range []serveFault{
		{name: "list pods", says: `reconciler run failed" error="cannot list pods: forbidden`},
		{name: "list,watch ippools", says: `reconciler run failed" error="cannot list IPPools: forbidden`},
		{name: "patch ippools", says: `Not released.*forbidden.*cannot patch resource`, late: true},
		{name: "list leases", says: `cannot take whereabouts' Lease.*: forbidden|cannot list the node agents' Leases in ` +
			`namespace ip-reconcile-node-lease`},
		{name: "list sandboxreports", says: `cannot list SandboxReports`},
		{name: "list nodes", says: `cannot list nodes: forbidden`, frees: true},
	} {
		all = append(all, right.ofRights())
	}
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

// whichReleases is the fault where proven releases go on: full passes list, whatever becomes of the watches.
func (c serveFault) whichReleases() serveFault {
	c.frees = true
	return c
}

// servingRules are all rules that serve needs: verbs by resource.
var servingRules = map[schema.GroupVersionResource]string{
	harness.IPPools: "get list watch patch", harness.Reservations: "get list watch create delete",
	harness.NADs: "get list watch",
	podsResource: "get list watch", nodesResource: "get list watch", {Resource: "namespaces"}: "get list watch",
	{Resource: "events"}: "create patch", sandboxReports: "get list watch", leasesResource: "get list watch create update",
}

// ofRights is a fault that removes verbs on a resource from the server's role; without verbs all of them. Open watches
// outlive the permission, but passes ask again.
func (c serveFault) ofRights() serveFault {
	text, resource, _ := strings.Cut(c.name, " ")
	verbs := strings.Split(text, ",")
	grants := func(t *testing.T, m *meeting, want bool) {
		var rules []rbacv1.PolicyRule
		right := authorizationv1.ResourceAttributes{Resource: resource, Verb: verbs[0]}
		for r, all := range servingRules {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource},
				Verbs: strings.Fields(all)})
			if r.Resource == resource {
				right.Group = r.Group
			}
		}
		if !want && resource == "ippools" {
			rules = without(rules, resource, verbs...)
		} else if !want {
			rules = without(rules, resource)
		}
		if m.kubeconfig == "" {
			m.kubeconfig = m.account(t, "serve", rules)
		}
		roles := m.Client().RbacV1().ClusterRoles()
		role := try(roles.Get(t.Context(), "serve", metav1.GetOptions{})).must(t)
		role.Rules = rules
		try(roles.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
		may(t, m.kubeconfig, right, want)
	}
	c.name, c.flags = "it has no permission on "+c.name, []string{"--cron", "@every 5s"}
	c.begin = func(t *testing.T, m *meeting) { grants(t, m, false) }
	c.end = func(t *testing.T, m *meeting) { grants(t, m, true) }
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
				c.end(t, m)
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

func TestServe_CRDComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	reports, pools, nads := s.crd(t, sandboxReports), s.crd(t, harness.IPPools), s.crd(t, harness.NADs)
	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "3s")
	held := `ip_reconcile_allocations{reason="NoFreshReport",verdict="Held"}`

	// SandboxReports were observed: that they are no longer served proves nothing.
	one := s.agent(t, "worker-1")
	keep, silent := s.up(t, "worker-1", "keep", blue), s.up(t, "worker-1", "silent", blue)
	one.writeReport(t, keep.listed("Ready"), silent.listed("Ready"))
	v.inUse(t, 2)
	before := s.contents(t)
	one.change(func() { // it does not renew meanwhile
		s.removeCRD(t, sandboxReports)
		silent.leak(t)
		v.is(t, held, 1)
		s.serves(t, sandboxReports, reports)
	})
	one.writeReport(t, keep.listed("Ready"), silent.listed("Ready"))
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	s.checkReleased(t, before)
	one.writeReport(t, keep.listed("Ready"), silent.stopped())
	s.waitReleased(t, recovery, "10.1.0.0-24", "2")
	s.checkReleased(t, before, stored(silent)...)

	// It continues without definitions.
	s.removeCRD(t, harness.NADs)
	web := s.up(t, "worker-1", "web", blue)
	one.writeReport(t, keep.listed("Ready"), web.listed("Ready"))
	v.inUse(t, 2)
	web.leak(t)
	one.writeReport(t, keep.listed("Ready"), web.stopped())
	s.waitReleased(t, recovery, "10.1.0.0-24", "2")
	s.serves(t, harness.NADs, nads)

	// Without pools there is nothing to judge, and nothing is concluded.
	reserved := try(s.of(harness.Reservations).Get(t.Context(), "10.1.0.1", metav1.GetOptions{})).must(t)
	s.removeCRD(t, harness.IPPools)
	v.said(t, `reconciler run failed" error=.* does not serve ippools`)
	equal(t, "the reservation", try(s.of(harness.Reservations).Get(t.Context(), "10.1.0.1",
		metav1.GetOptions{})).must(t).GetUID(), reserved.GetUID())
	s.serves(t, harness.IPPools, pools)
	again := s.up(t, "worker-1", "again", simple("green", "10.2.0.0/24"))
	one.writeReport(t, keep.listed("Ready"), again.listed("Ready"))
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)
	again.leak(t)
	one.writeReport(t, keep.listed("Ready"), again.stopped())
	s.waitReleased(t, recovery, "10.2.0.0-24", "1")
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
