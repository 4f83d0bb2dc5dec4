package kube

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// readMachines reads IPAMClaims and VirtualMachineInstances where something depends on them, after pools and pods: the
// claim of an allocation exists before it.
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

// readIPAMClaims reads all IPAMClaims, and returns why they are unread, "" if they were read. An empty list proves
// nothing: whoever removes the CRD removes all claims.
func (c *Cluster) readIPAMClaims(ctx context.Context, o *judge.Observation) (unread string) {
	claims, _, err := list(ctx, c, listing{resource: ippool.ClaimResource}, ippool.DecodeClaims)
	kind := ippool.ClaimResource.GroupResource().String()
	switch {
	case apierrors.IsNotFound(err):
		return "the API server does not serve " + kind
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("cannot list %s: forbidden", kind)
	case err != nil:
		return fmt.Sprintf("cannot list %s: %v", kind, innermost(err))
	case len(claims) == 0:
		return judge.NoIPAMClaims
	}
	o.IPAMClaims = make(map[types.NamespacedName]*ippool.Claim, len(claims))
	for _, claim := range claims {
		o.IPAMClaims[claim.NamespacedName] = claim
	}
	return ""
}

// liveIPAMClaim reads an IPAMClaim by a LIST, which needs no other permission; nil for none.
func (c *Cluster) liveIPAMClaim(ctx context.Context, name types.NamespacedName) (*ippool.Claim, error) {
	what := listing{resource: ippool.ClaimResource, namespace: name.Namespace, only: byName(name.Name)}
	found, _, err := list(ctx, c, what, ippool.DecodeClaims)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}
