package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A load balancer without a backend answers 404, too.
func TestAnswer_404OfAProxy(t *testing.T) {
	for _, path := range []string{onePool, oneRes, onePod} {
		f := newFakeAPI(t)
		f.has(pool("8"), pod("web-0"), reservation().Object)
		f.answers[path] = bare(http.StatusNotFound)
		live, err := f.cluster(t).GetLive(t.Context(), observed(), need)
		if err == nil {
			t.Errorf("%s: %d %d %d counts as an answer", path, len(live.Pools), len(live.Reservations), len(live.Pods))
		}
	}
	// Nor does it say that agents do not exist.
	f := newFakeAPI(t)
	f.answers[discovery], f.answers["/apis"] = bare(http.StatusNotFound), bare(http.StatusNotFound)
	o, err := f.cluster(t).List(t.Context())
	if err == nil && o.Reports.IsKnown() {
		t.Error("discovery: a 404 counts as an API without SandboxReports")
	}
}

// After that answer the report of the node is deleted, and with it what its sandboxes carry.
func TestHasNode_404OfAProxy(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[nodes+"/worker-1"] = bare(http.StatusNotFound)
	if exists, err := f.cluster(t).HasNode(t.Context(), "worker-1"); err == nil {
		t.Errorf("a 404 of something in between counts as an answer: %v", exists)
	}
	f.answers[nodes+"/worker-1"] = fails(http.StatusNotFound)
	if exists, err := f.cluster(t).HasNode(t.Context(), "worker-1"); err != nil || exists {
		t.Errorf("the API server has no such Node: %v, %v", exists, err)
	}
}

func TestAnswer_NotAList(t *testing.T) {
	for _, text := range []string{`{"kind":"PodList"}`, `{"kind":"PodList","items":[]}`, `{}`, ""} {
		f := newFakeAPI(t)
		f.answers[pods] = func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		}
		if o, err := f.cluster(t).List(t.Context()); err == nil {
			t.Errorf("%q was read as a list of %d pods", text, len(o.Pods))
		}
	}
}

// Something in between may answer with JSON, too.
func TestAnswer_NotTheObject(t *testing.T) {
	other, versionless := pool("8"), pool("")
	other["metadata"].(map[string]any)["name"] = "10.0.1.0-24"
	for _, path := range []string{onePool, oneRes} {
		for title, a := range map[string]answer{
			"an empty object": object(map[string]any{}), "another object": object(other),
			"one without a resourceVersion": object(versionless),
			"nothing":                       func(http.ResponseWriter, *http.Request, int) {},
			"half of it":                    breaksOff(false),
		} {
			f := newFakeAPI(t)
			f.has(pool("8"), pod("web-0"), reservation().Object)
			if f.answers[path] = a; path == onePool {
				f.answers[path] = first(f.stored, a) // the metadata, and then all of it
			}
			if live, err := f.cluster(t).GetLive(impatient(t), observed(), need); err == nil {
				t.Errorf("%s: %s counts as an answer: %+v", path, title, live)
			}
		}
	}
}

// client-go refuses such a name, or reads another object by it, and one tenant's network_name would end the second
// check of all.
func TestGetLive_NameThatNothingCanHave(t *testing.T) {
	f := newFakeAPI(t)
	f.has(pool("8"), pod("web-0"))
	for _, network := range []string{"red/../", "red/../blue-", "red/blue-", "%2e-", "..-", "Red-"} {
		asked := need
		asked.Pools = append(asked.Pools, types.NamespacedName{Namespace: "kube-system", Name: network + "10.0.0.0-24"})
		asked.Reservations = append(asked.Reservations,
			types.NamespacedName{Namespace: "kube-system", Name: network + "10.0.0.5"})
		live, err := f.cluster(t).GetLive(t.Context(), observed(), asked)
		check(t, err)
		equal(t, network, []bool{live.Pools[asked.Pools[0]] != nil, live.Pools[asked.Pools[1]] != nil,
			live.Reservations[asked.Reservations[1]] != nil}, []bool{true, false, false})
	}
}

