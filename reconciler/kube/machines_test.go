package kube_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

const (
	claims          = "/apis/k8s.cni.cncf.io/v1alpha1/ipamclaims"
	claimsOfDefault = "/apis/k8s.cni.cncf.io/v1alpha1/namespaces/default/ipamclaims"
	guests          = "/apis/kubevirt.io/v1/virtualmachineinstances"
)

func claimedPool() map[string]any {
	p := pool("7")
	e := entryOf(p)
	e["podref"], e["ipamclaimref"] = "default/launcher-1", "default/vm.net1"
	return p
}

func ipamClaim(name string) map[string]any {
	return map[string]any{"apiVersion": "k8s.cni.cncf.io/v1alpha1", "kind": "IPAMClaim",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"status":   map[string]any{"ips": []any{"10.0.0.5/24"}}}
}

// launcher is a virt-launcher pod (kubevirt, pkg/virt-controller/services/template.go).
func launcher(name string) map[string]any {
	p := pod(name)
	metadata := p["metadata"].(map[string]any)
	metadata["labels"] = map[string]any{"kubevirt.io/created-by": "vmi-1", "app": "vm"}
	metadata["ownerReferences"] = []any{map[string]any{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"name": "vm", "uid": "vmi-1", "controller": true}}
	return p
}

// Only a complete list shows that a claim is gone.
func TestIPAMClaims(t *testing.T) {
	for _, c := range []struct {
		says   string
		answer answer
		unread string // part of it; "" for read
	}{
		{"they are listed", list("", ipamClaim("vm.net1"), ipamClaim("other")), ""},
		{"another one is listed", list("", ipamClaim("other")), ""},
		{"the list has several pages", first(list("more", ipamClaim("other")), list("", ipamClaim("vm.net1"))), ""},
		{"the list is empty", list(""), ""},
		{"the list has no resourceVersion", object(map[string]any{"kind": "List", "items": []any{}}), "cannot list"},
		{"they are not served", nil, "does not serve ipamclaims.k8s.cni.cncf.io"},
		{"they are forbidden", fails(http.StatusForbidden), "cannot list ipamclaims.k8s.cni.cncf.io: forbidden"},
		{"the server fails", fails(http.StatusInternalServerError), "cannot list ipamclaims.k8s.cni.cncf.io: "},
		{"something else answers", bare(http.StatusNotFound), "ipamclaims.k8s.cni.cncf.io"},
		{"a page is lost", first(list("more", ipamClaim("vm.net1")), fails(http.StatusInternalServerError)),
			"cannot list ipamclaims.k8s.cni.cncf.io: "},
		{"the second page is forbidden", first(list("more", ipamClaim("other")), fails(http.StatusForbidden)), "forbidden"},
		{"the answer is broken off", breaksOff(false), "cannot list ipamclaims.k8s.cni.cncf.io: "},
		{"the answer is no list", object(map[string]any{"kind": "Status"}), "cannot list ipamclaims.k8s.cni.cncf.io: "},
	} {
		t.Run(c.says, func(t *testing.T) {
			f := newFakeAPI(t)
			f.has(claimedPool())
			f.answers[claims] = c.answer
			cluster := f.cluster(t)
			o, err := cluster.List(t.Context())
			check(t, err)
			observations := []*facts.Observation{o}
			if !strings.Contains(c.says, "page") {
				again, err := cluster.Relist(t.Context(), o)
				check(t, err)
				observations = append(observations, again)
			}
			for _, o := range observations {
				if (o.IPAMClaims.Why() == "") != (c.unread == "") || !strings.Contains(o.IPAMClaims.Why(), c.unread) {
					t.Errorf("unread because %q", o.IPAMClaims.Why())
				}
				equal(t, "a source is unknown", len(o.UnknownSources()) > 0, c.unread != "")
				if c.unread != "" && len(o.IPAMClaims.Or(nil)) > 0 {
					t.Errorf("half a list counts: %v", o.IPAMClaims)
				}
				o.Now = time.Now()
				it := judgetest.AssessAlone(o, facts.Policy{}).Allocations[0]
				isUnread := it.Evidence().IPAMClaim == judge.ClaimNotRead
				if isUnread != (c.unread != "") || isUnread && it.Verdict != judge.Held {
					t.Errorf("the allocation is %v", it.Decision)
				}
			}
		})
	}
}

func TestIPAMClaims_NotReadWithoutNeed(t *testing.T) {
	f := newFakeAPI(t)
	f.has(pool("7"), pod("web-0"))
	_, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "requests for claims and guests", len(f.to(claims))+len(f.to(guests)), 0)
}

