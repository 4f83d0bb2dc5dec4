// Package kube is the live API: a source of observations, and whereabouts' Leases, under which a session writes. A
// fence holds them for longer after a restore of etcd. ping.go serves serve.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Settings configure a Cluster.
type Settings struct {
	Namespace      string                            // the reconciler's own, whose pause annotation pauses everything
	LeaseNamespace string                            // that of the agents' Leases; Namespace if empty
	Pod            string                            // the name of this process's pod; "" outside a pod
	Timeout        time.Duration                     // of one request; 30 s if zero
	Identity       string                            // the holder of whereabouts' Leases, unique among processes
	WithoutLease   bool                              // writes without whereabouts' Lease
	WithoutPause   bool                              // ignores the pause of everything where RBAC forbids reading it
	Jitter         func(time.Duration) time.Duration // spreads pauses
	Log            *slog.Logger
}

// Cluster reads and writes through an API server.
type Cluster struct {
	Settings
	OnPage   func() // is called for each page of a LIST, by several goroutines at once
	OnDenied func() // is called for each write that RBAC, a policy or a schema forbids, by several goroutines at once
	// OnForeignHold is called with how long another process held whereabouts' Lease while this one waited for it.
	OnForeignHold func(time.Duration)
	// OnPeerFence, if set, is called where a hold would wait for the fence of another replica. That hold fails with
	// apply.ErrLeaseBusy at once: this process should raise the fence, too, and work under it.
	OnPeerFence func()
	// Intern is called for each object of a LIST, by several goroutines at once. It returns an equal object that is in
	// memory already, or the object itself.
	Intern func(any) any
	// AllGuests: VirtualMachineInstances are read wherever a machine's pod runs, not only where a release depends on them.
	AllGuests bool
	// Copies, if it is set, keeps the objects of each LIST, which is read as JSON then.
	Copies *Copies

	host              string
	ofObjects         *rest.Config      // of the clients of objects, with the rate limit that they share
	ofMetadata        *rest.Config      // of the clients of metadata, with the rate limit that they share
	direct            http.RoundTripper // to the API server, without credentials
	core              kubernetes.Interface
	objects           dynamic.Interface
	metadata          metadata.Interface
	client            rest.Interface                   // for LISTs, whose pages package lean decodes
	pings             typedcoordinationv1.LeasesGetter // over a connection of its own
	dials             atomic.Int64                     // how often that connection was opened
	isPodGetForbidden atomic.Bool                      // so pods are listed by name
	lastDate          atomic.Pointer[serverDate]       // the Date of its last answer that has one; nil before
	fence             *Fence
	retirable         map[types.NamespacedName]bool // see AllowRetirement

	mu           sync.Mutex
	failing      failing
	yields       map[string]yield       // of Leases, by namespace/name
	foreignHolds map[string]foreignHold // holds by other processes
}

// New returns a Cluster with a client of its own, limited by config.QPS and config.Burst.
func New(config *rest.Config, s Settings) (*Cluster, error) {
	s.Timeout = cmp.Or(s.Timeout, 30*time.Second)
	s.LeaseNamespace = cmp.Or(s.LeaseNamespace, s.Namespace)
	c := &Cluster{
		Settings: s, OnPage: func() {}, OnDenied: func() {}, OnForeignHold: func(time.Duration) {},
		Intern: func(o any) any { return o }, host: config.Host,
		yields: map[string]yield{}, foreignHolds: map[string]foreignHold{},
	}
	c.fence = &Fence{c: c}
	if err := c.connect(config); err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	return c, nil
}

// connect makes the clients.
func (c *Cluster) connect(config *rest.Config) (err error) {
	config = rest.CopyConfig(config)
	config.Timeout = c.Timeout
	config.DisableCompression = config.DisableCompression || onSameNetwork(config.Host)
	typed := rest.CopyConfig(config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c.ofObjects, c.ofMetadata = withLimit(config), withLimit(config)
	if c.direct, err = directTransport(c, config); err != nil {
		return err
	}
	ordinary, err := c.httpClient(isNoWrite)
	if err != nil {
		return err
	}
	var errs [4]error
	c.core, errs[0] = kubernetes.NewForConfigAndClient(typed, ordinary)
	c.objects, errs[1] = dynamic.NewForConfigAndClient(c.ofObjects, ordinary)
	c.metadata, errs[2] = metadata.NewForConfigAndClient(c.ofMetadata, ordinary)
	c.pings, errs[3] = c.leasesAlone(typed)
	if err := cmp.Or(errs[:]...); err != nil {
		return err
	}
	c.client = c.core.CoreV1().RESTClient()
	return nil
}

// withLimit returns a configuration whose clients share the rate limit, as one client of client-go has it.
func withLimit(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.RateLimiter == nil && config.QPS > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, cmp.Or(config.Burst, rest.DefaultBurst))
	}
	return config
}

