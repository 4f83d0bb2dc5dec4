//go:build slow

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// changedKubeconfig is a copy of the admin's kubeconfig with something replaced.
func (s *stage) changedKubeconfig(t testing.TB, what, by string) string {
	t.Helper()
	text := string(try(os.ReadFile(s.Kubeconfig())).must(t))
	changed := regexp.MustCompile(what).ReplaceAllString(text, by)
	if changed == text {
		t.Fatalf("the kubeconfig has no %q", what)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, os.WriteFile(path, []byte(changed), 0o600))
	return path
}

// deaf listens and never answers.
func deaf(t testing.TB) string {
	t.Helper()
	l := try(net.Listen("tcp", "127.0.0.1:0")).must(t)
	t.Cleanup(func() { l.Close() })
	return "https://" + l.Addr().String()
}

func TestACommandThatCannotReadTheClusterSaysWhyInOneLine(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	leaked := s.up(t, "worker-1", "leaked", blue).leak(t)
	before, leases := s.contents(t), s.leases(t)
	// A port that nobody listens on: it was free a moment ago.
	free := try(net.Listen("tcp", "127.0.0.1:0")).must(t)
	refused := "https://" + free.Addr().String()
	free.Close()
	silent := deaf(t)
	const server = `server: .*`
	empty := filepath.Join(t.TempDir(), "empty")
	check(t, os.WriteFile(empty, nil, 0o600))
	torn := filepath.Join(t.TempDir(), "torn")
	check(t, os.WriteFile(torn, []byte("apiVersion: v1\nclusters: [\n"), 0o600))

	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"of an API server that is not there":     {[]string{"--kubeconfig", s.changedKubeconfig(t, server, "server: "+refused)}, []string{refused, "cannot be reached", "--kubeconfig"}},
		"of an API server that does not answer":  {[]string{"--kubeconfig", s.changedKubeconfig(t, server, "server: "+silent), "--request-timeout", "300ms"}, []string{silent, "cannot be reached"}},
		"of a name that cannot be resolved":      {[]string{"--kubeconfig", s.changedKubeconfig(t, server, "server: https://nowhere.invalid:6443")}, []string{"nowhere.invalid", "cannot be reached"}},
		"of an authority that it does not trust": {[]string{"--kubeconfig", s.changedKubeconfig(t, `certificate-authority-data: .*`, "tls-server-name: other.invalid")}, []string{"certificate"}},
		"of a wrong token":                       {[]string{"--kubeconfig", s.changedKubeconfig(t, `token: .*`, "token: wrong")}, []string{"does not accept the credentials", "--kubeconfig"}},
		"of a token without any rights":          {[]string{"--kubeconfig", s.powerless(t), "--reconciler-namespace", "kube-system"}, []string{"no right to list", "grant"}},
		"of a context that is not there":         {[]string{"--kubeconfig", s.Kubeconfig(), "--context", "nowhere"}, []string{"nowhere"}},
		"of a kubeconfig that is not there":      {[]string{"--kubeconfig", "/nowhere/kubeconfig"}, []string{"/nowhere/kubeconfig"}},
		"of a kubeconfig that is empty":          {[]string{"--kubeconfig", empty}, []string{"kubeconfig"}},
		"of a kubeconfig that is torn":           {[]string{"--kubeconfig", torn}, []string{torn}},
		"of no kubeconfig at all":                {nil, []string{"no cluster to look at", "--snapshot"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, command := range [][]string{{"run", "--confirm-after", "0"}, {"check", "-o", "json"}, {"explain", leaked.ips[0]}} {
				out := product(t, append(command, c.args...)...)
				out.refuses(t, c.says...)
				if out.took > 20*time.Second {
					t.Errorf("%v took %s to say so", command, out.took)
				}
			}
		})
	}
	s.lost(t, before)
	equal(t, "versions of Leases", s.leases(t), leases)
	s.run(t).exits(t, 0) // for the right ones there is a leak to free
	s.lost(t, before, stored(leaked)...)
}

// powerless is the kubeconfig of a ServiceAccount without any rights of its own.
func (s *stage) powerless(t testing.TB) string {
	t.Helper()
	s.serviceAccount(t, metav1.NamespaceDefault, "powerless")
	return s.KubeconfigFor(t, metav1.NamespaceDefault, "powerless")
}

func TestWithoutTheCRDsOfWhereabouts(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")

	t.Run("for reservations the pools alone are freed", func(t *testing.T) {
		leaked := s.up(t, "worker-1", "leaked", simple("blue", "10.1.0.0/24")).leak(t)
		s.removeCRD(t, harness.Reservations)
		out := s.run(t)
		out.exits(t, 0)
		equal(t, "released", places(out.Released), at(leaked))
		equal(t, "reservations", len(out.Reservations), 0)
	})
	t.Run("for pools nothing can be judged", func(t *testing.T) {
		s.removeCRD(t, harness.IPPools)
		for _, command := range [][]string{{"run", "--confirm-after", "0"}, {"check"}, {"explain", "10.1.0.1"}} {
			s.product(t, command...).refuses(t, "does not serve ippools.whereabouts.cni.cncf.io", "CRDs are not installed")
		}
	})
}
