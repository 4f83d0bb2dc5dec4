//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// Passes follow each other without a pause, and half of all DELs are lost: what is
// released may be a successor's by then. What is not proven is confirmed as soon as can
// be, and an agent tells of a sandbox only some seconds after its ADD has the entry.
func TestNoAddressIsFreedWhileItsPodIsCreated(t *testing.T) {
	t.Parallel()
	i := install(t, 2, "--cron=@every 1s", "--confirm-after=0s")
	check(t, i.CreateNAD(t.Context(), blue))
	check(t, i.CreateNAD(t.Context(), simple("red", "10.2.0.0/24")))
	check(t, i.cluster.Worker("worker-2").LoseDELs(true))
	v, pools, began := i.leader(t), try(record(t.Context(), i.of(harness.IPPools))).must(t), time.Now()
	passes := v.metric(`ip_reconcile_passes_total{result="done"}`)

	i.rolls(t, func() { t.Logf("all pods were there after %.0fs", time.Since(began).Seconds()) })
	const held = 2 * 2 * (inSet + inDeployment) // entries and reservations
	if !within(3*time.Minute, time.Second, func() bool { return len(i.contents(t)) == held }) {
		t.Errorf("%d entries and reservations, want %d", len(i.contents(t)), held)
	}
	check(t, pools.catchUp(t.Context()))
	took, given := time.Since(began), 0
	for _, pool := range []string{"10.1.0.0-24", "10.2.0.0-24"} {
		ids := map[string]bool{}
		for _, version := range pools.during(pool, 0, math.MaxUint64) {
			for key, e := range entriesOf(version.object) {
				ids[fmt.Sprint(key, e["id"])] = true
			}
		}
		given += len(ids)
	}
	passes = v.metric(`ip_reconcile_passes_total{result="done"}`) - passes
	released := v.metric("ip_reconcile_released_total")
	t.Logf("%d ADDs, %d entries taken over, %.0f passes, %.0f entries and reservations released, in %.0fs", given, pools.takenOver(), passes, released, took.Seconds())
	if given < 2*(inSet+inDeployment)*(rolls+1) || released < inSet+inDeployment || passes < 10 {
		t.Error("that was too little to show anything")
	}
	i.allAnswer(t)
}

// Of two networks each, and rolled three times.
const inSet, inDeployment, rolls = 12, 24, 3

// rolls makes a StatefulSet and a Deployment and rolls them, with a word when all pods
// are there.
func (i *installation) rolls(t *testing.T, there func()) {
	t.Helper()
	rolledOut := func() {
		t.Helper()
		for _, what := range []string{"deployment/web", "statefulset/db"} {
			i.mustKubectl(t, "rollout", "status", "--timeout=480s", what)
		}
		there()
	}
	i.statefulSet(t, "db", inSet, func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(inSet / 4))}
	}, "blue", "red")
	i.deployment(t, "web", inDeployment, "blue", "red")
	rolledOut()
	for range rolls {
		i.mustKubectl(t, "rollout", "restart", "deployment/web", "statefulset/db")
		rolledOut()
	}
}

// allAnswer checks that every pod of the namespace "default" runs and has its entries and
// reservations, and that it answers at its addresses.
func (i *installation) allAnswer(t testing.TB) {
	t.Helper()
	stored := i.contents(t)
	pods := try(i.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})).must(t).Items
	for n := range pods {
		p := &pods[n]
		equal(t, "the phase of "+p.Name, p.Status.Phase, corev1.PodRunning)
		id := i.sandbox(t, p)
		for ifName, pool := range map[string]string{"net1": "10.1.0.0-24", "net2": "10.2.0.0-24"} {
			a := addressOn(t, p, ifName)
			entry := map[string]string{}
			json.Unmarshal([]byte(stored[pool+" "+strings.TrimPrefix(a.String(), pool[:len("10.1.0.")])]), &entry)
			equal(t, fmt.Sprintf("the entry of %s for %s", a, p.Name), entry, map[string]string{"id": id, "podref": "default/" + p.Name, "ifname": ifName})
			contains(t, "the reservation of "+a.String(), stored["reservation "+a.String()], `"default/`+p.Name+`"`)
			name, err := i.cluster.Asked(t.Context(), &pods[0], a)
			if err != nil || name != p.Name {
				t.Errorf("at %s of %s answers %q: %v", ifName, p.Name, name, err)
			}
		}
	}
}
