//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/internal/monitoring"
)

// A sequel is what the rules make of the scenarios in a cluster. Most rules ask for minutes or hours, longer than a
// scenario: TestAlerts_Matrix proves that each of them fires in its situation, after its time, and alone. Here an
// expression that holds shows as a pending alert.
type sequel struct {
	fires []string // these fire, and no other
	holds []string // only the expressions of these may hold for longer than a transition lasts
}

// transition is how long an expression may hold on the way from one state to another.
const transition = 15 * time.Second

// sequels are those of the clusters that a Prometheus scrapes.
var sequels = map[string]sequel{
	// The successor shares an address, and four pods want the two addresses of a pool.
	"pods":      {holds: []string{"IPReconcileAddressInConflict", "IPReconcilePoolFull", "IPReconcilePoolNearlyFull"}},
	"sandboxes": {},
	// A node without containerd, or one that comes back, may be Ready for a moment without a fresh report.
	"nodes": {holds: []string{"IPReconcileNoFreshReport"}},
	"boots": {holds: []string{"IPReconcileNoFreshReport"}},
	// Agents report soon, and what the pools lack is repaired.
	"TestRestore_LostPodKeepsItsAddress": {fires: []string{"IPReconcileEtcdRestored"}, holds: afterRestores},
	// The agent of one node is down, and its addresses are assigned again.
	"TestRestore_AgentDownEndangersItsNodeOnly": {
		fires: []string{"IPReconcileEtcdRestored", "IPReconcileFenceTimedOut"},
		holds: append([]string{"IPReconcileAddressInConflict"}, afterRestores...)},
}

// afterRestores are alerts whose expression holds for some minutes after a restore. An API server that has just started
// denies everything for a moment, since it does not have the roles yet.
var afterRestores = []string{"IPReconcileRestorePending", "IPReconcileAddressUnrecorded", "IPReconcileNoFreshReport",
	"IPReconcileWritesDenied"}

// anywhere are alerts whose expression holds for a while in any cluster: until a replica leads, until an agent has
// inspected its node, and when a pool gets its first pods, at which pace it would be full within a day.
var anywhere = []string{"IPReconcileNoPasses", "IPReconcileAgentCannotInspect", "IPReconcilePoolFullWithinADay"}

// noData are panels that may lack data after the scenarios of the cluster "pods", and why.
var noData = map[string]string{
	"Candidates and releases: Age of the oldest":                            "what leaks is proven, and released at once",
	"Lease of whereabouts: 90 % of the holds by ADDs and DELs, as observed": "no release has to wait for an ADD or DEL",
	"Lease of whereabouts: ADDs a second that it allows":                    "likewise",
}

// installScraped is install with a Prometheus that scrapes reconcilers and agents until the test ends.
func installScraped(t *testing.T, workers int, args ...string) *installation {
	t.Helper()
	i := ready(t, workers)
	i.prometheus = try(i.cluster.StartPrometheus(t.Context())).must(t)
	t.Cleanup(func() { check(t, i.prometheus.Close()) })
	i.deploy(t, args...)
	return i
}

// recorded reads what Prometheus has at a path into an answer.
func (i *installation) recorded(t testing.TB, path string, answer any) {
	t.Helper()
	response := try(http.Get(i.prometheus.URL + path)).must(t)
	defer response.Body.Close()
	body := try(io.ReadAll(response.Body)).must(t)
	equal(t, path, response.Status, "200 OK")
	if text, is := answer.(*string); is {
		*text = string(body)
		return
	}
	check(t, json.Unmarshal(body, answer))
}

// A course is a series and its values over time.
type course struct {
	Metric map[string]string
	Values [][2]any // time and number
}

// courses are the results of a query since Prometheus started, at most two hours ago.
func (i *installation) courses(t testing.TB, query string) []course {
	t.Helper()
	var answer struct{ Data struct{ Result []course } }
	now := time.Now()
	i.recorded(t, "/api/v1/query_range?"+url.Values{"query": {query}, "step": {"2s"},
		"start": {fmt.Sprint(now.Add(-2 * time.Hour).Unix())}, "end": {fmt.Sprint(now.Unix())}}.Encode(), &answer)
	return answer.Data.Result
}

