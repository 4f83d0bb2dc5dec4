//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// Pods are created from the first second after a restore: no controller waits until the pools are correct. The oracle
// fails a test in which an address is on the wire twice. The allocations of pods that were deleted after the backup
// come back with it, and are released.
func TestRestore_NoPodGetsAPhantomsAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pods  int
		flags []string
		// kubelets end the phantoms: their watches are too old, so they list. Else one that lists early may do that, but
		// not each of them.
		ends bool
	}{
		{"whose revisions run backwards", 30, nil, false},
		{"whose revisions were bumped", 12, []string{"--bump-revision=1000000", "--mark-compacted"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := install(t, 2)
			kept := i.start(t, workload("kept", "worker-1", "blue"))
			i.leader(t)
			past := i.running(t, i.create(t, "past", "", 6)...)
			snapshot := try(i.cluster.Snapshot()).must(t)
			phantoms := i.running(t, i.create(t, "phantom", "", c.pods)...)
			i.waitReported(t, phantoms...)
			endPast := func(graceSeconds int64) {
				for _, p := range past {
					check(t, i.DeletePod(t.Context(), p, graceSeconds))
				}
			}
			endPast(1)
			eventuallyWithin(t, time.Minute, "the entries of the past to go",
				func() bool { return len(i.contents(t)) == 2*(1+c.pods) })

			var names []string
			done := i.restores(t, snapshot, func() {
				endPast(0)
				names = i.create(t, "newcomer", "", c.pods)
			}, c.flags...)
			began := time.Now()
			newcomers := i.runningWithin(t, 4*time.Minute, names...)
			t.Logf("%d newcomers ran after %.1fs", c.pods, time.Since(began).Seconds())
			done().stands(t)
			running := func() []*corev1.Pod { return slices.Concat(newcomers, []*corev1.Pod{kept}, i.alive(t, phantoms...)) }
			i.keepsOnly(t, running)
			i.apart(t, running()...)
			left := len(i.alive(t, phantoms...))
			t.Logf("kubelets ended %d of %d phantoms", c.pods-left, c.pods)
			equal(t, "kubelets ended all phantoms", left == 0, c.ends)
		})
	}
}

func TestRestore_OldPodsGetNoAddressInUse(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"and kubelets run on": false, "and kubelets start again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t, 2)
			i.deployment(t, "web", 12, "blue")
			i.statefulSet(t, "db", 6, nil, "blue")
			i.rolled(t, "deployment/web")
			i.leader(t)
			snapshot := try(i.cluster.Snapshot()).must(t)
			i.mustKubectl(t, "rollout", "restart", "deployment/web", "statefulset/db")
			i.rolled(t, "deployment/web", "statefulset/db")
			var names []string
			done := i.restores(t, snapshot, func() {
				names = i.create(t, "newcomer", "", 6)
				if restarted {
					for _, w := range i.cluster.Workers {
						w.Kubelet.Kill()
						check(t, w.StartKubelet())
					}
				}
			})
			newcomers := i.runningWithin(t, 4*time.Minute, names...)
			done().stands(t)
			if restarted {
				i.rolled(t, "deployment/web", "statefulset/db")
			}
			i.apart(t, newcomers...)
			i.oracle.sees(t)
		})
	}
}

// The lost node does not report, so the fence stands for its longest time.
func TestRestore_OtherReplicaFences(t *testing.T) {
	t.Parallel()
	const pods = 12
	i := install(t, 2)
	lost, other := i.cluster.Worker(i.leader(t).node), i.cluster.Workers[0]
	if other == lost {
		other = i.cluster.Workers[1]
	}
	i.start(t, workload("lost", lost.Name, "blue"))
	snapshot := try(i.cluster.Snapshot()).must(t)
	phantoms := i.running(t, i.create(t, "phantom", other.Name, pods)...)
	i.waitReported(t, phantoms...)

	lost.PowerOff()
	var names []string
	done := i.restores(t, snapshot, func() { names = i.create(t, "newcomer", other.Name, pods) })
	newcomers := i.runningWithin(t, 5*time.Minute, names...)
	done().stands(t)
	i.apart(t, append(newcomers, phantoms...)...)
	equal(t, "the entry of the pod on the lost node is there", i.contents(t)["10.1.0.0-24 1"] != "", true)
}

// keepsOnly waits until the pods alone have allocations. The entries of the past go, and those of phantoms that were
// ended.
func (i *installation) keepsOnly(t *testing.T, running func() []*corev1.Pod) {
	t.Helper()
	if within(2*time.Minute, time.Second, func() bool { return len(i.contents(t)) == 2*len(running()) }) {
		return
	}
	for _, p := range running() {
		t.Logf("%s has %s", p.Name, addressOn(t, p, "net1"))
	}
	t.Log("what is recorded:", i.contents(t))
	checked := i.asPod(t, "check")
	t.Fatalf("waited too long for allocations of these pods only; check says: %s%s", checked.stdout, checked.stderr)
}

// alive returns the pods that run on their nodes, whatever the API has.
func (i *installation) alive(t *testing.T, pods ...*corev1.Pod) (alive []*corev1.Pod) {
	t.Helper()
	ready := map[string]bool{} // by UID
	for _, w := range i.cluster.Workers {
		for _, s := range try(w.Sandboxes(t.Context())).must(t) {
			ready[s.Metadata.Uid] = ready[s.Metadata.Uid] || s.State == cri.PodSandboxState_SANDBOX_READY
		}
	}
	for _, p := range pods {
		if ready[string(p.UID)] {
			alive = append(alive, p)
		}
	}
	return alive
}

// restores restores a backup, perhaps with flags of etcdutl, and calls begin when kubelets can receive new pods. The
// record of the fence is complete when done returns.
func (i *installation) restores(t *testing.T, snapshot string, atOnce func(),
	flags ...string) (done func() *fenceSeen) {
	t.Helper()
	revision := try(i.cluster.Revision(t.Context())).must(t)
	fence, before := i.watchFence(t), time.Now()
	i.restore(t, snapshot, flags...)
	check(t, i.cluster.CatchUp(t.Context(), revision))
	atOnce()
	t.Logf("etcd was restored and had caught up after %.1fs", time.Since(before).Seconds())
	return sync.OnceValue(func() *fenceSeen {
		within(2*time.Minute, 100*time.Millisecond, func() bool { return i.heldBy(t, "whereabouts") != kube.FenceHolder })
		t.Log(fence)
		return fence
	})
}

// create creates pods of the workload on a worker, or wherever they fit.
func (i *installation) create(t *testing.T, prefix, worker string, count int) (names []string) {
	t.Helper()
	for n := range count {
		p := workload(fmt.Sprint(prefix, "-", n), worker, "blue")
		_, err := i.Client().CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
		check(t, err)
		names = append(names, p.Name)
	}
	return names
}

// apart checks pods, including those that the API does not have: no two have one address, each one's allocation names
// it, and each answers for itself.
func (i *installation) apart(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	on := map[netip.Addr]string{}
	entries := try(i.entries(t.Context())).must(t)
	for _, p := range pods {
		a := addressOn(t, p, "net1")
		if other, twice := on[a]; twice {
			t.Errorf("%s and %s both have %s", other, p.Name, a)
		}
		on[a] = p.Name
		equal(t, "whose entry that of "+a.String()+" is", podOf(entries[a]), p.Namespace+"/"+p.Name)
	}
	for a, name := range on {
		answers, err := i.cluster.Asked(t.Context(), pods[0], a)
		if err != nil || answers != name {
			t.Errorf("at %s of %s answers %q: %v", a, name, answers, err)
		}
	}
}
