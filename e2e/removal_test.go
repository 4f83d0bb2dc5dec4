//go:build !slow && !cluster

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
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
	return e.beginProduct(t, append([]string{"run", "--confirm-after", "0", "--reconciler-namespace", "kube-system", "-o",
		"json", "--kubeconfig", e.kubeconfig}, more...)...).wait()
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

// withoutRight takes a verb on a resource from the reconciler's roles. Its open watches end, which would else outlive
// the right.
func withoutRight(verb string, r schema.GroupVersionResource) func(t *testing.T, e *evidence) func() {
	return func(t *testing.T, e *evidence) func() {
		roles := e.Client().RbacV1().ClusterRoles()
		var undo []func()
		for _, name := range []string{reconcilerName, "ip-reconcile-serve"} {
			role := try(roles.Get(t.Context(), name, metav1.GetOptions{})).must(t)
			before := role.Rules
			role.Rules = without(role.Rules, r.Resource, verb)
			role = try(roles.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
			undo = append(undo, func() {
				role.Rules = before
				try(roles.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
			})
		}
		right := authorizationv1.ResourceAttributes{Group: r.Group, Resource: r.Resource, Verb: verb}
		may(t, e.statusStage.kubeconfig, right, false)
		e.l.cut(watchOf(r.Resource))
		return func() {
			for _, f := range undo {
				f()
			}
			may(t, e.statusStage.kubeconfig, right, true)
		}
	}
}

// TestRemoval_Rights takes list, or watch, of each kind from the reconciler.
func TestRemoval_Rights(t *testing.T) {
	t.Parallel()
	e := newEvidence(t)
	e.begin(t)
	var all []removal
	kinds := evidenceKinds()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, lacking("list "+name, name, true, withoutRight("list", kinds[name])))
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if kinds[name] != ipamClaims && kinds[name] != podstate.GuestResource { // which are not watched
			all = append(all, removal{name: "watch " + name, take: withoutRight("watch", kinds[name]), isStored: true,
				says: `Cannot watch a resource.* resource=` + name})
		}
	}
	e.play(t, all)
}

// dropped deletes the definition of a kind with all of its objects, and restores both.
func dropped(r schema.GroupVersionResource) func(t *testing.T, e *evidence) func() {
	return func(t *testing.T, e *evidence) func() {
		crd, objects := e.crd(t, r), e.stored(t, r)
		e.removeCRD(t, r)
		return func() {
			e.serves(t, r, crd)
			for key, value := range objects {
				e.etcdPut(t, key, value)
			}
		}
	}
}

// stored are the objects of a custom resource in etcd, by key.
func (e *evidence) stored(t *testing.T, r schema.GroupVersionResource) map[string][]byte {
	t.Helper()
	prefix, all := "/registry/"+r.Group+"/"+r.Resource+"/", map[string][]byte{}
	var answer struct {
		Kvs []struct{ Key, Value []byte }
	}
	check(t, json.Unmarshal(e.etcd(t, "kv/range", map[string][]byte{"key": []byte(prefix),
		"range_end": []byte(strings.TrimSuffix(prefix, "/") + "0")}), &answer))
	for _, kv := range answer.Kvs {
		all[string(kv.Key)] = kv.Value
	}
	return all
}

// inAnotherVersion serves a kind in another version only.
func inAnotherVersion(r schema.GroupVersionResource) func(t *testing.T, e *evidence) func() {
	return func(t *testing.T, e *evidence) func() {
		end := e.changedCRD(t, r, anotherVersion(false))
		isServed := func() bool {
			_, err := e.Dynamic().Resource(r).List(t.Context(), metav1.ListOptions{})
			return err == nil
		}
		eventually(t, r.Resource+" not to be served", func() bool { return !isServed() })
		return func() { end(); eventually(t, r.Resource+" to be served", isServed) }
	}
}

