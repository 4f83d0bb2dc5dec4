package ippool_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	wbfake "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned/fake"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	k8sfake "k8s.io/client-go/kubernetes/fake"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

func TestAReservationIsRead(t *testing.T) {
	o := object(t, `
kind: OverlappingRangeIPReservation
metadata: {namespace: kube-system, name: red-10.0.0.5, uid: u1, resourceVersion: "7", creationTimestamp: "2026-11-20T10:00:00Z"}
spec: {podref: default/a, ifname: net1, containerid: ""}
`)
	before := o.DeepCopy()
	r := ippool.Read[ippool.Reservation](o)
	equal(t, "ref", r.Ref(), "kube-system/red-10.0.0.5")
	equal(t, "UID", r.UID, "u1")
	equal(t, "resourceVersion", r.ResourceVersion, "7")
	equal(t, "podref", r.PodRef, "default/a")
	equal(t, "ifname", r.IfName, "net1")
	equal(t, "owner", r.Owner, ippool.PodRef{Namespace: "default", Name: "a"})
	equal(t, "created", r.Created.UTC(), time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	equal(t, "problem", r.Problem, "")
	if !reflect.DeepEqual(o.Object, before.Object) {
		t.Errorf("the object is now %s", jsonOf(o))
	}
}

// A12: whereabouts deletes a reservation whose podref it cannot read.
func TestA12AReservationThatCannotBeJudgedSaysWhy(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		problem    ippool.Problem
		detail     string
	}{
		{"the podref was pruned by an old schema", `{}`, ippool.Malformed, "missing"},
		{"an empty podref", `{podref: ""}`, ippool.Malformed, "missing"},
		{"a malformed podref", `{podref: a/b/c}`, ippool.Malformed, "a/b/c"},
		{"a number for a podref", `{podref: 5}`, ippool.Malformed, "podref"},
		{"a number for a container id", `{podref: default/a, containerid: 5}`, ippool.Malformed, "containerid"},
		{"a field of a later version", `{podref: default/a, ipamclaimref: claim}`, ippool.UnknownField, "ipamclaimref"},
		{"an unknown field and no podref", `{ipamclaimref: claim}`, ippool.Malformed, "missing"},
		{"no spec", `null`, ippool.Malformed, "spec"},
		{"a string for a spec", `x`, ippool.Malformed, "spec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ippool.Read[ippool.Reservation](object(t, `{kind: A, metadata: {name: 10.0.0.5}, spec: `+c.spec+`}`))
			equal(t, "problem", r.Problem, c.problem)
			if !strings.Contains(r.Detail, c.detail) {
				t.Errorf("detail %q does not say %q", r.Detail, c.detail)
			}
		})
	}
}

// What whereabouts' own store creates is what a repair creates.
func TestANewReservationIsTheOneThatADDWouldCreate(t *testing.T) {
	for _, c := range []struct{ network, address, ifName string }{
		{"", "10.0.0.5", "net1"},
		{"red", "10.0.0.5", "net1"},
		{"", "2001:db8:0:0:1::", "net2"},
		{"blue", "fd00::a", ""},
	} {
		a := netip.MustParseAddr(c.address)
		client := wbfake.NewSimpleClientset()
		ipam := &kubernetes.KubernetesIPAM{Client: *kubernetes.NewKubernetesClient(client, k8sfake.NewClientset()),
			Namespace: "kube-system"}
		store, err := ipam.GetOverlappingRangeStore()
		check(t, err)
		if err := store.UpdateOverlappingRangeAllocation(t.Context(), types.Allocate, netIP(a), "default/a", c.ifName,
			c.network); err != nil {
			t.Fatal(err)
		}
		list, err := client.WhereaboutsV1alpha1().OverlappingRangeIPReservations("kube-system").List(t.Context(),
			metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("whereabouts made %d reservations, %v", len(list.Items), err)
		}
		var ours wbv1alpha1.OverlappingRangeIPReservation
		made := ippool.NewReservation("kube-system", c.network, a, "default/a", c.ifName).AsNew()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(made.Object, &ours, true); err != nil {
			t.Fatalf("%s is no reservation by whereabouts' types: %v", jsonOf(made), err)
		}
		theirs := list.Items[0]
		equal(t, "name", ours.Name, theirs.Name)
		equal(t, "namespace", ours.Namespace, theirs.Namespace)
		equal(t, "spec", ours.Spec, theirs.Spec)
		equal(t, "apiVersion", ours.APIVersion, wbv1alpha1.SchemeGroupVersion.String())
		if r := ippool.Read[ippool.Reservation](&unstructured.Unstructured{Object: made.Object}); r.Problem != "" ||
			r.PodRef != "default/a" || r.IfName != c.ifName {
			t.Errorf("read back: %+v", r)
		}
	}
}