func TestGetLive_ReservationsNotServed(t *testing.T) {
	for kind, none := range map[string]bool{"ippools": true, "overlappingrangeipreservations": false} {
		f := newFakeAPI(t)
		f.has(pool("8"), pod("web-0"))
		f.answers[oneRes] = bare(http.StatusNotFound)
		f.answers["/apis/whereabouts.cni.cncf.io/v1alpha1"] = serves("whereabouts.cni.cncf.io/v1alpha1", kind)
		live, err := f.cluster(t).GetLive(t.Context(), observed(), need)
		if none != (err == nil) || err == nil && live.Reservations[need.Reservations[0]] != nil {
			t.Errorf("%s are served: %+v, %v", kind, live, err)
		}
	}
}

// servesOnly makes the API serve a resource in version v2 of its group only, and nothing else of that group.
func (f *fakeAPI) servesOnly(r schema.GroupVersionResource) {
	f.answers["/apis/"+r.GroupVersion().String()] = bare(http.StatusNotFound)
	f.answers["/apis/"+r.GroupVersion().String()+"/"+r.Resource] = bare(http.StatusNotFound)
	f.answers["/apis/"+r.Group+"/v2"] = serves(r.Group+"/v2", "others", r.Resource)
	versions := []any{map[string]any{"groupVersion": r.Group + "/v2", "version": "v2"}}
	f.answers["/apis"] = object(map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{
		map[string]any{"name": r.Group, "versions": versions}}})
}

// That none can be read in this version does not mean that there are none.
func TestServed_InAnotherVersion(t *testing.T) {
	for _, c := range []struct {
		resource  schema.GroupVersionResource
		isUnknown bool // it makes the source unknown, and is no error
	}{
		{ippool.PoolResource, false}, {ippool.ReservationResource, false}, {ippool.NADResource, true},
		{podstate.GuestResource, true}, {ippool.ClaimResource, true}, {v1alpha1.Resource(), true},
	} {
		t.Run(c.resource.Resource, func(t *testing.T) {
			f := newFakeAPI(t)
			claimed := pool("7")
			claimed["spec"].(map[string]any)["allocations"].(map[string]any)["6"] = map[string]any{"id": "box-2",
				"podref": "default/vm", "ifname": "net1", "ipamclaimref": "default/vm.net1"}
			f.has(claimed, launcher("launcher-2"))
			f.servesOnly(c.resource)
			cluster := f.cluster(t)
			if served, err := cluster.Serves(t.Context(), c.resource); served || !errors.As(err, new(*kube.OtherVersionError)) {
				t.Errorf("served: %v, %v", served, err)
			}
			o, err := cluster.List(t.Context())
			text := ""
			if err != nil {
				text = err.Error()
			} else {
				text = fmt.Sprint(o.UnknownSources())
			}
			says := fmt.Sprintf("%s is served as v2, and this version of ip-reconcile reads %s", c.resource.GroupResource(),
				c.resource.Version)
			if (err == nil) != c.isUnknown || !strings.Contains(text, says) {
				t.Errorf("error %v, says %q", err, text)
			}
			if c.resource == v1alpha1.Resource() && o.Reports.IsKnown() {
				t.Error("no agents")
			}
			f.nowAnswers(serves(c.resource.Group+"/v2", "others"), "/apis/"+c.resource.Group+"/v2")
			if served, err := cluster.Serves(t.Context(), c.resource); served || err != nil {
				t.Errorf("not in another version either: %v, %v", served, err)
			}
		})
	}
}

func TestGetLive_ReservationsServedInAnotherVersion(t *testing.T) {
	f := newFakeAPI(t)
	f.has(pool("8"), pod("web-0"))
	f.servesOnly(ippool.ReservationResource)
	f.answers[oneRes] = bare(http.StatusNotFound)
	if live, err := f.cluster(t).GetLive(t.Context(), observed(), need); !errors.As(err, new(*kube.OtherVersionError)) {
		t.Errorf("%+v, %v", live, err)
	}
}
