package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// leaseAPI is an API server that has only Leases, in memory, so that tests control time.
type leaseAPI struct {
	mu      sync.Mutex
	version int
	leases  map[string]*coordinationv1.Lease // by namespace/name
	writes  map[string]int                   // successful writes, by replica
	fails   func(replica string, r *http.Request) (code int)
	lost    func() bool                         // whether the answer to a successful write is 500
	other   func(r *http.Request) http.Response // answers other requests
	late    time.Duration                       // how late the clocks in Leases are
}

func newLeaseAPI() *leaseAPI {
	return &leaseAPI{leases: map[string]*coordinationv1.Lease{}, writes: map[string]int{}}
}

// client is the API for one replica.
type client struct {
	*leaseAPI
	replica string
}

func (c client) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		switch code := c.fails(c.replica, r); code {
		case 0:
		case -1:
			return nil, errors.New("connection refused")
		default:
			return answered(r, code, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Code: int32(code), Reason: map[int]metav1.StatusReason{403: "Forbidden"}[code], Status: "Failure"}), nil
		}
	}
	if c.other != nil && !strings.Contains(r.URL.Path, "/leases") {
		answer := c.other(r)
		return &answer, nil
	}
	parts := strings.Split(r.URL.Path, "/") // /apis/coordination.k8s.io/v1/namespaces/NS/leases/NAME
	key := parts[5] + "/" + path.Base(r.URL.Path)
	var written *coordinationv1.Lease
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			panic(err)
		}
		written = o.(*coordinationv1.Lease)
		key = written.Namespace + "/" + written.Name
	}
	status := func(code int, reason metav1.StatusReason) (*http.Response, error) {
		return answered(r, code, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Code: int32(code), Reason: reason, Status: "Failure"}), nil
	}
	is := c.leases[key]
	switch {
	case r.Method == http.MethodPost && is != nil:
		return status(http.StatusConflict, metav1.StatusReasonAlreadyExists)
	case r.Method == http.MethodPost:
	case is == nil:
		return status(http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodPut && written.ResourceVersion != is.ResourceVersion:
		return status(http.StatusConflict, metav1.StatusReasonConflict)
	case r.Method == http.MethodGet:
		return answered(r, http.StatusOK, is), nil
	}
	c.writes[c.replica]++
	if c.late != 0 && written.Spec.AcquireTime != nil {
		written.Spec.AcquireTime = ptr.To(metav1.NewMicroTime(written.Spec.AcquireTime.Add(-c.late)))
		written.Spec.RenewTime = ptr.To(metav1.NewMicroTime(written.Spec.RenewTime.Add(-c.late)))
	}
	c.store(written)
	if c.lost != nil && c.lost() {
		return status(http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}
	return answered(r, http.StatusOK, written), nil
}

// store stores a Lease as the API server does. The caller holds mu.
func (a *leaseAPI) store(l *coordinationv1.Lease) {
	a.version++
	l.ResourceVersion = fmt.Sprint(a.version)
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x", Operation: "Update", Time: &now,
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)}}
	l.APIVersion, l.Kind = "coordination.k8s.io/v1", "Lease"
	a.leases[l.Namespace+"/"+l.Name] = l.DeepCopy()
}

func answered(r *http.Request, code int, o any) *http.Response {
	w := &strings.Builder{}
	if err := json.NewEncoder(w).Encode(o); err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Request: r,
		Body:   io.NopCloser(strings.NewReader(w.String())),
		Header: http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}}
}

func (a *leaseAPI) cluster(t *testing.T, replica string) *kube.Cluster {
	t.Helper()
	c, err := kube.New(&rest.Config{Host: "http://api", QPS: -1, Transport: client{a, replica}}, kube.Settings{
		Namespace: "kube-system", Identity: replica, Timeout: 5 * time.Second,
		Log: slog.New(slog.DiscardHandler), Jitter: func(d time.Duration) time.Duration { return d },
	})
	check(t, err)
	return c
}

// holder returns the holder of a Lease; "" for none.
func (a *leaseAPI) holder(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.leases[name]; l != nil {
		return ptr.Deref(l.Spec.HolderIdentity, "")
	}
	return ""
}

// has stores a Lease that its holder renewed a while ago.
func (a *leaseAPI) has(name, holder string, ago time.Duration, edit ...func(*coordinationv1.Lease)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	then := metav1.NewMicroTime(time.Now().Add(-ago))
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: path.Dir(name), Name: path.Base(name)},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &then, RenewTime: &then,
			LeaseDurationSeconds: ptr.To(int32(1)), LeaseTransitions: ptr.To(int32(7))}}
	for _, e := range edit {
		e(l)
	}
	a.store(l)
	a.leases[name].ManagedFields[0].Time = ptr.To(metav1.NewTime(then.Time))
}
