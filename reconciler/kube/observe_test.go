package kube_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// podNames returns the names of the pods of an observation.
func podNames(o *facts.Observation) []string {
	names := []string{}
	for n := range maps.Keys(o.Pods) {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// transient are failures that may be gone at the next try.
var transient = map[string]answer{
	"429": fails(http.StatusTooManyRequests), "500": fails(http.StatusInternalServerError),
	"503": fails(http.StatusServiceUnavailable), "504": fails(http.StatusGatewayTimeout),
	"502 of a proxy": bare(http.StatusBadGateway), "503 of a proxy": bare(http.StatusServiceUnavailable),
	"a connection reset": breaksOff(true), "an answer that breaks off": breaksOff(false),
}

// A forbidden kind that is not needed causes a warning.
func TestList_Forbidden(t *testing.T) {
	for path, needed := range map[string]bool{pods: true, pools: true, reservations: true, nodes: false, nads: false,
		namespace: false} {
		f := newFakeAPI(t)
		f.answers[path] = fails(http.StatusForbidden)
		o, err := f.cluster(t).List(t.Context())
		if needed {
			if err == nil {
				t.Errorf("%s: List succeeded", path)
			} else if !strings.Contains(err.Error(), ": forbidden") {
				t.Errorf("%s: the error does not say what is forbidden: %v", path, err)
			}
			continue
		}
		check(t, err)
		if len(o.Warnings)+len(o.UnknownSources()) != 1 || len(o.Nodes.Or(nil)) != 0 {
			t.Errorf("%s: warnings %q, unknown %v, nodes %v", path, o.Warnings, o.UnknownSources(), o.Nodes)
		}
	}
}

// If it is unknown whether everything is paused, everything is.
func TestList_Pause(t *testing.T) {
	for _, c := range []struct {
		answer  answer
		without bool // --without-pause
		paused  bool
		says    string // in a warning; "" for none
	}{
		{annotated(ippool.PausedAnnotation, "yes"), false, true, ""},
		{annotated(ippool.PausedAnnotation, "True"), false, true, ""},
		{annotated(ippool.PausedAnnotation, ""), false, true, ""},
		{annotated(ippool.PausedAnnotation, "until Monday"), false, true, "neither true nor false"},
		{annotated(ippool.PausedAnnotation, "no"), false, false, ""},
		{fails(http.StatusInternalServerError), false, true, "so releases are paused"},
		{fails(http.StatusForbidden), false, true, "releases are paused"},
		{fails(http.StatusForbidden), true, false, "is ignored"},
		{fails(http.StatusNotFound), false, true, "it does not exist"},
		{fails(http.StatusNotFound), true, false, "is ignored"},
	} {
		f := newFakeAPI(t)
		f.answers[namespace] = c.answer
		cluster := f.cluster(t)
		cluster.WithoutPause = c.without
		o, err := cluster.List(t.Context())
		check(t, err)
		warnings := strings.Join(o.Warnings, " ")
		if o.Paused != c.paused || c.says == "" && warnings != "" || !strings.Contains(warnings, c.says) {
			t.Errorf("paused: %v, want %v; warns %q, want %q", o.Paused, c.paused, warnings, c.says)
		}
	}
}

// annotated is the reconciler's namespace with an annotation.
func annotated(name, value string) answer {
	return object(map[string]any{"kind": "Namespace", "apiVersion": "v1",
		"metadata": map[string]any{"name": "kube-system", "annotations": map[string]any{name: value}}})
}

func TestList_AcknowledgedRestore(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[namespace] = annotated(restore.AcknowledgedAnnotation, "k3f7q2m9xa")
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "acknowledged", o.Acknowledged, "k3f7q2m9xa")
}

// No agent exists only if an allowed list of reports is empty, or if reports are not served and no agent has a Lease.
func TestList_NodeAgents(t *testing.T) {
	served, now := serves("ip-reconcile.dev/v1alpha1", "sandboxreports"), time.Now()
	agents, other := leaseOf(t, "worker-1", now, now, now), leaseOf(t, "other", now, now, now)
	delete(other["metadata"].(map[string]any), "annotations")
	for _, c := range []struct {
		name              string
		discovery, list   answer
		unreadable, lists bool
		leases            answer // nil for none
	}{
		{"not served", fails(http.StatusNotFound), list(""), false, false, nil},
		{"not served, and an agent has a Lease", fails(http.StatusNotFound), list(""), true, false, list("", agents)},
		{"not served, and Leases are of others", fails(http.StatusNotFound), list(""), false, false, list("", other)},
		{"not served, and Leases are forbidden", fails(http.StatusNotFound), list(""), false, false,
			fails(http.StatusForbidden)},
		{"served, and the list is empty", served, list(""), false, true, nil},
		{"served and forbidden", served, fails(http.StatusForbidden), true, true, nil},
		{"served, and the list fails", served, fails(http.StatusInternalServerError), true, true, nil},
		{"discovery is forbidden", fails(http.StatusForbidden), list(""), true, false, nil},
		{"discovery fails", fails(http.StatusServiceUnavailable), list(""), true, false, nil},
		{"discovery breaks off", breaksOff(false), list(""), true, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			f.answers[discovery], f.answers[reports] = c.discovery, c.list
			if c.leases != nil {
				f.answers[leases] = c.leases
			}
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "unreadable", !o.Reports.IsKnown(), c.unreadable)
			equal(t, "said", len(o.UnknownSources()) > 0, c.unreadable)
			equal(t, "listed", len(f.to(reports)) > 0, c.lists)
		})
	}
}

