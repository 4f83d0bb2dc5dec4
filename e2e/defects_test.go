//go:build !slow && !cluster

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestWhatUpstreamFreesInUse are the cases of part A of upstream-defects.md:
// whereabouts' own reconciler frees what is in use.
func TestWhatUpstreamFreesInUse(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	const place, reserved = "10.1.0.0-24 10.1.0.1", "reservation 10.1.0.1"
	// kept checks that a run leaves everything as it is, for this reason.
	kept := func(t *testing.T, verdict string) {
		t.Helper()
		before := s.contents(t)
		s.judges(t, place, verdict, reserved, verdict)
		s.lost(t, before)
	}

	s.play(t, "A1 every GET of a pod fails while one is Pending", func(t *testing.T) {
		s.pending(t, "worker-1", "pending", blue)
		s.up(t, "worker-1", "leaked", blue).leak(t)
		before := s.contents(t)
		p := &proxy{before: func(r *http.Request) int {
			if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/default/pods/") {
				return http.StatusInternalServerError
			}
			return 0
		}}
		out := s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
		out.exits(t, 1)
		out.expect(t, place, "InUse PodPending", "10.1.0.0-24 10.1.0.2", "Stale PodGone")
		contains(t, "the leak's message", out.message("10.1.0.0-24 10.1.0.2"), "not released", "get pod default/leaked")
		s.lost(t, before)
	})

	s.play(t, "A2 with the ClusterRole of v0.8.1, that may not get pods", func(t *testing.T) {
		s.pending(t, "worker-1", "pending", blue)
		s.up(t, "worker-1", "leaked", blue).leak(t)
		before := s.contents(t)
		rules := without(without(upstreamRules(t), "pods", "get"), "nodes", "list", "watch")
		out := s.productAs(t, s.account(t, "v0-8-1", without(rules, "nodeslicepools")), "run", "--confirm-after", "0")
		out.exits(t, 0)
		out.expect(t, place, "InUse PodPending", "10.1.0.0-24 10.1.0.2", "Stale PodGone")
		s.lost(t, before, "10.1.0.0-24 2", "reservation 10.1.0.2")
	})

	s.play(t, "A3 a pod Pending for seconds while Multus attaches the next network", func(t *testing.T) {
		p := s.pending(t, "worker-1", "p", blue).age(t, time.Minute)
		kept(t, "InUse PodPending")
		equal(t, "network-status", p.Annotations[statusAnnotation], "")
	})

	s.play(t, "A4 a network-status that is not JSON", func(t *testing.T) {
		s.up(t, "worker-1", "p", blue).annotate(t, statusAnnotation, `[{"ips":["10.1.0.1"]`)
		kept(t, "Held NetworkStatusMissing")
	})

	s.play(t, "A5 no network-status, and the address in podIPs", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", blue)
		p.change(t, map[string]any{"status": map[string]any{"podIP": "10.1.0.1", "podIPs": []corev1.PodIP{{IP: "10.1.0.1"}}}}, "status")
		p.annotate(t, statusAnnotation, "")
		kept(t, "InUse AddressOnPod")
	})
	s.play(t, "A5 a network-status that somebody took away", func(t *testing.T) {
		s.up(t, "worker-1", "p", blue).annotate(t, statusAnnotation, "")
		kept(t, "Held NetworkStatusMissing")
	})
	s.play(t, "A5 only the networks-status of an old Multus", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", blue)
		p.annotate(t, oldStatusAnnotation, p.Annotations[statusAnnotation]).annotate(t, statusAnnotation, "")
		kept(t, "InUse AddressOnPod")
	})

	s.play(t, "A6 the address is of the default network", func(t *testing.T) {
		p := s.pending(t, "worker-1", "p", blue)
		p.status[0].Name, p.status[0].Interface, p.status[0].Default = "default/macvlan", "eth0", true
		p.running(t)
		kept(t, "InUse AddressOnPod")
	})

	s.play(t, "A7 an address in another spelling", func(t *testing.T) {
		p := s.pending(t, "worker-1", "p", network("v6", harness.IPAM{"range": "2001:db8::/64", "range_start": "2001:db8::a"}))
		equal(t, "address", p.ips, []string{"2001:db8::a"})
		p.status[0].IPs = []string{"2001:DB8:0::A"}
		p.running(t)
		before := s.contents(t)
		s.judges(t, "2001-db8---64 2001:db8::a", "InUse AddressOnPod", "reservation 2001-db8--a", "InUse AddressOnPod")
		s.lost(t, before)
	})

	s.play(t, "A8 a reservation with a network name", func(t *testing.T) {
		s.up(t, "worker-1", "p", network("red", harness.IPAM{"range": "10.1.0.0/24", "network_name": "red"}))
		before := s.contents(t)
		s.judges(t, "red-10.1.0.0-24 10.1.0.1", "InUse AddressOnPod", "reservation red-10.1.0.1", "InUse AddressOnPod")
		s.lost(t, before)
	})

	s.play(t, "A9 a reservation of an address that ends in ::", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", network("v6", harness.IPAM{"range": "2001:db8::/64", "range_start": "2001:db8:0:0:1::"}))
		equal(t, "address", p.ips, []string{"2001:db8:0:0:1::"})
		before := s.contents(t)
		s.judges(t, "2001-db8---64 2001:db8:0:0:1::", "InUse AddressOnPod", "reservation 2001-db8-0-0-1--0", "InUse AddressOnPod")
		s.lost(t, before)
	})

	s.play(t, "A10 pods that come while the run reads and writes", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		var came []string
		var mu sync.Mutex // reads come several at once
		p := &proxy{after: func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			at := r.Method + " " + r.URL.Path
			if r.Method != http.MethodGet || len(came) == 12 || strings.Contains(at, "lease") {
				return
			}
			// The run has just been told what there is; now there is more. The
			// plugin waits for the Lease, so nothing comes while the run holds it.
			s.up(t, "worker-2", fmt.Sprintf("new-%d", len(came)), blue)
			came = append(came, at)
		}}
		out := s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
		t.Logf("pods came after %q", came)
		equal(t, "released", places(out.Released), place+", "+reserved)
		all := s.contents(t)
		for i := range came {
			ip := try(s.addressOf(fmt.Sprintf("new-%d", i))).must(t)
			if all["reservation "+ip] == "" || all["10.1.0.0-24 "+strings.TrimPrefix(ip, "10.1.0.")] == "" {
				t.Errorf("of the pod that came after %s something was freed: %v", came[i], all)
			}
		}
	})

	s.play(t, "A11 a pod whose entry is missing and whose reservation is there", func(t *testing.T) {
		s.up(t, "worker-1", "p", blue)
		s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"1":null}}}`)
		s.age(t, harness.Reservations, "10.1.0.1", 5*time.Minute)
		before := s.contents(t)
		s.judges(t, reserved, "InUse AddressOnPod")
		s.lost(t, before)
	})

	s.play(t, "A12 podrefs that name no pod", func(t *testing.T) {
		s.up(t, "worker-1", "p", blue)
		s.reservation(t, "10.1.0.2", "", 5*time.Minute)
		s.reservation(t, "10.1.0.3", "weird", 5*time.Minute)
		s.reservation(t, "10.1.0.4", "a/b/c", 5*time.Minute)
		s.pool(t, "10.2.0.0-24", "10.2.0.0/24", map[string]any{"1": entry("", noID), "2": entry("weird", noID), "3": entry("a/b/c", noID)})
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		for _, p := range []string{"reservation 10.1.0.2", "reservation 10.1.0.3", "reservation 10.1.0.4",
			"10.2.0.0-24 10.2.0.1", "10.2.0.0-24 10.2.0.2", "10.2.0.0-24 10.2.0.3"} {
			out.expect(t, p, "Held Malformed")
		}
		equal(t, "findings", len(out.found("Malformed")), 6)
		s.lost(t, before)
	})

	s.play(t, "A13 a pod evicted by a taint, with an hour of grace", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", blue)
		p.change(t, map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"},
		}}}, "status")
		p.delete(t, 3600)
		kept(t, "Held Terminating")
	})

	s.play(t, "A14 a range wider than /64 that starts in the middle", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", network("wide", harness.IPAM{"range": "193::/24", "range_start": "193:21:4::2"}))
		equal(t, "address", p.ips, []string{"193:21:4::2"})
		before := s.contents(t)
		if _, ok := before["193---24 2"]; !ok {
			t.Fatalf("whereabouts stored it otherwise: %v", before)
		}
		out := s.judges(t, "reservation 193-21-4--2", "InUse AddressOnPod")
		equal(t, "verdict", out.Allocations[0].verdict(), "InUse AddressOnPod")
		s.lost(t, before)
	})

	s.play(t, "A15 keys that whereabouts itself loses or rewrites", func(t *testing.T) {
		const high = "18446463705355360228"
		base := "fd00::/64"
		s.pool(t, "fd00---64", base, map[string]any{"5": entry("default/dead", noID), high: entry("default/p", noID), "09": entry("default/p", noID)})
		p := s.bare(t, "worker-1", "p")
		p.status = []harness.NetworkStatus{{Name: "default/v6", Interface: "net1", IPs: []string{"fd00::ffff:101:a7d7:97e4", "fd00::9"}}}
		p.running(t)
		before := s.contents(t)
		s.judges(t, "fd00---64 fd00::9", "InUse AddressOnPod", "fd00---64 fd00::ffff:101:a7d7:97e4", "InUse AddressOnPod", "fd00---64 fd00::5", "Stale PodGone")
		s.lost(t, before, "fd00---64 5")
	})

	s.play(t, "A16 a reservation that became another pod's between LIST and DELETE", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"1":null}}}`)
		s.age(t, harness.Reservations, "10.1.0.1", 5*time.Minute)
		deleted := 0
		p := &proxy{before: func(r *http.Request) int {
			if r.Method == http.MethodDelete && deleted == 0 {
				deleted++
				check(t, s.of(harness.Reservations).Delete(context.Background(), "10.1.0.1", metav1.DeleteOptions{}))
				s.reservation(t, "10.1.0.1", "default/other", 0)
			}
			return 0
		}}
		s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
		equal(t, "DELETEs that were met", deleted, 1)
		now := try(s.of(harness.Reservations).Get(t.Context(), "10.1.0.1", metav1.GetOptions{})).must(t)
		podRef, _, _ := unstructured.NestedString(now.Object, "spec", "podref")
		equal(t, "podref of the reservation that is there", podRef, "default/other")
	})

	s.play(t, "A17 a successor on another node that is being deleted with an hour of grace", func(t *testing.T) {
		first := s.up(t, "worker-1", "web-0", blue).leak(t)
		second := s.up(t, "worker-2", "web-0", blue)
		equal(t, "the successor's address", second.ips, first.ips)
		second.delete(t, 3600)
		kept(t, "Held Terminating")
	})
}

