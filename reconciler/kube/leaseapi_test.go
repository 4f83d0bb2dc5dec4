package kube_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// leaseAPI is a fake API server whose Leases replicas take, in a bubble, so that tests control time.
type leaseAPI struct {
	*fakeapi.Server
	writes map[string]int // successful writes, by replica
	fails  func(replica string, r *http.Request) (code int)
	lost   func() bool   // whether the answer to a successful write is 500
	late   time.Duration // how late the clocks in Leases are
}

func newLeaseAPI() *leaseAPI {
	return &leaseAPI{Server: fakeapi.NewServer(), writes: map[string]int{}}
}

// onLeases runs a test on such a server.
func onLeases(t *testing.T, f func(t *testing.T, a *leaseAPI)) {
	synctest.Test(t, func(t *testing.T) { f(t, newLeaseAPI()) })
}

// set changes the server while requests may be in progress.
func (a *leaseAPI) set(change func()) {
	a.Lock()
	defer a.Unlock()
	change()
}

// forbid refuses requests whose path has this part.
func (a *leaseAPI) forbid(part string) {
	a.fails = func(_ string, r *http.Request) int {
		if strings.Contains(r.URL.Path, part) {
			return http.StatusForbidden
		}
		return 0
	}
}

// client is the API for one replica.
type client struct {
	*leaseAPI
	replica string
}

func (c client) RoundTrip(r *http.Request) (*http.Response, error) {
	api := fakeapi.Client{Server: c.Server, Name: c.replica, After: c.after}
	api.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		if c.fails != nil {
			switch code := c.fails(c.replica, r); code {
			case 0:
			case -1:
				return &fakeapi.Answer{Err: errors.New("connection refused")}
			default:
				return ptr.To(refused(code))
			}
		}
		if c.late != 0 && q.Writes() {
			q.Body = delayed(q.Body, c.late)
		}
		return nil
	}
	return api.RoundTrip(r)
}

func refused(code int) fakeapi.Answer {
	a := fakeapi.Failure(code, map[int]metav1.StatusReason{403: "Forbidden"}[code], http.StatusText(code))
	if code == http.StatusTooManyRequests {
		a.Retry = "1"
	}
	return a
}

// delayed is a written Lease with other times.
func delayed(body []byte, by time.Duration) []byte {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		panic(err)
	}
	l := o.(*coordinationv1.Lease)
	for _, at := range []*metav1.MicroTime{l.Spec.AcquireTime, l.Spec.RenewTime} {
		if at != nil {
			at.Time = at.Add(-by)
		}
	}
	return encoded(l)
}

func encoded(l *coordinationv1.Lease) []byte {
	l.APIVersion, l.Kind = "coordination.k8s.io/v1", "Lease"
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return text
}

func (c client) after(q *fakeapi.Request, a fakeapi.Answer) fakeapi.Answer {
	if !q.Writes() || a.Status/100 != 2 {
		return a
	}
	c.writes[c.replica]++
	if c.lost != nil && c.lost() {
		return fakeapi.Failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "")
	}
	return a
}

// store stores a Lease, as somebody else who writes then. The caller holds the lock.
func (a *leaseAPI) store(l *coordinationv1.Lease, at time.Time) {
	a.Put(fakeapi.At(fakeapi.Leases, l.Namespace, l.Name), fakeapi.Decode(encoded(l)), at, "another")
}

// lease returns a Lease by namespace/name; nil for none. The caller holds the lock.
func (a *leaseAPI) lease(name string) *coordinationv1.Lease {
	o := a.Get(fakeapi.At(fakeapi.Leases, path.Dir(name), path.Base(name)))
	if o == nil {
		return nil
	}
	l := &coordinationv1.Lease{}
	if err := json.Unmarshal(o.JSON, l); err != nil {
		panic(err)
	}
	return l
}

func (a *leaseAPI) cluster(t *testing.T, replica string) *kube.Cluster {
	t.Helper()
	return a.clusterWith(t, replica, rest.Config{QPS: -1})
}

// clusterWith returns a replica's cluster with this configuration of its client.
func (a *leaseAPI) clusterWith(t *testing.T, replica string, config rest.Config) *kube.Cluster {
	t.Helper()
	config.Transport = client{a, replica}
	return clusterInBubble(t, config, kube.Settings{Identity: replica, Timeout: 5 * time.Second,
		Log: slog.New(slog.DiscardHandler)})
}

// clusterInBubble does not spread its pauses.
func clusterInBubble(t *testing.T, config rest.Config, s kube.Settings) *kube.Cluster {
	t.Helper()
	config.Host, s.Namespace, s.Jitter = "http://api", "kube-system", func(d time.Duration) time.Duration { return d }
	c, err := kube.New(&config, s)
	check(t, err)
	return c
}

// holder returns the holder of a Lease; "" for none.
func (a *leaseAPI) holder(name string) string {
	a.Lock()
	defer a.Unlock()
	if l := a.lease(name); l != nil {
		return ptr.Deref(l.Spec.HolderIdentity, "")
	}
	return ""
}

// has stores a Lease that its holder renewed a while ago.
func (a *leaseAPI) has(name, holder string, ago time.Duration, edit ...func(*coordinationv1.Lease)) {
	a.Lock()
	defer a.Unlock()
	then := metav1.NewMicroTime(time.Now().Add(-ago))
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: path.Dir(name), Name: path.Base(name)},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &then, RenewTime: &then,
			LeaseDurationSeconds: ptr.To(int32(1)), LeaseTransitions: ptr.To(int32(7))}}
	for _, e := range edit {
		e(l)
	}
	a.store(l, then.Time)
}
