package kube_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// What a failed read has read until then may show a restore of etcd that no later read shows.
func TestVersions_OfAReadThatFails(t *testing.T) {
	changed := list("", map[string]any{"metadata": map[string]any{"name": "10.0.0.0-24", "namespace": "kube-system",
		"resourceVersion": "6"}})
	pageOfPools := []string{"IPPool kube-system/10.0.0.0-24 6", "the list of IPPools 100"}
	for says, c := range map[string]struct {
		fails   map[string]answer
		read    func(ctx context.Context, c *kube.Cluster) (versions []facts.Version, err error)
		want    []string
		isWhole bool // it does not fail
	}{
		"a list of pods": {fails: map[string]answer{pods: fails(http.StatusBadRequest)}, read: lists, want: append(
			pageOfPools, "SandboxReport worker-1 3", "Lease worker-1 4")},
		"a later page of pools": {fails: map[string]answer{pools: first(list("more", pool("6")),
			fails(http.StatusBadRequest))}, read: lists, want: pageOfPools},
		"a pool that has changed": {fails: map[string]answer{pools: byAccept(changed, nil),
			inWhereabouts + "ippools": fails(http.StatusBadRequest)}, read: relists, want: pageOfPools},
		"a later page of reports": {fails: map[string]answer{reports: first(list("more", report("worker-1", "3", time.Now())),
			fails(http.StatusBadRequest))}, read: lists, want: append(pageOfPools, "SandboxReport worker-1 3"), isWhole: true},
		"a live read of a pod": {fails: map[string]answer{onePod: fails(http.StatusBadRequest)}, read: reads,
			want: pageOfPools[:1]},
		"a live read of the rest of a pool": {fails: map[string]answer{onePool: func(w http.ResponseWriter,
			r *http.Request, n int) {
			a := fails(http.StatusBadRequest)
			if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
				a = object(pool("6"))
			}
			a(w, r, n)
		}}, read: reads, want: pageOfPools[:1]},
	} {
		t.Run(says, func(t *testing.T) {
			f := newFakeAPI(t)
			f.hasAgents()
			lease := leaseOf(t, "worker-1", time.Now(), time.Now(), time.Now())
			lease["metadata"].(map[string]any)["resourceVersion"] = "4"
			f.has(pool("6"), report("worker-1", "3", time.Now()), lease)
			for path, a := range c.fails {
				f.answers[path] = a
			}
			versions, err := c.read(t.Context(), f.cluster(t))
			if (err == nil) != c.isWhole {
				t.Fatalf("the error is %v", err)
			}
			got := map[string]bool{}
			for _, v := range versions {
				got[v.Object+" "+v.ResourceVersion] = true
			}
			for _, want := range c.want {
				if !got[want] {
					t.Errorf("%s is not among %v", want, got)
				}
			}
		})
	}
}

func lists(ctx context.Context, c *kube.Cluster) ([]facts.Version, error) {
	o, err := c.List(ctx)
	return o.Versions, err
}

func relists(ctx context.Context, c *kube.Cluster) ([]facts.Version, error) {
	o, err := c.Relist(ctx, observed())
	return o.Versions, err
}

func reads(ctx context.Context, c *kube.Cluster) ([]facts.Version, error) {
	live, err := c.GetLive(ctx, observed(), need)
	return live.Versions, err
}