// onSameNetwork reports whether the API server is on this machine or in this pod's cluster: compression takes longer.
func onSameNetwork(host string) bool {
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	name := u.Hostname()
	a, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && a.IsLoopback() ||
		name != "" && name == os.Getenv("KUBERNETES_SERVICE_HOST")
}

// serverDate is the Date of an answer, and when the answer arrived.
type serverDate struct{ date, arrivedAt time.Time }

// Now returns the time by the API server's clock, within a second: the Date of its last answer plus the time since. It
// is zero before the first answer with a Date. This machine's clock never replaces it, since ages would be wrong.
func (c *Cluster) Now() time.Time {
	last := c.lastDate.Load()
	if last == nil {
		return time.Time{}
	}
	return last.date.Add(time.Since(last.arrivedAt))
}

// NowOrLocal is Now, or this machine's time while that is unknown. It is for records and output, not for judging.
func (c *Cluster) NowOrLocal() time.Time {
	if now := c.Now(); !now.IsZero() {
		return now
	}
	return time.Now()
}

var errNoDate = errors.New("the API server's answers have no Date header, so the ages of objects are unknown: " +
	"check whether a proxy in front of the API server removes the header")

// date returns Now in whole seconds, as the API server writes times. It is an error if no answer since then had a Date.
func (c *Cluster) date(since time.Time) (time.Time, error) {
	if last := c.lastDate.Load(); last == nil || last.arrivedAt.Before(since) {
		return time.Time{}, errNoDate
	}
	return c.Now().Truncate(time.Second), nil
}

// RecordDates returns a config whose clients set Now, too.
func (c *Cluster) RecordDates(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dateRecorder{next, c} })
	return config
}

// dateRecorder records the Date of each answer.
type dateRecorder struct {
	next http.RoundTripper
	c    *Cluster
}

// WrappedRoundTripper lets client-go cancel a request.
func (d dateRecorder) WrappedRoundTripper() http.RoundTripper { return d.next }

func (d dateRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(r)
	if err == nil {
		d.c.recordDate(resp)
	}
	return resp, err
}

// recordDate records the Date of an answer, if the API server has made it. A proxy's page may have the Date of another
// clock, so only a success counts that has the Audit-Id of each answer of an API server (k8s.io/apiserver,
// pkg/endpoints/filters/audit_init.go), or one of its content types.
func (c *Cluster) recordDate(answer *http.Response) {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	isOfServer := kind == asJSON || kind == "application/vnd.kubernetes.protobuf" ||
		kind != "text/html" && answer.Header.Get("Audit-Id") != ""
	t, err := http.ParseTime(answer.Header.Get("Date"))
	if err == nil && isOfServer && answer.StatusCode/100 == 2 {
		c.lastDate.Store(&serverDate{t, time.Now()})
	}
}

// UID returns the UID of namespace kube-system.
func (c *Cluster) UID(ctx context.Context) (uid string, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		ns, err := c.core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err == nil {
			uid = string(ns.UID)
		}
		return err
	})
	return uid, err
}

// call makes one request, and repeats it after transient errors: up to three times, or while the API server says when
// to try again. It gives up after twice the time limit of a request. The error is that of the last try.
func (c *Cluster) call(ctx context.Context, f func(context.Context) error) error {
	began := time.Now()
	for try := 0; ; try++ {
		err := f(ctx)
		seconds, isAsked := apierrors.SuggestsClientDelay(err)
		if err == nil || try >= 3 && !isAsked || ctx.Err() != nil || !isTransient(err) {
			return err
		}
		pause := max(c.Jitter(200*time.Millisecond<<min(try, 3)), time.Duration(seconds)*time.Second)
		if time.Since(began)+pause > 2*c.Timeout {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
