package reconciler_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

var errServer = errors.New("the API server does not answer")

// bubble runs a test on a simulator with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T, s *simulator)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulator()
		f(t, s)
		if len(s.late) > 0 {
			t.Errorf("written too late in a hold: %v", s.late)
		}
	})
}

// inBubble is bubble in a test of its own.
func inBubble(t *testing.T, says string, f func(t *testing.T, s *simulator)) {
	t.Run(says, func(t *testing.T) { bubble(t, f) })
}

// leaks adds entries of deleted pods, with their reservations.
func (s *simulator) leaks(pool string, n int) {
	s.entry(pool, 1, "default/gone-1", "box-1", true)
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.pool(pool).DeepCopy()
	entries := u.Object["spec"].(map[string]any)["allocations"].(map[string]any)
	for i := 2; i <= n; i++ {
		name := fmt.Sprintf("default/gone-%d", i)
		entries[fmt.Sprint(i)] = map[string]any{"id": fmt.Sprintf("box-%d", i), "podref": name, "ifname": "net1"}
		s.put(ippool.NewReservation("kube-system", networkOf(pool), addressOf(i), name, "net1").AsNew())
	}
	s.put(u)
}

// confirming is a reconciler that confirms what it releases for 15 minutes.
func (s *simulator) confirming(t *testing.T) *reconciler.Reconciler {
	r := s.reconciler(t)
	r.Options.ConfirmAfter = 15 * time.Minute
	return r
}

// run makes a pass and returns how long it took by the bubble's clock.
func run(t *testing.T, r *reconciler.Reconciler) (*reconciler.Result, time.Duration) {
	t.Helper()
	began := time.Now()
	out, err := r.Run(t.Context())
	check(t, err)
	return out, time.Since(began)
}

// pass makes one pass.
func pass(t *testing.T, r *reconciler.Reconciler) *reconciler.Result {
	t.Helper()
	out, _, err := r.Pass(t.Context(), nil)
	check(t, err)
	return out
}

// refusalCounts counts the refused items by their reason; nil for none.
func refusalCounts(out *reconciler.Result) refusals {
	return countReasons(out.Refused, func(x plan.Refused) plan.Refusal { return x.Why })
}

func countReasons[T any](all []T, why func(T) plan.Refusal) (counts refusals) {
	for _, x := range all {
		if counts == nil {
			counts = refusals{}
		}
		counts[why(x)]++
	}
	return counts
}

// same compares values: an empty list is not nil.
func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// The pools of two networks have the same range.
const (
	bluePool = "10.0.0.0-16"
	redPool  = "red-10.0.0.0-16"
)

// networkOf is the network_name in a pool's name.
func networkOf(pool string) string {
	return strings.TrimSuffix(strings.TrimSuffix(pool, bluePool), "-")
}

// entry writes an entry and, optionally, its reservation.
func (s *simulator) entry(pool string, key int, podRef, id string, reserved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.pool(pool)
	if u == nil {
		u = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
			"spec": map[string]any{"range": "10.0.0.0/16", "allocations": map[string]any{}},
		}}
		u.SetNamespace("kube-system")
		u.SetName(pool)
	}
	u = u.DeepCopy()
	_ = unstructured.SetNestedMap(u.Object, map[string]any{"id": id, "podref": podRef, "ifname": "net1"}, "spec",
		"allocations", strconv.Itoa(key))
	s.put(u)
	if reserved {
		s.put(ippool.NewReservation("kube-system", networkOf(pool), addressOf(key), podRef, "net1").AsNew())
	}
}

func addressOf(key int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(key >> 8), byte(key)}) }

// pod adds a pod that runs and carries the addresses of some keys; without keys it is Pending.
func (s *simulator) pod(name, uid string, keys ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	zero := int64(0)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid),
		CreationTimestamp: metav1.Now()}, Spec: corev1.PodSpec{NodeName: "worker-1", TerminationGracePeriodSeconds: &zero},
		Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if len(keys) > 0 {
		var ips []string
		for _, k := range keys {
			ips = append(ips, addressOf(k).String())
		}
		status, _ := json.Marshal([]map[string]any{{"name": "default/wb", "interface": "net1", "ips": ips}})
		p.Status.Phase, p.Annotations = corev1.PodRunning, map[string]string{"k8s.v1.cni.cncf.io/networks": "wb",
			"k8s.v1.cni.cncf.io/network-status": string(status)}
	}
	s.api.Revision++
	s.pods[types.NamespacedName{Namespace: "default", Name: name}] = p
}

func (s *simulator) noPod(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.api.Revision++
	delete(s.pods, types.NamespacedName{Namespace: "default", Name: name})
}

