//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// playFullPool has four pods for the two addresses of a pool.
func (i *installation) playFullPool(t *testing.T) {
	t.Helper()
	const pool = "10.3.0.0-29"
	check(t, i.CreateNAD(t.Context(), network("tiny", harness.IPAM{"range": "10.3.0.0/29", "range_end": "10.3.0.2"})))
	running := []string{"first", "second"}
	for _, name := range running {
		i.start(t, workload(name, "", "tiny"))
	}
	waiting := []string{"default/third", "default/fourth"}
	for _, p := range []*corev1.Pod{workload("third", "", "tiny"), workload("fourth", "", "default/tiny@net5")} {
		try(i.Client().CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})).must(t)
	}
	waits := func() []string {
		u := i.usage(t, pool)
		equal(t, "usable, used and free", fmt.Sprint(u.Usable, u.Used, u.Free), "2 2 0")
		slices.Sort(u.Waiting)
		return u.Waiting
	}
	slices.Sort(waiting)
	began := time.Now()
	eventuallyWithin(t, time.Minute, "both pods to be told", func() bool { return slices.Equal(waits(), waiting) })
	t.Logf("both were told %s after they were created", time.Since(began).Round(time.Second))
	i.leader(t).is(t, `ip_reconcile_pool_addresses{alerts="on",pool="kube-system/`+pool+`",state="free"}`, 0)

	i.mustKubectl(t, "delete", "pod", "first")
	began = time.Now()
	eventuallyWithin(t, 2*time.Minute, "one of them to start", func() bool { return len(i.usage(t, pool).Waiting) == 1 && i.usage(t, pool).Used == 2 })
	t.Logf("one had started %s after another pod was deleted", time.Since(began).Round(time.Second))
	i.mustKubectl(t, "delete", "pod", "second", "third", "fourth")
	eventuallyWithin(t, 20*time.Second, "its entries to be gone", func() bool { return i.usage(t, pool).Used == 0 })
	equal(t, "pods that wait", len(i.usage(t, pool).Waiting), 0)
}
