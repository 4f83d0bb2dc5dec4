// Package kube is the live API as a source of observations and as a writer.
//
// A Cluster lists everything (observe.go, reports.go, list.go), reads again what is about to be
// changed (live.go), and writes (write.go) while it holds the Leases that whereabouts' ADD and
// DEL take (lease.go). Its Fence holds the same Leases for longer, after a restore of
// etcd (fence.go, fencedlease.go). window.go keeps in annotations what must outlive the process;
// workloads.go finds what status reports; self.go says what this process is and may do;
// ping.go and watch.go are what the long-running form needs besides.
package kube

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Settings are how the API is used.
type Settings struct {
	// Namespace is the reconciler's own: its pause annotation counts for everything.
	Namespace string
	// LeaseNamespace is that of the agents' Leases; Namespace if empty.
	LeaseNamespace string
	// Pod is the name of this process' own pod; "" outside a pod.
	Pod string
	// Timeout of one request; 30 s if zero. There is no limit over all: a pass
	// over a large cluster takes as long as it takes.
	Timeout time.Duration
	// Identity is the holder of whereabouts' Lease while it is held; no two
	// processes may have the same.
	Identity string
	// WithoutLease writes without whereabouts' Lease.
	WithoutLease bool
	// WithoutPause: where the reconciler's namespace may not be read, nothing counts as paused by it.
	WithoutPause bool
	// OnPage, where set, is called for each page of a LIST that was read, by several goroutines at once: a
	// large cluster takes minutes, in which nothing else shows that anything goes on.
	OnPage func()
	// OnDenied, where set, is called for each write that RBAC, a policy or a schema forbids, by several goroutines
	// at once.
	OnDenied func()
	// Jitter spreads pauses.
	Jitter func(time.Duration) time.Duration
	Log    *slog.Logger
}

// Cluster reads and writes through an API server.
type Cluster struct {
	Settings
	host     string
	core     kubernetes.Interface
	objects  dynamic.Interface
	metadata metadata.Interface
	client   rest.Interface                   // for LISTs, whose pages are decoded here
	pings    typedcoordinationv1.LeasesGetter // over a connection of its own
	dials    atomic.Int64                     // how often that was opened
	noGet    atomic.Bool                      // no right to get pods, so they are listed by name
	lastDate atomic.Pointer[serverDate]       // the Date of its last answer
	fence    *Fence

	mu           sync.Mutex
	notBefore    map[string]time.Time   // until when a Lease is left to others
	foreignHolds map[string]foreignHold // who was seen holding a Lease, since when
}

// New makes a Cluster of its own client. config.QPS and config.Burst are its own.
func New(config *rest.Config, s Settings) (*Cluster, error) {
	if s.Timeout == 0 {
		s.Timeout = 30 * time.Second
	}
	s.LeaseNamespace = cmp.Or(s.LeaseNamespace, s.Namespace)
	c := &Cluster{Settings: s, host: config.Host, notBefore: map[string]time.Time{}, foreignHolds: map[string]foreignHold{}}
	c.fence = &Fence{c: c}
	config = rest.CopyConfig(config)
	config.Timeout = s.Timeout
	config.DisableCompression = config.DisableCompression || onSameNetwork(config.Host)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return serverTime{next, c} })
	typed := rest.CopyConfig(config)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	var errs [4]error
	c.core, errs[0] = kubernetes.NewForConfig(typed)
	c.objects, errs[1] = dynamic.NewForConfig(config)
	c.metadata, errs[2] = metadata.NewForConfig(config)
	c.pings, errs[3] = c.leasesAlone(typed)
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	c.client = c.core.CoreV1().RESTClient()
	return c, nil
}

// onSameNetwork reports whether the API server is on this machine, or that of the cluster
// in which this process is a pod: over such a network its answers arrive sooner than
// it can compress them.
func onSameNetwork(host string) bool {
	u, err := url.Parse(host)
	if err != nil {
		return false
	}
	name := u.Hostname()
	a, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && a.IsLoopback() || name != "" && name == os.Getenv("KUBERNETES_SERVICE_HOST")
}

// serverDate is a Date and when it arrived here.
type serverDate struct{ date, arrived time.Time }

// Now is the time by the API server's clock, a second less or more: the Date of
// its last answer and what has passed since, whatever becomes of our own clock.
func (c *Cluster) Now() time.Time {
	last := c.lastDate.Load()
	if last == nil {
		return time.Now()
	}
	return last.date.Add(time.Since(last.arrived))
}

// date is Now in whole seconds, as the API server writes times.
func (c *Cluster) date() time.Time { return c.Now().Truncate(time.Second) }

// call makes one request, and makes it again where the failure
// is of a kind that passes.
func (c *Cluster) call(ctx context.Context, f func(context.Context) error) error {
	for try := 0; ; try++ {
		err := f(ctx)
		if err == nil || try == 3 || ctx.Err() != nil || !isTransient(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(c.Jitter(200 * time.Millisecond << try)):
		}
	}
}

// serverTime records the Date of an answer: ages of what the API server wrote are
// counted by its own clock.
type serverTime struct {
	next http.RoundTripper
	c    *Cluster
}

func (s serverTime) RoundTrip(r *http.Request) (*http.Response, error) {
	if !maySend(r) {
		return nil, errNotSent
	}
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if t, perr := http.ParseTime(resp.Header.Get("Date")); perr == nil {
		s.c.lastDate.Store(&serverDate{t, time.Now()})
	}
	if err := checkAnswer(resp); err != nil {
		return nil, err
	}
	return resp, nil
}
