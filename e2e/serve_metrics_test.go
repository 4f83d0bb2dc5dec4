//go:build slow

package e2e

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
)

func TestServe_SecureMetrics(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	folder := overlay(t, "", []string{"deployment"}, []string{"components/secure-metrics"}, "")
	v := &server{metrics: freeAddress(t), health: freeAddress(t)}
	v.command = s.beginProduct(t, "serve", "--kubeconfig", s.applied(t, folder), "--metrics-secure",
		"--metrics-bind-address", v.metrics, "--health-probe-bind-address", v.health)
	v.said(t, "reconciler run succeeded")
	s.areForReaders(t, v.metrics, "/metrics", "ip-reconcile-metrics-reader")
}

func TestAgent_SecureMetrics(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	folder := overlay(t, "", []string{"deployment-with-agent"}, []string{"agent/components/secure-metrics"}, "")
	container := firstOf[appsv1.DaemonSet](t, kustomized(t, folder), "DaemonSet").Spec.Template.Spec.Containers[0]
	s.applied(t, folder)
	address, plain := freeAddress(t), freeAddress(t)
	n := newFakeNode(t, "worker-1", critest.Containerd)
	args := slices.Clone(container.Args)
	equal(t, "the program", container.Command, []string{"/ip-reconcile"})
	equal(t, "the address", args[len(args)-1], "--secure-metrics-bind-address=:9747")
	args[len(args)-1] = "--secure-metrics-bind-address=" + address
	s.beginProduct(t, append(args, "--kubeconfig", s.inPod(t, metav1.NamespaceSystem, agentName, "worker-1").kubeconfig,
		"--node", "worker-1", "--outside-pod", "--cri", n.Socket, "--cni-results", n.results, "--cni-multus", n.multus,
		"--netns-dir", n.netns,
		"--metrics-bind-address", plain)...).logOnFailure("worker-1")
	s.areForReaders(t, address, "/metrics", "ip-reconcile-agent-metrics-reader")
	eventually(t, "the node's own kubelet to be told of its health", func() bool {
		response, err := http.Get("http://" + plain + "/healthz")
		return err == nil && response.StatusCode == http.StatusOK && response.Body.Close() == nil
	})
}

// areForReaders checks that metrics, or another path, are served by HTTPS to accounts with the ClusterRole, and to
// nobody else. It returns the token of an account with it.
func (s *stage) areForReaders(t *testing.T, address, path, role string) (token string) {
	t.Helper()
	eventually(t, "the metrics to be served", func() bool { // a short pass is over before the certificate is created
		connection, err := net.Dial("tcp", address)
		return err == nil && connection.Close() == nil
	})
	get := func(token string) int {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
			Timeout: 10 * time.Second}
		request := try(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)).must(t)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		check(t, err)
		check(t, response.Body.Close())
		return response.StatusCode
	}
	tokenFor := func(name string) string {
		t.Helper()
		s.serviceAccount(t, "default", name)
		config := try(clientcmd.LoadFromFile(s.KubeconfigFor(t, "default", name))).must(t)
		for _, user := range config.AuthInfos {
			if user.Token == "" {
				return string(try(os.ReadFile(user.TokenFile)).must(t))
			}
			return user.Token
		}
		return ""
	}
	stranger, reader := tokenFor("stranger"), tokenFor("prometheus")
	s.binds(t, "prometheus", role, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "prometheus"})
	equal(t, "nobody", get(""), http.StatusUnauthorized)
	equal(t, "who has no right", get(stranger), http.StatusForbidden)
	eventually(t, "who has it to get them", func() bool { return get(reader) == http.StatusOK })
	if response, err := http.Get("http://" + address + path); err == nil {
		equal(t, "without TLS", response.StatusCode, http.StatusBadRequest)
	}
	return reader
}
