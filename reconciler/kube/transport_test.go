package kube

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

var errArrived = errors.New("it arrived")

// arriving is a transport to an API server that only counts requests.
type arriving struct{ writes *int }

func (a arriving) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		*a.writes++
	}
	return nil, errArrived
}

// The clients that read may also write Leases and reports, but neither pools nor reservations.
func TestOrdinaryClient_WritesNoPools(t *testing.T) {
	writes := 0
	c, err := New(&rest.Config{Host: "http://api/a/prefix", QPS: -1, Transport: arriving{&writes}},
		Settings{Namespace: "kube-system", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	tried := func(of schema.GroupVersionResource) (errs []error) {
		ctx, o := t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": of.GroupVersion().String(),
			"kind": "X", "metadata": map[string]any{"namespace": "n", "name": "x"}}}
		api, metadata := c.objects.Resource(of).Namespace("n"), c.metadata.Resource(of).Namespace("n")
		do := func(_ any, err error) { errs = append(errs, err) }
		do(api.Create(ctx, o, metav1.CreateOptions{}))
		do(api.Update(ctx, o, metav1.UpdateOptions{}))
		do(api.UpdateStatus(ctx, o, metav1.UpdateOptions{}))
		do(api.Patch(ctx, "x", types.JSONPatchType, []byte("[]"), metav1.PatchOptions{}))
		do(api.Apply(ctx, "x", o, metav1.ApplyOptions{}))
		do(nil, api.Delete(ctx, "x", metav1.DeleteOptions{}))
		do(nil, api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		do(metadata.Patch(ctx, "x", types.JSONPatchType, []byte("[]"), metav1.PatchOptions{}))
		do(nil, metadata.Delete(ctx, "x", metav1.DeleteOptions{}))
		path := "/apis/" + of.Group + "/" + of.Version + "/namespaces/n/" + of.Resource
		do(nil, c.client.Delete().AbsPath(path).Do(ctx).Error())
		do(nil, c.core.Discovery().RESTClient().Post().AbsPath(path).Do(ctx).Error())
		return errs
	}
	for _, of := range []schema.GroupVersionResource{
		ippool.PoolResource, ippool.ReservationResource, ippool.PoolResource.GroupResource().WithVersion("v2"),
	} {
		for i, err := range tried(of) {
			if !errors.Is(err, errNotSent) || writes != 0 {
				t.Errorf("write %d to %s: %v, %d arrived", i, of.Resource, err, writes)
			}
		}
	}
	all := tried(v1alpha1.Resource())
	if writes != len(all) {
		t.Errorf("%d of %d writes of reports arrived", writes, len(all))
	}
	_, err = c.objects.Resource(ippool.PoolResource).List(t.Context(), metav1.ListOptions{})
	if !errors.Is(err, errArrived) {
		t.Errorf("a list of pools: %v", err)
	}
}

// The client of a rollback creates reservations, and deletes one.
func TestUndoes(t *testing.T) {
	const in = "https://api/a/prefix/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/"
	r := &ippool.Reservation{}
	r.Namespace, r.Name = "kube-system", "10.0.0.5"
	for request, want := range map[string]bool{
		"POST " + in + "overlappingrangeipreservations":                                             true,
		"DELETE " + in + "overlappingrangeipreservations/10.0.0.5":                                  true,
		"DELETE " + in + "overlappingrangeipreservations/10.0.0.50":                                 false,
		"DELETE " + in + "overlappingrangeipreservations/110.0.0.5":                                 false,
		"DELETE " + in + "overlappingrangeipreservations":                                           false,
		"DELETE " + in + "ippools/10.0.0.5":                                                         false,
		"POST " + in + "ippools":                                                                    false,
		"PATCH " + in + "overlappingrangeipreservations/10.0.0.5":                                   false,
		"PUT " + in + "overlappingrangeipreservations/10.0.0.5":                                     false,
		"PATCH " + in + "ippools/10.0.0.0-24":                                                       false,
		"POST https://api/api/v1/namespaces/kube-system/pods":                                       false,
		"POST " + strings.Replace(in, "kube-system", "other", 1) + "overlappingrangeipreservations": false,
	} {
		method, url, _ := strings.Cut(request, " ")
		q, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := undoes(q, r); got != want {
			t.Errorf("%s: %v", request, got)
		}
	}
}
