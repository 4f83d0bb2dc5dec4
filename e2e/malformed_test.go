//go:build !slow && !cluster

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

var deleteNow = metav1.DeleteOptions{}

// TestWhatCannotBeReadStopsNothing has everything in one cluster that cannot be
// read, or not fully, beside leaks: they are freed, and of the rest nothing is
// touched and nothing goes unsaid.
func TestWhatCannotBeReadStopsNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.loosen(t)
	leaked := s.up(t, "worker-1", "leaked", blue).leak(t)
	claimed := s.up(t, "worker-1", "claimed", blue).leak(t)
	live := s.up(t, "worker-1", "live", blue)
	equal(t, "addresses", []string{leaked.ips[0], claimed.ips[0], live.ips[0]}, []string{"10.1.0.1", "10.1.0.2", "10.1.0.3"})

	// What a whereabouts to come would write for an address that outlives its pod.
	s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"2":{"ipamclaimref":"default/claim"}}}}`)
	s.patch(t, harness.IPPools, "10.1.0.0-24", `{"metadata":{"annotations":{"somebody":"wrote this"},"labels":{"and":"this"}},"spec":{"more":{"of":["later"]}}}`)
	s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{
		"-1":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"300":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"seven":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"18446463705355360228":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"20":{"id":"`+noID+`","ifname":"net1"},
		"21":{},
		"010":{"id":"`+noID+`","podref":"default/dead","ifname":"net1"},
		"09":{"id":"`+noID+`","podref":"default/live","ifname":"net2"},
		"22":{"id":"`+noID+`","podref":"default/dead_","ifname":"net1"},
		"23":{"id":"`+noID+`","podref":"Default/Dead","ifname":"net1"}}}}`)
	s.reservation(t, "10.1.0.30", "default/dead", 5*time.Minute)
	s.patch(t, harness.Reservations, "10.1.0.30", `{"spec":{"ipamclaimref":"default/claim"}}`)
	s.reservation(t, "10.1.0.31", "", 5*time.Minute)
	s.reservation(t, "no-address", "default/dead", 5*time.Minute)
	s.reservation(t, "10.1.0.32", "default/dead", 5*time.Minute)
	live.status = append(live.status, harness.NetworkStatus{Name: "default/blue", Interface: "net2", IPs: []string{"10.1.0.9"}})
	live.running(t)
	s.pool(t, "no-mask", "10.3.0.0", map[string]any{"1": entry("default/dead", noID)})
	s.pool(t, "no-range", "", map[string]any{"1": entry("default/dead", noID)})
	before, pool := s.contents(t), s.spec(t, "10.1.0.0-24")

	checked := s.product(t, "check")
	checked.exits(t, 1)
	s.lost(t, before)
	out := s.run(t)
	out.exits(t, 0)
	s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1", "10.1.0.0-24 010", "reservation 10.1.0.32")
	for _, o := range []*outcome{checked, out} {
		o.expect(t, "10.1.0.0-24 10.1.0.1", "Stale PodGone", "10.1.0.0-24 10.1.0.2", "Held UnknownField", "reservation 10.1.0.2", "Held UnknownField",
			"10.1.0.0-24 10.1.0.3", "InUse AddressOnPod", "10.1.0.0-24 10.1.0.9", "InUse AddressOnPod", "10.1.0.0-24 10.1.0.10", "Stale PodGone",
			"reservation 10.1.0.30", "Held UnknownField", "reservation 10.1.0.31", "Held Malformed", "reservation no-address", "Held Malformed",
			"reservation 10.1.0.32", "Stale PodGone")
		said := ""
		for _, f := range o.found("Malformed") {
			said += f.Message + "\n"
		}
		contains(t, "what is said", said, `"-1"`, `"300"`, `"seven"`, `"18446463705355360228"`, `"20"`, `"21"`, `"22"`, `"23"`,
			"podref is missing", "kube-system/no-mask", "10.3.0.0", "kube-system/no-range", "reservation kube-system/10.1.0.31", "reservation kube-system/no-address")
		equal(t, "findings, one for each", strings.Count(said, "\n"), 12)
		contains(t, "what is said of the claim", o.message("10.1.0.0-24 10.1.0.2"), "ipamclaimref")
		contains(t, "what is said of the reservation", o.message("reservation 10.1.0.30"), "ipamclaimref")
	}

	delete(pool["spec"].(map[string]any)["allocations"].(map[string]any), "1")
	delete(pool["spec"].(map[string]any)["allocations"].(map[string]any), "010")
	equal(t, "the pool in full", string(try(json.Marshal(s.spec(t, "10.1.0.0-24"))).must(t)), string(try(json.Marshal(pool)).must(t)))
}

// spec is what a patch of a pool must leave alone.
func (s *stage) spec(t *testing.T, pool string) map[string]any {
	t.Helper()
	o := try(s.of(harness.IPPools).Get(t.Context(), pool, metav1.GetOptions{})).must(t)
	return map[string]any{"spec": o.Object["spec"], "labels": o.GetLabels(), "annotations": o.GetAnnotations()}
}

// loosen has the API server keep fields that whereabouts' schemas do not know,
// as those to come will, and take entries that lack some.
func (s *stage) loosen(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ippools", "overlappingrangeipreservations"} {
		crd := try(s.Dynamic().Resource(crds).Get(t.Context(), name+"."+harness.IPPools.Group, metav1.GetOptions{})).must(t)
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		check(t, err)
		for _, v := range versions {
			v.(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}}
		}
		_, err = s.Dynamic().Resource(crds).Patch(t.Context(), crd.GetName(), types.MergePatchType,
			try(json.Marshal(map[string]any{"spec": map[string]any{"versions": versions}})).must(t), metav1.PatchOptions{})
		check(t, err)
	}
	eventually(t, "the API server to keep unknown fields", func() bool {
		for r, spec := range map[string]map[string]any{
			"IPPool":                        {"range": "10.99.0.0/24", "allocations": map[string]any{"1": map[string]any{"later": "x"}}},
			"OverlappingRangeIPReservation": {"podref": "default/p", "later": "x"},
		} {
			resource := s.of(harness.IPPools)
			if r != "IPPool" {
				resource = s.of(harness.Reservations)
			}
			o, err := resource.Create(context.Background(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": r, "metadata": map[string]any{"name": "probe"}, "spec": spec,
			}}, metav1.CreateOptions{})
			if err != nil {
				return false
			}
			check(t, resource.Delete(context.Background(), "probe", deleteNow))
			if !strings.Contains(string(try(json.Marshal(o.Object["spec"])).must(t)), "later") {
				return false
			}
		}
		return true
	})
}
