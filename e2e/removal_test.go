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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// withoutRight takes a verb on a resource from the reconciler's roles. Its open watches end, which would else outlive
// the right.
func withoutRight(verb string, r schema.GroupVersionResource) func(t *testing.T, e *evidence) func() {
	return func(t *testing.T, e *evidence) func() {
		giveBack := e.loses(t, e.statusStage.kubeconfig, r, verb)
		e.l.cut(watchOf(r.Resource))
		return giveBack
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