// addressOf is the first address in a pod's network-status.
func (s *stage) addressOf(name string) (string, error) {
	p, err := s.Client().CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(p.Annotations[statusAnnotation], `"ips":["`)
	ip, _, _ := strings.Cut(rest, `"`)
	return ip, nil
}

// TestWhatUpstreamLeavesBehind are the cases of part B of upstream-defects.md
// that apply to one pass; B7 to B9 are in TestMeasure_ReleaseInAFewHolds, and B10 to B14
// are about a process that stays.
func TestWhatUpstreamLeavesBehind(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	const key, reserved = "10.1.0.0-24 1", "reservation 10.1.0.1"

	s.play(t, "B1 a pool whose range is none", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.pool(t, "broken", "10.0.0.0", map[string]any{"1": entry("default/dead", noID)})
		s.pool(t, "empty", "", map[string]any{"1": entry("default/dead", noID)})
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		equal(t, "findings", len(out.found("Malformed")), 2)
		s.lost(t, before, key, reserved)
	})

	s.play(t, "B2 a pool that is written to between each read and its patch", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.up(t, "worker-1", "leaked-too", simple("green", "10.2.0.0/24")).leak(t)
		s.reservation(t, "10.1.0.9", "default/dead", 5*time.Minute)
		before := s.contents(t)
		met := 0
		p := &proxy{before: func(r *http.Request) int {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/10.1.0.0-24") && met < 3 {
				met++
				s.patch(t, harness.IPPools, "10.1.0.0-24", `{"metadata":{"annotations":{"written":"`+time.Now().String()+`"}}}`)
			}
			return 0
		}}
		out := s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
		out.exits(t, 0)
		equal(t, "conflicts", met, 3)
		s.lost(t, before, key, reserved, "10.2.0.0-24 1", "reservation 10.2.0.1", "reservation 10.1.0.9")
		t.Logf("with 3 conflicts the run took %.1fs", out.took.Seconds())
	})

	s.play(t, "B3 a key below the range beside a stale one", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"-1":{"id":"`+noID+`","podref":""}}}}`)
		before := s.contents(t)
		out := s.run(t)
		out.exits(t, 0)
		equal(t, "findings", len(out.found("Malformed")), 1)
		s.lost(t, before, key, reserved)
	})

	s.play(t, "B4 an allocation without podref is said, and kept", func(t *testing.T) {
		s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"1": entry("", noID)})
		before := s.contents(t)
		out := s.judges(t, "10.1.0.0-24 10.1.0.1", "Held Malformed")
		found := out.found("Malformed")
		equal(t, "findings", len(found), 1)
		contains(t, "the finding", found[0].Message, "10.1.0.0-24", `"1"`, "podref is missing")
		s.lost(t, before)
		s.product(t, "check").exits(t, 1)
	})

	s.play(t, "B5 a finished pod whose status still lists the address", func(t *testing.T) {
		p := s.up(t, "worker-1", "p", blue).finish(t, corev1.PodSucceeded)
		contains(t, "its network-status", p.Annotations[statusAnnotation], "10.1.0.1")
		before := s.contents(t)
		s.judges(t, "10.1.0.0-24 10.1.0.1", "Stale PodFinished")
		s.lost(t, before, key, reserved)
	})

	s.play(t, "B6 an entry of a pod that has the same address on another network", func(t *testing.T) {
		red := network("red", harness.IPAM{"range": "10.1.0.0/24", "network_name": "red"})
		was := network("was", harness.IPAM{"range": "10.1.0.0/24", "network_name": "was"})
		check(t, s.CreateNAD(t.Context(), red))
		check(t, s.CreateNAD(t.Context(), was))
		s.up(t, "worker-1", "p", was).leak(t)
		s.up(t, "worker-2", "p", red)
		before := s.contents(t)
		equal(t, "entries and reservations", len(before), 4)
		out := s.run(t)
		out.exits(t, 0)
		// Without agents nothing tells that the definition was not edited: it counts for both.
		out.expect(t, "was-10.1.0.0-24 10.1.0.1", "InUse AddressOnPod", "red-10.1.0.0-24 10.1.0.1", "InUse AddressOnPod")
		s.lost(t, before)
	})

	s.play(t, "B15 a run that could not free everything ends with 1 and says why", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		before := s.contents(t)
		rules := without(upstreamRules(t), "overlappingrangeipreservations", "delete")
		out := s.productAs(t, s.account(t, "b15", rules), "run", "--confirm-after", "0")
		out.exits(t, 1)
		contains(t, "the message", out.message("10.1.0.0-24 10.1.0.1"), "not released", "delete reservation", "forbidden")
		s.lost(t, before)
	})

	s.play(t, "B16 a reservation that somebody else deleted first", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		s.reservation(t, "10.1.0.9", "default/dead", 5*time.Minute)
		before := s.contents(t)
		p := &proxy{before: func(r *http.Request) int {
			if r.Method == http.MethodDelete {
				name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				check(t, s.of(harness.Reservations).Delete(context.Background(), name, metav1.DeleteOptions{}))
			}
			return 0
		}}
		out := s.productAs(t, p.start(t, s), "run", "--confirm-after", "0")
		out.exits(t, 0)
		s.lost(t, before, key, reserved, "reservation 10.1.0.9")
	})
}
