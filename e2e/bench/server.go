package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

var (
	crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	pods           = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	sandboxReports = schema.GroupVersionResource{Group: "ip-reconcile.dev", Version: "v1alpha1",
		Resource: "sandboxreports"}
)

// A Server is a real API server with a content.
type Server struct {
	*harness.ControlPlane
	Content *fill.Content
	vouched context.CancelFunc
	ended   chan error // the result of Vouch
}

// NewServer starts an API server and fills it. On an error it returns what started, for Close.
func NewServer(ctx context.Context, content *fill.Content) (*Server, error) {
	cluster, err := harness.NewControlPlane(ctx)
	if cluster == nil {
		return nil, err
	}
	s := &Server{ControlPlane: cluster, Content: content}
	if err != nil {
		return s, err
	}
	if !content.Reports {
		if err := s.removeReports(ctx); err != nil {
			return s, err
		}
	}
	if err := Fill(ctx, cluster, content); err != nil {
		return s, err
	}
	return s, s.vouch(ctx)
}

// Fill writes a content into an empty cluster.
func Fill(ctx context.Context, c *harness.ControlPlane, content *fill.Content) error {
	for _, name := range fill.Namespaces() {
		_, err := c.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making the namespace %s: %w", name, err)
		}
	}
	if err := content.Fill(ctx, c.AskEtcd); err != nil {
		return fmt.Errorf("filling the API server: %w", err)
	}
	return settled(ctx, c, content)
}

// Refill restores everything to before a release.
func (s *Server) Refill(ctx context.Context) error {
	if err := s.Content.Refill(ctx, s.etcd()); err != nil {
		return err
	}
	return settled(ctx, s.ControlPlane, s.Content)
}

// SandboxGone makes the agent of an entry's node report its sandbox as gone.
func (s *Server) SandboxGone(ctx context.Context, i int) error {
	return s.Content.SandboxGone(ctx, s.etcd(), i)
}

// Close ends it.
func (s *Server) Close() error {
	if s.vouched == nil {
		return s.ControlPlane.Close()
	}
	s.vouched()
	return errors.Join(<-s.ended, s.ControlPlane.Close())
}

func (s *Server) etcd() fill.Etcd { return s.AskEtcd }

// removeReports leaves the API server as whereabouts alone has it.
func (s *Server) removeReports(ctx context.Context) error {
	name := sandboxReports.Resource + "." + sandboxReports.Group
	if err := s.Dynamic().Resource(crds).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("removing the CRD %s: %w", name, err)
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool,
		error) {
		_, err := s.Client().Discovery().ServerResourcesForGroupVersion(sandboxReports.GroupVersion().String())
		return apierrors.IsNotFound(err), nil
	})
}

// vouch keeps up the Leases of the reports until Close.
func (s *Server) vouch(ctx context.Context) error {
	if !s.Content.Reports {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	s.vouched, s.ended = cancel, make(chan error, 1)
	ready := make(chan struct{})
	go func() { s.ended <- s.Content.Vouch(ctx, s.etcd(), func() { close(ready) }) }()
	select {
	case <-ready:
		return nil
	case err := <-s.ended:
		s.ended <- err
		return fmt.Errorf("writing the Leases of reports: %w", err)
	}
}

// settled waits until the API server serves what was written to etcd. Its own copy may lag: all writes of one
// transaction have one revision, which the API server counts as reached with the first.
func settled(ctx context.Context, c *harness.ControlPlane, content *fill.Content) error {
	for _, list := range []struct {
		schema.GroupVersionResource
		want int
	}{{harness.IPPools, content.Pools}, {harness.Reservations, content.Entries()}, {pods, content.Pods}} {
		got := 0
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool,
			error) {
			l, err := c.Dynamic().Resource(list.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil {
				return false, err
			}
			got = len(l.Items)
			if rest := l.GetRemainingItemCount(); rest != nil {
				got += int(*rest)
			}
			return got >= list.want, nil // others may have some
		})
		if err != nil {
			return fmt.Errorf("waiting for the API server to have %d %s, it has %d: %w", list.want, list.Resource, got, err)
		}
	}
	return nil
}

// Remaining counts what a run failed to release and what it released wrongly: allocations and reservations.
func (s *Server) Remaining(ctx context.Context) (unreleased, wronglyReleased int, err error) {
	owners := map[string]string{} // an ADD may have got a released address already
	err = s.eachPage(ctx, harness.IPPools, func(o *unstructured.Unstructured) {
		entries, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "allocations")
		stored, _ := entries.(map[string]any)
		for key, entry := range stored {
			owners[o.GetName()+" "+key], _, _ = unstructured.NestedString(entry.(map[string]any), "podref")
		}
	})
	if err == nil {
		err = s.eachPage(ctx, harness.Reservations, func(o *unstructured.Unstructured) {
			owners[o.GetName()], _, _ = unstructured.NestedString(o.Object, "spec", "podref")
		})
	}
	for i := range s.Content.Entries() {
		e := s.Content.Entry(i)
		for _, place := range []string{fmt.Sprintf("%s %d", fill.PoolName(e.Pool), e.Key), e.IP} {
			switch isThere := owners[place] == e.PodRef(); {
			case e.Stale && isThere:
				unreleased++
			case !e.Stale && !isThere:
				wronglyReleased++
			}
		}
	}
	return unreleased, wronglyReleased, err
}

func (s *Server) eachPage(ctx context.Context, r schema.GroupVersionResource,
	each func(*unstructured.Unstructured)) error {
	for options := (metav1.ListOptions{Limit: 500}); ; {
		list, err := s.Dynamic().Resource(r).List(ctx, options)
		if err != nil {
			return fmt.Errorf("counting what is unreleased of %s: %w", r.Resource, err)
		}
		for i := range list.Items {
			each(&list.Items[i])
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