// A report that cannot be decoded may list any sandbox, and its node has to report. It stays an observed report, also
// in a later observation that takes unchanged objects from this one.
func TestList_UnreadReport(t *testing.T) {
	f := newFakeAPI(t)
	f.hasAgents()
	unread := report("worker-2", "2", time.Now())
	unread["sandboxes"] = "nonsense"
	f.answers[reports] = byAccept(list("", report("worker-1", "1", time.Now()), unread),
		func(w http.ResponseWriter, r *http.Request, n int) {
			if r.URL.Query().Get("fieldSelector") != "" {
				list("", unread)(w, r, n)
				return
			}
			list("", report("worker-1", "1", time.Now()), unread)(w, r, n)
		})
	c := f.cluster(t)
	o, err := c.List(t.Context())
	check(t, err)
	for _, pass := range []string{"first", "second"} {
		isUnread := map[string]bool{}
		for _, r := range o.Reports.Or(nil) {
			isUnread[r.Name] = r.IsUnread()
		}
		equal(t, "unread in the "+pass+" pass", isUnread, map[string]bool{"worker-1": false, "worker-2": true})
		if len(o.Unreadable) != 1 || !strings.Contains(o.Unreadable[0], "SandboxReport worker-2") {
			t.Errorf("the %s pass says %q", pass, o.Unreadable)
		}
		o, err = c.Relist(t.Context(), o)
		check(t, err)
	}
}

func TestList_PodsLast(t *testing.T) {
	f := newFakeAPI(t)
	f.has(pod("a"))
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

// A Node that is read after the reports never has an earlier boot than they.
func TestList_NodesAfterReports(t *testing.T) {
	f := newFakeAPI(t)
	f.hasAgents()
	_, err := f.cluster(t).List(t.Context())
	check(t, err)
	at := func(path string) int {
		return slices.IndexFunc(f.requests, func(r *http.Request) bool { return r.URL.Path == path })
	}
	if at(reports) < 0 || at(nodes) < at(reports) {
		t.Errorf("reports were the request number %d and nodes number %d", at(reports), at(nodes))
	}
}

// leaseOf is the Lease of an agent for the report of a time, renewed at times by the server's clock and by the agent's.
func leaseOf(t *testing.T, name string, observed, written, renewed time.Time) map[string]any {
	t.Helper()
	return map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{
		"name": name, "namespace": "kube-system", "annotations": map[string]any{v1alpha1.HashAnnotation: hashOf(t, observed)},
		"managedFields": []any{map[string]any{"manager": "agent", "operation": "Update",
			"time":       written.UTC().Format(time.RFC3339),
			"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:renewTime": map[string]any{}}}}}},
		"spec": map[string]any{"renewTime": renewed.UTC().Format("2006-01-02T15:04:05.000000Z")}}
}

