package e2e

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A server is a running `ip-reconcile serve`.
type server struct {
	*command
	metrics, health string
	node            string      // in an installation
	pod             *corev1.Pod // there
}

// serve starts `ip-reconcile serve` and waits until its first full pass is done.
func (s *stage) serve(t testing.TB, kubeconfig string, more ...string) *server {
	t.Helper()
	v := s.beginServe(t, kubeconfig, more...)
	v.passes(t, 1)
	return v
}

func (s *stage) beginServe(t testing.TB, kubeconfig string, more ...string) *server {
	t.Helper()
	v := &server{metrics: freeAddress(t), health: freeAddress(t)}
	v.command = s.beginProduct(t, append([]string{"serve", "--kubeconfig", kubeconfig, "--leader-elect=false", "--cron",
		"0 0 1 1 *",
		"--metrics-bind-address", v.metrics, "--health-probe-bind-address", v.health, "--log-level", "debug",
		"--request-timeout", "5s"}, more...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("serve said:\n%s", shortened(v.stderr.String()))
		}
	})
	return v
}

// freeAddress is an address on which nobody listens, on an IP address of its own, so that nobody takes the port before
// it is used.
func freeAddress(t testing.TB) string {
	t.Helper()
	ip := net.IPv4(127, byte(16+rand.IntN(224)), byte(rand.IntN(256)), byte(1+rand.IntN(254)))
	l := try(net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))).must(t)
	defer l.Close()
	return l.Addr().String()
}

// metric is the sum of all series whose name and labels begin with a text. A space ends the name of a series without
// labels. It is 0 while nobody listens.
func (v *server) metric(series string) float64 {
	// its node may be unreachable
	resp, err := (&http.Client{Timeout: 20 * time.Second}).Get("http://" + v.metrics + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if at := strings.LastIndex(lines.Text(), " ") + 1; strings.HasPrefix(lines.Text()[:at], series) {
			n, _ := strconv.ParseFloat(lines.Text()[at:], 64)
			sum += n
		}
	}
	return sum
}

// counts waits until a metric has reached a value.
func (v *server) counts(t testing.TB, series string, least float64) {
	t.Helper()
	eventuallyWithin(t, 3*time.Minute, fmt.Sprintf("%s to come to %g", series, least),
		func() bool { return v.metric(series) >= least })
}

// is waits until a metric has a value.
func (v *server) is(t testing.TB, series string, want float64) {
	t.Helper()
	eventuallyWithin(t, 3*time.Minute, fmt.Sprintf("%s to be %g", series, want),
		func() bool { return v.metric(series) == want })
}

// passes waits for full passes.
func (v *server) passes(t testing.TB, least float64) {
	t.Helper()
	v.counts(t, `ip_reconcile_passes_total{result="done"}`, least)
}

// said waits for a line in the log. A watch that was refused for long is retried within a minute, and a full pass
// follows.
func (v *server) said(t testing.TB, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	eventuallyWithin(t, 2*time.Minute, "the log to have "+pattern,
		func() bool { return re.MatchString(v.stderr.String()) })
}

// waitReleased waits until an allocation is released and returns how long that took.
func (s *stage) waitReleased(t testing.TB, limit time.Duration, pool, key string) time.Duration {
	t.Helper()
	began := time.Now()
	eventuallyWithin(t, limit, pool+" "+key+" to be released", func() bool {
		_, there := s.contents(t)[pool+" "+key]
		return !there
	})
	return time.Since(began)
}

// event waits for an event with a reason about an object, or "" for any of the kind, and returns its message.
func (s *stage) event(t testing.TB, reason, kind, name string) (message string) {
	t.Helper()
	eventually(t, "an event "+reason+" on "+kind+" "+name, func() bool {
		for _, e := range try(s.Client().CoreV1().Events("").List(context.Background(), metav1.ListOptions{})).must(t).Items {
			if e.Reason == reason && e.InvolvedObject.Kind == kind && (name == "" || e.InvolvedObject.Name == name) {
				message = e.Message
				if reason == "IPAddressGarbageCollected" {
					equal(t, "its type", e.Type, corev1.EventTypeNormal)
				}
				return true
			}
		}
		return false
	})
	return message
}

// promptly is how long a proven release may take after the event: a second or two, and more on a loaded machine. Only
// an event releases within that time: by itself a server observes every 5 min.
const promptly = time.Minute

// holder makes a Cluster that holds Leases under a name.
func (s *stage) holder(t *testing.T, identity string) *kube.Cluster {
	t.Helper()
	return holderThrough(t, s.Config(), identity)
}

// holderThrough is holder by another way to the API server.
func holderThrough(t *testing.T, config *rest.Config, identity string) *kube.Cluster {
	t.Helper()
	return try(kube.New(config, kube.Settings{
		Namespace: "kube-system", Identity: identity, Log: slog.New(slog.DiscardHandler),
		Jitter: func(d time.Duration) time.Duration { return d },
	})).must(t)
}

// heldBy is the holder of a Lease, "" if it has none.
func (s *stage) heldBy(t *testing.T, name string) string {
	t.Helper()
	list := try(s.Client().CoordinationV1().Leases("kube-system").List(context.Background(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + name})).must(t)
	if len(list.Items) == 0 {
		return ""
	}
	return ptr.Deref(list.Items[0].Spec.HolderIdentity, "")
}