// TestRemoval_Definitions deletes the CRD of each kind, and serves each kind in another version only.
func TestRemoval_Definitions(t *testing.T) {
	t.Parallel()
	e := newEvidence(t)
	e.begin(t)
	var all []removal
	for _, name := range slices.Sorted(maps.Keys(custom)) {
		for how, take := range map[string]func(t *testing.T, e *evidence) func(){
			"are served in another version": inAnotherVersion(custom[name]), "have no CRD": dropped(custom[name])} {
			r := lacking(name+" "+how, name, strings.Contains(how, "version"), take)
			r.isStored = name != "ippools" && name != "overlappingrangeipreservations"
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b removal) int { return strings.Compare(a.name, b.name) })
	e.play(t, all)
}

// editLists changes the answers to LISTs of a resource. They are in JSON then.
func editLists(resource string, edit func(page map[string]any)) faults {
	isList := func(r *http.Request) bool {
		return r.Method == http.MethodGet && !anyWatch(r) && path.Base(r.URL.Path) == resource
	}
	return faults{refuse: func(r *http.Request) int {
		if isList(r) {
			forms := strings.Split(r.Header.Get("Accept"), ",")
			r.Header.Set("Accept", strings.TrimSpace(forms[len(forms)-1]))
			r.Header.Del("Accept-Encoding")
		}
		return 0
	}, edit: func(r *http.Response) error {
		if !isList(r.Request) || r.StatusCode != http.StatusOK {
			return nil
		}
		var list map[string]any
		err := json.NewDecoder(r.Body).Decode(&list)
		if err != nil {
			return err
		}
		edit(list)
		text, err := json.Marshal(list)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return err
	}}
}

// pageFaults are what a proxy makes of a LIST.
func pageFaults(resource string) map[string]faults {
	cut := func(fields map[string]any) faults {
		return editLists(resource, func(page map[string]any) {
			items, _ := page["items"].([]any)
			page["items"] = items[:max(len(items)-1, 0)]
			metadata := page["metadata"].(map[string]any)
			delete(metadata, "continue")
			maps.Copy(metadata, fields)
		})
	}
	return map[string]faults{
		"remainingItemCount without continue": cut(map[string]any{"remainingItemCount": 1}),
		"continue left over":                  cut(map[string]any{"continue": "bGVmdCBvdmVy"}),
		"no resourceVersion":                  cut(map[string]any{"resourceVersion": ""}),
		"an error page": just(http.StatusBadGateway, func(r *http.Request) bool {
			return r.Method == http.MethodGet && !anyWatch(r) && path.Base(r.URL.Path) == resource
		}),
	}
}

// suffering is the removal by faults of the link.
func suffering(f faults) func(t *testing.T, e *evidence) func() {
	return func(t *testing.T, e *evidence) func() {
		e.l.suffers(f)
		return func() { e.l.suffers(faults{}) }
	}
}

// TestRemoval_Pages has a proxy between the reconciler and the API server cut the LISTs of a kind: each of them in each
// way for a single pass, and each in one way while the reconciler serves.
func TestRemoval_Pages(t *testing.T) {
	t.Parallel()
	e := newEvidence(t)
	var all []removal
	kinds := slices.Sorted(maps.Keys(evidenceKinds()))
	for i, name := range kinds {
		faults := pageFaults(name)
		ways := slices.Sorted(maps.Keys(faults))
		for n, how := range ways {
			r := lacking(name+", "+how, name, true, suffering(faults[how]))
			r.aside = !r.fails
			t.Run("one pass, "+r.name, func(t *testing.T) {
				defer r.take(t, e)()
				e.keepsOnce(t, &r)
			})
			if n == 1+i%(len(ways)-1) || name == "nodes" && n == 0 { // an error page takes longer
				all = append(all, r)
			}
		}
	}
	empty := func(page map[string]any) { page["items"] = []any{} }
	all = append(all, removal{name: "nodes, an empty list", take: suffering(editLists("nodes", empty)), aside: true,
		isStored: true, unknown: "nodes"}, removal{name: "pods, an empty list", fails: true, isStored: true,
		take: suffering(editLists("pods", empty))})
	e.begin(t)
	e.play(t, all)
}

