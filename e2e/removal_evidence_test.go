//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// A removal takes evidence away from a reconciler that serves, and restores it.
type removal struct {
	name string
	take func(t *testing.T, e *evidence) (give func())
	// unknown is the source that is unknown meanwhile, and fails is set if no pass can observe the cluster. Otherwise the
	// reconciler must judge as before, and says is what it logs.
	unknown string
	fails   bool
	says    string
	// aside is set if only the reconciler misses something, and can still judge: its status is read directly.
	aside bool
	// isStored is set if allocations and reservations can be read meanwhile. Else they are read after it.
	isStored bool
}

// evidence is a cluster that has something of everything that a removal could lose: addresses in use, some of each
// cause to hold one, and findings.
type evidence struct {
	*statusStage
	v          *server
	l          *link
	kubeconfig string // of the reconciler's ServiceAccount, through the link
	// report writes both agents' reports, and reportTwo that of worker-2, which has more.
	report, reportTwo func(t *testing.T, more ...any)

	before   contents
	verdicts map[string]string
	findings map[string]int // by kind
	levels   map[string]string
	leaks    int
	leaksOn  string // a node
}

// custom are the kinds of which custom resources are read.
var custom = map[string]schema.GroupVersionResource{
	"network-attachment-definitions": harness.NADs, "sandboxreports": sandboxReports, "ipamclaims": ipamClaims,
	"virtualmachineinstances": podstate.GuestResource, "overlappingrangeipreservations": harness.Reservations,
	"ippools": harness.IPPools,
}

// evidenceKinds are all kinds whose objects are evidence, with their groups.
func evidenceKinds() map[string]schema.GroupVersionResource {
	all := maps.Clone(custom)
	all["nodes"], all["pods"], all["leases"] = nodesResource, podsResource, leasesResource
	return all
}

// lacking is a removal of all objects of a kind. No pass can observe the cluster without pods and pools, and without
// reservations unless they are not served at all.
func lacking(name, resource string, isServed bool, take func(t *testing.T, e *evidence) func()) removal {
	r := removal{name: name, take: take, unknown: resource, isStored: true}
	if resource == "pods" || resource == "ippools" || resource == "overlappingrangeipreservations" && isServed {
		r.unknown, r.fails = "", true
	}
	return r
}

// newEvidence starts the cluster and the reconciler, which makes a full pass each second.
func newEvidence(t *testing.T) *evidence {
	t.Helper()
	e := &evidence{statusStage: newInstalledStage(t), leaksOn: "worker-2"}
	e.l, e.kubeconfig = linkAs(t, configOf(t, e.statusStage.kubeconfig))
	e.poolsKeepClaims(t)
	e.serves(t, ipamClaims, claimCRD())
	e.serves(t, podstate.GuestResource, openCRD(podstate.GuestResource, "VirtualMachineInstance"))
	phantom, first := e.up(t, "worker-2", "phantom", blue), e.up(t, "worker-1", "first", blue)
	e.forget(t, first)
	e.unreserve(t, first.ips[0])
	second := e.up(t, "worker-2", "second", blue)
	equal(t, "the second's address", second.ips, first.ips)
	phantom.forceDelete(t)
	e.reportTwo = func(t *testing.T, more ...any) {
		t.Helper()
		e.two.writeReport(t, append([]any{phantom.listed(v1alpha1.SandboxReady), second.listed(v1alpha1.SandboxReady)},
			more...)...)
	}
	e.report = func(t *testing.T, more ...any) {
		t.Helper()
		e.one.writeReport(t, e.live.listed(v1alpha1.SandboxReady), first.listed(v1alpha1.SandboxReady))
		e.reportTwo(t, more...)
	}
	e.report(t)

	// A guest keeps the address of a machine's first pod, and a claim that of a stopped machine.
	vmis := e.Dynamic().Resource(podstate.GuestResource).Namespace(metav1.NamespaceDefault)
	vmi := try(vmis.Create(t.Context(), objects(podstate.GuestResource, "VirtualMachineInstance", map[string]any{
		"spec": map[string]any{"networks": []any{map[string]any{"name": "net",
			"multus": map[string]any{"networkName": "blue"}}}},
		"status": map[string]any{"interfaces": []any{map[string]any{"name": "net", "ipAddress": "10.1.0.200"}}},
	})("vm-1"), metav1.CreateOptions{})).must(t)
	claims := e.Dynamic().Resource(ipamClaims).Namespace(metav1.NamespaceDefault)
	try(claims.Create(t.Context(), objects(ipamClaims, "IPAMClaim", map[string]any{
		"spec":   map[string]any{"network": "wb", "interface": "net1"},
		"status": map[string]any{"ips": []any{"10.1.0.202/24"}}})("vm-2.storage"), metav1.CreateOptions{})).must(t)
	entries := map[string]any{"200": entry("default/virt-launcher-vm-1-a", strings.Repeat("a", 64)),
		"201": entry("default/virt-launcher-vm-1-b", strings.Repeat("b", 64)),
		"202": entry("default/virt-launcher-vm-2-a", strings.Repeat("c", 64))}
	entries["202"].(map[string]any)["ipamclaimref"] = "default/vm-2.storage"
	for key, name := range map[string]string{"200": "vm-1-a", "201": "vm-1-b", "202": "vm-2-a"} {
		e.reservation(t, "10.1.0."+key, "default/virt-launcher-"+name, 0)
	}
	e.patch(t, harness.IPPools, "10.1.0.0-24", string(try(json.Marshal(map[string]any{
		"spec": map[string]any{"allocations": entries}})).must(t)))
	e.launcher(t, "virt-launcher-vm-1-b", "worker-2", "", "10.1.0.201", vmi.GetUID(), true)

	e.note(t)
	return e
}

