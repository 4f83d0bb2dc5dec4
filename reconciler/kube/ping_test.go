package kube_test

import (
	"net/http"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

func TestPing(t *testing.T) {
	f := newFakeAPI(t)
	var filter string
	f.answers[leases] = func(w http.ResponseWriter, r *http.Request, n int) {
		filter = r.URL.Query().Get("fieldSelector")
		object(map[string]any{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
			"metadata": map[string]any{"resourceVersion": "120"},
			"items": []any{map[string]any{"metadata": map[string]any{"name": kube.OwnLease, "uid": "1",
				"resourceVersion": "90"}}}})(w, r, n)
	}
	c := f.cluster(t)
	asks := func(what string, want restore.Answer) {
		t.Helper()
		got, err := c.Ping(t.Context())
		check(t, err)
		equal(t, what, got, want)
	}
	answer := restore.Answer{Revision: 120,
		Lease: restore.LeaseVersion{Name: kube.OwnLease, UID: "1", ResourceVersion: "90"}}
	again := answer
	again.HasReconnected = true
	asks("the first", again)
	equal(t, "it asks for", filter, "metadata.name="+kube.OwnLease)
	asks("over the same connection", answer)
	f.CloseClientConnections()
	_, err := c.List(t.Context()) // others open connections of their own
	check(t, err)
	asks("when that has ended", again)
	asks("the next", answer)

	f.answers[leases] = fails(http.StatusForbidden)
	asks("a refusal", restore.Answer{})
	f.answers[leases] = fails(http.StatusServiceUnavailable)
	if _, err := c.Ping(t.Context()); err == nil {
		t.Errorf("an API server that cannot answer is reachable")
	}
}
