//go:build slow

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

var (
	red       = network("red", harness.IPAM{"range": "10.2.0.0/24", "network_name": "red"})
	allLeases = map[string][]string{metav1.NamespaceSystem: {"whereabouts", "red-10.2.0.0-24"}}
)

// adds starts real ADDs and returns a counter of those that ended, and a function that waits for all and returns the
// pods.
func (s *stage) adds(t *testing.T, name string, n int, networks ...harness.Network) (ended func() int,
	wait func() []*pod) {
	var mu sync.Mutex
	var pods []*pod
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			p := s.pending(t, "worker-1", fmt.Sprint(name, "-", i), networks...)
			mu.Lock()
			defer mu.Unlock()
			pods = append(pods, p)
		})
	}
	return func() int { mu.Lock(); defer mu.Unlock(); return len(pods) }, func() []*pod { all.Wait(); return pods }
}

// holders are the successive holders of a Lease from a revision on, with the time of each; "" is nobody.
func (h *history) holders(lease string, from uint64) (names []string) {
	for _, v := range h.during(lease, from, 1<<62) {
		if v.object != nil {
			names = append(names, v.spec("holderIdentity"))
		}
	}
	return slices.Compact(names)
}

// fenced checks that from a revision on only the fence held its Leases.
func (h *history) fenced(t *testing.T, from uint64) {
	t.Helper()
	check(t, h.catchUp(t.Context()))
	for _, name := range allLeases[metav1.NamespaceSystem] {
		equal(t, "who held the Lease "+name+" meanwhile", h.holders(name, from), []string{kube.FenceHolder})
	}
}

// stood waits until a fence stands.
func stood(t *testing.T, f *kube.Fence, leases map[string][]string) {
	t.Helper()
	f.Raise(leases)
	eventuallyWithin(t, time.Minute, "the fence to stand", func() bool { return !f.Since().IsZero() })
}

func TestFence_ADDsWaitAndSucceed(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.up(t, "worker-1", "first", blue, red)

	s.play(t, "by one replica", func(t *testing.T) {
		leases, f := s.record(t, leasesResource), s.holder(t, "us").Fence()
		f.Lead()
		stood(t, f, allLeases)
		from := s.revision(t)
		ended, wait := s.adds(t, "web", 6, blue, red)
		time.Sleep(8 * time.Second)
		equal(t, "ADDs that did not wait", ended(), 0)
		leases.fenced(t, from)
		// After a slow renewal the fence does not stand for a moment.
		if since := f.Since(); !since.IsZero() && time.Since(since) > time.Minute {
			t.Errorf("it stands since %s", since)
		}
		f.Lower(t.Context())
		began := time.Now()
		var ips []string
		for _, p := range wait() {
			ips = append(ips, p.ips...)
		}
		t.Logf("6 pods with two addresses each had them %s after the fence", time.Since(began).Round(time.Millisecond))
		slices.Sort(ips)
		equal(t, "addresses", len(slices.Compact(ips)), 12)
	})

	s.play(t, "by one replica that cannot renew for 6 s", func(t *testing.T) {
		l, kubeconfig := s.link(t)
		leases := s.record(t, leasesResource)
		f := holderThrough(t, try(clientcmd.BuildConfigFromFlags("", kubeconfig)).must(t), "us").Fence()
		f.Lead()
		stood(t, f, allLeases)
		from, since := s.revision(t), f.Since()
		ended, wait := s.adds(t, "web", 2, blue)
		time.Sleep(2 * time.Second)
		l.suffers(everything(http.StatusServiceUnavailable))
		time.Sleep(6 * time.Second)
		equal(t, "it stands while nothing is renewed", !f.Since().IsZero(), false)
		l.suffers(faults{})
		eventually(t, "it to stand again, as before", func() bool { return f.Since().Equal(since) })
		time.Sleep(2 * time.Second)
		equal(t, "ADDs that did not wait", ended(), 0)
		leases.fenced(t, from)
		f.Lower(t.Context())
		equal(t, "pods", len(wait()), 2)
	})

	s.play(t, "by two, of which the one that leads ends", func(t *testing.T) {
		leases := s.record(t, leasesResource)
		leader, other := s.holder(t, "leader").Fence(), s.holder(t, "other").Fence()
		leader.Lead()
		stood(t, other, allLeases)
		stood(t, leader, allLeases)
		from := s.revision(t)
		ended, wait := s.adds(t, "web", 4, blue, red)
		time.Sleep(3 * time.Second)
		leader.Leave()
		time.Sleep(5 * time.Second)
		equal(t, "ADDs that did not wait", ended(), 0)
		leases.fenced(t, from)
		if age := other.State().Age; age < 7*time.Second || age > 2*time.Minute {
			t.Errorf("its age is %s", age)
		}
		other.Lower(t.Context())
		equal(t, "pods", len(wait()), 4)
	})

	s.play(t, "by two, of which the one that leads lowers it", func(t *testing.T) {
		leader, other := s.holder(t, "leader").Fence(), s.holder(t, "other").Fence()
		leader.Lead()
		stood(t, other, allLeases)
		stood(t, leader, allLeases)
		_, wait := s.adds(t, "web", 2, blue)
		leader.Lower(t.Context())
		eventually(t, "the other to see that it is over", func() bool { return other.State().IsEndedByPeer })
		other.Lower(t.Context())
		equal(t, "pods", len(wait()), 2)
	})

	s.play(t, "and waits for an ADD that is under way", func(t *testing.T) {
		slow := network("slow", harness.IPAM{"range": "10.3.0.0/24", "sleep_for_race": 3})
		leases, from := s.record(t, leasesResource), s.revision(t)
		ended, wait := s.adds(t, "slow", 1, slow)
		eventually(t, "ADD to hold the Lease", func() bool {
			return slices.Contains(leases.holders("whereabouts", from), "default/slow-0")
		})
		f := s.holder(t, "us").Fence()
		f.Lead()
		stood(t, f, allLeases)
		equal(t, "entries when it stands", s.contents(t)["10.3.0.0-24 1"] != "", true)
		f.Lower(t.Context())
		wait()
		equal(t, "ended", ended(), 1)
	})
}