// The age of a report counts by the API server: the times in managedFields against the Date of its answer.
func TestList_Freshness(t *testing.T) {
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
		{"Leases are forbidden", 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.date = server
			f.hasAgents()
			at := server.Add(-c.renewed)
			f.has(report("worker-1", "1", at), leaseOf(t, "worker-1", at, server.Add(-c.written), at))
			if c.written == 0 {
				f.answers[leases] = fails(http.StatusForbidden)
			}
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "now", o.Now.UTC(), server.UTC())
			equal(t, "reports", len(o.Reports.Or(nil)), 1)
			equal(t, "fresh", o.Reports.Or(nil)[0].IsFresh(o.Now), c.fresh)
			equal(t, "unknown sources", len(o.UnknownSources()) == 0, c.written > 0)
		})
	}
}

// Without the API server's Date nothing is known of ages: neither this machine's clock nor that of a proxy replaces it.
func TestList_WithoutDate(t *testing.T) {
	f := newFakeAPI(t)
	c := f.cluster(t)
	if !c.Now().IsZero() {
		t.Errorf("before the first answer it is %s", c.Now())
	}
	f.undated = true
	_, err := c.List(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no Date header") || !c.Now().IsZero() {
		t.Errorf("%v at %s", err, c.Now())
	}
	f.change(func() { f.undated, f.date = false, time.Now().Add(-72*time.Hour) })
	for what, other := range map[string]answer{
		"an error of a proxy": bare(http.StatusBadGateway),
		"a page of a proxy": func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>"))
		},
		"a success without a type": func(http.ResponseWriter, *http.Request, int) {},
		"an error":                 fails(http.StatusForbidden),
	} {
		f.change(func() { f.answers["/apis/x"] = other })
		_, _ = c.Serves(impatient(t), schema.GroupVersionResource{Version: "x"})
		if !c.Now().IsZero() {
			t.Errorf("%s sets the time to %s", what, c.Now())
		}
	}
	// What an earlier pass knew does not replace it.
	_, err = c.List(t.Context())
	check(t, err)
	f.change(func() { f.undated = true })
	for range 2 {
		if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "no Date header") {
			t.Errorf("a later pass: %v", err)
		}
	}
}

// An agent writes its report, and then the Lease with its hash.
func TestList_LeaseBehindReport(t *testing.T) {
	old, current := time.Now().Add(-time.Minute), time.Now()
	lease := func(observed, renewed time.Time) map[string]any {
		return leaseOf(t, "worker-1", observed, renewed, renewed)
	}
	for says, c := range map[string]struct {
		leases []map[string]any
		fresh  bool
		reads  int
	}{
		"at once in step":            {[]map[string]any{lease(current, current)}, true, 1},
		"in step a moment later":     {[]map[string]any{lease(old, current), lease(current, current)}, true, 2},
		"never in step":              {[]map[string]any{lease(old, current)}, false, -1},
		"of an agent that has ended": {[]map[string]any{lease(old, current.Add(-5*time.Minute))}, false, 1},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			f.hasAgents()
			f.has(report("worker-1", "1", current))
			var answers []answer
			for _, l := range c.leases {
				answers = append(answers, list("", l))
			}
			f.answers[leases] = first(answers...)
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "fresh", o.Reports.Or(nil)[0].IsFresh(o.Now), c.fresh)
			if c.reads >= 0 {
				equal(t, "reads", len(f.to(leases)), c.reads)
			}
		})
	}
}