func TestGuests(t *testing.T) {
	vmi := map[string]any{"kind": "VirtualMachineInstance", "metadata": map[string]any{"namespace": "default",
		"name": "vm"}, "spec": map[string]any{"networks": []any{map[string]any{"name": "net",
		"multus": map[string]any{"networkName": "wb"}}}},
		"status": map[string]any{"interfaces": []any{map[string]any{"name": "net", "ipAddress": "10.0.0.5"}}}}
	for _, c := range []struct {
		says    string
		answer  answer
		guests  int
		unknown string
	}{
		{"they are listed", list("", vmi), 1, ""},
		{"they are forbidden", fails(http.StatusForbidden), 0, "cannot list virtualmachineinstances.kubevirt.io: forbidden"},
		{"they are not served", nil, 0, "the API server does not serve virtualmachineinstances.kubevirt.io"},
		{"the server fails", fails(http.StatusInternalServerError), 0, "cannot list virtualmachineinstances.kubevirt.io: "},
	} {
		t.Run(c.says, func(t *testing.T) {
			f := newFakeAPI(t)
			f.has(pool("7"), launcher("launcher-2"))
			f.answers[guests] = c.answer
			f.answers["/apis/kubevirt.io/v1"] = serves("kubevirt.io/v1", "virtualmachineinstances")
			if c.answer == nil {
				f.answers["/apis/kubevirt.io/v1"] = nil
			}
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "guests", len(o.Guests.Or(nil)), c.guests)
			if why := o.Guests.Why(); (why == "") != (c.unknown == "") || !strings.Contains(why, c.unknown) {
				t.Errorf("unknown: %q", why)
			}
		})
	}
}

// Nothing is released because of this machine. Who asks whether any address is in use asks for all guests.
func TestGuests_AllOfThem(t *testing.T) {
	f := newFakeAPI(t)
	f.has(launcher("launcher-2"))
	f.answers[guests] = list("")
	c := f.cluster(t)
	for i, all := range []bool{false, true} {
		c.AllGuests = all
		o, err := c.List(t.Context())
		check(t, err)
		equal(t, "the guests are known", o.Guests.IsKnown(), all)
		equal(t, "requests for guests", len(f.to(guests)), i)
	}
}

// The second check gets the claim by name. Only the API server's 404 for this very claim shows that it is gone. Any
// other failure holds the items with this claim, and no others.
func TestGetLive_IPAMClaims(t *testing.T) {
	name := types.NamespacedName{Namespace: "default", Name: "vm.net1"}
	missing := func(kind, name string) answer {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			status := apierrors.NewNotFound(schema.GroupResource{Group: "k8s.cni.cncf.io", Resource: kind}, name).ErrStatus
			status.APIVersion, status.Kind = "v1", "Status"
			_ = json.NewEncoder(w).Encode(status)
		}
	}
	for _, c := range []struct {
		says           string
		answer         answer
		exists, unread bool
	}{
		{"it exists", object(ipamClaim("vm.net1")), true, false},
		{"it does not exist", missing("ipamclaims", "vm.net1"), false, false},
		{"another one does not exist", missing("ipamclaims", "vm.net2"), false, true},
		{"its namespace does not exist", missing("namespaces", "default"), false, true},
		{"a Status names nothing", fails(http.StatusNotFound), false, true},
		{"it is not served now", nil, false, true},
		{"a load balancer answers", bare(http.StatusNotFound), false, true},
		{"it is forbidden now", fails(http.StatusForbidden), false, true},
		{"the server fails", fails(http.StatusInternalServerError), false, true},
		{"the answer is broken off", breaksOff(false), false, true},
	} {
		t.Run(c.says, func(t *testing.T) {
			f := newFakeAPI(t)
			f.answers[claimsOfDefault+"/vm.net1"] = c.answer
			f.answers[claimsOfDefault+"/gone.net1"] = missing("ipamclaims", "gone.net1")
			f.has(pod("web-0"))
			gone := types.NamespacedName{Namespace: "default", Name: "gone.net1"}
			live, err := f.cluster(t).GetLive(context.Background(), &facts.Observation{},
				facts.LiveKeys{IPAMClaims: []types.NamespacedName{name, gone},
					Pods: []types.NamespacedName{{Namespace: "default", Name: "web-0"}}})
			check(t, err)
			claim, isRead := live.IPAMClaims[name]
			equal(t, "read, exists", []bool{isRead, claim != nil}, []bool{true, c.exists || c.unread})
			equal(t, "unread", claim != nil && claim.Unread != "", c.unread)
			other, isRead := live.IPAMClaims[gone]
			equal(t, "the other one is read, exists", []bool{isRead, other != nil}, []bool{true, false})
		})
	}
}
