//go:build slow

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func TestUI_ServeAsksForAToken(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	check(t, s.CreateNAD(t.Context(), simple("blue", "10.1.0.0/24")))
	s.up(t, "worker-1", "leaked", simple("blue", "10.1.0.0/24")).leak(t)
	s.product(t, "run", "--confirm-after", "0").exits(t, 0)
	s.up(t, "worker-1", "web", simple("blue", "10.1.0.0/24"))
	folder := overlay(t, "", []string{"deployment"}, []string{"components/secure-metrics", "components/ui"}, "")
	kubeconfig := s.applied(t, folder)
	address, plain, idle := freeAddress(t), freeAddress(t), freeAddress(t)
	serve := func(listen string, flags ...string) *server {
		v := &server{metrics: freeAddress(t), health: freeAddress(t)}
		v.command = s.beginProduct(t, append([]string{"serve", "--kubeconfig", kubeconfig, "--ui", "--ui-bind-address",
			listen, "--metrics-bind-address", v.metrics, "--health-probe-bind-address", v.health}, flags...)...)
		return v
	}
	s.mustKubectl(t, "patch", "leases.coordination.k8s.io", "ip-reconcile", "-n", "kube-system", "--type=merge", "-p",
		fmt.Sprintf(`{"spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600, "renewTime": %q}}`,
			time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))) // so that one replica makes no pass
	serve(idle, "--metrics-secure").said(t, "Serving the page")
	serve(address, "--metrics-secure", "--leader-elect=false").said(t, "reconciler run succeeded")
	serve(plain, "--leader-elect=false").said(t, "reconciler run succeeded")
	token := s.areForReaders(t, address, "/ui/data/overview", "ip-reconcile-ui-reader")
	b := newBrowser(t)
	b.open("https://" + address + "/ui/")
	b.shows("h1", "Sign in")
	b.do(chromedp.SendKeys("#token", token+"\r"))
	service := "https://" + asService(t, idle, address) + "/ui/"
	for _, url := range []string{"", service, "http://" + plain + "/ui/"} {
		if url != "" {
			b.open(url)
		}
		if url == service {
			b.shows("h1", "Sign in")
			b.do(chromedp.SendKeys("#token", token+"\r"))
		}
		b.shows("h1", "Overview")
		b.shows("#time", "Judged at ", " ago")
		b.shows("main", "1 allocation in 1 pool", "kube-system/10.1.0.0-24")
		b.click("History")
		b.shows("main", "Released", "10.1.0.1", "default/leaked", "PodGone")
		b.click("Overview")
	}
	s.up(t, "worker-1", "later", simple("blue", "10.1.0.0/24"))
	b.shows("main", "2 allocations in 1 pool: none is stale.") // without a reload
	b.open("http://" + plain + "/ui/#/pool/kube-system%2F10.1.0.0-24")
	b.shows(".legend", "2 in use")
	evaluate[bool](b, `(() => {
		const e = document.getElementById("change-range");
		e.focus();
		e.select();
		return document.execCommand("insertText", false, "10.1../25") && e.setSelectionRange(5, 5) === undefined;
	})()`)
	s.up(t, "worker-1", "last", simple("blue", "10.1.0.0/24"))
	b.shows(".legend", "3 in use")
	b.do(chromedp.KeyEvent("0"))
	equal(t, "what is typed beside newer data", evaluate[string](b, `document.getElementById("change-range").value`),
		"10.1.0./25")
	for _, path := range []string{"/ui/", "/ui/data/overview", "/metrics"} {
		code := statusOf(t, "http://"+plain+path, "rebound.example.com")
		equal(t, "a host of somebody else asks for "+path, code, http.StatusForbidden)
	}
}

// "etcd was restored: is it safe, and what is missing?" is answered within three clicks.
func TestUI_AnswersAfterARestore(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	one := s.agent(t, "worker-1")
	newer := s.up(t, "worker-1", "newer", blue)
	restored := time.Now().UTC().Format(time.RFC3339)
	newer.forceDelete(t) // it is not in the backup, and runs
	leases := try(s.Client().CoordinationV1().Leases(harness.LeaseNamespace).List(t.Context(),
		metav1.ListOptions{})).must(t)
	try(s.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: kube.RestoreLease, Annotations: map[string]string{
			kube.RestoreAnnotation: fmt.Sprintf(`{"id":"k3f7q2m9xa","restored":%q,"why":"a revision ran backwards","since":%q}`,
				restored, leases.ResourceVersion)}},
	}, metav1.CreateOptions{})).must(t)
	one.writeReport(t, newer.listed(v1alpha1.SandboxReady))
	b := newBrowser(t)
	_, url := ui(t, "--kubeconfig", s.Kubeconfig())
	b.open(url)
	b.shows("main", "Nothing is released: etcd was restored",
		"Releases are paused: etcd was restored (restore k3f7q2m9xa, detected at "+restored,
		"until these nodes report: worker-2", "docs/operate/restore.md", "Phantom", "default/newer")
	b.click("Explain " + newer.ips[0])
	b.shows("main", "Address "+newer.ips[0], "PhantomPod", "EtcdRestored")
}

// asService forwards connections to one of the addresses, as a Service does: the first four to the first one, and all
// others to the second. It returns its own address.
func asService(t *testing.T, addresses ...string) string {
	t.Helper()
	listener := try(net.Listen("tcp", "127.0.0.1:0")).must(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for i := 0; ; i++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addresses[min(i/4, len(addresses)-1)])
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return listener.Addr().String()
}

func statusOf(t *testing.T, url, host string) int {
	t.Helper()
	request := try(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)).must(t)
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	check(t, response.Body.Close())
	return response.StatusCode
}
