package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// pageSize is how many objects a LIST asks for at a time.
const pageSize = 500

// Observe reads everything, by quorum: reservations, then pools, pods last. An
// ADD writes the pool before the reservation and needs its pod before either,
// so that whatever was seen has its owner in what is read after it.
func (c *Cluster) Observe(ctx context.Context) (*reconciler.Observation, error) {
	o := &reconciler.Observation{}
	_, err := c.list(ctx, ippool.ReservationResource, func(u *unstructured.Unstructured) {
		u.SetManagedFields(nil) // nobody reads them, and they are larger than the rest
		o.Reservations = append(o.Reservations, ippool.ReadReservation(u))
	})
	if err := c.optional(o, "OverlappingRangeIPReservations", err); err != nil {
		return nil, err
	}
	if err := c.surroundings(ctx, o); err != nil {
		return nil, err
	}
	o.Pods = map[types.NamespacedName]*podstate.Pod{}
	if err := c.listPods(ctx, "", metav1.ListOptions{}, o.Pods); err != nil {
		return nil, c.explain("list pods", err, "grant list on pods")
	}
	c.warnOfRivals(ctx, o)
	return o, nil
}

// Refresh reads anew what is not a pod or a reservation.
func (c *Cluster) Refresh(ctx context.Context, before *reconciler.Observation) (*reconciler.Observation, error) {
	o := &reconciler.Observation{
		Reservations: before.Reservations, Pods: before.Pods, Past: before.Past, Restored: before.Restored,
	}
	if err := c.surroundings(ctx, o); err != nil {
		return nil, err
	}
	if o.Revision < before.Revision {
		o.Restored = fmt.Sprintf("IPPools are at resourceVersion %d after %d", o.Revision, before.Revision)
	}
	return o, nil
}

func (c *Cluster) surroundings(ctx context.Context, o *reconciler.Observation) error {
	dated, date := withDate(ctx)
	revision, err := c.list(dated, ippool.PoolResource, func(u *unstructured.Unstructured) {
		u.SetManagedFields(nil)
		o.Pools = append(o.Pools, ippool.ReadPool(u))
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server at %s does not serve ippools.%s: whereabouts' CRDs are not installed there", c.host, ippool.PoolResource.Group)
	}
	if err != nil {
		return c.explain("list IPPools", err, "grant get, list and patch on ippools and get, list, create and delete on overlappingrangeipreservations ("+ippool.PoolResource.Group+")")
	}
	o.Revision, _ = strconv.ParseUint(revision, 10, 64)
	o.Now = *date
	o.NADs = map[types.NamespacedName]*ippool.NAD{}
	_, err = c.list(ctx, ippool.NADResource, func(u *unstructured.Unstructured) {
		o.NADs[types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}] = ippool.ReadNAD(u)
	})
	if err := c.optional(o, "NetworkAttachmentDefinitions", err); err != nil {
		return err
	}
	c.readPause(ctx, o)
	if err := c.readNodes(ctx, o); err != nil {
		return err
	}
	return c.readReports(ctx, o)
}

// optional lets a look go on without a kind that is not served or must not be
// read: what is then unknown makes verdicts more careful, never less.
func (c *Cluster) optional(o *reconciler.Observation, kind string, err error) error {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err) && kind != "OverlappingRangeIPReservations":
		o.Warnings = append(o.Warnings, fmt.Sprintf("no right to list %s: judged without them", kind))
		return nil
	}
	return c.explain("list "+kind, err, "grant list on them")
}

func (c *Cluster) readPause(ctx context.Context, o *reconciler.Observation) {
	err := c.call(ctx, func(ctx context.Context) error {
		ns, err := c.core.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
		if err == nil {
			o.Paused = ns.Annotations[ippool.PausedAnnotation] == "true"
		}
		return err
	})
	switch {
	case err == nil, apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err):
		o.Warnings = append(o.Warnings, fmt.Sprintf("no right to get namespace %s: the annotation %s on it is not seen", c.Namespace, ippool.PausedAnnotation))
	default:
		// Whether the operator has stopped everything is not known: so it is.
		o.Paused = true
		o.Warnings = append(o.Warnings, fmt.Sprintf("namespace %s could not be read (%v): taken for paused", c.Namespace, err))
	}
}

func (c *Cluster) readNodes(ctx context.Context, o *reconciler.Observation) error {
	nodes := map[string]*podstate.Node{}
	err := c.pages(ctx, metav1.ListOptions{}, func(ctx context.Context, opts metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.core.CoreV1().Nodes().List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			nodes[list.Items[i].Name] = podstate.ReadNode(&list.Items[i])
		}
		return list, nil
	}, func() { clear(nodes) })
	if apierrors.IsForbidden(err) {
		o.Warnings = append(o.Warnings, "no right to list nodes: nothing is known of them, and no node counts as dead or missing")
		return nil
	}
	if err != nil {
		return c.explain("list nodes", err, "")
	}
	o.Nodes = nodes
	return nil
}

