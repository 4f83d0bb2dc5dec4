package kube_test

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestOwnedByJob(t *testing.T) {
	pod := func(owner string) string {
		return `{"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [{"apiVersion": "v1", "kind": "Pod",
			"metadata": {"namespace": "default", "name": "web-0", "ownerReferences": [` + owner + `]}}]}`
	}
	for name, c := range map[string]struct {
		body       string
		job, there bool
	}{
		"a Job": {pod(`{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", ` +
			`"controller": true}`), true, true},
		"a ReplicaSet": {pod(`{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", ` +
			`"controller": true}`), false, true},
		"a Job of another group": {pod(`{"apiVersion": "example.com/v1", "kind": "Job", "name": "j", "uid": "1", ` +
			`"controller": true}`), false, true},
		"a Job that is no controller": {pod(`{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1"}`), false,
			true},
		"nobody": {pod(``), false, true},
		"no pod": {`{"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}`, false, false},
	} {
		f := newFakeAPI(t)
		asked := ""
		f.answers[podsOfDefault] = func(w http.ResponseWriter, r *http.Request, _ int) {
			asked = r.URL.Query().Get("fieldSelector")
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(c.body))
		}
		job, there, err := f.cluster(t).OwnedByJob(t.Context(), types.NamespacedName{Namespace: "default", Name: "web-0"})
		if job != c.job || there != c.there || err != nil || asked != "metadata.name=web-0" {
			t.Errorf("%s: got %t, %t, %v; asked for %q", name, job, there, err, asked)
		}
	}
}
