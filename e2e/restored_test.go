//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// fenceHolder begins the identity of who holds whereabouts' Leases as a fence.
const fenceHolder = "ip-reconcile/fence"

// A restore is a restore of etcd as it was seen from outside: when the API server
// answered again, and when the fence stood and fell.
type restore struct {
	answered, fenced, open time.Time
}

func (r *restore) String() string {
	if r.fenced.IsZero() {
		return "no fence was seen"
	}
	text := fmt.Sprintf("the fence stood %.1fs after the API server answered", r.fenced.Sub(r.answered).Seconds())
	if !r.open.IsZero() {
		text += fmt.Sprintf(", for %.1fs", r.open.Sub(r.fenced).Seconds())
	}
	return text
}

// restores puts a backup back, perhaps with flags of etcdutl, with what begins at the
// moment in which kubelets can hear of new pods. Its answer is complete when done returns.
func (i *installation) restores(t *testing.T, snapshot string, atOnce func(), flags ...string) (done func() *restore) {
	t.Helper()
	revision := try(i.cluster.Revision(t.Context())).must(t)
	r, ctx, stop := &restore{}, t.Context(), make(chan struct{})
	var wg sync.WaitGroup
	before := time.Now()
	wg.Go(func() {
		leases := i.Client().CoordinationV1().Leases(metav1.NamespaceSystem)
		away := false
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			asking, cancel := context.WithTimeout(ctx, time.Second)
			l, err := leases.Get(asking, "whereabouts", metav1.GetOptions{})
			cancel()
			answered := err == nil || apierrors.IsNotFound(err)
			away = away || !answered
			held := err == nil && strings.HasPrefix(ptr.Deref(l.Spec.HolderIdentity, ""), fenceHolder)
			switch {
			case !away:
			case answered && r.answered.IsZero():
				r.answered = time.Now()
				fallthrough
			case answered && held && r.fenced.IsZero():
				if held {
					r.fenced = time.Now()
				}
			case answered && !held && !r.fenced.IsZero():
				r.open = time.Now()
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if !r.open.IsZero() {
				return
			}
		}
	})
	i.restore(t, snapshot, flags...)
	check(t, i.cluster.CatchUp(ctx, revision))
	atOnce()
	t.Logf("etcd was restored and had caught up after %.1fs", time.Since(before).Seconds())
	return sync.OnceValue(func() *restore {
		within(2*time.Minute, 100*time.Millisecond, func() bool {
			l, err := i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "whereabouts", metav1.GetOptions{})
			return err == nil && !strings.HasPrefix(ptr.Deref(l.Spec.HolderIdentity, ""), fenceHolder)
		})
		close(stop)
		wg.Wait()
		t.Log(r)
		return r
	})
}

// create makes pods of the workload on a worker, or wherever they fit.
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

// apart checks that no two of the pods, of those too which the API does not know, have
// one address, that each one's entry says so, and that each answers for itself.
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
