package servecmd

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// An API server that knows a reader and a stranger, and fails for everybody else.
func reviews(t *testing.T) *rest.Config {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Spec struct {
				Token                 string
				User                  string
				Groups                []string
				NonResourceAttributes struct{ Path, Verb string }
			}
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &asked)
		answer := map[string]any{}
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			switch asked.Spec.Token {
			case "of the reader", "of a stranger", "of nobody's rights":
				answer = map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
					"status": map[string]any{"authenticated": true, "user": map[string]any{"username": asked.Spec.Token, "groups": []string{"g"}}}}
			case "forged":
				answer = map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": map[string]any{"authenticated": false, "error": "forged"}}
			default:
				w.WriteHeader(http.StatusInternalServerError)
			}
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			s := asked.Spec
			if s.User == "of nobody's rights" {
				w.WriteHeader(http.StatusForbidden)
				break
			}
			answer = map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
				"status": map[string]any{"allowed": s.User == "of the reader" && len(s.Groups) == 1 && s.NonResourceAttributes.Path == "/metrics" && s.NonResourceAttributes.Verb == "get"}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(api.Close)
	return &rest.Config{Host: api.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func TestMetricsAreForWhoMayGetThemAndNobodyElse(t *testing.T) {
	filter, err := authorized(reviews(t), http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }))
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]int{
		"Bearer of the reader": http.StatusOK, "bearer of the reader": http.StatusOK, "Bearer of a stranger": http.StatusForbidden,
		"Bearer forged": http.StatusUnauthorized, "": http.StatusUnauthorized, "Bearer": http.StatusUnauthorized, "Basic of the reader": http.StatusUnauthorized,
		"Bearer that ends in an error": http.StatusInternalServerError, "Bearer of nobody's rights": http.StatusInternalServerError,
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want || (w.Body.String() == "metrics") != (want == http.StatusOK) {
			t.Errorf("%q: %d %s, want %d", header, w.Code, w.Body, want)
		}
	}
}
