package kube_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// podNames are the names of the pods that an observation has.
func podNames(o *judge.Observation) []string {
	names := []string{}
	for n := range maps.Keys(o.Pods) {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

func TestAListIsReadPageByPage(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = first(list("second", pod("a"), pod("b")), list("third", pod("c")), list("", pod("d")))
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "pods", podNames(o), []string{"a", "b", "c", "d"})
	var asked []string
	for _, r := range f.to(pods) {
		asked = append(asked, r.URL.Query().Get("limit")+" "+r.URL.Query().Get("continue")+r.URL.Query().Get("resourceVersion"))
	}
	equal(t, "asked for", fmt.Sprintf("%q", asked), `["500 " "500 second" "500 third"]`)
}

// Half a list is no list: what is missing in it would seem gone.
func TestAnExpiredTokenRestartsTheList(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = first(list("old", pod("a"), pod("gone-by-then")), fails(http.StatusGone), list("new", pod("a")), list("", pod("b")))
	f.answers[pools] = first(list("old", pool("7")), fails(http.StatusGone), list("", pool("8")))
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "pods", podNames(o), []string{"a", "b"})
	equal(t, "pools", len(o.Pools), 1)
	equal(t, "the pool's version", o.Pools[0].ResourceVersion, "8")
	equal(t, "the first request after the 410 asks for", f.to(pods)[2].URL.Query().Get("continue"), "")
}

func TestATokenThatAlwaysExpiresIsAnError(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = func(w http.ResponseWriter, r *http.Request, n int) {
		if r.URL.Query().Get("continue") != "" {
			fails(http.StatusGone)(w, r, n)
			return
		}
		list("more", pod("a"))(w, r, n)
	}
	if o, err := f.cluster(t).List(t.Context()); err == nil {
		t.Errorf("half a list was taken for all: %v", podNames(o))
	}
}

// passing are the failures that may be gone at the next try.
var passing = map[string]answer{
	"429": fails(http.StatusTooManyRequests), "500": fails(http.StatusInternalServerError),
	"503": fails(http.StatusServiceUnavailable), "504": fails(http.StatusGatewayTimeout),
	"502 of a proxy": bare(http.StatusBadGateway), "503 of a proxy": bare(http.StatusServiceUnavailable),
	"a connection reset": breaksOff(true), "an answer that breaks off": breaksOff(false),
}

func TestAFailureThatPassesIsTriedAgain(t *testing.T) {
	for name, failure := range passing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			f.answers[pods] = first(failure, failure, list("more", pod("a")), failure, list("", pod("b")))
			f.answers[pools] = first(failure, list("", pool("7")))
			f.answers[nodes] = first(failure, list(""))
			f.answers[discovery] = first(failure, fails(http.StatusNotFound))
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "pods", podNames(o), []string{"a", "b"})
			equal(t, "pools", len(o.Pools), 1)
			equal(t, "reports are unreadable", o.ReportsUnreadable, false)
			equal(t, "warnings", o.Warnings, []string{})
		})
	}
}

// impatient ends what client-go would try again for most of a minute.
func impatient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// A failure that stays is an error, and never an empty list.
func TestAFailureThatStaysIsNeverAnAnswer(t *testing.T) {
	failures := maps.Clone(passing)
	failures["401"], failures["400"] = fails(http.StatusUnauthorized), fails(http.StatusBadRequest)
	for _, path := range []string{pods, pools, reservations, nodes, nads} {
		for name, failure := range failures {
			t.Run(path[strings.LastIndex(path, "/")+1:]+", "+name, func(t *testing.T) {
				t.Parallel()
				for part, a := range map[string]answer{"all of it": failure, "the second page": first(list("more"), failure)} {
					f := newFakeAPI(t)
					f.answers[path] = a
					if o, err := f.cluster(t).List(impatient(t)); err == nil {
						t.Errorf("%s could not be read, and an observation was made: %+v", part, o)
					}
				}
			})
		}
	}
}

// What must not be read and is not needed makes an observation poorer, and it says so.
func TestWhatMayNotBeRead(t *testing.T) {
	for path, needed := range map[string]bool{pods: true, pools: true, reservations: true, nodes: false, nads: false, namespace: false} {
		f := newFakeAPI(t)
		f.answers[path] = fails(http.StatusForbidden)
		o, err := f.cluster(t).List(t.Context())
		if needed {
			if err == nil {
				t.Errorf("%s: an observation was made", path)
			} else if !strings.Contains(err.Error(), "no right to list") {
				t.Errorf("%s: the error does not say what right is missing: %v", path, err)
			}
			continue
		}
		check(t, err)
		if len(o.Warnings) != 1 || len(o.Nodes) != 0 {
			t.Errorf("%s: warnings %q, nodes %v", path, o.Warnings, o.Nodes)
		}
	}
}

