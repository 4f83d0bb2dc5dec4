package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// rereadTimeout is how long an observation, maybe under whereabouts' Lease, waits for Leases with the hash of a report.
const rereadTimeout = 240 * time.Millisecond

// readReports reads the agents' reports and Leases. No agent exists if the API does not serve reports or an allowed
// LIST is empty, and no agent has a Lease. A 403 or an error proves nothing.
func (c *Cluster) readReports(ctx context.Context, o *reading, before []*podstate.Report) {
	served, err := c.Serves(ctx, v1alpha1.Resource())
	var bad badReports
	var reports []*podstate.Report
	var revision string
	if err == nil && served {
		reports, revision, err = listChanged(ctx, c, listing{resource: v1alpha1.Resource()}, before,
			func(r *podstate.Report) (types.NamespacedName, Version) {
				return types.NamespacedName{Name: r.Name}, Version{r.UID, r.ResourceVersion}
			}, bad.decode)
	}
	if err != nil {
		o.Reports = judge.Unknown[[]*podstate.Report](fmt.Errorf("cannot list SandboxReports: %w", innermost(err)))
		return
	}
	slices.Sort(bad.reports)
	o.Unreadable = slices.Compact(bad.reports)
	leases, err := c.listLeases(ctx, metav1.ListOptions{})
	isAgents := func(l *coordinationv1.Lease) bool { return l.Annotations[v1alpha1.HashAnnotation] != "" }
	if err != nil {
		o.AgentLeases = judge.Unknown[bool](fmt.Errorf("cannot list the node agents' Leases in namespace %s: %w",
			c.LeaseNamespace, innermost(err)))
	} else {
		o.AgentLeases = judge.Complete(slices.ContainsFunc(slices.Collect(maps.Values(leases)), isAgents), "")
		o.readAt(c.date())
	}
	hasLease := false
	for i, r := range reports {
		hasLease = hasLease || leases[r.Name] != nil
		reports[i] = r.WithLease(leases[r.Name])
	}
	c.rereadUnverified(ctx, reports)
	o.Reports = judge.Complete(reports, revision)
	if !hasLease && err == nil && len(reports) > 0 {
		o.warn("namespace %s has no Leases for %d SandboxReports: set --lease-namespace to the agents' namespace, "+
			"and allow agents to write Leases there (deploy/leases)", c.LeaseNamespace, len(reports))
	}
}

// badReports collects the reports that cannot be decoded. It is safe for use by several goroutines.
type badReports struct {
	mu      sync.Mutex
	reports []string
}

func (u *badReports) decode(body []byte, each func(*podstate.Report)) (metav1.ListMeta, error) {
	return lean.List(body, "SandboxReport", func(text []byte, _ bool) error {
		r := &v1alpha1.SandboxReport{}
		err := json.UnmarshalCaseSensitivePreserveInts(text, r)
		if err == nil && r.Name == "" {
			err = errors.New("metadata.name is missing")
		}
		if err != nil {
			var m lean.Metadata
			head := lean.New(text)
			head.Object(func(name []byte) {
				if string(name) == "metadata" {
					m.Read(head, false)
				}
			})
			if m.Name == "" {
				return fmt.Errorf("a SandboxReport without a name: %w", err) // of any node
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			u.reports = append(u.reports, fmt.Sprintf("SandboxReport %s: %v", m.Name, err))
			each(podstate.UnreadReport(m.Name, types.UID(m.UID), m.ResourceVersion))
			return nil
		}
		each(podstate.ReadReport(r, nil))
		return nil
	})
}

func (c *Cluster) listLeases(ctx context.Context, only metav1.ListOptions) (map[string]*coordinationv1.Lease, error) {
	resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
	what := listing{resource: resource, namespace: c.LeaseNamespace, only: only, form: asProtobuf}
	all, _, err := list(ctx, c, what, podstate.DecodeLeases)
	return indexed(all, func(l *coordinationv1.Lease) string { return l.Name }), err
}

// rereadUnverified reads a report again whose hash is not in the fresh Lease of its agent: the agent writes the report
// and then the Lease, and the lists may have been in between. After the timeout the report stays as it was.
func (c *Cluster) rereadUnverified(ctx context.Context, reports []*podstate.Report) {
	ctx, cancel := context.WithTimeout(ctx, rereadTimeout)
	defer cancel()
	for i, r := range reports {
		alive := podstate.Report{ConfirmedAt: r.LeaseRenewedAt}
		for r.ConfirmedAt.IsZero() && alive.IsFresh(c.Now()) && ctx.Err() == nil {
			again, _, err := list(ctx, c, listing{resource: v1alpha1.Resource(), only: byName(r.Name)}, new(badReports).decode)
			if err != nil || len(again) != 1 {
				break
			}
			leases, err := c.listLeases(ctx, byName(r.Name))
			if err != nil || leases[r.Name] == nil {
				break
			}
			if r = again[0].WithLease(leases[r.Name]); r.ConfirmedAt.IsZero() {
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		}
		reports[i] = r
	}
}

// lacks reports whether the API server does not serve a resource, for a LIST that was answered with 404.
func (c *Cluster) lacks(ctx context.Context, r schema.GroupVersionResource) bool {
	served, err := c.Serves(ctx, r)
	return err == nil && !served
}

// Serves reports whether the API server serves a resource. The 404 of a group and version counts only if the API server
// lists its groups without that one.
func (c *Cluster) Serves(ctx context.Context, r schema.GroupVersionResource) (bool, error) {
	version := r.GroupVersion().String()
	served := true
	read := func(ctx context.Context, path string, into runtime.Object) error {
		return c.core.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", asJSON).Do(ctx).Into(into)
	}
	err := c.call(ctx, func(ctx context.Context) error {
		list := &metav1.APIResourceList{}
		err := read(ctx, "/apis/"+version, list)
		if err == nil && len(list.APIResources) > 0 {
			served = slices.ContainsFunc(list.APIResources, func(a metav1.APIResource) bool { return a.Name == r.Resource })
		}
		return err
	})
	if !apierrors.IsNotFound(err) {
		return served, err
	}
	groups := &metav1.APIGroupList{}
	err = c.call(ctx, func(ctx context.Context) error { return read(ctx, "/apis", groups) })
	if err != nil {
		return false, fmt.Errorf("list the API's groups: %w", err)
	}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			if v.GroupVersion == version {
				return false, fmt.Errorf("%s is among the API's groups, but not found", version)
			}
		}
	}
	if len(groups.Groups) == 0 {
		return false, errors.New("the list of the API's groups is empty")
	}
	return false, nil
}

// HasNode reports, by quorum, whether a Node object exists.
func (c *Cluster) HasNode(ctx context.Context, name string) (bool, error) {
	_, err := c.core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !isAbsent(err) {
		return false, fmt.Errorf("get Node %s: %w", name, err)
	}
	return err == nil, nil
}

// DeleteReport deletes this very report, and then its agent's Lease. A Lease of that name that no agent wrote remains.
func (c *Cluster) DeleteReport(ctx context.Context, r *podstate.Report) error {
	err := c.objects.Resource(v1alpha1.Resource()).Delete(ctx, r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete SandboxReport %s: %w", r.Name, err)
	}
	leases := c.core.CoordinationV1().Leases(c.LeaseNamespace)
	lease, err := leases.Get(ctx, r.Name, metav1.GetOptions{})
	if err == nil && lease.Annotations[v1alpha1.HashAnnotation] != "" {
		err = leases.Delete(ctx, r.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Lease %s in namespace %s: %w", r.Name, c.LeaseNamespace, err)
	}
	return nil
}
