package kube_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func add(mark string) func(string) (string, error) {
	return func(kept string) (string, error) { return kept + mark, nil }
}

// kept returns the annotations of a Lease in the reconciler's namespace.
func (a *leaseAPI) kept(name string) map[string]string {
	a.Lock()
	defer a.Unlock()
	if l := a.lease("kube-system/" + name); l != nil {
		return l.Annotations
	}
	return nil
}

// leads sets a leader and an annotation.
func (a *leaseAPI) leads(holder string) {
	a.has("kube-system/"+kube.OwnLease, holder, 0, func(l *coordinationv1.Lease) {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, kube.ReleasedAnnotation, "a")
	})
}

func TestStateStore(t *testing.T) {
	const own = "kube-system/" + kube.OwnLease
	for name, c := range map[string]struct {
		prepare func(*leaseAPI)
		add     string
		kept    string
		holder  string
		writes  int
	}{
		"a Lease that is missing is made, and nobody leads by it": {func(*leaseAPI) {}, "b", "b", "", 1},
		"what was kept": {func(a *leaseAPI) { a.leads("one") }, "b", "ab", "one", 1},
		"nothing":       {func(a *leaseAPI) { a.leads("one") }, "", "a", "one", 0},
		"whose holder renews it in between": {func(a *leaseAPI) {
			a.leads("one")
			renewed := false
			a.fails = func(_ string, r *http.Request) int { // the caller holds the lock
				if r.Method == http.MethodPut && !renewed {
					renewed = true
					l := a.lease(own)
					*l.Spec.HolderIdentity = "two"
					a.store(l, time.Now())
				}
				return 0
			}
		}, "b", "ab", "two", 1},
		"once, although the answer is lost": {func(a *leaseAPI) {
			a.leads("one")
			first := true
			a.lost = func() bool { was := first; first = false; return was }
		}, "b", "ab", "one", 1},
	} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				c.prepare(a)
				check(t, a.cluster(t, "us").BreakerStore().Update(t.Context(), add(c.add)))
				equal(t, "kept", a.kept(kube.OwnLease)[kube.ReleasedAnnotation], c.kept)
				equal(t, "holder", a.holder(own), c.holder)
				equal(t, "writes", a.written("us"), c.writes)
			})
		})
	}
	for code, forbidden := range map[int]bool{http.StatusForbidden: true, http.StatusInternalServerError: false} {
		onLeases(t, func(t *testing.T, a *leaseAPI) {
			a.fails = func(string, *http.Request) int { return code }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := a.cluster(t, "us").BreakerStore().Update(ctx, func(string) (string, error) {
				t.Error("a failed read counts as an empty store")
				return "", nil
			})
			if err == nil || errors.Is(err, apply.ErrForbidden) != forbidden {
				t.Errorf("answered with %d: %v", code, err)
			}
		})
	}
}

// OwnLease is written every 2 s: long texts, and those of each pass, are on other Leases.
func TestStateStore_Leases(t *testing.T) {
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		c := a.cluster(t, "us")
		check(t, c.RestoreStore().Update(t.Context(), add("a")))
		check(t, c.RestoreStore().Update(t.Context(), add("b")))
		check(t, c.PassStore().Update(t.Context(), add("p")))
		equal(t, "kept", a.kept(kube.RestoreLease), map[string]string{kube.RestoreAnnotation: "ab"})
		equal(t, "kept of the pass", a.kept(kube.PassLease), map[string]string{kube.PassAnnotation: "p"})
		equal(t, "the own Lease", a.kept(kube.OwnLease), map[string]string(nil))
	})
}
