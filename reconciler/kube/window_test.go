package kube_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// ownLease is the leader's Lease on the fake API server, with optimistic locking.
type ownLease struct {
	mu     sync.Mutex
	lease  *coordinationv1.Lease
	before func(write int, l *ownLease) // a write, from 1; the caller holds mu
	after  func(write int) (code int)   // instead of the answer to a write that was made; 0 for that
	writes int
}

func (l *ownLease) set(lease *coordinationv1.Lease) {
	l.lease = lease.DeepCopy()
	l.lease.ResourceVersion = strconv.Itoa(l.writes + 100)
	l.lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
}

func (l *ownLease) on(f *fakeAPI) {
	one := func(w http.ResponseWriter, r *http.Request, n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.Method == http.MethodGet {
			if l.lease == nil {
				fails(http.StatusNotFound)(w, r, n)
				return
			}
			l.answer(w)
			return
		}
		l.writes++
		if l.before != nil {
			l.before(l.writes, l)
		}
		lease := f.written(r)
		there := ""
		if l.lease != nil {
			there = l.lease.ResourceVersion
		}
		if lease.ResourceVersion != there {
			fails(http.StatusConflict)(w, r, n)
			return
		}
		l.set(lease)
		if l.after != nil {
			if code := l.after(l.writes); code != 0 {
				fails(code)(w, r, n)
				return
			}
		}
		l.answer(w)
	}
	f.answers[leases+"/"+kube.OwnLease], f.answers[leases] = one, one
}

func (l *ownLease) answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	text, _ := json.Marshal(l.lease)
	_, _ = w.Write(text)
}

func add(mark string) func(string) (string, error) {
	return func(kept string) (string, error) { return kept + mark, nil }
}

func led(by, kept string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: kube.OwnLease, Annotations: map[string]string{kube.ReleasedAnnotation: kept}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(by)}}
}

func TestWhatTheBreakerCountsIsKeptOnTheOwnLease(t *testing.T) {
	t.Run("which is made where it is missing, and nobody leads by it", func(t *testing.T) {
		f, l := newFakeAPI(t), &ownLease{}
		l.on(f)
		c := f.cluster(t)
		check(t, c.Amend(t.Context(), add("a")))
		check(t, c.Amend(t.Context(), add("b")))
		equal(t, "kept", l.lease.Annotations[kube.ReleasedAnnotation], "ab")
		equal(t, "holder", ptr.Deref(l.lease.Spec.HolderIdentity, ""), "")
	})
	t.Run("whose holder renews it in between", func(t *testing.T) {
		f, l := newFakeAPI(t), &ownLease{}
		l.set(led("one", "a"))
		l.before = func(write int, l *ownLease) {
			if write == 1 {
				l.set(led("two", "a"))
			}
		}
		l.on(f)
		check(t, f.cluster(t).Amend(t.Context(), add("b")))
		equal(t, "kept", l.lease.Annotations[kube.ReleasedAnnotation], "ab")
		equal(t, "holder", *l.lease.Spec.HolderIdentity, "two")
	})
	t.Run("once, also where the answer is lost", func(t *testing.T) {
		f, l := newFakeAPI(t), &ownLease{}
		l.set(led("one", "a"))
		l.after = func(write int) int {
			if write == 1 {
				return http.StatusInternalServerError
			}
			return 0
		}
		l.on(f)
		check(t, f.cluster(t).Amend(t.Context(), add("b")))
		equal(t, "kept", l.lease.Annotations[kube.ReleasedAnnotation], "ab")
	})
	t.Run("and not written where nothing changes", func(t *testing.T) {
		f, l := newFakeAPI(t), &ownLease{}
		l.set(led("one", "a"))
		l.on(f)
		check(t, f.cluster(t).Amend(t.Context(), add("")))
		equal(t, "writes", l.writes, 0)
	})
	for says, code := range map[string]int{"and without the right to it that is said": http.StatusForbidden, "and an error is no answer": http.StatusInternalServerError} {
		t.Run(says, func(t *testing.T) {
			f := newFakeAPI(t)
			f.answers[leases+"/"+kube.OwnLease] = fails(code)
			err := f.cluster(t).Amend(impatient(t), func(string) (string, error) {
				t.Error("it was concluded that nothing is kept")
				return "", nil
			})
			equal(t, "forbidden", errors.Is(err, reconciler.ErrForbidden), code == http.StatusForbidden)
			equal(t, "failed", err != nil, true)
		})
	}
}

// It may be long: the own Lease is written every 2 s.
func TestWhatIsKnownOfRestoresIsKeptOnALeaseOfItsOwn(t *testing.T) {
	f, l := newFakeAPI(t), &ownLease{}
	l.on(f)
	f.answers[leases+"/"+kube.RestoreLease] = f.answers[leases+"/"+kube.OwnLease]
	delete(f.answers, leases+"/"+kube.OwnLease)
	restores := f.cluster(t).Restores()
	check(t, restores.Amend(t.Context(), add("a")))
	check(t, restores.Amend(t.Context(), add("b")))
	equal(t, "its name", l.lease.Name, kube.RestoreLease)
	equal(t, "kept", l.lease.Annotations, map[string]string{kube.RestoreAnnotation: "ab"})
}

// The elector of the own Lease would meet a conflict after each pass.
func TestWhatIsToldOfTheLastPassIsOnALeaseOfItsOwn(t *testing.T) {
	f, l := newFakeAPI(t), &ownLease{}
	l.on(f)
	f.answers[leases+"/"+kube.PassLease] = f.answers[leases+"/"+kube.OwnLease]
	delete(f.answers, leases+"/"+kube.OwnLease)
	check(t, f.cluster(t).Passes().Amend(t.Context(), add("a")))
	equal(t, "its name", l.lease.Name, kube.PassLease)
	equal(t, "kept", l.lease.Annotations, map[string]string{kube.PassAnnotation: "a"})
	equal(t, "writes", l.writes, 1)
}
