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

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
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

// servingRules are rules with which serve lacks nothing.
func servingRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		rule("whereabouts.cni.cncf.io", "ippools", "get", "list", "watch", "patch"),
		rule("whereabouts.cni.cncf.io", "overlappingrangeipreservations", "get", "list", "watch", "create", "delete"),
		rule("k8s.cni.cncf.io", "network-attachment-definitions", "get", "list", "watch"),
		rule("", "pods", "get", "list", "watch"),
		rule("", "nodes", "get", "list", "watch"),
		rule("", "namespaces", "get", "list", "watch"),
		rule("", "events", "create", "patch"),
		rule("ip-reconcile.dev", "sandboxreports", "get", "list", "watch"),
		rule("coordination.k8s.io", "leases", "get", "list", "watch", "create", "update"),
	}
}

// grants puts rules in the place of an account's, and waits until they count.
func (s *stage) grants(t testing.TB, name, kubeconfig string, rules []rbacv1.PolicyRule, resource, verb string, want bool) {
	t.Helper()
	ctx := t.Context()
	role := try(s.Client().RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})).must(t)
	group := ""
	for _, r := range servingRules(t) {
		if r.Resources[0] == resource {
			group = r.APIGroups[0]
		}
	}
	role.Rules = rules
	try(s.Client().RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})).must(t)
	may(t, kubeconfig, authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: verb}, want)
}

func TestServeWaitsForARightThatIsTakenFromIt(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")
	rules := servingRules(t)
	kubeconfig := s.account(t, "serve", rules)
	for _, tt := range []struct {
		resource string
		verbs    []string // all if nil
		says     string
		frees    bool // all the same
	}{
		{"pods", nil, `reconciler run failed: no right to list pods`, false},
		{"ippools", []string{"list", "watch"}, `reconciler run failed: no right to list IPPools`, false},
		{"ippools", []string{"patch"}, `not released.*forbidden.*cannot patch resource`, false},
		{"leases", nil, `no right to whereabouts' Lease|Leases in namespace ip-reconcile-node-lease could not be read`, false},
		{"sandboxreports", nil, `SandboxReports are served and could not be read`, false},
		{"nodes", nil, `no right to list nodes`, true},
	} {
		verb := "list"
		if tt.verbs != nil {
			verb = tt.verbs[0]
		}
		s.play(t, verb+" "+tt.resource, func(t *testing.T) {
			one.writeReport(t)
			// Watches that are open outlive the right: passes ask again.
			v := s.serve(t, kubeconfig, "--cron", "@every 5s")
			web, keep := s.up(t, "worker-1", "web", blue), s.up(t, "worker-1", "keep", blue)
			one.writeReport(t, web.listed("Ready"), keep.listed("Ready"))
			v.inUse(t, 2)
			before := s.contents(t)
			s.grants(t, "serve", kubeconfig, without(rules, tt.resource, tt.verbs...), tt.resource, verb, false)
			if tt.verbs == nil || verb == "list" {
				v.said(t, tt.says)
			}
			web.leak(t)
			one.writeReport(t, web.stopped(), keep.listed("Ready"))
			v.said(t, tt.says)
			if tt.frees {
				s.freed(t, recovery, "10.1.0.0-24", "1")
			} else {
				s.waitRecreated(t, before)
			}
			s.grants(t, "serve", kubeconfig, rules, tt.resource, verb, true)
			s.freed(t, recovery, "10.1.0.0-24", "1")
			s.lost(t, before, stored(web)...)
			v.repeatsNothing(t)
		})
	}
}

func TestServeWhileACRDComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	reports, pools, nads := s.crd(t, sandboxReports), s.crd(t, harness.IPPools), s.crd(t, harness.NADs)
	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "3s")
	held := `ip_reconcile_allocations{reason="NoFreshReport",verdict="Held"}`

	// SandboxReports were seen: that they are not served any more proves nothing.
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
	s.lost(t, before)
	one.writeReport(t, keep.listed("Ready"), silent.stopped())
	s.freed(t, recovery, "10.1.0.0-24", "2")
	s.lost(t, before, stored(silent)...)

	// Without definitions it goes on.
	s.removeCRD(t, harness.NADs)
	web := s.up(t, "worker-1", "web", blue)
	one.writeReport(t, keep.listed("Ready"), web.listed("Ready"))
	v.inUse(t, 2)
	web.leak(t)
	one.writeReport(t, keep.listed("Ready"), web.stopped())
	s.freed(t, recovery, "10.1.0.0-24", "2")
	s.serves(t, harness.NADs, nads)

	// Without pools there is nothing to judge, and nothing is concluded.
	reserved := try(s.of(harness.Reservations).Get(t.Context(), "10.1.0.1", metav1.GetOptions{})).must(t)
	s.removeCRD(t, harness.IPPools)
	v.said(t, `reconciler run failed: .* does not serve ippools`)
	equal(t, "the reservation", try(s.of(harness.Reservations).Get(t.Context(), "10.1.0.1", metav1.GetOptions{})).must(t).GetUID(), reserved.GetUID())
	s.serves(t, harness.IPPools, pools)
	again := s.up(t, "worker-1", "again", simple("green", "10.2.0.0/24"))
	one.writeReport(t, keep.listed("Ready"), again.listed("Ready"))
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)
	again.leak(t)
	one.writeReport(t, keep.listed("Ready"), again.stopped())
	s.freed(t, recovery, "10.2.0.0-24", "1")
	v.repeatsNothing(t)
}

func TestServeTakesUpReportsThatAreServedLater(t *testing.T) {
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
	v.said(t, `what may be watched has changed`)
	before := s.contents(t)
	one.writeReport(t, phantom.stopped())
	s.freed(t, recovery, "10.1.0.0-24", "1")
	s.lost(t, before, stored(phantom)...)
}
