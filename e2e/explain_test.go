//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// explanation is what explain -o json has beyond an outcome.
type explanation struct {
	Advice []struct {
		Why     string `json:"why"`
		Command string `json:"command"`
	} `json:"advice"`
}

// explain runs explain as the admin and checks that kubectl accepts every advised command.
func (s *stage) explain(t *testing.T, subject string) *explanation {
	t.Helper()
	out := s.product(t, "explain", subject)
	out.exits(t, 0)
	e := &explanation{}
	check(t, json.Unmarshal([]byte(out.stdout), e))
	if len(e.Advice) == 0 {
		t.Errorf("explain %s advises nothing", subject)
	}
	for _, a := range e.Advice {
		if strings.HasPrefix(a.Command, "kubectl ") {
			s.shell(t, a.Command+" --help")
		}
	}
	return e
}

// shell runs a command as a user would who has copied it.
func (s *stage) shell(t *testing.T, command string) {
	t.Helper()
	if out, err := s.tryShell(t, command); err != nil {
		t.Errorf("%q: %v\n%s", command, err, shortenedTo(600, out))
	}
}

func (s *stage) tryShell(t *testing.T, command string) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Symlink(s.KubectlProgram(), filepath.Join(dir, "kubectl")))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "KUBECONFIG="+s.Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The test changes the records as a restore of etcd does. The pods have their addresses from the real plugin, and the
// reports are as agents write them.
func TestConflict_EndsInTheOrderOfTheDocs(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	one, two := s.agent(t, "worker-1"), s.agent(t, "worker-2")
	// both starts two pods with one address. The second has the allocation.
	both := func(t *testing.T) (first, second *pod) {
		check(t, s.CreateNAD(t.Context(), blue))
		first = s.up(t, "worker-1", "first", blue)
		s.forget(t, first)
		s.unreserve(t, first.ips[0])
		second = s.up(t, "worker-2", "second", blue)
		equal(t, "the second's address", second.ips, first.ips)
		one.writeReport(t, first.listed(v1alpha1.SandboxReady))
		two.writeReport(t, second.listed(v1alpha1.SandboxReady))
		return first, second
	}
	over := func(t *testing.T, ip string) {
		t.Helper()
		if found := s.product(t, "explain", ip).found("Conflict"); len(found) > 0 {
			t.Errorf("it is not over: %+v", found)
		}
	}

	s.play(t, "the pod that the entry names keeps the address", func(t *testing.T) {
		first, second := both(t)
		before := s.contents(t)
		steps := s.explain(t, second.ips[0]).Advice
		contains(t, "what is said", steps[0].Why, "default/second keeps "+second.ips[0])
		contains(t, "the first command", steps[1].Command, "delete pod -n default first")
		s.shell(t, steps[1].Command+" --wait=false")
		first.del(t)
		check(t, first.sandbox.Close())
		first.forceDelete(t)
		one.writeReport(t, first.gone())
		over(t, second.ips[0])
		s.checkReleased(t, before)
	})

	s.play(t, "of a phantom that the entry names, the pod gives it up first", func(t *testing.T) {
		pod, phantom := both(t)
		phantom.forceDelete(t)
		pod.forceDelete(t)
		pod.del(t)
		again := s.up(t, "worker-1", "again", blue)
		equal(t, "what it is given instead", again.ips, []string{"10.1.0.2"})
		one.writeReport(t, again.listed(v1alpha1.SandboxReady))
		over(t, phantom.ips[0])
		before := s.contents(t)
		phantom.del(t) // the runtime does this for crictl stopp
		s.checkReleased(t, before, stored(phantom)...)
	})

}

// person is the kubeconfig of a user with one of the ClusterRoles of the manifests.
func (s *stage) person(t *testing.T, role string) (kubeconfig string) {
	t.Helper()
	rules := as[rbacv1.ClusterRole](t, byName(t, kustomized(t, "../deploy/base"))["ClusterRole "+role]).Rules
	return s.account(t, "somebody-with-"+role, rules)
}

func TestRBAC_ClusterRolesForPeople(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	s.applied(t, "../deploy/deployment-with-agent")
	check(t, s.CreateNAD(t.Context(), blue))
	node := s.agent(t, "worker-1")
	leaked, live := s.up(t, "worker-1", "leaked", blue), s.up(t, "worker-1", "live", blue)
	node.writeReport(t, leaked.stopped(), live.listed(v1alpha1.SandboxReady))
	leaked.leak(t)
	viewer := s.person(t, "ip-reconcile-check")
	for _, args := range [][]string{{"check"}, {"explain", leaked.ips[0]}, {"explain", "default/live"}, {"pools"},
		{"status"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			out := product(t, append(args, "--kubeconfig", viewer)...)
			if out.code > 1 {
				t.Errorf("it ended with %d", out.code)
			}
			text := unwrapped(out.stdout + out.stderr)
			// Only an account that may ask about others is shown their permissions.
			text = strings.ReplaceAll(text, "rights is unknown", "")
			containsNot(t, "what it says", text, "cannot list", "cannot get", "is unknown")
		})
	}
	before := s.contents(t)
	s.productAs(t, viewer, "run", "--confirm-after", "0").exits(t, 1)
	s.checkReleased(t, before)

	s.forget(t, live)
	forgotten := s.contents(t)
	recovers := s.person(t, "ip-reconcile-recover")
	product(t, "recover", "--yes", "--reconciler-namespace", metav1.NamespaceSystem, "--kubeconfig", recovers).exits(t, 0)
	equal(t, "entries that were written back", len(s.contents(t))-len(forgotten), 1)
	s.productAs(t, recovers, "run").exits(t, 0)
	s.checkReleased(t, before, stored(leaked)...)
}

func TestRBAC_ViewMayRunCheck(t *testing.T) {
	t.Parallel()
	const label = "rbac.authorization.k8s.io/aggregate-to-view"
	role := as[rbacv1.ClusterRole](t, byName(t, installed(t, ""))["ClusterRole ip-reconcile-check"])
	equal(t, "the label", role.Labels[label], "")
	wanted := byName(t, installed(t, "people: {aggregateToView: true}"))
	role = as[rbacv1.ClusterRole](t, wanted["ClusterRole ip-reconcile-check"])
	equal(t, "the label if it is wanted", role.Labels[label], "true")
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			if verb != "get" && verb != "list" {
				t.Errorf("who views may %s %v", verb, r.Resources)
			}
		}
		for _, resource := range r.Resources {
			if resource == "secrets" || resource == "*" {
				t.Errorf("who views may read %s", resource)
			}
		}
	}
}
