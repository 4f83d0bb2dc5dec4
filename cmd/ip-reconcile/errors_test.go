package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfigOf is a kubeconfig file for a server.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: lab,
  contexts: [{name: lab, context: {cluster: lab, user: me}}, {name: production, context: {cluster: lab, user: me}}],
  clusters: [{name: lab, cluster: {server: %q}}], users: [{name: me, user: {token: secret}}]}`, server))
	return path
}

// serving is a server that gives the same answer to all.
func serving(t *testing.T, code int, kind, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// withoutWhereabouts is an API server that has nothing, and does not know whereabouts' kinds.
func withoutWhereabouts(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/v1/") {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`)
	}))
	t.Cleanup(s.Close)
	return s
}

func status(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d}`, reason, code)
}

func TestAKubeconfigThatIsWrongIsNamedWithWhatToGiveInstead(t *testing.T) {
	dir := t.TempDir()
	config := kubeconfigOf(t, "https://192.0.2.1")
	changed := func(name, was, is string) string {
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		write(t, path, strings.Replace(string(text), was, is, 1))
		return path
	}
	garbage := filepath.Join(dir, "garbage")
	write(t, garbage, "\x7fELF, no YAML: [")
	empty := filepath.Join(dir, "empty")
	write(t, empty, "")
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"without a current context", []string{"--kubeconfig", changed("none", "current-context: lab", `current-context: ""`)}, []string{"none has no current-context", "--context", "lab, production"}},
		{"a current context that is not there", []string{"--kubeconfig", changed("other", "current-context: lab", `current-context: gone`)}, []string{`"gone" as current-context`, "lab, production"}},
		{"--context that is not there", []string{"--kubeconfig", config, "--context", "prodution"}, []string{`--context "prodution"`, "did you mean production?", "lab, production"}},
		{"a cluster that is not there", []string{"--kubeconfig", changed("cluster", "cluster: lab, user", `cluster: gone, user`)}, []string{"kubeconfig", "gone"}},
		{"a folder", []string{"--kubeconfig", dir}, []string{"kubeconfig", dir, "is a directory", "--kubeconfig"}},
		{"garbage", []string{"--kubeconfig", garbage}, []string{"kubeconfig", garbage, "--kubeconfig"}},
		{"an empty file", []string{"--kubeconfig", empty}, []string{empty, "names no cluster"}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, append([]string{"check"}, c.args...), c.want) })
	}
	t.Run("none at all", func(t *testing.T) {
		t.Setenv("KUBECONFIG", filepath.Join(dir, "nowhere"))
		refused(t, []string{"check"}, []string{"no kubeconfig was found", "--kubeconfig", "--snapshot"})
		refused(t, []string{"check", "--context", "lab"}, []string{`no context "lab"`, "no kubeconfig was found"})
	})
}

func TestAnAPIServerThatRefusesIsExplainedWithWhatToDo(t *testing.T) {
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	for _, c := range []struct {
		name   string
		server string
		want   []string
	}{
		{"an expired token", serving(t, 401, "application/json", status(401, "Unauthorized")).URL, []string{"does not accept the credentials", "log in again"}},
		{"no rights", serving(t, 403, "application/json", status(403, "Forbidden")).URL, []string{"no right to list", "grant"}},
		{"no CRD", withoutWhereabouts(t).URL, []string{"does not serve ippools.whereabouts.cni.cncf.io", "not installed", "--context"}},
		{"no API server", serving(t, 404, "text/plain", "404 page not found\n").URL, []string{"does not serve", "--context"}},
		{"an unknown authority", stranger.URL, []string{"is not trusted", "authority", "--certificate-authority"}},
		{"nobody there", "https://" + freeAddress(t), []string{"cannot be reached", "connection refused", "--context"}},
		{"no such host", "https://api.invalid", []string{"cannot be reached", "api.invalid"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused(t, []string{"check", "--kubeconfig", kubeconfigOf(t, c.server)}, c.want)
		})
	}
	t.Run("no answer", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		refused(t, []string{"check", "--request-timeout", "100ms", "--kubeconfig", kubeconfigOf(t, "https://"+l.Addr().String())}, []string{"cannot be reached", l.Addr().String()})
	})
}

func TestAWebPageInPlaceOfAnAnswerIsNamedWithItsHost(t *testing.T) {
	const page = "<!DOCTYPE html><html><head><style>b{}</style><title>Sign in to Corp SSO</title></head><body>Please enter</body></html>"
	login := serving(t, 200, "text/html; charset=utf-8", page)
	redirect := httptest.NewServer(http.RedirectHandler(login.URL+"/login", http.StatusFound))
	t.Cleanup(redirect.Close)
	for name, server := range map[string]*httptest.Server{
		"a login page": login, "a redirect to one": redirect,
		"one with 403": serving(t, 403, "text/html", page), "one with 404": serving(t, 404, "text/html", page), "one with 401": serving(t, 401, "text/html", page),
	} {
		host := server.Listener.Addr().String()
		if server == redirect {
			host = login.Listener.Addr().String()
		}
		t.Run(name, func(t *testing.T) {
			refused(t, []string{"check", "--kubeconfig", kubeconfigOf(t, server.URL)}, []string{host, "web page", "Sign in to Corp SSO", "proxy"})
		})
	}
}

func TestACommandLineWithATypoIsAnsweredWithWhatWasMeant(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"a command", []string{"chekc"}, []string{`unknown command "chekc"`, "did you mean check?"}},
		{"an address as a command", []string{"10.0.0.7"}, []string{"ip-reconcile explain 10.0.0.7"}},
		{"an address for check", []string{"check", "10.0.0.7"}, []string{"check takes no arguments", `"10.0.0.7"`, "ip-reconcile explain 10.0.0.7"}},
		{"arguments for run", []string{"run", "now", "please"}, []string{"run takes no arguments", `"now please"`}},
		{"a flag", []string{"run", "--dryrun"}, []string{"unknown flag: --dryrun", "did you mean --dry-run?", "run --help"}},
		{"one of kubectl's flags", []string{"check", "--contxt", "a"}, []string{"did you mean --context?"}},
		{"an output", []string{"check", "-o", "tabel", "--snapshot", sample}, []string{`--output "tabel"`, "must be table, wide, json", "did you mean table?"}},
		{"two filters", []string{"check", "-A", "-n", "default", "--snapshot", sample}, []string{"--all-namespaces", "--pod-namespace"}},
		{"two names of one flag", []string{"check", "--namespace", "a", "--reconciler-namespace", "b", "--snapshot", sample}, []string{"--namespace", "--reconciler-namespace"}},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.args, c.want) })
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
