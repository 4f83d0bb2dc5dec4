package e2e

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

func TestSecureMetricsAreForWhoMayGetThem(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	folder := overlay(t, "", []string{"deployment"}, []string{"components/secure-metrics"}, "")
	v := &server{metrics: freeAddress(t), health: freeAddress(t)}
	v.command = begin(t, "serve", "--kubeconfig", s.applied(t, folder), "--metrics-secure", "--metrics-bind-address", v.metrics, "--health-probe-bind-address", v.health)
	v.said(t, "reconciler run succeeded")
	eventually(t, "the metrics to be served", func() bool { // a short pass is over before the certificate is made
		connection, err := net.Dial("tcp", v.metrics)
		return err == nil && connection.Close() == nil
	})

	get := func(token string) int {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 10 * time.Second}
		request := try(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+v.metrics+"/metrics", nil)).must(t)
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
		try(s.Client().CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})).must(t)
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
	try(s.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ip-reconcile-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "prometheus"}},
	}, metav1.CreateOptions{})).must(t)
	equal(t, "nobody", get(""), http.StatusUnauthorized)
	equal(t, "who has no right", get(stranger), http.StatusForbidden)
	eventually(t, "who has it to get them", func() bool { return get(reader) == http.StatusOK })
	if response, err := http.Get("http://" + v.metrics + "/metrics"); err == nil {
		equal(t, "without TLS", response.StatusCode, http.StatusBadRequest)
	}
}
