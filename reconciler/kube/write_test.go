package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// hashOf is the hash in an agent's Lease for a report without content.
func hashOf(t *testing.T, observed time.Time) string {
	t.Helper()
	return podstate.Hash(&v1alpha1.SandboxReport{ObservedAt: metav1.NewTime(observed.Truncate(time.Second).UTC())})
}

func readPool(version string) *ippool.Pool {
	return ippool.Read[ippool.Pool](&unstructured.Unstructured{Object: pool(version)})
}

func readReservation() *ippool.Reservation { return ippool.Read[ippool.Reservation](reservation()) }

func reservation() *unstructured.Unstructured {
	u := ippool.NewReservation("kube-system", "", netip.MustParseAddr("10.0.0.5"), "default/web-0", "net1").AsNew()
	u.SetUID("the-uid")
	u.SetResourceVersion("42")
	return u
}

// need names one object of each kind.
var need = facts.LiveKeys{
	Pools:        []types.NamespacedName{{Namespace: "kube-system", Name: "10.0.0.0-24"}},
	Reservations: []types.NamespacedName{{Namespace: "kube-system", Name: "10.0.0.5"}},
	Pods:         []types.NamespacedName{{Namespace: "default", Name: "web-0"}},
}

// observed is an observation with one object of each kind, and another pod.
func observed() *facts.Observation {
	web, other := types.NamespacedName{Namespace: "default", Name: "web-0"}, types.NamespacedName{Namespace: "default",
		Name: "other"}
	return &facts.Observation{
		Pools: []*ippool.Pool{readPool("7")}, Reservations: facts.Complete([]*ippool.Reservation{readReservation()}, ""),
		Pods: map[types.NamespacedName]*podstate.Pod{web: {NamespacedName: web}, other: {NamespacedName: other}},
	}
}

func TestGetLive_NotFound(t *testing.T) {
	all := func(f *fakeAPI) {
		f.has(pool("8"), pod("web-0"), reservation().Object)
	}
	f := newFakeAPI(t)
	all(f)
	live, err := f.cluster(t).GetLive(t.Context(), observed(), need)
	check(t, err)
	equal(t, "pools, reservations, pods", []int{len(live.Pools), len(live.Reservations), len(live.Pods)}, []int{1, 1, 1})
	equal(t, "the pool's version", live.Pools[need.Pools[0]].ResourceVersion, "8")
	equal(t, "restored", live.Restored, "")
	equal(t, "the last request", f.requests[len(f.requests)-1].URL.Path, onePod)

	// A pool that has not changed is not read in full.
	f = newFakeAPI(t)
	all(f)
	f.has(pool("7"))
	live, err = f.cluster(t).GetLive(t.Context(), observed(), need)
	check(t, err)
	equal(t, "pools read in full", len(live.Pools), 0)
	equal(t, "requests for the pool", len(f.to(onePool)), 1)
	if accept := f.to(onePool)[0].Header.Get("Accept"); !strings.Contains(accept, "as=PartialObjectMetadata") {
		t.Errorf("more than its metadata was asked for: %s", accept)
	}

	for _, path := range []string{onePool, oneRes, onePod} {
		f := newFakeAPI(t)
		all(f)
		f.answers[path] = fails(http.StatusNotFound)
		live, err := f.cluster(t).GetLive(t.Context(), observed(), need)
		check(t, err)
		count := func(is bool) int { return map[bool]int{true: 1}[is] }
		equal(t, "objects without "+path, count(live.Pools[need.Pools[0]] != nil)+
			count(live.Reservations[need.Reservations[0]] != nil)+count(live.Pods[need.Pods[0]] != nil), 2)

		for name, failure := range transient {
			t.Run(path+", "+name, func(t *testing.T) {
				t.Parallel()
				f := newFakeAPI(t)
				all(f)
				f.answers[path] = failure
				if _, err := f.cluster(t).GetLive(impatient(t), observed(), need); err == nil {
					t.Error("it counts as an answer")
				}
				f = newFakeAPI(t)
				all(f)
				f.answers[path] = first(failure, f.stored)
				live, err := f.cluster(t).GetLive(t.Context(), observed(), need)
				check(t, err)
				equal(t, "objects", len(live.Pools)+len(live.Reservations)+len(live.Pods), 3)
			})
		}
	}
	for _, path := range []string{onePool, oneRes} {
		f := newFakeAPI(t)
		all(f)
		f.answers[path] = fails(http.StatusForbidden)
		if _, err := f.cluster(t).GetLive(t.Context(), observed(), need); err == nil {
			t.Errorf("%s: a 403 counts as an answer", path)
		}
	}
}

// A recreated pool may have any resourceVersion.
func TestGetLive_RecreatedPool(t *testing.T) {
	f := newFakeAPI(t)
	again := pool("7")
	again["metadata"].(map[string]any)["uid"] = "another"
	f.has(again)
	live, err := f.cluster(t).GetLive(t.Context(), observed(), need)
	check(t, err)
	equal(t, "pools read in full", len(live.Pools), 1)
}

