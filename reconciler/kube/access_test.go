package kube_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// RBAC may grant Leases by name (leaseNames of the chart), and never a create.
func TestForbiddenLeases(t *testing.T) {
	all := []string{"red-10.1.0.0-24", "whereabouts"}
	for says, c := range map[string]struct {
		granted   []string // verb, or verb and name
		unknown   string
		forbidden []string
		asks      int
		isUnknown bool
	}{
		"all are granted": {granted: []string{"create", "get", "update"}, asks: 3},
		"none":            {granted: nil, forbidden: all, asks: 1},
		"no create":       {granted: []string{"get", "update"}, forbidden: all, asks: 1},
		"one by its name": {granted: []string{"create", "get", "update whereabouts"}, forbidden: all[:1], asks: 5},
		"both by name":    {granted: []string{"create", "get", "update whereabouts", "update red-10.1.0.0-24"}, asks: 5},
		"no update":       {granted: []string{"create", "get"}, forbidden: all, asks: 5},
		"no answer":       {unknown: "create", asks: 1, isUnknown: true},
		"no answer for the second": {granted: []string{"create", "get"}, unknown: "update whereabouts",
			forbidden: all[:1], asks: 5, isUnknown: true},
	} {
		t.Run(says, func(t *testing.T) {
			asked := 0
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				text, err := io.ReadAll(r.Body)
				check(t, err)
				o, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
				check(t, err)
				review := o.(*authorizationv1.SelfSubjectAccessReview)
				asked++
				what := review.Spec.ResourceAttributes
				equal(t, "what", what.Namespace+" "+what.Group+" "+what.Resource, "kube-system coordination.k8s.io leases")
				right := strings.TrimSpace(what.Verb + " " + what.Name)
				if right == c.unknown {
					return nil, errors.New("connection refused")
				}
				review.Status.Allowed = slices.Contains(c.granted, right)
				review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
				body, err := json.Marshal(review)
				return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(strings.NewReader(string(body)))}, err
			})
			cluster := clusterInBubble(t, rest.Config{Transport: transport, QPS: -1},
				kube.Settings{Identity: "us", Log: slog.New(slog.DiscardHandler)})
			forbidden, err := cluster.ForbiddenLeases(impatient(t), "kube-system", all)
			equal(t, "forbidden", forbidden, c.forbidden)
			equal(t, "it is unknown", err != nil, c.isUnknown)
			if !c.isUnknown { // a request that fails is sent again
				equal(t, "requests", asked, c.asks)
			}
		})
	}
}
