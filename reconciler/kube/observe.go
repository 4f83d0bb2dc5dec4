package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

var (
	podResource  = corev1.SchemeGroupVersion.WithResource("pods")
	nodeResource = corev1.SchemeGroupVersion.WithResource("nodes")
)

// reading is an observation whose kinds are read in parallel, each into its own fields.
type reading struct {
	*facts.Observation
	began time.Time // by this machine's clock
	seen  versions

	mu sync.Mutex // protects Warnings and Now
}

func (o *reading) warn(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Warnings = append(o.Warnings, fmt.Sprintf(format, args...))
}

// readAt records the time of a read by the API server's clock. It is an error if no answer of this reading had a Date.
func (o *reading) readAt(c *Cluster) error {
	now, err := c.date(o.began)
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.After(o.Now) {
		o.Now = now
	}
	return err
}

// List reads everything, by quorum: reservations, then pools, pods last. An ADD writes the pool before the reservation,
// and its pod exists before either. So the owner of each object that was read is in what is read later. The other kinds
// do not depend on ADDs, and are read in parallel to reservations and pools.
func (c *Cluster) List(ctx context.Context) (*facts.Observation, error) {
	o := &reading{Observation: &facts.Observation{}, began: time.Now()}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		what := listing{resource: ippool.ReservationResource}
		reservations, revision, err := list(gctx, c, what, ippool.DecodeList[ippool.Reservation])
		if failure := c.unlessNotServed(gctx, ippool.ReservationResource, err); failure != nil {
			return c.explainError("list OverlappingRangeIPReservations", failure, "grant list on them")
		}
		o.Reservations = source(gctx, c, ippool.ReservationResource, reservations, revision, err)
		return c.readPools(gctx, o, nil)
	})
	if err := c.readOtherKinds(gctx, g, o, &facts.Observation{}); err != nil {
		return o.ended(c, err)
	}
	var err error
	if o.Pods, err = c.listPods(ctx, "", metav1.ListOptions{}); err != nil {
		return o.ended(c, c.explainError("list pods", err, "grant list on pods"))
	}
	return o.ended(c, c.readMachines(ctx, o))
}

// ended is the observation, also if an error ended it.
func (o *reading) ended(c *Cluster, err error) (*facts.Observation, error) {
	if o.Versions = o.seen.noted(); err != nil {
		_ = o.readAt(c)
	}
	return o.Observation, err
}

// Relist reads again all except pods and reservations. Of pools, nodes and reports it reads the metadata, and in full
// only those that have changed.
func (c *Cluster) Relist(ctx context.Context, before *facts.Observation) (*facts.Observation, error) {
	o := &reading{Observation: &facts.Observation{Reservations: before.Reservations, Pods: before.Pods}, began: time.Now()}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.readPools(gctx, o, before.Pools) })
	if err := c.readOtherKinds(gctx, g, o, before); err != nil {
		return o.ended(c, err)
	}
	return o.ended(c, c.readMachines(ctx, o))
}

// readPools reads the pools, in full only those whose version is not known.
func (c *Cluster) readPools(ctx context.Context, o *reading, known []*ippool.Pool) error {
	what := listing{resource: ippool.PoolResource, first: firstPageOfPools, versions: &o.seen}
	pools, revision, err := listChanged(ctx, c, what, known,
		func(p *ippool.Pool) (types.NamespacedName, Version) {
			return p.NamespacedName, Version{types.UID(p.UID), p.ResourceVersion}
		}, ippool.DecodeList[ippool.Pool])
	if err != nil {
		if err = c.unlessNotServed(ctx, ippool.PoolResource, err); err == nil {
			return fmt.Errorf("the API server at %s does not serve ippools.%s: whereabouts' CRDs are not installed; "+
				"for another cluster use --context or --kubeconfig", c.host, ippool.PoolResource.Group)
		}
		return c.explainError("list IPPools", err, "grant get, list and patch on ippools")
	}
	o.Pools = pools
	o.Revision, _ = strconv.ParseUint(revision, 10, 64)
	return o.readAt(c)
}

// source returns a kind that was listed, or why it is unknown. An observation continues without it: an error of one
// kind, for example of its conversion webhook, must not stop the passes for all networks.
func source[T any](
	ctx context.Context, c *Cluster, resource schema.GroupVersionResource, content T, revision string, err error,
) facts.Source[T] {
	kind := resource.GroupResource().String()
	switch {
	case err == nil:
		return facts.Complete(content, revision)
	case apierrors.IsForbidden(err):
		return facts.Unknown[T](forbiddenList{kind, err})
	}
	if err = c.unlessNotServed(ctx, resource, err); err == nil {
		return facts.Unknown[T](fmt.Errorf("the API server does not serve %s", kind))
	}
	return facts.Unknown[T](fmt.Errorf("cannot list %s: %w", kind, innermost(err)))
}