// When it is not known whether everything is paused, everything is.
func TestANamespaceThatCannotBeReadIsPaused(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[namespace] = fails(http.StatusInternalServerError)
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "paused", o.Paused, true)
}

func TestANamespaceThatRBACForbidsPausesUnlessThatIsOverruled(t *testing.T) {
	for overruled, want := range map[bool]string{false: "releases are paused", true: "NOT seen"} {
		f := newFakeAPI(t)
		f.answers[namespace] = fails(http.StatusForbidden)
		c := f.cluster(t)
		c.WithoutPause = overruled
		o, err := c.List(t.Context())
		check(t, err)
		equal(t, "paused", o.Paused, !overruled)
		if text := strings.Join(o.Warnings, " "); !strings.Contains(text, want) {
			t.Errorf("overruled %v: %q does not say %q", overruled, text, want)
		}
	}
}

func TestAPauseThatIsNoKnownWordIsNamed(t *testing.T) {
	for value, named := range map[string]bool{"until Monday": true, "True": false, "": false, "no": false} {
		f := newFakeAPI(t)
		f.answers[namespace] = annotated(ippool.PausedAnnotation, value)
		o, err := f.cluster(t).List(t.Context())
		check(t, err)
		equal(t, "paused", o.Paused, value != "no")
		equal(t, value+" is named", strings.Contains(strings.Join(o.Warnings, " "), "neither true nor false"), named)
	}
}

// annotated is the reconciler's namespace with an annotation.
func annotated(name, value string) answer {
	return object(map[string]any{"kind": "Namespace", "apiVersion": "v1",
		"metadata": map[string]any{"name": "kube-system", "annotations": map[string]any{name: value}}})
}

func TestAnOperatorWhoSaysYesPausesEverything(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[namespace] = annotated(ippool.PausedAnnotation, "yes")
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "paused", o.Paused, true)
}

func TestAnAcknowledgedRestoreIsReadFromTheNamespace(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[namespace] = annotated(judge.AcknowledgedAnnotation, "2026-11-20T10:00:00Z")
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "acknowledged", o.Acknowledged, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
}

// That there are no node agents is known only where the API does not serve
// their reports, or an allowed list is empty.
func TestWhetherThereAreNodeAgents(t *testing.T) {
	served := object(map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ip-reconcile.dev/v1alpha1",
		"resources": []any{map[string]any{"name": "sandboxreports", "kind": "SandboxReport", "namespaced": false, "verbs": []string{"list"}}}})
	for _, c := range []struct {
		name              string
		discovery, list   answer
		unreadable, lists bool
	}{
		{"not served", fails(http.StatusNotFound), list(""), false, false},
		{"served, and there are none", served, list(""), false, true},
		{"served, and they must not be read", served, fails(http.StatusForbidden), true, true},
		{"served, and they cannot be read", served, fails(http.StatusInternalServerError), true, true},
		{"discovery is forbidden", fails(http.StatusForbidden), list(""), true, false},
		{"discovery fails", fails(http.StatusServiceUnavailable), list(""), true, false},
		{"discovery breaks off", breaksOff(false), list(""), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			f.answers[discovery], f.answers[reports] = c.discovery, c.list
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "unreadable", o.ReportsUnreadable, c.unreadable)
			equal(t, "said", len(o.Warnings) > 0, c.unreadable)
			equal(t, "listed", len(f.to(reports)) > 0, c.lists)
		})
	}
}

func TestAnObservationReadsPodsLast(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = list("", pod("a"))
	_, err := f.cluster(t).List(t.Context())
	check(t, err)
	var order []string
	for _, r := range f.requests {
		if i := strings.LastIndex(r.URL.Path, "/"); r.URL.Path == pods || r.URL.Path == pools || r.URL.Path == reservations {
			order = append(order, r.URL.Path[i+1:])
		}
	}
	equal(t, "order", order, []string{"overlappingrangeipreservations", "ippools", "pods"})
}

// A Node that is read after the reports is never at an earlier boot than they are.
func TestNodesAreReadAfterTheReportsOfTheirAgents(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[discovery] = serves("ip-reconcile.dev/v1alpha1")
	_, err := f.cluster(t).List(t.Context())
	check(t, err)
	at := func(path string) int {
		return slices.IndexFunc(f.requests, func(r *http.Request) bool { return r.URL.Path == path })
	}
	if at(reports) < 0 || at(nodes) < at(reports) {
		t.Errorf("reports were the request number %d and nodes number %d", at(reports), at(nodes))
	}
}

