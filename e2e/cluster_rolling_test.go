package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Passes follow each other without a pause, and half of all DELs are lost: what is
// released may be a successor's by then. What is not proven is confirmed as soon as can
// be: an agent tells of a sandbox some seconds after its ADD has the entry, which with
// no confirmation at all costs some pods their addresses.
func TestInAClusterNoAddressIsFreedWhileItsPodIsMade(t *testing.T) {
	t.Parallel()
	i := install(t, 2, "--cron=@every 1s", "--confirm-after=20s")
	check(t, i.CreateNAD(t.Context(), blue))
	check(t, i.CreateNAD(t.Context(), simple("red", "10.2.0.0/24")))
	pools := map[string]netip.Prefix{"10.1.0.0-24": netip.MustParsePrefix("10.1.0.0/24"), "10.2.0.0-24": netip.MustParsePrefix("10.2.0.0/24")}
	check(t, i.whole.Worker("worker-2").LoseDELs(true))
	v, w, began := i.leader(t), i.watched(t), time.Now()
	passes := v.metric(`ip_reconcile_passes_total{result="done"}`)

	const named, plain, rolls = 20, 40, 3
	i.statefulSet(t, "db", named, func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(named / 4))}
	}, "blue", "red")
	i.deployment(t, "web", plain, "blue", "red")
	rolledOut := func() {
		for _, what := range []string{"deployment/web", "statefulset/db"} {
			i.mustKubectl(t, "rollout", "status", "--timeout=240s", what)
		}
		t.Logf("all pods were there after %.0fs", time.Since(began).Seconds())
	}
	rolledOut()
	for range rolls {
		i.mustKubectl(t, "rollout", "restart", "deployment/web", "statefulset/db")
		rolledOut()
	}
	const held = 2 * 2 * (named + plain) // entries and reservations
	if !within(30*time.Second, time.Second, func() bool { return len(i.contents(t)) == held }) {
		t.Errorf("%d entries and reservations, want %d", len(i.contents(t)), held)
	}
	w.stop()
	check(t, w.pools.catchUp(t.Context()))
	took := time.Since(began)

	given, freed, duplicates := 0, 0, 0
	for pool, network := range pools {
		bare, twice := w.judge(pool, network)
		given, freed, duplicates = given+w.given(pool), freed+len(bare), duplicates+len(twice)
		for what, when := range bare {
			t.Errorf("on the wire without an entry from %s on: %s", when, what)
		}
		for what, when := range twice {
			t.Errorf("on the wire twice from %s on: %s", when, what)
		}
	}
	passes = v.metric(`ip_reconcile_passes_total{result="done"}`) - passes
	released := v.metric("ip_reconcile_released_total")
	t.Logf("%d ADDs, %d entries taken over, %.0f passes, %.0f entries and reservations released, %d samples; %d wrongly freed, %d duplicates; %.0fs",
		given, w.pools.takenOver(), passes, released, len(w.samples), freed, duplicates, took.Seconds())
	if given < 2*(named+plain)*(rolls+1) || released < named+plain || passes < took.Seconds()/4 {
		t.Error("that was too little to show anything")
	}
	i.allAnswer(t)
}

// allAnswer checks that every pod of the namespace "default" runs and has its entries and
// reservations, and that it answers at its addresses.
func (i *installation) allAnswer(t testing.TB) {
	t.Helper()
	stored := i.contents(t)
	pods := must(i.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})).Items
	for n := range pods {
		p := &pods[n]
		equal(t, "the phase of "+p.Name, p.Status.Phase, corev1.PodRunning)
		id := i.box(t, p)
		for ifName, pool := range map[string]string{"net1": "10.1.0.0-24", "net2": "10.2.0.0-24"} {
			a := addressOn(t, p, ifName)
			entry := map[string]string{}
			json.Unmarshal([]byte(stored[pool+" "+keyOf(must(a.Prefix(24)), a)]), &entry)
			equal(t, fmt.Sprintf("the entry of %s for %s", a, p.Name), entry, map[string]string{"id": id, "podref": "default/" + p.Name, "ifname": ifName})
			contains(t, "the reservation of "+a.String(), stored["reservation "+a.String()], `"default/`+p.Name+`"`)
			name, err := i.whole.Asked(t.Context(), &pods[0], a)
			if err != nil || name != p.Name {
				t.Errorf("at %s of %s answers %q: %v", ifName, p.Name, name, err)
			}
		}
	}
}
