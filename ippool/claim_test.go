package ippool_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

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
	if err != nil {
		t.Fatal(err)
	}
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
