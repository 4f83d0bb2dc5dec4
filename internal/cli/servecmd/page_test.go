package servecmd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func TestServe_RefusesAPageForEverybody(t *testing.T) {
	for args, isRefused := range map[string]bool{
		"":                                              false,
		"--ui":                                          false,
		"--ui --ui-bind-address=[::1]:0":                false,
		"--ui --ui-bind-address=localhost:9743":         false,
		"--ui --ui-bind-address=127.1.2.3:9743":         false,
		"--ui-bind-address=:9743":                       false,
		"--ui --ui-bind-address=:9743":                  true,
		"--ui --ui-bind-address=0.0.0.0:9743":           true,
		"--ui --ui-bind-address=[::]:9743":              true,
		"--ui --ui-bind-address=10.0.0.1:9743":          true,
		"--ui --ui-bind-address=node:9743":              true,
		"--ui --ui-bind-address=127.0.0.1":              true,
		"--ui --ui-bind-address=0":                      true,
		"--ui --ui-bind-address=:9743 --metrics-secure": false,
	} {
		o := &Options{}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.Add(f, "info")
		o.addPage(f)
		check(t, f.Parse(strings.Fields(args)))
		if err := o.checkPage(); (err != nil) != isRefused {
			t.Errorf("%q: %v", args, err)
		}
	}
}

type fakePage struct{ *http.ServeMux }

func (fakePage) IsPublic(path string) bool { return path == "/ui/" }
func (fakePage) Run(context.Context)       {}

func TestServe_FiltersAllOfThePageButItsFiles(t *testing.T) {
	page := fakePage{http.NewServeMux()}
	page.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	denies := func(*rest.Config, *http.Client) (server.Filter, error) {
		return func(logr.Logger, http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }), nil
		}, nil
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for _, of := range []http.Handler{page, metrics} {
		filter, err := exceptPublic(denies, page)(nil, nil)
		check(t, err)
		h, err := filter(logr.Discard(), of)
		check(t, err)
		for path, want := range map[string]int{"/ui/": http.StatusTeapot, "/ui/data/overview": 401, "/ui/events": 401,
			"/metrics": 401, "/": 401} {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != want {
				t.Errorf("%s: code %d, want %d", path, w.Code, want)
			}
		}
	}
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