// whereabouts' own ClusterRole has no get on pods before v0.9.
func TestGetLive_PodsForbidden(t *testing.T) {
	for _, there := range []bool{true, false} {
		f := newFakeAPI(t)
		f.has(pool("8"))
		f.answers[onePod] = fails(http.StatusForbidden)
		if there {
			f.has(pod("web-0"))
		}
		c := f.cluster(t)
		for range 2 {
			o, err := c.GetLive(t.Context(), observed(), need)
			check(t, err)
			equal(t, "the pod is found", o.Pods[need.Pods[0]] != nil, there)
		}
		equal(t, "GETs", len(f.to(onePod)), 1) // the refusal is remembered
		lists := f.to(podsOfDefault)
		equal(t, "LISTs", len(lists), 2)
		equal(t, "the field selector", lists[0].URL.Query().Get("fieldSelector"), "metadata.name=web-0")

		f.answers[podsOfDefault] = fails(http.StatusForbidden)
		if _, err := c.GetLive(t.Context(), observed(), need); err == nil {
			t.Error("a 403 on both counts as an answer")
		}
	}
}

func TestGetLive_OlderPool(t *testing.T) {
	f := newFakeAPI(t)
	f.has(pool("6"))
	o, err := f.cluster(t).GetLive(t.Context(), observed(), need)
	check(t, err)
	equal(t, "its versions", fmt.Sprint(o.Versions), "[{IPPool kube-system/10.0.0.0-24 6} "+
		"{IPPool kube-system/10.0.0.0-24 6}]")
	again, err := f.cluster(t).Relist(t.Context(), observed())
	check(t, err)
	lists := slices.DeleteFunc(again.Versions, func(v facts.Version) bool { return v.Object != facts.PoolList })
	// Pools that have changed are read side by side, so that their answers are in no order.
	equal(t, "revisions of lists", fmt.Sprint(lists), "[{the list of IPPools 100}]")
}

// unheld writes as with --without-lease.
func unheld(t *testing.T, c *kube.Cluster, do apply.Work) error {
	t.Helper()
	c.WithoutLease = true
	return c.Hold(t.Context(), "kube-system", nil, do)
}

func TestWrite_Answers(t *testing.T) {
	creates := map[int]error{403: errors.ErrUnsupported, 500: errors.ErrUnsupported, 422: errors.ErrUnsupported}
	writes := map[string]struct {
		path   string
		do     apply.Work
		answer map[int]error // nil for success, errors.ErrUnsupported for any other error
	}{
		"patch a pool": {onePool, each[http.MethodPatch], map[int]error{
			409: apply.ErrConflict, 422: apply.ErrConflict, 404: apply.ErrConflict,
			403: errors.ErrUnsupported, 500: errors.ErrUnsupported, 503: errors.ErrUnsupported}},
		"delete a reservation": {oneRes, each[http.MethodDelete], map[int]error{
			409: apply.ErrConflict, 404: nil, 403: errors.ErrUnsupported, 500: errors.ErrUnsupported}},
		"create a pool":        {inWhereabouts + "ippools", each["POST of a pool"], creates},
		"create a reservation": {inWhereabouts + "overlappingrangeipreservations", each[http.MethodPost], creates},
	}
	for name, write := range writes {
		page := newFakeAPI(t) // a login page
		page.answers[write.path] = func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>Log in</html>"))
		}
		if err := unheld(t, page.cluster(t), write.do); err == nil {
			t.Errorf("%s: a web page counts as a success", name)
		}
		for code, want := range write.answer {
			f := newFakeAPI(t)
			f.answers[write.path] = fails(code)
			c, denied := f.cluster(t), 0
			c.OnDenied = func() { denied++ }
			err := unheld(t, c, write.do)
			equal(t, fmt.Sprintf("%s, answered with %d: denied", name, code), denied == 1, code == http.StatusForbidden ||
				code == http.StatusUnprocessableEntity && !errors.Is(want, apply.ErrConflict))
			conflict := errors.Is(err, apply.ErrConflict)
			if conflict != errors.Is(want, apply.ErrConflict) || (err == nil) != (want == nil) {
				t.Errorf("%s, answered with %d: %v", name, code, err)
			}
			equal(t, name+", requests", len(f.to(write.path)), 1) // the next pass decides on a retry
		}
	}
	f := newFakeAPI(t)
	f.answers[onePool] = denies("ValidatingAdmissionPolicy 'protect' denied request")
	c, denied := f.cluster(t), 0
	c.OnDenied = func() { denied++ }
	if err := unheld(t, c, writes["patch a pool"].do); !errors.Is(err, apply.ErrForbidden) ||
		!strings.Contains(err.Error(), "'protect' denied") {
		t.Errorf("denied by a policy: %v", err)
	}
	equal(t, "denied by a policy", denied, 1)
	f = newFakeAPI(t)
	f.has(pool("8"), reservation().Object)
	check(t, unheld(t, f.cluster(t), writes["patch a pool"].do))
	equal(t, "the patch's type", f.requests[0].Header.Get("Content-Type"), "application/json-patch+json")
	check(t, unheld(t, f.cluster(t), writes["delete a reservation"].do))
	if body := f.bodies[1]; !strings.Contains(body, `"preconditions":{"uid":"the-uid","resourceVersion":"42"}`) {
		t.Errorf("the delete's body is %s", body)
	}
}

// A denied delete of a report or of its Lease is a denied write, a denied read is none.
func TestDeleteReport_Denied(t *testing.T) {
	const report, lease = reports + "/worker-1", leases + "/worker-1"
	for path, want := range map[string]int{report: 1, lease: 0} {
		f := newFakeAPI(t)
		f.answers[report] = object(map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"})
		f.answers[path] = fails(http.StatusForbidden)
		c, denied := f.cluster(t), 0
		c.OnDenied = func() { denied++ }
		r := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}}
		if err := c.DeleteReport(t.Context(), r); err == nil {
			t.Errorf("%s is denied, and that is no error", path)
		}
		equal(t, path+": denied writes", denied, want)
	}
}