// readOtherKinds reads all kinds except pools, reservations and pods, and waits for the group.
func (c *Cluster) readOtherKinds(ctx context.Context, g *errgroup.Group, o *reading, before *facts.Observation) error {
	g.Go(func() error { return c.readNADs(ctx, o) })
	g.Go(func() error {
		c.readPause(ctx, o)
		return nil
	})
	g.Go(func() error {
		// A Node that is read after the reports is never at an earlier boot than they are.
		c.readReports(ctx, o, before.Reports.Or(nil))
		c.readNodes(ctx, o, slices.Collect(maps.Values(before.Nodes.Or(nil))))
		return ctx.Err()
	})
	err := g.Wait()
	slices.Sort(o.Warnings)
	return err
}

func (c *Cluster) readNADs(ctx context.Context, o *reading) error {
	nads, revision, err := list(ctx, c, listing{resource: ippool.NADResource}, ippool.DecodeList[ippool.NAD])
	o.NADs = source(ctx, c, ippool.NADResource,
		indexed(nads, func(n *ippool.NAD) types.NamespacedName { return n.NamespacedName }), revision, err)
	return ctx.Err()
}

func (c *Cluster) readPause(ctx context.Context, o *reading) {
	err := c.call(ctx, func(ctx context.Context) error {
		ns, err := c.core.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
		if err == nil && ns.Name != c.Namespace {
			err = errors.New("the answer is another object, so it is not an API server's")
		}
		if err == nil {
			o.Paused = ippool.Pauses(ns.Annotations)
			if value := ippool.UnknownPause(ns.Annotations); value != "" {
				o.warn("namespace %s: the annotation %s=%q is neither true nor false; releases are paused",
					c.Namespace, ippool.PausedAnnotation, value)
			}
			o.Acknowledged = restore.Acknowledged(ns.Annotations)
		}
		return err
	})
	switch {
	case err == nil:
	case apierrors.IsForbidden(err), isAbsent(err):
		why, what := "forbidden", "releases are paused (--without-pause overrules)"
		if isAbsent(err) { // nobody can have paused there what the reconciler does elsewhere
			why = "it does not exist"
		}
		if o.Paused = !c.WithoutPause; c.WithoutPause {
			what = "a pause of everything is ignored; pause single pools"
		} else {
			o.PauseUnknown = fmt.Sprintf("cannot get namespace %s: %s", c.Namespace, why)
		}
		o.warn("cannot get namespace %s: %s. The annotations %s and %s on it cannot be read: %s",
			c.Namespace, why, ippool.PausedAnnotation, restore.AcknowledgedAnnotation, what)
	default:
		o.Paused, o.PauseUnknown = true, fmt.Sprintf("cannot get namespace %s: %v", c.Namespace, innermost(err))
		o.warn("cannot get namespace %s, so releases are paused: %v", c.Namespace, err)
	}
}

func (c *Cluster) readNodes(ctx context.Context, o *reading, known []*podstate.Node) {
	nodes, revision, err := listChanged(ctx, c, listing{resource: nodeResource, form: asProtobuf}, known,
		func(n *podstate.Node) (types.NamespacedName, Version) {
			return types.NamespacedName{Name: n.Name}, Version{types.UID(n.UID), n.ResourceVersion}
		}, podstate.DecodeNodes)
	o.Nodes = source(ctx, c, nodeResource, indexed(nodes, func(n *podstate.Node) string { return n.Name }), revision, err)
}

func (c *Cluster) listPods(
	ctx context.Context, namespace string, only metav1.ListOptions,
) (map[types.NamespacedName]*podstate.Pod, error) {
	what := listing{resource: podResource, namespace: namespace, only: only, form: asProtobuf}
	all, _, err := list(ctx, c, what, podstate.DecodePods)
	return indexed(all, func(p *podstate.Pod) types.NamespacedName { return p.NamespacedName }), err
}

// readMachines reads IPAMClaims and VirtualMachineInstances where something depends on them, after pools and pods.
func (c *Cluster) readMachines(ctx context.Context, o *reading) error {
	if o.NamesIPAMClaim() {
		// The last claim may be gone, so an empty list is an answer. The second check reads each claim that counts by name.
		claims, revision, err := list(ctx, c, listing{resource: ippool.ClaimResource}, ippool.DecodeList[ippool.Claim])
		o.IPAMClaims = source(ctx, c, ippool.ClaimResource,
			indexed(claims, func(claim *ippool.Claim) types.NamespacedName { return claim.NamespacedName }), revision, err)
	}
	if o.NeedsGuests() || c.AllGuests && len(o.Machines()) > 0 {
		guests, revision, err := list(ctx, c, listing{resource: podstate.GuestResource}, podstate.DecodeGuests)
		o.Guests = source(ctx, c, podstate.GuestResource, guests, revision, err)
	}
	slices.Sort(o.Warnings)
	return ctx.Err()
}
