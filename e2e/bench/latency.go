package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const (
	events      = 20 // of each kind, or as many as fit in
	eventsLimit = 5 * time.Minute
	eventPause  = 4 * time.Second // longer than serve leaves the Lease free after a hold
	eventLimit  = time.Minute
	churnSecond = 100 // pod events
)

// Latency measures serve's time from the proof that an allocation is stale to the pool without it. The proof is the
// deletion of a pod without agents, or an agent's report. It is measured idle, and while this many pods change a
// second.
func Latency(reports bool) func(context.Context, *Bench) error {
	return func(ctx context.Context, b *Bench) error {
		return b.With(ctx, &fill.Content{Pods: 10000, Pools: 2, Reports: reports, NoGrace: true}, func(s *Server) error {
			p, err := b.StartServe(ctx, s.Kubeconfig(), "--confirm-after", "0s")
			if err != nil {
				return err
			}
			defer p.Stop()
			l := &latency{s: s, what: "serve-pod-deleted", changed: make([]chan time.Time, s.Content.Pools)}
			if reports {
				l.what = "serve-reported-gone"
			}
			if err := l.watch(ctx); err != nil {
				return err
			}
			if err := l.measure(ctx, b, l.what+"-idle"); err != nil {
				return err
			}
			stop := s.Churn(ctx, churnSecond)
			if err := l.measure(ctx, b, l.what+"-busy"); err != nil {
				return err
			}
			rate, err := stop()
			fmt.Fprintf(b.Log, "%.0f pods changed a second\n", rate)
			return err
		})
	}
}

type latency struct {
	s       *Server
	what    string
	next    int
	changed []chan time.Time // by pool
}

// watch observes each change of a pool: only serve changes them.
func (l *latency) watch(ctx context.Context) error {
	client, err := metadata.NewForConfig(l.s.Config())
	if err != nil {
		return err
	}
	for pool := range l.changed {
		options := metav1.ListOptions{FieldSelector: "metadata.name=" + fill.PoolName(pool)}
		list, err := client.Resource(harness.IPPools).Namespace(metav1.NamespaceSystem).List(ctx, options)
		if err != nil {
			return err
		}
		options.ResourceVersion = list.ResourceVersion
		w, err := client.Resource(harness.IPPools).Namespace(metav1.NamespaceSystem).Watch(ctx, options)
		if err != nil {
			return err
		}
		changed := make(chan time.Time, 1000)
		l.changed[pool] = changed
		go func() {
			for range w.ResultChan() {
				changed <- time.Now()
			}
		}()
	}
	return nil
}

func (l *latency) measure(ctx context.Context, b *Bench, work string) error {
	r := &Result{Work: work, Who: Ours, Pods: l.s.Content.Pods}
	for began := time.Now(); len(r.Runs) < events && time.Since(began) < eventsLimit; {
		i := l.next * 331 % l.s.Content.Entries() // over all nodes and pools
		l.next++
		e := l.s.Content.Entry(i)
		gone := func() error {
			return l.s.Client().CoreV1().Pods(e.Namespace).Delete(ctx, e.Name,
				metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
		}
		if l.s.Content.Reports {
			if err := gone(); err != nil { // which proves nothing: its sandbox is Ready
				return err
			}
			time.Sleep(eventPause)
			gone = func() error { return l.s.SandboxGone(ctx, i) }
		}
		for len(l.changed[e.Pool]) > 0 { // of an event that is no longer waited for
			<-l.changed[e.Pool]
		}
		began := time.Now()
		if err := gone(); err != nil {
			return err
		}
		u := &used.Used{}
		select {
		case at := <-l.changed[e.Pool]:
			u.Seconds = at.Sub(began).Seconds()
		case <-time.After(eventLimit):
			u.Seconds, u.Code = eventLimit.Seconds(), 1
		}
		r.Runs = append(r.Runs, u)
		time.Sleep(eventPause)
	}
	return b.put(r)
}

// Churn changes the status of this many pods a second until it is stopped, and returns the real rate.
func (s *Server) Churn(ctx context.Context, second int) (stop func() (rate float64, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	var made atomic.Int64
	var once sync.Once
	turns := make(chan int)
	began := time.Now()
	g.Go(func() error {
		defer close(turns)
		ticker := time.NewTicker(time.Second / time.Duration(second))
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
			select {
			case turns <- i:
			case <-ctx.Done():
				return nil
			}
		}
	})
	for range 4 {
		g.Go(func() error {
			for i := range turns {
				e := s.Content.Entry(i % s.Content.Entries())
				patch := []byte(`{"status":{"message":"` + strconv.Itoa(i) + `"}}`)
				// A pod that was deleted meanwhile causes no event.
				_, err := s.Client().CoreV1().Pods(e.Namespace).Patch(ctx, e.Name, types.MergePatchType, patch,
					metav1.PatchOptions{}, "status")
				if err == nil {
					made.Add(1)
				}
			}
			return nil
		})
	}
	return func() (rate float64, err error) {
		once.Do(func() {
			rate = float64(made.Load()) / time.Since(began).Seconds()
			cancel()
			err = g.Wait()
		})
		return rate, err
	}
}
