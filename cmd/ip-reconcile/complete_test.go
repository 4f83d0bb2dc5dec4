package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// completed returns what a shell completes, without descriptions.
func completed(t *testing.T, args ...string) (found []string) {
	t.Helper()
	code, out, errs := run(t, append([]string{"__complete"}, args...)...)
	if code != exitClean || strings.Contains(errs, "rror") {
		t.Errorf("%v: exit code %d: %s", args, code, errs)
	}
	for line := range strings.Lines(out) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); !strings.HasPrefix(name, ":") {
			found = append(found, name)
		}
	}
	return found
}

func TestComplete_Snapshot(t *testing.T) {
	for _, c := range []struct {
		args string // the last one is typed
		want []string
	}{
		{"check --pool 10", []string{"10.0.0.0-24"}},
		{"check --pool 10.0.0.0-24,worker", []string{"10.0.0.0-24,worker-1-10.1.0.0-26"}},
		{"pools kube-system/b", []string{"kube-system/broken"}},
		{"run --address 10.1.0.", []string{"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"}},
		{"plan --on-node worker-1", []string{"worker-1"}},
		{"check -n d", []string{"default"}},
		{"release --pod default/db-", []string{"default/db-0", "default/db-1", "default/db-2"}},
		{"release -n default db-", []string{"db-0", "db-1", "db-2"}},
		{"explain default/los", []string{"default/lost"}}, // which no pool has
		{"explain node/worker-6", []string{"node/worker-6"}},
		{"explain pool/kube-system/w", []string{"pool/kube-system/worker-1-10.1.0.0-26"}},
		{"explain nodes/worker-6", []string{"nodes/worker-6"}},
		{"explain po/default/los", []string{"po/default/lost"}},
		{"explain los", []string{"lost"}},
		{"explain 10.0.0.20 10.0.0.21", []string{"10.0.0.21"}},
		{"explain PodR", []string{"PodReplaced"}},
		{"check --reason PodGone,PodR", []string{"PodGone,PodReplaced"}},
		{"check nothing", nil},
	} {
		words := strings.Fields(c.args)
		args := slices.Concat(words[:1], []string{"--snapshot", sample}, words[1:])
		if got := completed(t, args...); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
	}
}

// The reasons are those of the verdict table. The help names each, too.
func TestComplete_ReasonsOfOverride(t *testing.T) {
	all := judge.OverridableReasons()
	for reason, want := range map[string]bool{"NodesUnknown": true, "NodeUnreachable": true, "PodGone": false} {
		if slices.Contains(all, reason) != want {
			t.Errorf("the verdict table has %q", all)
		}
	}
	if got := completed(t, "release", "--override", ""); !slices.Equal(got, all) {
		t.Errorf("completed are %q, want %q", got, all)
	}
	_, help, _ := run(t, "release", "--help")
	for _, reason := range all {
		if !strings.Contains(help, reason) {
			t.Errorf("the help does not name %s", reason)
		}
	}
}

func TestComplete_Contexts(t *testing.T) {
	config := kubeconfigOf(t, "https://192.0.2.1")
	for _, command := range []string{"check", "status", "serve", "agent"} {
		if got := completed(t, command, "--kubeconfig", config, "--context", ""); strings.Join(got, " ") != "lab production" {
			t.Errorf("%s: got %q", command, got)
		}
	}
}

func TestComplete_Cluster(t *testing.T) {
	server := &fakeapi.Client{Server: fakeapi.NewServer()}
	server.Put(fakeapi.At(fakeapi.Pools, "kube-system", "10.0.0.0-24"), fakeapi.Decode([]byte(
		`{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","spec":{"range":"10.0.0.0/24",`+
			`"allocations":{"7":{"id":"a","podref":"default/web-0"}}}}`)), server.Now(), "whereabouts")
	server.Instead = func(q *fakeapi.Request) *fakeapi.Answer { // RBAC forbids all other kinds
		if q.Resource == fakeapi.Pools {
			return nil
		}
		a := fakeapi.Failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no")
		return &a
	}
	api := httptest.NewServer(server)
	t.Cleanup(api.Close)
	config := kubeconfigOf(t, api.URL)
	want := "10.0.0.7 default/web-0 pool/kube-system/10.0.0.0-24"
	if got := strings.Join(completed(t, "explain", "--kubeconfig", config, ""), " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A shell gets nothing, in time, where nothing can be read.
func TestComplete_NothingOnAnError(t *testing.T) {
	t.Parallel() // it waits
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(release) })
	for name, args := range map[string][]string{
		"no kubeconfig": {"--kubeconfig", t.TempDir() + "/none"},
		"no server":     {"--kubeconfig", kubeconfigOf(t, "https://"+nobody)},
		"no answer":     {"--kubeconfig", kubeconfigOf(t, hangs.URL)},
		"no snapshot":   {"--snapshot", t.TempDir()},
		"stdin":         {"--snapshot", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			for _, typed := range [][]string{{""}, {"--pod-namespace", ""}} {
				if got := completed(t, slices.Concat([]string{"explain"}, args, typed)...); len(got) > 0 {
					t.Errorf("got %q", got)
				}
			}
			if took := time.Since(began); took > 2*completeWithin+2*time.Second {
				t.Errorf("two completions took %s", took)
			}
		})
	}
}
