package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// readMachines reads IPAMClaims and VirtualMachineInstances where something depends on them, after pools and pods.
func (c *Cluster) readMachines(ctx context.Context, o *reading) (err error) {
	if o.NamesIPAMClaim() {
		if o.IPAMClaimsUnread = c.readIPAMClaims(ctx, o.Observation); o.IPAMClaimsUnread != "" {
			o.warn("%s; addresses of stopped machines are held", o.IPAMClaimsUnread)
		}
	}
	if o.NeedsGuests() {
		what := listing{resource: podstate.GuestResource}
		o.Guests, _, err = list(ctx, c, what, podstate.DecodeGuests)
		err = c.optional(ctx, o, podstate.GuestResource, "VirtualMachineInstances", err)
	}
	slices.Sort(o.Warnings)
	return err
}

// readIPAMClaims reads all IPAMClaims, and returns why they are unread, "" if they were read. The last claim may be
// gone, so an empty list is an answer; the second check reads each claim that counts by its name.
func (c *Cluster) readIPAMClaims(ctx context.Context, o *judge.Observation) (unread string) {
	claims, _, err := list(ctx, c, listing{resource: ippool.ClaimResource}, ippool.DecodeList[ippool.Claim])
	kind := ippool.ClaimResource.GroupResource().String()
	switch {
	case apierrors.IsNotFound(err):
		return "the API server does not serve " + kind
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("cannot list %s: forbidden", kind)
	case err != nil:
		return fmt.Sprintf("cannot list %s: %v", kind, innermost(err))
	}
	o.IPAMClaims = indexed(claims, func(claim *ippool.Claim) types.NamespacedName { return claim.NamespacedName })
	return ""
}

// liveIPAMClaim reads whether an IPAMClaim exists; nil for none. A 404 counts only if it names this very claim: without
// the CRD it names none.
func (c *Cluster) liveIPAMClaim(ctx context.Context, name types.NamespacedName) *ippool.Claim {
	claim := &ippool.Claim{NamespacedName: name}
	_, err := c.metadata.Resource(ippool.ClaimResource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && isAbsent(err) {
		d := status.Status().Details
		if d != nil && d.Name == name.Name && d.Kind == ippool.ClaimResource.Resource {
			return nil
		}
	}
	if err != nil {
		claim.Unread = fmt.Sprintf("cannot get IPAMClaim %s: %v", name, innermost(err))
	}
	return claim
}