// note notes what a pass finds while nothing is missing.
func (e *evidence) note(t *testing.T) {
	t.Helper()
	e.before = e.contents(t)
	out := e.once(t)
	out.exits(t, 0)
	e.verdicts, e.findings = out.verdicts(), map[string]int{}
	for _, f := range out.Findings {
		e.findings[f.Kind]++
	}
	e.checkReleased(t, e.before)
}

func (e *evidence) begin(t *testing.T, more ...string) {
	t.Helper()
	e.v = e.serveInstalled(t, e.kubeconfig, append([]string{"--cron", "@every 1s"}, more...)...)
	e.isWhole(t)
	e.levels = e.statusLevels(t)
}

// once makes a pass as the reconciler that does not wait for confirmations.
func (e *evidence) once(t *testing.T, more ...string) *outcome {
	t.Helper()
	return e.beginProduct(t, append([]string{"run", "--confirm-after", "0", "--agents=auto", "--reconciler-namespace",
		"kube-system", "-o", "json", "--kubeconfig", e.kubeconfig}, more...)...).wait()
}

// statusLevels are the levels of the lines of status, as the administrator, by check.
func (e *evidence) statusLevels(t *testing.T) map[string]string {
	t.Helper()
	var d struct {
		Lines []struct{ ID, Level string }
	}
	out := e.runStatus(t, e.Kubeconfig(), "-o", "json")
	check(t, json.Unmarshal([]byte(out.stdout), &d))
	levels := map[string]string{}
	for _, l := range d.Lines {
		levels[l.ID] = l.Level
	}
	return levels
}

// worse are the checks whose level is a problem, and was not at first.
func (e *evidence) worse(levels map[string]string) (checks []string) {
	for id, level := range levels {
		if (level == "Error" || level == "Warning") && level != e.levels[id] {
			checks = append(checks, id)
		}
	}
	slices.Sort(checks)
	return checks
}

// series are the metrics of the reconciler with one label, by name and value of the label.
func (v *server) series(t *testing.T) map[string]map[string]float64 {
	t.Helper()
	resp := try(http.Get("http://" + v.metrics + "/metrics")).must(t)
	defer resp.Body.Close()
	all := map[string]map[string]float64{}
	for line := range strings.Lines(string(try(io.ReadAll(resp.Body)).must(t))) {
		name, rest, hasLabel := strings.Cut(strings.TrimSuffix(line, "\n"), "{")
		_, rest, _ = strings.Cut(rest, `="`)
		label, value, isOne := strings.Cut(rest, `"} `)
		if n, err := strconv.ParseFloat(value, 64); hasLabel && isOne && err == nil {
			if all[name] == nil {
				all[name] = map[string]float64{}
			}
			all[name][label] = n
		}
	}
	return all
}

// lost are the findings that the metrics do not have anymore. While a source is unknown, some of a kind may remain, or
// the kind has no series.
func (e *evidence) lost(t *testing.T, r *removal) (lost []string) {
	t.Helper()
	all := e.v.series(t)
	isUnknown := slices.Contains(slices.Collect(maps.Values(all[sourceKnown])), 0)
	for kind, n := range e.findings {
		is, isKnown := all[findingsMetric][kind]
		switch {
		case is >= float64(n), isUnknown && (!isKnown || is > 0):
		case r.fails && !r.isStored: // the pools themselves are deleted
		default:
			lost = append(lost, fmt.Sprintf("%s: %g of %d, of known sources %v", kind, is, n, all[sourceKnown]))
		}
	}
	return lost
}

const (
	sourceKnown    = "ip_reconcile_source_known"
	findingsMetric = "ip_reconcile_findings"
	passesMetric   = "ip_reconcile_passes_total"
)