// readReports reads the agents' reports and Leases. Only where the API does not
// serve reports at all, or an allowed LIST is empty, is there no agent: a 403
// or an error says nothing.
func (c *Cluster) readReports(ctx context.Context, o *reconciler.Observation) error {
	group := v1alpha1.Resource().GroupVersion().String()
	err := c.call(ctx, func(context.Context) error {
		_, err := c.core.Discovery().ServerResourcesForGroupVersion(group)
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	var reports []*v1alpha1.SandboxReport
	if err == nil {
		_, err = c.list(ctx, v1alpha1.Resource(), func(u *unstructured.Unstructured) {
			r := &v1alpha1.SandboxReport{}
			if cerr := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r); cerr != nil {
				o.ReportsUnreadable = true
				o.Unreadable = append(o.Unreadable, fmt.Sprintf("SandboxReport %s: %v", u.GetName(), cerr))
				return
			}
			reports = append(reports, r)
		})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		o.ReportsUnreadable = true
		o.Warnings = append(o.Warnings, fmt.Sprintf("SandboxReports are served and could not be read (%v): what only they can prove is held", short(err)))
		return nil
	}
	if len(reports) == 0 {
		return nil
	}
	leases, now, err := c.readLeases(ctx)
	if err != nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the node agents' Leases in namespace %s could not be read (%v): no report counts as fresh", c.Namespace, short(err)))
	} else {
		o.Now = now
	}
	heard := false
	for _, r := range reports {
		heard = heard || leases[r.Name] != nil
		o.Reports = append(o.Reports, podstate.ReadReport(r, leases[r.Name]))
	}
	c.bringInStep(ctx, o)
	if !heard && err == nil {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d SandboxReports and none of their Leases in namespace %s: name the agents' namespace with --namespace", len(reports), c.Namespace))
	}
	return nil
}

// readLeases returns the Leases by name with the API server's time of the answer.
func (c *Cluster) readLeases(ctx context.Context) (map[string]*coordinationv1.Lease, time.Time, error) {
	leases := map[string]*coordinationv1.Lease{}
	dated, date := withDate(ctx)
	err := c.pages(dated, metav1.ListOptions{}, func(ctx context.Context, opts metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.core.CoordinationV1().Leases(c.Namespace).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			leases[list.Items[i].Name] = &list.Items[i]
		}
		return list, nil
	}, func() { clear(leases) })
	return leases, *date, err
}

func (c *Cluster) listPods(ctx context.Context, namespace string, opts metav1.ListOptions, into map[types.NamespacedName]*podstate.Pod) error {
	return c.pages(ctx, opts, func(ctx context.Context, opts metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.core.CoreV1().Pods(namespace).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			p := podstate.ReadPod(&list.Items[i])
			into[p.NamespacedName] = p
		}
		return list, nil
	}, func() { clear(into) })
}

// named lists the object of that name only, or all where there is none.
func named(name string) metav1.ListOptions {
	if name == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// list reads all objects of a resource and returns the revision of the list.
func (c *Cluster) list(ctx context.Context, resource schema.GroupVersionResource, each func(*unstructured.Unstructured)) (string, error) {
	var all []unstructured.Unstructured
	revision := ""
	err := c.pages(ctx, metav1.ListOptions{}, func(ctx context.Context, opts metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := c.objects.Resource(resource).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		all, revision = append(all, list.Items...), list.GetResourceVersion()
		return list, nil
	}, func() { all = nil })
	if err != nil {
		return "", err
	}
	for i := range all {
		each(&all[i])
	}
	return revision, nil
}

// pages reads a LIST page by page. One that takes so long that its revision is
// compacted begins anew: half a list is no list.
func (c *Cluster) pages(ctx context.Context, opts metav1.ListOptions, page func(context.Context, metav1.ListOptions) (metav1.ListInterface, error), restart func()) error {
	opts.Limit = pageSize
	for restarts := 0; ; {
		var list metav1.ListInterface
		err := c.call(ctx, func(ctx context.Context) (err error) {
			list, err = page(ctx, opts)
			return err
		})
		switch {
		case apierrors.IsResourceExpired(err) && restarts < 3:
			restarts++
			opts.Continue = ""
			restart()
			continue
		case err != nil:
			return err
		}
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
}

// explain says what an error that ends a look means to an operator.
func (c *Cluster) explain(what string, err error, grant string) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no right to %s at %s: %s (%v)", what, c.host, grant, short(err))
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server at %s does not accept the credentials: log in again, or name another --kubeconfig or --context", what, c.host)
	case (passes(err) || errors.As(err, new(*net.OpError))) && !isStatus(err):
		return fmt.Errorf("%s: the API server at %s cannot be reached (%v): check the network, --kubeconfig and --context", what, c.host, short(err))
	}
	return fmt.Errorf("%s at %s: %w", what, c.host, err)
}

func isStatus(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s)
}

// short is the innermost of a chain of errors that each repeat the address.
func short(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
