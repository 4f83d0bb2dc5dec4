package ippool_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	wbv1alpha1 "github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	wbfake "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned/fake"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	k8sfake "k8s.io/client-go/kubernetes/fake"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// a15Pool has a dead pod's entry and two that whereabouts cannot write back: a
// live one in the upper half of the /64, and one with a leading zero.
func a15Pool() *wbv1alpha1.IPPool {
	return &wbv1alpha1.IPPool{
		TypeMeta:   metav1.TypeMeta{APIVersion: "whereabouts.cni.cncf.io/v1alpha1", Kind: "IPPool"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "fd00---64", ResourceVersion: "41"},
		Spec: wbv1alpha1.IPPoolSpec{Range: "fd00::/64", Allocations: map[string]wbv1alpha1.IPAllocation{
			"5":                    {ContainerID: "dead", PodRef: "default/dead", IfName: "net1"},
			"18446463705355360228": {ContainerID: "live", PodRef: "default/live", IfName: "net1"},
			"09":                   {ContainerID: "zero", PodRef: "default/zero", IfName: "net1"},
		}},
	}
}

func storedKeys(t *testing.T, client *wbfake.Clientset) []string {
	t.Helper()
	pool, err := client.WhereaboutsV1alpha1().IPPools("kube-system").Get(t.Context(), "fd00---64", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(pool.Spec.Allocations))
}

// What whereabouts' own code does, so that the case is not one of our making.
func TestA15WhereaboutsDropsAndRenamesEntriesWhenItFreesAnother(t *testing.T) {
	client := wbfake.NewSimpleClientset(a15Pool())
	pools, err := kubernetes.NewKubernetesClient(client, k8sfake.NewClientset()).ListIPPools()
	if err != nil || len(pools) != 1 {
		t.Fatalf("%d pools, %v", len(pools), err)
	}
	rest := slices.DeleteFunc(pools[0].Allocations(), func(r types.IPReservation) bool { return r.PodRef == "default/dead" })
	if err := pools[0].Update(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	if got := storedKeys(t, client); !slices.Equal(got, []string{"9"}) {
		t.Errorf("whereabouts leaves %q; it used to lose 18446463705355360228 and make 9 of 09", got)
	}
}

// Ours, through the same client: exactly the one entry goes.
func TestA15OursFreesTheOneEntryAndLeavesTheOthersAsTheyAre(t *testing.T) {
	client := wbfake.NewSimpleClientset(a15Pool())
	p := read(object(t, jsonOf(a15Pool())))
	for _, a := range p.Allocations {
		equal(t, "problem of "+a.Key, a.Problem, "")
	}
	patch, err := ippool.RemovePatch(p.Pool, []ippool.Allocation{*p.Find("5")})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := client.WhereaboutsV1alpha1().IPPools("kube-system").Patch(t.Context(), "fd00---64", k8stypes.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := a15Pool().Spec.Allocations
	delete(want, "5")
	if !maps.Equal(pool.Spec.Allocations, want) {
		t.Errorf("left are %v; want %v", pool.Spec.Allocations, want)
	}
}

// D9 and A15 together: an entry of the upper half that whereabouts lost would be
// handed out again. Ours is also able to free one, under the key as it stands.
func TestEveryOddKeyCanBeFreedUnderTheTextThatItHas(t *testing.T) {
	for _, key := range []string{"18446463705355360228", "09", "-1", "+7", "9223372036854775808", "0"} {
		p := poolOf("fd00::/64", map[string]any{key: entryOf("c", "default/dead"), "9": entryOf("live", "default/live")})
		patch, err := ippool.RemovePatch(p.Pool, []ippool.Allocation{*p.Find(key)})
		if err != nil {
			t.Errorf("key %q: %v", key, err)
			continue
		}
		out, err := ippool.ApplyPatch(p.Object, patch)
		if err != nil {
			t.Errorf("key %q: %v", key, err)
			continue
		}
		if left := ippool.ReadPool(out).Allocations; len(left) != 1 || left[0].Key != "9" {
			t.Errorf("key %q: left are %s", key, fmt.Sprint(left))
		}
	}
}