// makesPending waits until the expression of an alert holds. What a scenario causes it keeps for so long.
func (i *installation) makesPending(t testing.TB, alert string) {
	t.Helper()
	eventuallyWithin(t, time.Minute, alert+" to be pending", func() bool {
		return len(i.courses(t, fmt.Sprintf("ALERTS{alertname=%q,alertstate=%q}", alert, "pending"))) > 0
	})
}

// checkAlerts compares what the rules made of all that happened in the cluster with the sequel of that name.
func (i *installation) checkAlerts(t *testing.T, name string) {
	t.Helper()
	var rules struct {
		Data struct {
			Groups []struct {
				LastEvaluation time.Time
				Rules          []struct{ Name, Health, LastError string }
			}
		}
	}
	scraped := time.Now().Add(2 * time.Second) // each process once more
	eventuallyWithin(t, time.Minute, "another evaluation", func() bool {
		i.recorded(t, "/api/v1/rules", &rules)
		return len(rules.Data.Groups) == 1 && rules.Data.Groups[0].LastEvaluation.After(scraped)
	})
	equal(t, "rules", len(rules.Data.Groups[0].Rules), len(monitoring.Alerts()))
	for _, r := range rules.Data.Groups[0].Rules {
		equal(t, r.Name+" "+r.LastError, r.Health, "ok")
	}
	var metrics string
	i.recorded(t, "/metrics", &metrics)
	failed := regexp.MustCompile(`prometheus_rule_evaluation_failures_total{.*} (.*)`).FindStringSubmatch(metrics)
	equal(t, "evaluations that failed", strings.Join(failed[1:], " "), "0")

	var alerts struct {
		Data struct {
			Alerts []struct{ Annotations map[string]string }
		}
	}
	i.recorded(t, "/api/v1/alerts", &alerts)
	for _, a := range alerts.Data.Alerts {
		if strings.Contains(fmt.Sprint(a.Annotations), "<error") {
			t.Errorf("annotations: %v", a.Annotations)
		}
	}
	want, fired := sequels[name], []string{}
	for _, c := range i.courses(t, `count by (alertname, alertstate) (ALERTS)`) {
		alert, lasted := c.Metric["alertname"], time.Duration(len(c.Values))*2*time.Second
		t.Logf("%s was %s for %s", alert, c.Metric["alertstate"], lasted)
		switch isExpected := slices.Contains(slices.Concat(want.holds, anywhere), alert); {
		case c.Metric["alertstate"] == "firing":
			fired = append(fired, alert)
		case lasted > transition && !isExpected:
			t.Errorf("the expression of %s holds, and no scenario causes that", alert)
		}
	}
	slices.Sort(fired)
	equal(t, "alerts that fired", strings.Join(fired, " "), strings.Join(want.fires, " "))
}

// checkPanels checks that each panel has shown a number.
func (i *installation) checkPanels(t *testing.T) {
	t.Helper()
	isNumber := func(v [2]any) bool {
		n, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
		return err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
	}
	hasNumber := func(c course) bool { return slices.ContainsFunc(c.Values, isNumber) }
	all := queries()
	for panel, query := range all {
		if !slices.ContainsFunc(i.courses(t, query), hasNumber) && noData[panel] == "" {
			t.Errorf("%s has no data: %s", panel, query)
		}
	}
	for panel := range noData {
		if all[panel] == "" {
			t.Errorf("the dashboard has no panel %q", panel)
		}
	}
}

// playFailover ends the leader in order, and then kills the next, which keeps the Lease until it expires. Neither fires
// an alert.
func (i *installation) playFailover(t *testing.T) {
	holder := func() string {
		lease := try(i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "ip-reconcile",
			metav1.GetOptions{})).must(t)
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	after := func(end func(v *server)) {
		v, before, began := i.leader(t), holder(), time.Now()
		end(v)
		eventuallyWithin(t, time.Minute, "another to lead", func() bool { return holder() != before && holder() != "" })
		i.leader(t)
		t.Logf("another process led after %s", time.Since(began).Round(time.Second))
		i.rolledOut(t, "deployment/ip-reconcile")
	}
	after(func(v *server) {
		i.mustKubectl(t, "delete", "pod", "-n", "kube-system", "--wait=false", v.pod.Name)
	})
	after(func(v *server) {
		check(t, i.cluster.Worker(v.node).KillContainers(t.Context(), i.sandbox(t, v.pod)))
	})
}