// TestFence_RecordsWhatRuns runs agents on simulated nodes whose sandboxes are all newer than the backup. It measures
// the time until each address has its allocation and its reservation again.
func TestFence_RecordsWhatRuns(t *testing.T) {
	t.Parallel()
	const each = 30 // sandboxes of a node
	names := []string{"worker-1", "worker-2"}
	s := newStageWithReports(t, names...)
	check(t, s.CreateNAD(t.Context(), blue))
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{})
	restore := s.backup(t)

	for n, name := range names {
		node, sandboxes := newFakeNode(t, name, critest.Containerd), []critest.Sandbox{}
		for i := n * each; i < (n+1)*each; i++ {
			sandboxes = append(sandboxes, node.sandbox(t, i, "10.1.0.0/24", fmt.Sprint("10.1.0.", i+1)))
		}
		node.Set(sandboxes...)
		node.agent(t, s.Kubeconfig())
	}
	for _, name := range names {
		s.reported(t, name, "its sandboxes", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == each })
	}
	s.outgrows(t, s.revision(t)+200) // the API server writes less at its start
	replicas := []*server{s.replica(t, s.Kubeconfig(), "--repair"), s.replica(t, s.Kubeconfig(), "--repair")}
	eventually(t, "both replicas to watch", func() bool { return replicas[0].ready() && replicas[1].ready() })
	time.Sleep(2 * time.Second) // for a pulse that reads the newest revision
	equal(t, "entries and reservations", len(s.contents(t)), 0)

	fence := s.watchFence(t)
	restore()
	answers := time.Now()
	after := fence.stands(t)
	stood := time.Now()
	eventuallyWithin(t, 2*time.Minute, "all to be back", func() bool { return len(s.contents(t)) == 2*2*each })
	rebuilt := time.Since(answers)
	s.lowered(t)
	t.Logf("%d addresses: the fence stood %s after the API server's first answer and for some %.0fs; all entries and "+
		"reservations were back %.1fs after that answer", 2*each, after.Round(time.Millisecond), time.Since(stood).Seconds(),
		rebuilt.Seconds())
	// It is counted after the Leases are released.
	eventuallyWithin(t, time.Minute, "one fence to have ended because all was settled", func() bool {
		settled := 0.0
		for _, v := range replicas {
			if v.runs() {
				settled += v.metric(`ip_reconcile_fences_total{outcome="Settled"}`)
			}
		}
		return settled == 1
	})
}