// setReport sets the only report, which is fresh now.
func (s *simulator) setReport(report *v1alpha1.SandboxReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	report.ObservedAt.Time, report.BootID = time.Now(), "boot of "+report.Name
	s.reports = []*podstate.Report{{SandboxReport: report, ConfirmedAt: time.Now(), LeaseRenewedAt: time.Now(),
		WrittenAt: time.Now()}}
}

// keepReporting lets a node report this, fresh at every call.
func (s *simulator) keepReporting(report *v1alpha1.SandboxReport) {
	s.step = func(string, string) { s.setReport(report) }
}

func goneOn(node string, gone ...v1alpha1.Gone) *v1alpha1.SandboxReport {
	report := &v1alpha1.SandboxReport{Gone: gone}
	report.Name = node
	return report
}

// poolOf adds a pool without entries.
func (s *simulator) poolOf(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
		"spec": map[string]any{"range": text, "allocations": map[string]any{}},
	}}
	u.SetNamespace("kube-system")
	u.SetName(name)
	s.put(u)
}

// fill sets an entry of a pool under a key; nil removes it.
func (s *simulator) fill(pool, key string, entry map[string]any) {
	s.changePool(pool, func(u *unstructured.Unstructured) {
		entries := maps.Clone(entriesOf(u))
		if entries == nil {
			entries = map[string]any{}
		}
		if delete(entries, key); entry != nil {
			entries[key] = entry
		}
		_ = unstructured.SetNestedMap(u.Object, entries, "spec", "allocations")
	})
}

// changePool and changeReservation store a new version of an object; nil deletes it.
func (s *simulator) changePool(name string, f func(*unstructured.Unstructured)) {
	s.change(fakeapi.At(fakeapi.Pools, "kube-system", name), f)
}

func (s *simulator) changeReservation(name string, f func(*unstructured.Unstructured)) {
	s.change(fakeapi.At(fakeapi.Reservations, "kube-system", name), f)
}

func (s *simulator) change(what fakeapi.Key, f func(*unstructured.Unstructured)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == nil {
		s.api.Delete(what)
	} else if u := stored(s.api.Get(what)).DeepCopy(); u != nil {
		f(u)
		s.put(u)
	}
}

// failing makes all calls of a name fail.
func failing(name string, err error) func(call, object string) (error, bool) {
	return func(call, _ string) (error, bool) {
		if call != name {
			return nil, false
		}
		return err, false
	}
}

// aNetwork defines the pool's network, which uses reservations.
func (s *simulator) aNetwork() {
	s.addNAD("wb", ippool.Network{Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}, Overlapping: true})
}

func (s *simulator) addNAD(name string, network ippool.Network) {
	nad := &ippool.NAD{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
	nad.Networks = []ippool.Network{network}
	s.nads[nad.NamespacedName] = nad
}

// alone adds reservations without allocation.
func (s *simulator) alone(from, to int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := from; i <= to; i++ {
		s.put(ippool.NewReservation("kube-system", "", addressOf(i), fmt.Sprint("default/lost-", i), "net1").AsNew())
	}
}

// made returns the calls of these names, in order.
func (s *simulator) made(names ...string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []string{}
	for _, c := range s.calls {
		for _, n := range names {
			if len(c) > len(n) && c[:len(n)+1] == n+" " {
				all = append(all, c)
			}
		}
	}
	return all
}

// stored returns all entries and reservations, as "pool key" and "reservation name".
func (s *simulator) stored() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, u := range s.all(fakeapi.Pools) {
		for key := range entriesOf(u) {
			all[u.GetName()+" "+key] = true
		}
	}
	for _, u := range s.all(fakeapi.Reservations) {
		all["reservation "+u.GetName()] = true
	}
	return all
}

var update = flag.Bool("update", false, "write what the tests find into testdata")

// golden compares lines with a file of testdata.
func golden(t *testing.T, file string, lines []string) {
	t.Helper()
	file, got := "testdata/"+file, strings.Join(lines, "\n")+"\n"
	if *update {
		check(t, os.WriteFile(file, []byte(got), 0o644))
	}
	text, err := os.ReadFile(file)
	check(t, err)
	want := strings.Split(string(text), "\n")
	for i, line := range lines {
		if i >= len(want) || line != want[i] {
			t.Errorf("%s, line %d: got\n%s\nwant\n%s", file, i+1, line, strings.Join(want[min(i, len(want)):min(i+1, len(want))],
				""))
		}
	}
	if len(want) != len(lines)+1 {
		t.Errorf("%s has %d lines, want %d", file, len(want)-1, len(lines))
	}
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
