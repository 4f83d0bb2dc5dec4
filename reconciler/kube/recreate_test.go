package kube_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// A reservation that exists may be the one whose delete may yet arrive: only a new object is safe from it.
func TestRecreate_Answers(t *testing.T) {
	const all = inWhereabouts + "overlappingrangeipreservations"
	ours, another := reservation(), reservation()
	another.SetUID("another")
	exists := status(fakeapi.Failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, "it exists"))
	failed := errors.ErrUnsupported // any error but those of a race and of RBAC
	for name, c := range map[string]struct {
		exists      *unstructured.Unstructured
		path        string
		answers     []answer // to the requests for the path, in turn; nil is the server's own
		requests    string
		want        error
		isRecreated bool
	}{
		"it is deleted":                 {nil, "", nil, "POST ", nil, true},
		"its delete did not arrive":     {ours, "", nil, "POST DELETE POST ", nil, true},
		"its delete arrives meanwhile":  {nil, all, []answer{exists, nil}, "POST DELETE POST ", nil, true},
		"an ADD has created it":         {another, "", nil, "POST DELETE ", nil, false},
		"an ADD creates it in between":  {nil, all, []answer{exists}, "POST DELETE POST ", nil, false},
		"it may not be created":         {nil, all, []answer{fails(403)}, "POST ", apply.ErrForbidden, false},
		"it cannot be created":          {nil, all, []answer{fails(500)}, "POST ", failed, false},
		"it exists, and stays":          {ours, oneRes, []answer{fails(500)}, "POST DELETE ", failed, false},
		"it exists, and may not go":     {ours, oneRes, []answer{fails(403)}, "POST DELETE ", apply.ErrForbidden, false},
		"it cannot be created any more": {ours, all, []answer{nil, fails(500)}, "POST DELETE POST ", failed, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			if c.exists != nil {
				f.has(c.exists.Object)
			}
			if c.answers != nil {
				for i, a := range c.answers {
					if a == nil {
						c.answers[i] = f.stored
					}
				}
				f.answers[c.path] = first(c.answers...)
			}
			err := f.cluster(t).Recreate(t.Context(), readReservation(), time.Second)
			isOther := err != nil && !errors.Is(err, apply.ErrForbidden) && !errors.Is(err, apply.ErrConflict)
			if isOther != errors.Is(c.want, failed) || !isOther && !errors.Is(err, c.want) {
				t.Errorf("the error is %v", err)
			}
			var requests string
			for _, r := range f.requests {
				requests += r.Method + " "
			}
			equal(t, "requests", requests, c.requests)
			stored := f.api.Get(fakeapi.At(fakeapi.Reservations, "kube-system", "10.0.0.5"))
			equal(t, "there is a new one", stored != nil && stored.UID != "the-uid" && stored.UID != "another", c.isRecreated)
		})
	}
}

// Each create ends with the timeout. The delete must complete, so it may take longer.
func TestRecreate_Timeouts(t *testing.T) {
	f := newFakeAPI(t)
	f.has(reservation().Object)
	f.answers[oneRes] = late(300*time.Millisecond, f.stored)
	check(t, f.cluster(t).Recreate(t.Context(), readReservation(), 100*time.Millisecond))
	equal(t, "requests", len(f.requests), 3)

	f = newFakeAPI(t)
	f.answers[inWhereabouts+"overlappingrangeipreservations"] = late(time.Second, f.stored)
	began := time.Now()
	if err := f.cluster(t).Recreate(t.Context(), readReservation(), 100*time.Millisecond); err == nil {
		t.Error("a create that hangs succeeds")
	}
	between(t, "it took", time.Since(began), 0, 900*time.Millisecond)
}