// isWhole waits until every source is known and all findings are there.
func (e *evidence) isWhole(t *testing.T) {
	t.Helper()
	eventually(t, "all sources to be known, with the findings", func() bool {
		all := e.v.series(t)
		for kind, n := range e.findings {
			if all[findingsMetric][kind] != float64(n) {
				return false
			}
		}
		known := slices.Collect(maps.Values(all[sourceKnown]))
		return len(known) > 0 && !slices.Contains(known, 0)
	})
}

// allocations is how many there are.
func (e *evidence) allocations() (n int) {
	for place := range e.before {
		if !strings.HasPrefix(place, "reservation ") {
			n++
		}
	}
	return n
}

// passes is how many full passes have ended.
func (e *evidence) passes() float64 { return e.v.metric(passesMetric + "{") }

// keeps checks that the reconciler releases nothing and forgets nothing while passes go on, and that it, a single pass,
// and status say what is missing.
func (e *evidence) keeps(t *testing.T, r *removal, passes map[string]float64) {
	t.Helper()
	switch {
	case r.fails:
		e.v.counts(t, passesMetric+`{result="failed"}`, passes["failed"]+1)
	case r.unknown != "":
		e.v.is(t, fmt.Sprintf(sourceKnown+"{source=%q}", r.unknown), 0)
	case r.says != "":
		e.v.said(t, r.says)
	}
	var lost []string
	until := e.passes() + 2
	eventually(t, "two more passes", func() bool {
		lost = e.lost(t, r)
		return len(lost) > 0 || e.passes() >= until
	})
	if len(lost) > 0 {
		t.Errorf("findings are lost: %v", lost)
	}
	e.keepsOnce(t, r)
	if !r.aside && !within(time.Minute, time.Second, func() bool { return len(e.worse(e.statusLevels(t))) > 0 }) {
		t.Errorf("status says nothing: %v", e.levels)
	}
}

// keepsOnce is keeps for a single pass that waits for no confirmation.
func (e *evidence) keepsOnce(t *testing.T, r *removal) {
	t.Helper()
	out := e.once(t)
	if r.isStored {
		e.checkReleased(t, e.before)
	}
	if !r.fails {
		e.checkDocument(t, r, out)
	} else if out.code == 0 {
		t.Error("a pass succeeds")
	}
}

// checkDocument checks that nothing that was in use or held is stale in a single pass, and that each finding is there
// or said to be unknown.
func (e *evidence) checkDocument(t *testing.T, r *removal, out *outcome) {
	t.Helper()
	for place, verdict := range out.verdicts() {
		if strings.HasPrefix(verdict, "Stale") {
			t.Errorf("%s is %s, before %s", place, verdict, e.verdicts[place])
		}
	}
	var d struct {
		Unknown []struct {
			Source   string
			Findings []string
		}
	}
	check(t, json.Unmarshal([]byte(out.stdout), &d))
	unknown, sources := map[string]bool{}, []string{}
	for _, s := range d.Unknown {
		sources = append(sources, s.Source)
		for _, kind := range s.Findings {
			unknown[kind] = true
		}
	}
	if r.unknown != "" && !slices.Contains(sources, r.unknown) {
		t.Errorf("a pass does not say that %s are unknown, only %v", r.unknown, sources)
	}
	for kind, n := range e.findings {
		if found := len(out.found(kind)); found < n && !unknown[kind] {
			t.Errorf("a pass finds %d of %d %s, and does not say that they are unknown", found, n, kind)
		}
	}
}

// releases checks that a leak is released, with all evidence, and that status is as before.
func (e *evidence) releases(t *testing.T) {
	t.Helper()
	e.isWhole(t)
	e.checkReleased(t, e.before)
	e.leaks++
	leak := e.up(t, e.leaksOn, fmt.Sprint("leak-", e.leaks), blue)
	e.report(t, leak.listed(v1alpha1.SandboxReady))
	before := e.contents(t)
	e.v.is(t, "ip_reconcile_allocations{", float64(e.allocations()+1)) // while the pod exists
	leak.leak(t)
	e.report(t, leak.stopped())
	if e.two == nil { // serve waits longer for a confirmation
		equal(t, "what a pass releases", len(e.once(t).Released), 2)
	}
	e.waitReleased(t, promptly, "10.1.0.0-24", strings.TrimPrefix(leak.ips[0], "10.1.0."))
	eventually(t, "the reservation to be deleted", func() bool { return len(e.contents(t)) == len(e.before) })
	e.checkReleased(t, before, stored(leak)...)
	e.checkReleased(t, e.before)
	var levels map[string]string
	if !within(time.Minute, time.Second, func() bool {
		levels = e.statusLevels(t)
		return len(e.worse(levels)) == 0
	}) {
		t.Errorf("status is not as before: %v", e.worse(levels))
	}
}

func (e *evidence) play(t *testing.T, all []removal) {
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			passes := e.v.series(t)[passesMetric]
			give := sync.OnceFunc(r.take(t, e))
			defer give()
			e.keeps(t, &r, passes)
			give()
			e.releases(t)
		})
	}
}