// withoutLabel removes a node's label.
func withoutLabel(node string) func(t *testing.T, e *evidence) func() {
	return func(t *testing.T, e *evidence) func() {
		label := func(value string) {
			try(e.Client().CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"kubernetes.io/os":`+value+`}}}`), metav1.PatchOptions{})).must(t)
		}
		label("null")
		return func() { label(`"linux"`) }
	}
}

// registeredAgain deletes a Node object, which is registered again later.
func registeredAgain(node string) func(t *testing.T, e *evidence) func() {
	return func(t *testing.T, e *evidence) func() {
		nodes := e.Client().CoreV1().Nodes()
		old := try(nodes.Get(t.Context(), node, metav1.GetOptions{})).must(t)
		check(t, nodes.Delete(t.Context(), node, metav1.DeleteOptions{}))
		return func() {
			again := try(nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: old.Labels}},
				metav1.CreateOptions{})).must(t)
			again.Status = old.Status
			try(nodes.UpdateStatus(t.Context(), again, metav1.UpdateOptions{})).must(t)
		}
	}
}

// TestRemoval_Nodes takes what shows that a node exists, and what keeps a restore of etcd.
func TestRemoval_Nodes(t *testing.T) {
	t.Parallel()
	e := newEvidence(t)
	e.begin(t, "--fence-timeout=0")
	e.play(t, []removal{
		{name: "a label", take: withoutLabel("worker-2"), aside: true, isStored: true},
		{name: "a Node object", take: registeredAgain("worker-2"), aside: true, isStored: true},
		{name: "the Node object of an address in use", take: registeredAgain("worker-1"), aside: true, isStored: true},
	})
	t.Run("the Lease that keeps a restore", e.loseRestore)
	t.Run("all nodes that --agent-nodes selects", e.selectNothing)
}

// loseRestore deletes the Lease that keeps a restore of etcd while nodes must still report.
func (e *evidence) loseRestore(t *testing.T) {
	const pending = "ip_reconcile_restore_pending_nodes "
	leak := e.up(t, "worker-2", "restored", blue)
	e.report(t, leak.listed(v1alpha1.SandboxReady))
	before := e.contents(t)
	eventually(t, "the next second", func() bool { return time.Now().Nanosecond() < int(100*time.Millisecond) })
	e.annotate(t, kube.RestoreLease, kube.RestoreAnnotation,
		fmt.Sprintf(`{"restored":%q,"why":"a revision ran backwards"}`, time.Now().UTC().Format(time.RFC3339)))
	e.v.is(t, pending, 2)
	e.one.change(func() { e.one.silent = true })
	check(t, e.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Delete(t.Context(), kube.RestoreLease,
		metav1.DeleteOptions{}))
	leak.leak(t)
	e.reportTwo(t, leak.stopped())
	e.v.is(t, pending, 1)
	e.v.counts(t, passesMetric+"{", e.passes()+3)
	e.v.is(t, pending, 1)
	e.checkReleased(t, before)
	eventually(t, "the restore to be kept again", func() bool {
		return e.annotation(t, kube.RestoreLease, kube.RestoreAnnotation) != ""
	})
	e.one.change(func() { e.one.silent = false })
	e.report(t, leak.stopped())
	e.waitReleased(t, promptly, "10.1.0.0-24", strings.TrimPrefix(leak.ips[0], "10.1.0."))
	e.v.is(t, pending, 0)
	e.checkReleased(t, before, stored(leak)...)
}

// selectNothing has a leak that only the reports of all nodes prove.
func (e *evidence) selectNothing(t *testing.T) {
	e.v.stop(t)
	none := []string{"--agent-nodes", "example.com/agent=none", "--confirm-after", "1s"}
	e.v = e.serveInstalled(t, e.kubeconfig, append(none, "--cron", "@every 1s")...)
	leak := e.up(t, "worker-2", "unselected", blue)
	leak.leak(t)
	before := e.contents(t)
	e.v.counts(t, passesMetric+"{", e.passes()+4)
	e.v.said(t, "agent-nodes selects none of 2 nodes")
	out := e.once(t, none[:2]...)
	equal(t, "the verdict of a pass", out.judged(at(leak)).verdict(), "Held NodesUnknown")
	contains(t, "the document", out.stdout, "--agent-nodes selects none of 2 nodes")
	e.checkReleased(t, before)
	e.v.stop(t)
	e.v = e.serveInstalled(t, e.kubeconfig, "--cron", "@every 1s", "--confirm-after", "1s")
	e.waitReleased(t, promptly, "10.1.0.0-24", strings.TrimPrefix(leak.ips[0], "10.1.0."))
	e.checkReleased(t, before, stored(leak)...)
}

// TestRemoval_WithoutAgents takes evidence away where only the API says what runs.
func TestRemoval_WithoutAgents(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	e := &evidence{statusStage: &statusStage{stage: s}, leaksOn: "worker-1", report: func(*testing.T, ...any) {}}
	e.l, e.kubeconfig = s.link(t)
	check(t, s.CreateNAD(t.Context(), blue))
	s.up(t, "worker-1", "live", blue)
	first := s.up(t, "worker-1", "first", blue)
	s.forget(t, first)
	s.unreserve(t, first.ips[0])
	s.up(t, "worker-2", "second", blue)
	e.note(t)
	e.v = s.serve(t, e.kubeconfig, "--cron", "@every 1s", "--confirm-after", "1s")
	e.isWhole(t)
	e.levels = e.statusLevels(t)
	all := []removal{
		{name: "a label", take: withoutLabel("worker-2"), aside: true, isStored: true},
		{name: "a Node object", take: registeredAgain("worker-2"), aside: true, isStored: true},
		{name: "nodes, an empty list", take: suffering(editLists("nodes", func(page map[string]any) {
			page["items"] = []any{}
		})), aside: true, isStored: true, unknown: "nodes"},
	}
	for _, name := range []string{"nodes", "network-attachment-definitions", "pods"} {
		r := lacking(name+" are forbidden", name, true, suffering(just(http.StatusForbidden, func(r *http.Request) bool {
			return path.Base(r.URL.Path) == name
		})))
		r.aside = true
		cut := lacking(name+", a page", name, true, suffering(pageFaults(name)["remainingItemCount without continue"]))
		cut.aside = true
		all = append(all, r, cut)
	}
	e.play(t, all)
	t.Run("the Node object of a node that is not Ready", e.loseUnreachable)
}

// loseUnreachable deletes the Node object for which an address is held, and registers it again within seconds.
func (e *evidence) loseUnreachable(t *testing.T) {
	const held = `ip_reconcile_allocations{reason="NodeUnreachable",verdict="Held"}`
	gone := e.up(t, "worker-2", "gone", blue)
	e.v.is(t, "ip_reconcile_allocations{", float64(e.allocations()+1)) // while the pod exists
	check(t, e.nodes["worker-2"].SetReady(t.Context(), false))
	gone.forceDelete(t)
	e.v.is(t, held, 1)
	before := e.contents(t)
	register := registeredAgain("worker-2")(t, e)
	e.v.counts(t, passesMetric+"{", e.passes()+3)
	e.checkReleased(t, before)
	register()
	e.v.counts(t, passesMetric+"{", e.passes()+3)
	e.v.is(t, held, 1)
	e.checkReleased(t, before)
	check(t, gone.sandbox.Close())
	check(t, e.nodes["worker-2"].SetReady(t.Context(), true))
	equal(t, "what a pass releases", len(e.once(t).Released), 2)
	e.checkReleased(t, before, stored(gone)...)
}
