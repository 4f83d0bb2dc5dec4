package kube_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// emptyPool is a pool without entries, by its name.
func emptyPool(name string) map[string]any {
	p := poolCalled(name, "7", "")
	p["spec"].(map[string]any)["allocations"] = map[string]any{}
	return p
}

// deletes deletes the empty pool of this name.
func deletes(t *testing.T, name string) apply.Work {
	r, err := ippool.NewRemoval(ippool.Read[ippool.Pool](&unstructured.Unstructured{Object: emptyPool(name)}))
	check(t, err)
	return func(ctx context.Context, s apply.Session) error { return s.DeletePool(ctx, r) }
}

// allowed lets a cluster's sessions delete the first pool.
func allowed(t *testing.T, f *fakeAPI) *kube.Cluster {
	c := f.cluster(t)
	check(t, c.AllowRetirement(t.Context(), []types.NamespacedName{{Namespace: "kube-system", Name: "10.0.0.0-24"}}))
	return c
}

// A session deletes only the pools that a person asked this process to retire.
func TestRetire_OnlyWhatWasAskedFor(t *testing.T) {
	f := newFakeAPI(t)
	f.has(emptyPool("10.0.0.0-24"), emptyPool("10.0.0.0-24-b"))
	sent := func() (n int) {
		for _, r := range f.requests {
			if r.Method == http.MethodDelete {
				n++
			}
		}
		return n
	}
	notSent(t, "a delete that nobody asked for", unheld(t, f.cluster(t), deletes(t, "10.0.0.0-24")))
	c := allowed(t, f)
	notSent(t, "a delete of another pool", unheld(t, c, deletes(t, "10.0.0.0-24-b")))
	equal(t, "deletes sent", sent(), 0)
	check(t, unheld(t, c, deletes(t, "10.0.0.0-24")))
	equal(t, "deletes sent", sent(), 1)
	equal(t, "the path", f.requests[len(f.requests)-1].URL.Path, onePool)
	body := f.bodies[len(f.bodies)-1]
	for _, want := range []string{`"preconditions":{"uid":"uid-10.0.0.0-24","resourceVersion":"7"}`,
		`"propagationPolicy":"Background"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the delete's body has no %s: %s", want, body)
		}
	}
}

// Without the right nothing is allowed, and a request for access that fails is no answer.
func TestRetire_Rights(t *testing.T) {
	const reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	name := []types.NamespacedName{{Namespace: "kube-system", Name: "10.0.0.0-24"}}
	f := newFakeAPI(t)
	f.answers[reviews] = object(map[string]any{"kind": "SelfSubjectAccessReview",
		"apiVersion": "authorization.k8s.io/v1", "status": map[string]any{"allowed": false}})
	c := f.cluster(t)
	err := c.AllowRetirement(t.Context(), name)
	if !errors.Is(err, apply.ErrForbidden) || !strings.Contains(err.Error(), "ip-reconcile-recover") {
		t.Errorf("without the right: %v", err)
	}
	if body := f.bodies[len(f.bodies)-1]; !strings.Contains(body, "delete") || !strings.Contains(body, "10.0.0.0-24") {
		t.Errorf("it asks for %q", body)
	}
	notSent(t, "a delete without the right", unheld(t, c, deletes(t, "10.0.0.0-24")))
	f.answers[reviews] = fails(http.StatusForbidden)
	if err := c.AllowRetirement(impatient(t), name); err == nil || errors.Is(err, apply.ErrForbidden) {
		t.Errorf("without an answer: %v", err)
	}
	notSent(t, "a delete without an answer", unheld(t, c, deletes(t, "10.0.0.0-24")))
}

func TestRetire_Answers(t *testing.T) {
	for code, want := range map[int]error{409: apply.ErrConflict, 404: nil, 403: apply.ErrForbidden,
		500: errors.ErrUnsupported, 200: nil} {
		f := newFakeAPI(t)
		f.has(emptyPool("10.0.0.0-24"))
		c := allowed(t, f)
		if code != 200 {
			f.answers[onePool] = fails(code)
		}
		err := unheld(t, c, deletes(t, "10.0.0.0-24"))
		isOther := errors.Is(want, errors.ErrUnsupported) && err != nil && !errors.Is(err, apply.ErrConflict)
		if !errors.Is(err, want) && !isOther {
			t.Errorf("answered with %d: %v", code, err)
		}
		equal(t, "requests", len(f.to(onePool)), 1) // the next second check decides on a retry
	}
	f := newFakeAPI(t) // an ADD wrote into the pool since it was read
	pool := emptyPool("10.0.0.0-24")
	pool["metadata"].(map[string]any)["resourceVersion"] = "8"
	f.has(pool)
	if err := unheld(t, allowed(t, f), deletes(t, "10.0.0.0-24")); !errors.Is(err, apply.ErrConflict) {
		t.Errorf("another resourceVersion: %v", err)
	}
}
