package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// What runs beside the ADDs: nothing, or a release of 5,000.
const (
	AddsAlone          = "adds-alone"
	AddsBesideOurs     = "adds-beside-ours"
	AddsBesideUpstream = "adds-beside-upstream"
)

const (
	fewestAdds = 60  // of each kind
	mostAdds   = 150 // then the release continues alone: endless ADDs keep the Lease busy
	addsAtOnce = 2
)

// Adds measures ADDs of the real plugin, alone and beside releases of 5,000 allocations of the same pools.
func Adds(ctx context.Context, b *Bench) error {
	return b.With(ctx, &fill.Content{Pods: 10000, Stale: 5000, Pools: 3}, func(s *Server) error {
		node, err := s.AddNode(ctx, "worker-1")
		if err != nil {
			return err
		}
		a := &adds{s: s, node: node, network: harness.Network{
			Namespace: "default", Name: fill.NetworkName(0), IPAM: harness.IPAM{"range": fill.PoolRange(0)},
		}}
		for _, beside := range []struct{ work, who string }{{AddsAlone, ""}, {AddsBesideOurs, Ours},
			{AddsBesideUpstream, Upstream}} {
			r := &Result{Work: beside.work, Who: "whereabouts", Pods: s.Content.Pods}
			for len(r.Runs) < fewestAdds {
				if err := a.round(ctx, b, r, beside.who); err != nil {
					return err
				}
			}
			if err := b.put(r); err != nil {
				return err
			}
		}
		return nil
	})
}

type adds struct {
	s       *Server
	node    *harness.Node
	network harness.Network
	n       int // for names

	mu        sync.Mutex
	pods      []string
	sandboxes []*harness.Sandbox
}

// round makes ADDs while a program releases what is stale, or a fixed number beside none, and then undoes them.
func (a *adds) round(ctx context.Context, b *Bench, r *Result, beside string) error {
	released := make(chan error, 1)
	more := func() bool { return len(r.Runs) < fewestAdds }
	if beside != "" {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, err := b.run(ctx, b.release(beside, a.s.Kubeconfig())...)
			released <- err
		}()
		more = func() bool {
			select {
			case <-ended:
				return false
			default:
				return len(r.Runs) < mostAdds
			}
		}
	} else {
		released <- nil
	}
	var g errgroup.Group
	for range addsAtOnce {
		g.Go(func() error {
			for {
				a.mu.Lock()
				again := more() && ctx.Err() == nil
				a.n++
				name := fmt.Sprint("add-", a.n)
				a.mu.Unlock()
				if !again {
					return nil
				}
				u, err := a.add(ctx, name)
				if err != nil {
					return err
				}
				a.mu.Lock()
				r.Runs = append(r.Runs, u)
				a.mu.Unlock()
			}
		})
	}
	if err := errors.Join(g.Wait(), <-released); err != nil {
		return err
	}
	if beside != "" {
		left, lost, err := a.s.Remaining(ctx)
		if err != nil {
			return err
		}
		r.Unreleased, r.WronglyReleased = r.Unreleased+left, r.WronglyReleased+lost
		r.Stale += 2 * a.s.Content.Stale // each with its reservation
	}
	return errors.Join(a.takeBack(ctx), a.s.Refill(ctx))
}

// add measures one ADD. A failure is a result: code 1.
func (a *adds) add(ctx context.Context, name string) (*used.Used, error) {
	pod, err := a.s.CreatePod(ctx, "default", name, a.node.Name, a.network)
	if err != nil {
		return nil, err
	}
	sandbox, err := a.node.NewSandbox()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	_, err = a.node.Add(ctx, harness.Attachment{
		Sandbox: sandbox, Namespace: "default", Pod: name, UID: string(pod.UID), IfName: "net1", Network: a.network,
	})
	u := &used.Used{Seconds: time.Since(began).Seconds()}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods, a.sandboxes = append(a.pods, name), append(a.sandboxes, sandbox)
	if err != nil {
		u.Code, u.Output = 1, err.Error()
	}
	return u, nil
}

// takeBack removes what ADDs created, except allocations: the pools are written again.
func (a *adds) takeBack(ctx context.Context) error {
	var errs []error
	for i, sandbox := range a.sandboxes {
		errs = append(errs, sandbox.Close(),
			a.s.Client().CoreV1().Pods("default").Delete(ctx, a.pods[i],
				metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
	}
	errs = append(errs, a.s.eachPage(ctx, harness.Reservations, func(o *unstructured.Unstructured) {
		owner, _, _ := unstructured.NestedString(o.Object, "spec", "podref")
		if slices.ContainsFunc(a.pods, func(name string) bool { return owner == "default/"+name }) {
			errs = append(errs, a.s.Dynamic().Resource(harness.Reservations).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(),
				metav1.DeleteOptions{}))
		}
	}))
	a.pods, a.sandboxes = nil, nil
	return errors.Join(errs...)
}
