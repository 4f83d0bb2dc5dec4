//go:build slow

package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// keepAdding makes ADDs for pods and retries each until it succeeds, as kubelet does. It returns a counter and a
// function that waits for all.
func keepAdding(pods []*pod, n harness.Network) (ended func() int, wait func(t testing.TB)) {
	var done atomic.Int64
	var all sync.WaitGroup
	var last atomic.Value
	for _, p := range pods {
		all.Go(func() {
			var err error
			if p.sandbox, err = p.node.NewSandbox(); err != nil {
				last.Store(err)
				return
			}
			for range 100 {
				err = p.add(harness.Attachment{Sandbox: p.sandbox, Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID),
					IfName: "net1", Network: n})
				if err == nil {
					done.Add(1)
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			last.Store(err)
		})
	}
	return func() int { return int(done.Load()) }, func(t testing.TB) {
		t.Helper()
		all.Wait()
		if n := int(done.Load()); n < len(pods) {
			t.Errorf("%d of %d ADDs succeeded: %v", n, len(pods), last.Load())
		}
	}
}

// lowered waits until no fence stands.
func (s *stage) lowered(t *testing.T) {
	t.Helper()
	eventuallyWithin(t, 2*time.Minute, "the fence to be lowered",
		func() bool { return s.heldBy(t, "whereabouts") != kube.FenceHolder })
}

// TestFence_StandsAtOnceAfterARestore measures the time from the API server's first answer to the fence, with a
// leader and a standby replica.
func TestFence_StandsAtOnceAfterARestore(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.up(t, "worker-1", "keep", blue)
	replicas := []*server{s.replica(t, s.Kubeconfig(), "--repair"), s.replica(t, s.Kubeconfig(), "--repair")}
	var times []time.Duration
	slipped, waited := 0, []time.Duration(nil)
	for i := range 3 {
		newcomers := []*pod{s.bare(t, "worker-1", "newcomer-"+strconv.Itoa(2*i)), s.bare(t, "worker-1", "newcomer-"+
			strconv.Itoa(2*i+1))}
		restore := s.backup(t)
		late := s.up(t, "worker-1", "late-"+strconv.Itoa(i), blue) // newer than the backup
		eventuallyWithin(t, 2*time.Minute, "both replicas to watch", func() bool {
			for i, v := range replicas {
				if !v.runs() {
					replicas[i] = s.replica(t, s.Kubeconfig(), "--repair")
				}
			}
			return replicas[0].ready() && replicas[1].ready()
		})
		time.Sleep(2 * time.Second) // for a pulse that reads the newest revision
		fence := s.watchFence(t)
		ended, wait := keepAdding(newcomers, blue)
		restore()
		times = append(times, fence.stands(t))
		slipped += ended()
		began := time.Now()
		wait(t)
		waited = append(waited, time.Since(began))
		s.lowered(t)
		for _, p := range append(newcomers, late) {
			check(t, p.sandbox.Close())
		}
	}
	slices.Sort(times)
	slices.Sort(waited)
	t.Logf("%d restores: the fence stood %s after the API server's first answer at the median, %s at the longest; %d "+
		"of %d ADDs that had been waiting for it were done before; the others ended %s after it stood at the median",
		len(times), median(times).Round(time.Millisecond), longest(times).Round(time.Millisecond), slipped, 2*len(times),
		median(waited).Round(time.Millisecond))
	if median(times) > 15*time.Second { // the aim is 2 s on a machine that is not slow
		t.Error("that is too late")
	}
	for _, v := range replicas {
		if n := v.metric(`ip_reconcile_fences_total{outcome="TimedOut"}`); n > 0 {
			t.Errorf("%g fences timed out", n)
		}
	}
}

// ready probes readiness. runs probes whether the server answers at all: a leader that could not renew for 10 s ends.
func (v *server) ready() bool { return v.probe("readyz") == http.StatusOK }
func (v *server) runs() bool  { return v.probe("healthz") != 0 }

func (v *server) probe(path string) (status int) {
	resp, err := http.Get("http://" + v.health + "/" + path)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestFence_OutlivesItsReplica has an agent that does not report after the restore, so the fence stands for
// its longest time.
func TestFence_OutlivesItsReplica(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	one := s.agent(t, "worker-1")
	keep := s.up(t, "worker-1", "keep", blue)
	one.writeReport(t, keep.listed("Ready"))
	// The second replica leads some 20 s after the first was killed, and sends an event only then.
	const timeout = 80 * time.Second
	var restore func()
	silently(func() { restore = s.backup(t) }, one)
	first := s.replica(t, s.Kubeconfig(), "--repair", "--fence-timeout", timeout.String())
	first.passes(t, 1)
	second := s.replica(t, s.Kubeconfig(), "--repair", "--fence-timeout", timeout.String())
	s.up(t, "worker-1", "late", blue)
	s.outgrows(t, s.revision(t)+20)
	eventually(t, "both replicas to watch", func() bool { return first.ready() && second.ready() })
	time.Sleep(2 * time.Second)
	fence := s.watchFence(t)
	one.change(func() { // it does not report
		restore()
		t.Logf("the fence stood %s after the API server's first answer", fence.stands(t).Round(time.Millisecond))
		stood := time.Now()
		second.said(t, "Raising the fence after a restore of etcd")
		leases := s.record(t, leasesResource)
		from := s.revision(t)
		var newcomers []*pod
		for i := range 10 {
			newcomers = append(newcomers, s.bare(t, "worker-1", "newcomer-"+strconv.Itoa(i)))
		}
		ended, wait := keepAdding(newcomers, blue)
		t.Cleanup(func() {
			for _, p := range newcomers {
				if p.sandbox != nil {
					p.sandbox.Close()
				}
			}
		})
		adding := time.Now()
		time.Sleep(5 * time.Second) // until they wait for the Lease
		check(t, first.cmd.Process.Signal(syscall.SIGKILL))
		time.Sleep(10 * time.Second)
		equal(t, "ADDs that did not wait", ended(), 0)
		check(t, leases.catchUp(t.Context()))
		equal(t, "who held the Lease meanwhile", leases.holders("whereabouts", from), []string{kube.FenceHolder})
		s.lowered(t)
		fell := time.Now()
		if age := time.Since(stood); age > timeout+30*time.Second {
			t.Errorf("it stood for %s", age)
		}
		wait(t)
		t.Logf("%d ADDs waited for %.0fs while the fence stood, and all had ended %.1fs after it fell",
			len(newcomers), fell.Sub(adding).Seconds(), time.Since(fell).Seconds())
		second.counts(t, `ip_reconcile_fences_total{outcome="TimedOut"}`, 1)
		second.said(t, "level=ERROR msg=\"Lowered the fence at its timeout")
		contains(t, "the event", s.event(t, "FenceTimedOut", "Namespace", metav1.NamespaceSystem), "work remains")
	})
}