// claimedEntry is an entry as whereabouts pull request 742 writes it (doc/persistent-ips.md).
func claimedEntry(claim string) map[string]any {
	return map[string]any{"id": "c5", "podref": "default/demo-pod", "ifname": "net1", "ipamclaimref": claim}
}

func TestAnIPAMClaimIsNamedByNamespaceAndName(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"default/demo-claim", "default/demo-claim"}, {"vms/vm.net1", "vms/vm.net1"},
		{"demo-claim", ""}, {"", ""}, {"/", ""}, {"default/", ""}, {"/demo-claim", ""}, {"a/b/c", ""},
	} {
		a := poolOf("10.0.0.0/24", map[string]any{"5": claimedEntry(c.text)}).Find("5")
		r := reservationOf(t, map[string]any{"podref": "default/demo-pod", "ipamclaimref": c.text})
		if c.want == "" {
			if a.Problem != ippool.UnknownField || r.Problem != ippool.UnknownField || a.Claim != nil || r.Claim != nil ||
				!strings.Contains(a.Detail, "ipamclaimref") {
				t.Errorf("%q: %s (%s) and %s", c.text, a.Problem, a.Detail, r.Problem)
			}
			continue
		}
		if a.Problem != "" || r.Problem != "" || a.Claim.String() != c.want || r.Claim.String() != c.want {
			t.Errorf("%q: %v (%s), %v (%s)", c.text, a.Claim, a.Problem, r.Claim, r.Problem)
		}
	}
}

// No write loses a reference: a DEL would then release an address that its machine keeps.
func TestNoWriteLosesAnIPAMClaim(t *testing.T) {
	p := poolOf("10.0.0.0/24", map[string]any{"5": claimedEntry("default/demo-claim")})
	five := *p.Find("5")
	patch, err := ippool.RemovePatch(p.Pool, []ippool.Allocation{five})
	check(t, err)
	if got := operations(t, patch)[1].Value.(map[string]any)["ipamclaimref"]; got != "default/demo-claim" {
		t.Errorf("the patch tests the reference %v: %s", got, patch)
	}
	if patch, err := ippool.WritePatch(p.Pool, []ippool.NewEntry{{Key: "5", ContainerID: "c6", PodRef: "default/b",
		Replaces: &five}}); err == nil {
		t.Errorf("an entry with a reference is replaced: %s", patch)
	}
	r := reservationOf(t, map[string]any{"podref": "default/demo-pod", "ipamclaimref": "default/demo-claim"})
	if got := r.AsNew().Object["spec"]; fmt.Sprint(got) != "map[ipamclaimref:default/demo-claim podref:default/demo-pod]" {
		t.Errorf("recreated as %v", got)
	}
}

// The first is recorded from doc/persistent-ips.md of whereabouts pull request 742, whose status it writes without a
// prefix length; the second from the README of k8snetworkplumbingwg/ipamclaims, with one.
func TestDecodeClaim(t *testing.T) {
	const named = `{"metadata":{"name":"c","namespace":"vms"},`
	for text, want := range map[string]string{
		`{"apiVersion":"k8s.cni.cncf.io/v1alpha1","kind":"IPAMClaim",
"metadata":{"name":"demo-claim","namespace":"default"},"spec":{"network":"wa-nad","interface":"net1"},
"status":{"ips":["10.0.0.5"],"ownerPod":{"name":"demo-pod"}}}`: "[10.0.0.5]",
		named + `"status":{"ips":["192.168.200.5/24","fd10::5/64"]}}`: "[192.168.200.5 fd10::5]",
		named + `"spec":{}}`: "[]",
		named + `"status":{"ips":["?",7,"::ffff:10.0.0.7"]}}`: "[10.0.0.7]",
		named + `"status":"odd"}`:                             "[]",
	} {
		c, err := ippool.Decode[ippool.Claim]([]byte(text))
		if err != nil || fmt.Sprint(c.IPs) != want || c.Name == "" || c.Namespace == "" {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
}

func reservationOf(t tester, spec map[string]any) *ippool.Reservation {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetNamespace("kube-system")
	u.SetName("10.0.0.5")
	return ippool.Read[ippool.Reservation](u)
}
