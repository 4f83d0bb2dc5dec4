package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// readOtherKinds reads all but pools, reservations and pods, each kind on its own; put
// takes it over once the group has ended. Nodes and reports that before has are read
// again only where they have changed.
func (c *Cluster) readOtherKinds(ctx context.Context, g *errgroup.Group, before *judge.Observation) (put func(*judge.Observation)) {
	var nads, pause, agents judge.Observation
	g.Go(func() error { return c.readNADs(ctx, &nads) })
	g.Go(func() error {
		c.readPause(ctx, &pause)
		return nil
	})
	g.Go(func() error {
		// A Node that is read after the reports is never at an earlier boot than they are.
		if err := c.readReports(ctx, &agents, before.Reports); err != nil {
			return err
		}
		return c.readNodes(ctx, &agents, before.Nodes)
	})
	return func(o *judge.Observation) {
		o.NADs, o.Paused, o.Acknowledged = nads.NADs, pause.Paused, pause.Acknowledged
		o.Nodes, o.Reports, o.ReportsUnreadable, o.Unreadable = agents.Nodes, agents.Reports, agents.ReportsUnreadable, agents.Unreadable
		if agents.Now.After(o.Now) {
			o.Now = agents.Now
		}
		o.Warnings = slices.Concat(o.Warnings, nads.Warnings, pause.Warnings, agents.Warnings)
	}
}

func (c *Cluster) readNADs(ctx context.Context, o *judge.Observation) error {
	nads, _, err := listCustom(ctx, c, listing{resource: ippool.NADResource}, ippool.DecodeNADs)
	o.NADs = map[types.NamespacedName]*ippool.NAD{}
	for _, n := range nads {
		o.NADs[types.NamespacedName{Namespace: n.Namespace, Name: n.Name}] = n
	}
	return c.optional(o, "NetworkAttachmentDefinitions", err)
}

func (c *Cluster) readPause(ctx context.Context, o *judge.Observation) {
	err := c.call(ctx, func(ctx context.Context) error {
		ns, err := c.core.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
		if err == nil {
			o.Paused = ippool.Pauses(ns.Annotations)
			if value := ippool.UnknownPause(ns.Annotations); value != "" {
				o.Warnings = append(o.Warnings, fmt.Sprintf("namespace %s: the annotation %s=%q is neither true nor false; releases are paused", c.Namespace, ippool.PausedAnnotation, value))
			}
			o.Acknowledged = judge.Acknowledged(ns.Annotations)
		}
		return err
	})
	switch {
	case err == nil, absent(err):
	case apierrors.IsForbidden(err):
		what := "releases are paused (--without-pause overrules)"
		if o.Paused = !c.WithoutPause; c.WithoutPause {
			what = "a pause of everything is NOT seen; pause single pools"
		}
		o.Warnings = append(o.Warnings, fmt.Sprintf("cannot get namespace %s: forbidden. The annotations %s and %s on it cannot be read: %s", c.Namespace, ippool.PausedAnnotation, judge.AcknowledgedAnnotation, what))
	default:
		// Whether the operator has stopped everything is not known: so it is.
		o.Paused = true
		o.Warnings = append(o.Warnings, fmt.Sprintf("namespace %s could not be read (%v): taken for paused", c.Namespace, err))
	}
}

func (c *Cluster) readNodes(ctx context.Context, o *judge.Observation, before map[string]*podstate.Node) error {
	known := map[types.NamespacedName]*podstate.Node{}
	for name, n := range before {
		known[types.NamespacedName{Name: name}] = n
	}
	nodes, _, err := relistChanged(ctx, c, corev1.SchemeGroupVersion.WithResource("nodes"), known,
		func(n *podstate.Node) Version { return Version{types.UID(n.UID), n.ResourceVersion} },
		func(ctx context.Context, _ string, only metav1.ListOptions) ([]*podstate.Node, string, error) {
			return c.listNodes(ctx, only)
		})
	if apierrors.IsForbidden(err) {
		o.Warnings = append(o.Warnings, "no right to list nodes: nothing is known of them, and no node counts as dead or missing")
		return nil
	}
	if err != nil {
		return c.explain("list nodes", err, "")
	}
	o.Nodes = make(map[string]*podstate.Node, len(nodes))
	for _, n := range nodes {
		o.Nodes[n.Name] = n
	}
	return nil
}

