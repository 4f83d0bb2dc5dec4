package agent_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/agent"
)

// The check tries each write of another node's report and Lease, in a dry run. One that is not refused is enough.
func TestStore_CheckPolicy(t *testing.T) {
	const reports = "/apis/ip-reconcile.dev/v1alpha1/sandboxreports"
	const leases = "/apis/coordination.k8s.io/v1/namespaces/own-ns/leases"
	all := []string{"POST " + reports, "PATCH " + reports + "/worker-2", "POST " + leases, "PATCH " + leases + "/worker-2"}
	for name, tc := range map[string]struct {
		answer  map[string]int // by request; others are refused by the policy
		others  []string       // nodes with a report
		asks    []string
		says    string // the error, "" for none
		message string // with which requests are refused
	}{
		"all are refused":        {others: []string{"worker-1", "worker-2"}, asks: all},
		"no other node":          {others: []string{"worker-1"}, asks: []string{all[0], all[2]}},
		"the other has no Lease": {others: []string{"worker-2"}, answer: map[string]int{all[3]: 404}, asks: all},
		"the first other has no Lease": {others: []string{"worker-0", "worker-2"},
			answer: map[string]int{"PATCH " + leases + "/worker-0": 404, all[3]: 200},
			asks:   []string{all[0], "PATCH " + reports + "/worker-0", all[2], "PATCH " + leases + "/worker-0", all[3]},
			says:   "write the Lease of another node"},
		"new reports are accepted": {answer: map[string]int{all[0]: 201}, asks: all[:1],
			says: "write the report of another node"},
		"reports may be changed": {others: []string{"worker-2"}, answer: map[string]int{all[1]: 200}, asks: all[:2],
			says: "write the report of another node"},
		"new Leases are accepted": {others: []string{"worker-2"}, answer: map[string]int{all[2]: 201}, asks: all[:3],
			says: "write the Lease of another node"},
		"Leases may be changed": {others: []string{"worker-2"}, answer: map[string]int{all[3]: 200}, asks: all,
			says: "write the Lease of another node"},
		"RBAC refuses":             {asks: all[:1], message: "no right", says: "check the admission policy"},
		"reports cannot be listed": {answer: map[string]int{"GET " + reports: 500}, says: "check the admission policy"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				request := r.Method + " " + r.URL.Path
				w.Header().Set("Content-Type", "application/json")
				code := tc.answer[request]
				if r.Method == "GET" && code == 0 {
					var list metav1.PartialObjectMetadataList
					for _, n := range tc.others {
						list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: n}})
					}
					json.NewEncoder(w).Encode(list)
					return
				}
				if r.Method != "GET" {
					if asked = append(asked, request); r.URL.Query().Get("dryRun") != "All" {
						t.Errorf("%s is no dry run", request)
					}
				}
				status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure"}
				switch {
				case code == 0:
					code, status.Reason, status.Message = 403, metav1.StatusReasonForbidden, "of its own node only"+tc.message
					if tc.message != "" {
						status.Message = tc.message
					}
				case code == 404:
					status.Reason = metav1.StatusReasonNotFound
				case code < 300:
					status.Status = "Success"
				}
				status.Code = int32(code)
				w.WriteHeader(code)
				json.NewEncoder(w).Encode(status)
			}))
			defer server.Close()
			store, err := agent.NewAPIStore(&rest.Config{Host: server.URL, QPS: -1}, "worker-1", "own-ns")
			check(t, err)
			err = store.CheckPolicy(t.Context())
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if !slices.Equal(asked, tc.asks) {
				t.Errorf("asked %q, want %q", asked, tc.asks)
			}
		})
	}
}