// The age of a report is told by the API server alone: by the times in
// managedFields, which it writes, against the Date of its answer.
func TestFreshnessIsCountedByTheAPIServersClock(t *testing.T) {
	server := time.Now().Add(-72 * time.Hour).Truncate(time.Second) // days behind ours
	for _, c := range []struct {
		name    string
		written time.Duration // ago, by the server
		renewed time.Duration // ago, by the agent
		fresh   bool
	}{
		{"just renewed, by an agent whose clock is a day behind", 20 * time.Second, 24 * time.Hour, true},
		{"just renewed, by an agent whose clock is a day ahead", 20 * time.Second, -24 * time.Hour, true},
		{"long ago, by an agent whose clock says now", 2 * time.Minute, 0, false},
		{"long ago, by an agent whose clock says our now", 2 * time.Minute, -72 * time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.date = server
			f.answers[discovery] = serves("ip-reconcile.dev/v1alpha1")
			f.answers[reports] = list("", map[string]any{"apiVersion": "ip-reconcile.dev/v1alpha1", "kind": "SandboxReport",
				"metadata": map[string]any{"name": "worker-1"}, "observedAt": server.Add(-c.renewed).UTC().Format(time.RFC3339)})
			f.answers[leases] = list("", map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
				"metadata": map[string]any{"name": "worker-1", "namespace": "kube-system",
					"annotations": map[string]any{"ip-reconcile.dev/report-hash": hashOf(t, server.Add(-c.renewed))},
					"managedFields": []any{map[string]any{"manager": "agent", "operation": "Update", "time": server.Add(-c.written).UTC().Format(time.RFC3339),
						"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:renewTime": map[string]any{}}}}}},
				"spec": map[string]any{"renewTime": server.Add(-c.renewed).UTC().Format("2006-01-02T15:04:05.000000Z")}})
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "now", o.Now.UTC(), server.UTC())
			equal(t, "reports", len(o.Reports), 1)
			equal(t, "fresh", o.Reports[0].Fresh(o.Now), c.fresh)
		})
	}
}

// Without the Leases no report is fresh.
func TestWithoutLeasesNoReportIsFresh(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[discovery] = serves("ip-reconcile.dev/v1alpha1")
	f.answers[reports] = list("", map[string]any{"apiVersion": "ip-reconcile.dev/v1alpha1", "kind": "SandboxReport",
		"metadata": map[string]any{"name": "worker-1"}, "observedAt": time.Now().UTC().Format(time.RFC3339)})
	f.answers[leases] = fails(http.StatusForbidden)
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "reports", len(o.Reports), 1)
	equal(t, "fresh", o.Reports[0].Fresh(o.Now), false)
	equal(t, "warnings", len(o.Warnings), 1)
}

// An agent writes its report and then the Lease with its hash.
func TestAReportIsReadAgainWhereItsLeaseIsBehind(t *testing.T) {
	old, current := time.Now().Add(-time.Minute), time.Now()
	report := func(observed time.Time) map[string]any {
		return map[string]any{"apiVersion": "ip-reconcile.dev/v1alpha1", "kind": "SandboxReport",
			"metadata": map[string]any{"name": "worker-1"}, "observedAt": observed.UTC().Format(time.RFC3339)}
	}
	lease := func(observed, renewed time.Time) map[string]any {
		return map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{
			"name": "worker-1", "namespace": "kube-system", "annotations": map[string]any{v1alpha1.HashAnnotation: hashOf(t, observed)},
			"managedFields": []any{map[string]any{"manager": "agent", "operation": "Update", "time": renewed.UTC().Format(time.RFC3339),
				"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:renewTime": map[string]any{}}}}},
		}}
	}
	for says, c := range map[string]struct {
		leases []map[string]any
		fresh  bool
		reads  int
	}{
		"at once in step":             {[]map[string]any{lease(current, current)}, true, 1},
		"in step a moment later":      {[]map[string]any{lease(old, current), lease(current, current)}, true, 2},
		"never in step":               {[]map[string]any{lease(old, current)}, false, -1},
		"of an agent that is no more": {[]map[string]any{lease(old, current.Add(-5*time.Minute))}, false, 1},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			f.answers[discovery] = serves("ip-reconcile.dev/v1alpha1")
			f.answers[reports] = list("", report(current))
			var answers []answer
			for _, l := range c.leases {
				answers = append(answers, list("", l))
			}
			f.answers[leases] = first(answers...)
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "fresh", o.Reports[0].Fresh(o.Now), c.fresh)
			if c.reads >= 0 {
				equal(t, "reads", len(f.to(leases)), c.reads)
			}
		})
	}
}