// readReports reads the agents' reports and Leases. Only where the API does not
// serve reports at all, or an allowed LIST is empty, is there no agent: a 403
// or an error proves nothing.
func (c *Cluster) readReports(ctx context.Context, o *judge.Observation, before []*podstate.Report) error {
	served, err := c.serves(ctx, v1alpha1.Resource().GroupVersion().String())
	if err == nil && !served {
		return nil
	}
	var reports []*podstate.Report
	if err == nil {
		reports, err = c.reportsSince(ctx, before, func(unreadable string) {
			o.ReportsUnreadable = true
			o.Unreadable = append(o.Unreadable, unreadable)
		})
	}
	if err != nil {
		o.ReportsUnreadable = true
		o.Warnings = append(o.Warnings, fmt.Sprintf("SandboxReports are served and could not be read (%v): what only they can prove is held", innermost(err)))
		return nil
	}
	if len(reports) == 0 {
		return nil
	}
	dated, date := withDate(ctx)
	leases, err := c.listLeases(dated)
	if err != nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the node agents' Leases in namespace %s could not be read (%v): no report counts as fresh", c.LeaseNamespace, innermost(err)))
	} else {
		o.Now = date()
	}
	heard := false
	for _, r := range reports {
		heard = heard || leases[r.Name] != nil
		o.Reports = append(o.Reports, r.WithLease(leases[r.Name]))
	}
	c.rereadUnverified(ctx, o)
	if !heard && err == nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d SandboxReports and none of their Leases in namespace %s: name the namespace that agents write them to with --lease-namespace, and give them the right to (deploy/leases)", len(reports), c.LeaseNamespace))
	}
	return nil
}

// serves reports whether the API serves a group at a version. A 404 of it alone is
// no answer: it is that of the API server only where it lists its groups, and this
// one is not among them.
func (c *Cluster) serves(ctx context.Context, version string) (bool, error) {
	err := c.call(ctx, func(context.Context) error {
		_, err := c.core.Discovery().ServerResourcesForGroupVersion(version)
		return err
	})
	if !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	groups := &metav1.APIGroupList{}
	err = c.call(ctx, func(ctx context.Context) error {
		return c.core.Discovery().RESTClient().Get().AbsPath("/apis").SetHeader("Accept", "application/json").Do(ctx).Into(groups)
	})
	if err != nil {
		return false, fmt.Errorf("list the API's groups: %w", err)
	}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			if v.GroupVersion == version {
				return false, fmt.Errorf("%s is listed among the API's groups and not found", version)
			}
		}
	}
	if len(groups.Groups) == 0 {
		return false, errors.New("the list of the API's groups is empty")
	}
	return false, nil
}

func (c *Cluster) reportsSince(ctx context.Context, before []*podstate.Report, unreadable func(string)) ([]*podstate.Report, error) {
	known := map[types.NamespacedName]*podstate.Report{}
	for _, r := range before {
		known[types.NamespacedName{Name: r.Name}] = r
	}
	var mu sync.Mutex // several are read again at once
	var bad []string
	reports, _, err := relistChanged(ctx, c, v1alpha1.Resource(), known,
		func(r *podstate.Report) Version { return Version{r.UID, r.ResourceVersion} },
		func(ctx context.Context, _ string, only metav1.ListOptions) ([]*podstate.Report, string, error) {
			l := listing{resource: v1alpha1.Resource(), only: only}
			return listCustom(ctx, c, l, func(body []byte) (page []*podstate.Report, meta metav1.ListMeta, err error) {
				meta, err = lean.List(body, func(text []byte, _ bool) error {
					r := &v1alpha1.SandboxReport{}
					if err := json.UnmarshalCaseSensitivePreserveInts(text, r); err != nil {
						mu.Lock()
						defer mu.Unlock()
						bad = append(bad, fmt.Sprintf("SandboxReport %s: %v", r.Name, err))
						return nil
					}
					page = append(page, podstate.ReadReport(r, nil))
					return nil
				})
				return page, meta, err
			})
		})
	if err != nil {
		return nil, err
	}
	slices.Sort(bad)
	for _, b := range slices.Compact(bad) {
		unreadable(b)
	}
	return reports, nil
}