// leases are the versions of all Leases except those of the API server itself.
func (s *stage) leases(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, l := range try(s.Client().CoordinationV1().Leases("").List(context.Background(),
		metav1.ListOptions{})).must(t).Items {
		if !strings.HasPrefix(l.Name, "apiserver-") {
			versions[l.Name] = l.ResourceVersion
		}
	}
	return versions
}

// A fenceSeen is what can be observed of a fence after a restore of etcd.
type fenceSeen struct {
	mu                     sync.Mutex
	answered, fenced, open time.Time // when the API server answered again, and when the fence stood and fell
	next                   string    // who had the Lease then; "" for nobody
}

// watchFence watches, from before the API server stops, until a fence has fallen or the test ends.
func (s *stage) watchFence(t *testing.T) *fenceSeen {
	f, ctx, leases := &fenceSeen{}, t.Context(), s.Client().CoordinationV1().Leases(metav1.NamespaceSystem)
	go func() {
		for away := false; ctx.Err() == nil && f.open.IsZero(); time.Sleep(20 * time.Millisecond) {
			asking, cancel := context.WithTimeout(ctx, time.Second)
			l, err := leases.Get(asking, "whereabouts", metav1.GetOptions{})
			cancel()
			answered := err == nil || apierrors.IsNotFound(err)
			if away = away || !answered; !away || !answered {
				continue
			}
			holder := ""
			if err == nil {
				holder = ptr.Deref(l.Spec.HolderIdentity, "")
			}
			held := holder == kube.FenceHolder
			f.mu.Lock()
			if f.answered.IsZero() {
				f.answered = time.Now()
			}
			if held && f.fenced.IsZero() {
				f.fenced = time.Now()
			} else if !held && !f.fenced.IsZero() {
				f.open, f.next = time.Now(), holder
			}
			f.mu.Unlock()
		}
	}()
	return f
}

// stands waits until the fence has stood, and returns how long after the API server's first answer that was.
func (f *fenceSeen) stands(t *testing.T) (after time.Duration) {
	t.Helper()
	eventually(t, "a fence to stand", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		after = f.fenced.Sub(f.answered)
		return !f.fenced.IsZero()
	})
	return after
}

func (f *fenceSeen) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("the API server answered at %s, the fence stood at %s and fell at %s (zero: it did not), to %q",
		f.answered.Format(time.TimeOnly), f.fenced.Format(time.TimeOnly), f.open.Format(time.TimeOnly), f.next)
}

// A statusStage has the product installed from the manifests of deploy. The test plays the controllers, the agents, and
// the leader after its first pass.
type statusStage struct {
	*stage
	one, two   *agent
	live       *pod   // on the node of the first
	kubeconfig string // of the reconciler
}

// writeReports writes the agents' reports.
func (i *statusStage) writeReports(t testing.TB) {
	t.Helper()
	i.one.writeReport(t, i.live.listed(v1alpha1.SandboxReady))
	i.two.writeReport(t)
}

// newStatusStage has a pass recorded, and no reconciler that runs.
func newStatusStage(t *testing.T) *statusStage {
	t.Helper()
	i, v := newServedStage(t)
	v.stop(t)
	return i
}

// newServedStage has a reconciler that runs with the permissions of its ServiceAccount, and has recorded a pass.
func newServedStage(t *testing.T, more ...string) (*statusStage, *server) {
	t.Helper()
	i := newInstalledStage(t)
	return i, i.serveInstalled(t, i.kubeconfig, append([]string{"--repair"}, more...)...)
}

// newInstalledStage has no reconciler that runs.
func newInstalledStage(t *testing.T) *statusStage {
	t.Helper()
	s := newStageWithReports(t, "worker-1", "worker-2")
	kubeconfig := s.applied(t, "../deploy/deployment-with-agent")
	check(t, s.CreateNAD(t.Context(), blue))
	i := &statusStage{stage: s, one: s.agent(t, "worker-1"), two: s.agent(t, "worker-2"), kubeconfig: kubeconfig}
	i.live = s.up(t, "worker-1", "live", blue)
	i.writeReports(t)
	// The Deployment's status is as its controller writes it.
	api := i.Client().AppsV1().Deployments(metav1.NamespaceSystem)
	d := try(api.Get(t.Context(), reconcilerName, metav1.GetOptions{})).must(t)
	d.Status.Replicas, d.Status.ReadyReplicas = 2, 2
	try(api.UpdateStatus(t.Context(), d, metav1.UpdateOptions{})).must(t)
	return i
}

// serveInstalled starts the reconciler and waits until it has recorded a pass.
func (i *statusStage) serveInstalled(t *testing.T, kubeconfig string, more ...string) *server {
	t.Helper()
	v := i.serve(t, kubeconfig, append([]string{"--leader-elect", "--agents=required"}, more...)...)
	eventually(t, "the pass to be recorded", func() bool {
		return i.annotation(t, kube.PassLease, kube.PassAnnotation) != ""
	})
	return v
}

func (i *statusStage) runStatus(t testing.TB, kubeconfig string, more ...string) *outcome {
	t.Helper()
	binary := shipped.program(t, "ip-reconcile")
	cmd := exec.Command(binary, append([]string{"status"}, more...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + kubeconfig}
	return start(t, cmd).wait()
}

func (i *statusStage) annotation(t testing.TB, lease, name string) string {
	t.Helper()
	l, err := i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	check(t, err)
	return l.Annotations[name]
}
