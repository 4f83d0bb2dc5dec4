package kube_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// byAccept answers LISTs of metadata and of whole objects differently.
func byAccept(heads, whole answer) answer {
	return func(w http.ResponseWriter, r *http.Request, n int) {
		if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			heads(w, r, n)
			return
		}
		whole(w, r, n)
	}
}

func node(name, version, boot string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "uid": "uid-" +
		name, "resourceVersion": version}, "status": map[string]any{"nodeInfo": map[string]any{"bootID": boot}}}
}

func report(name, version string, observed time.Time) map[string]any {
	return map[string]any{"apiVersion": "ip-reconcile.dev/v1alpha1", "kind": "SandboxReport",
		"metadata":   map[string]any{"name": name, "uid": "uid-" + name, "resourceVersion": version},
		"observedAt": observed.UTC().Format(time.RFC3339)}
}

func poolCalled(name, version, podRef string) map[string]any {
	p := pool(version)
	p["metadata"] = map[string]any{"namespace": "kube-system", "name": name, "uid": "uid-" + name,
		"resourceVersion": version}
	entryOf(p)["podref"] = podRef
	return p
}

// wholes returns the field selectors of the requests for whole objects.
func (f *fakeAPI) wholes(path string, since int) []string {
	all := []string{}
	for _, r := range f.requests[since:] {
		if r.URL.Path == path && !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			all = append(all, r.URL.Query().Get("fieldSelector"))
		}
	}
	return all
}

func TestRelist_ReadsOnlyChanges(t *testing.T) {
	now := time.Now()
	f := newFakeAPI(t)
	f.hasAgents()
	f.has(poolCalled("one", "1", "default/a"), poolCalled("two", "2", "default/b"), poolCalled("gone", "3", "default/c"),
		node("worker-1", "1", "boot-1"), node("worker-2", "2", "boot-2"),
		report("worker-1", "1", now), report("worker-2", "2", now))
	lease := func(name string, observed, renewed time.Time) map[string]any {
		return leaseOf(t, name, observed, renewed, renewed)
	}
	f.has(lease("worker-1", now, now), lease("worker-2", now, now))
	c := f.cluster(t)
	before, err := c.List(t.Context())
	check(t, err)
	equal(t, "pools, nodes, reports",
		[]int{len(before.Pools), len(before.Nodes.Or(nil)), len(before.Reports.Or(nil))}, []int{3, 2, 2})

	// Only these have changed: pool two, node worker-2 and its report; a pool is deleted and another is new. worker-1's
	// agent has not renewed for an hour.
	later := now.Add(time.Second)
	f.has(poolCalled("two", "12", "default/changed"), poolCalled("new", "13", "default/d"),
		node("worker-2", "12", "boot-3"), report("worker-2", "12", later),
		lease("worker-1", now, now.Add(-time.Hour)), lease("worker-2", later, now))
	delete(f.api.Objects, fakeapi.At(fakeapi.Pools, "kube-system", "gone"))
	f.mu.Lock()
	since := len(f.requests)
	f.mu.Unlock()
	after, err := c.Relist(t.Context(), before)
	check(t, err)

	podRefs := map[string]string{}
	for _, p := range after.Pools {
		podRefs[p.Name] = p.Find("5").PodRef
	}
	equal(t, "pools", podRefs, map[string]string{"new": "default/d", "one": "default/a", "two": "default/changed"})
	equal(t, "boots", []string{after.Nodes.Or(nil)["worker-1"].BootID, after.Nodes.Or(nil)["worker-2"].BootID},
		[]string{"boot-1", "boot-3"})
	equal(t, "reports", len(after.Reports.Or(nil)), 2)
	for _, r := range after.Reports.Or(nil) {
		equal(t, r.Name+" is fresh", r.IsFresh(after.Now), r.Name == "worker-2")
	}
	equal(t, "pools read in full", len(f.wholes(pools, since))+len(f.wholes(inWhereabouts+"ippools", since)), 2)
	equal(t, "nodes read in full", f.wholes(nodes, since), []string{"metadata.name=worker-2"})
	equal(t, "reports read in full", f.wholes(reports, since), []string{"metadata.name=worker-2"})
	equal(t, "LISTs of Leases", len(f.to(leases)), 2)
}

// After a failed read the earlier object does not count.
func TestRelist_Failure(t *testing.T) {
	f := newFakeAPI(t)
	f.hasAgents()
	f.has(poolCalled("one", "1", "default/a"), node("worker-1", "1", "boot-1"), report("worker-1", "1", time.Now()))
	before, err := f.cluster(t).List(t.Context())
	check(t, err)
	for path, changed := range map[string]map[string]any{
		pools:   {"name": "one", "namespace": "kube-system", "resourceVersion": "2"},
		nodes:   {"name": "worker-1", "resourceVersion": "2"},
		reports: {"name": "worker-1", "resourceVersion": "2"},
	} {
		for name, bad := range map[string]answer{
			"all of it":       fails(http.StatusBadRequest),
			"the changed one": byAccept(list("", map[string]any{"metadata": changed}), fails(http.StatusBadRequest)),
		} {
			f.nowAnswers(bad, path, inWhereabouts+"ippools")
			after, err := f.cluster(t).Relist(t.Context(), before)
			if path == nodes {
				check(t, err)
				equal(t, name+" of the nodes is unknown", !after.Nodes.IsKnown(), true)
			} else if path == reports {
				check(t, err)
				equal(t, name+" of the reports is unreadable",
					[]any{!after.Reports.IsKnown(), len(after.Reports.Or(nil))}, []any{true, 0})
			} else if err == nil {
				t.Errorf("%s of %s: %d pools, %d nodes", name, path, len(after.Pools), len(after.Nodes.Or(nil)))
			}
		}
		f.nowAnswers(f.stored, path)
	}
	f.nowAnswers(fails(http.StatusForbidden), nodes)
	after, err := f.cluster(t).Relist(t.Context(), before)
	check(t, err)
	equal(t, "nodes when they are forbidden", len(after.Nodes.Or(nil)), 0)
}

// What was read before a request that hangs grows old, so Relist ends with its context.
func TestRelist_EndsWithItsContext(t *testing.T) {
	f := newFakeAPI(t)
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	ctx, end := context.WithCancel(t.Context())
	f.nowAnswers(func(_ http.ResponseWriter, r *http.Request, _ int) {
		end()
		<-r.Context().Done()
	}, discovery)
	began := time.Now()
	_, err = f.cluster(t).Relist(ctx, o)
	if took := time.Since(began); err == nil || took >= 5*time.Second { // the client's timeout
		t.Errorf("after %s: %v", took, err)
	}
}
