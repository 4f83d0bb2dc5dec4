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
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// rereadTimeout is how long an observation, maybe under whereabouts' Lease, waits for Leases with the hash of a report.
const rereadTimeout = 240 * time.Millisecond

// readReports reads the agents' reports and Leases. No agent exists if the API does not serve reports in any version
// or an allowed LIST is empty, and no agent has a Lease. A 403 or an error proves nothing. Neither does a CRD that
// somebody deleted: if agents have Leases and reports are not served, the reports are unknown.
func (c *Cluster) readReports(ctx context.Context, o *reading, before []*podstate.Report) {
	served, err := c.Serves(ctx, v1alpha1.Resource())
	var bad badReports
	// A report that cannot be decoded is read again, so that each observation says so.
	before = slices.DeleteFunc(slices.Clone(before), func(r *podstate.Report) bool { return r.IsUnread() })
	var reports []*podstate.Report
	var revision string
	if err == nil && served {
		reports, revision, err = listChanged(ctx, c, listing{resource: v1alpha1.Resource(), versions: &o.seen}, before,
			func(r *podstate.Report) (types.NamespacedName, Version) {
				return types.NamespacedName{Name: r.Name}, Version{r.UID, r.ResourceVersion}
			}, bad.decode)
	}
	if err != nil {
		o.Reports = facts.Unknown[[]*podstate.Report](fmt.Errorf("cannot list SandboxReports: %w", innermost(err)))
		return
	}
	slices.Sort(bad.reports)
	o.Unreadable = slices.Compact(bad.reports)
	leases, leaseRevision, err := c.listLeases(ctx, metav1.ListOptions{}, &o.seen)
	isAgents := func(l *coordinationv1.Lease) bool { return l.Annotations[v1alpha1.HashAnnotation] != "" }
	if err != nil {
		o.AgentLeases = facts.Unknown[bool](fmt.Errorf("cannot list the node agents' Leases in namespace %s: %w",
			c.LeaseNamespace, innermost(err)))
	} else {
		o.AgentLeases = facts.Complete(slices.ContainsFunc(slices.Collect(maps.Values(leases)), isAgents),
			leaseRevision)
		_ = o.readAt(c) // the reading of the pools returns the same error
	}
	if !served && o.AgentLeases.Or(false) {
		o.Reports = facts.Unknown[[]*podstate.Report](fmt.Errorf("the API server does not serve %s, but node agents have "+
			"Leases in namespace %s", v1alpha1.Resource().GroupResource(), c.LeaseNamespace))
		return
	}
	hasLease := false
	for i, r := range reports {
		hasLease = hasLease || leases[r.Name] != nil
		reports[i] = r.WithLease(leases[r.Name])
	}
	c.rereadUnverified(ctx, reports, &o.seen)
	o.Reports = facts.Complete(reports, revision)
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

func (c *Cluster) listLeases(
	ctx context.Context, only metav1.ListOptions, seen *versions,
) (leases map[string]*coordinationv1.Lease, revision string, err error) {
	resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
	what := listing{resource: resource, namespace: c.LeaseNamespace, only: only, form: asProtobuf,
		versions: seen}
	all, revision, err := list(ctx, c, what, podstate.DecodeLeases)
	return indexed(all, func(l *coordinationv1.Lease) string { return l.Name }), revision, err
}

// rereadUnverified reads a report again whose hash is not in the fresh Lease of its agent: the agent writes the report
// and then the Lease, and the lists may have been in between. After the timeout the report stays as it was.
func (c *Cluster) rereadUnverified(ctx context.Context, reports []*podstate.Report, seen *versions) {
	ctx, cancel := context.WithTimeout(ctx, rereadTimeout)
	defer cancel()
	for i, r := range reports {
		alive := podstate.Report{ConfirmedAt: r.LeaseRenewedAt}
		for r.ConfirmedAt.IsZero() && alive.IsFresh(c.Now()) && ctx.Err() == nil {
			what := listing{resource: v1alpha1.Resource(), only: byName(r.Name), versions: seen}
			again, _, err := list(ctx, c, what, new(badReports).decode)
			if err != nil || len(again) != 1 {
				break
			}
			leases, _, err := c.listLeases(ctx, byName(r.Name), seen)
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

// OtherVersionError means that the API server serves a resource, but not in the version that this program reads.
type OtherVersionError struct {
	Resource schema.GroupVersionResource // as this program reads it
	Served   string                      // the version that the API server serves
}

func (e *OtherVersionError) Error() string {
	return fmt.Sprintf("%s is served as %s, and this version of ip-reconcile reads %s", e.Resource.GroupResource(),
		e.Served, e.Resource.Version)
}

// unlessNotServed returns nil if a request failed with 404 because the API server does not serve the resource.
// Otherwise it returns the error, or an OtherVersionError, which explains it better.
func (c *Cluster) unlessNotServed(ctx context.Context, r schema.GroupVersionResource, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	served, why := c.Serves(ctx, r)
	switch {
	case errors.As(why, new(*OtherVersionError)):
		return why
	case why == nil && !served:
		return nil
	}
	return err
}

// Serves reports whether the API server serves a resource. Serving it in another version only is an OtherVersionError.
// The 404 of a group and version counts only if the API server lists its groups without that one.
func (c *Cluster) Serves(ctx context.Context, r schema.GroupVersionResource) (bool, error) {
	version := r.GroupVersion().String()
	served, err := c.servesIn(ctx, version, r.Resource)
	if err == nil && served || err != nil && !apierrors.IsNotFound(err) {
		return served, err
	}
	isListed := err == nil
	groups := &metav1.APIGroupList{}
	if err := c.discover(ctx, "/apis", groups); err != nil {
		return false, fmt.Errorf("list the API's groups: %w", err)
	}
	if len(groups.Groups) == 0 {
		return false, errors.New("the list of the API's groups is empty")
	}
	at := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == r.Group })
	if at < 0 {
		return false, nil
	}
	for _, v := range groups.Groups[at].Versions {
		if v.GroupVersion == version {
			if !isListed {
				return false, fmt.Errorf("%s is among the API's groups, but not found", version)
			}
			continue
		}
		switch served, err := c.servesIn(ctx, v.GroupVersion, r.Resource); {
		case err != nil:
			return false, fmt.Errorf("list the resources of %s: %w", v.GroupVersion, err)
		case served:
			return false, &OtherVersionError{r, v.Version}
		}
	}
	return false, nil
}

// servesIn reports whether a group and version has a resource. A list without resources is no answer, and is true.
func (c *Cluster) servesIn(ctx context.Context, version, resource string) (bool, error) {
	list := &metav1.APIResourceList{}
	err := c.discover(ctx, "/apis/"+version, list)
	isIt := func(a metav1.APIResource) bool { return a.Name == resource }
	return err == nil && (len(list.APIResources) == 0 || slices.ContainsFunc(list.APIResources, isIt)), err
}

// discover reads a discovery document.
func (c *Cluster) discover(ctx context.Context, path string, into runtime.Object) error {
	return c.call(ctx, func(ctx context.Context) error {
		return c.core.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", asJSON).Do(ctx).Into(into)
	})
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
		return c.writeError("delete SandboxReport "+r.Name, err, false)
	}
	leases := c.core.CoordinationV1().Leases(c.LeaseNamespace)
	lease, err := leases.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get Lease %s in namespace %s: %w", r.Name, c.LeaseNamespace, err)
	}
	if lease.Annotations[v1alpha1.HashAnnotation] != "" {
		err = leases.Delete(ctx, r.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return c.writeError(fmt.Sprintf("delete Lease %s in namespace %s", r.Name, c.LeaseNamespace), err, false)
	}
	return nil
}
