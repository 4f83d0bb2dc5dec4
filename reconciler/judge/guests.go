package judge

import (
	"net/netip"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"k8s.io/apimachinery/pkg/types"
)

// guestAddress is an address that a machine's status reports for its guest.
type guestAddress struct {
	guest *podstate.Guest
	nad   *ippool.NAD // nil if it cannot be read
}

func (x *Index) addGuests() {
	x.guests = map[netip.Addr][]guestAddress{}
	x.guestsByUID = map[string]*podstate.Guest{}
	for _, g := range x.o.Guests.Or(nil) {
		if x.guestsByUID[g.UID] == nil {
			x.guestsByUID[g.UID] = g
		}
		for _, i := range g.Interfaces {
			for _, addr := range i.Addresses {
				x.guests[addr] = append(x.guests[addr], guestAddress{g, x.nads[i.Network]})
			}
		}
	}
}

// claim returns an IPAMClaim, nil for none, and why it is unread, "" if that is known.
func (x *Index) claim(name types.NamespacedName) (claim *ippool.Claim, unread string) {
	claims, known := x.o.IPAMClaims.Get()
	claim, isRead := x.live.claims[name]
	if !isRead {
		claim = claims[name]
	}
	switch {
	case claim != nil:
		unread = claim.Unread
	case !known:
		unread = x.o.IPAMClaims.Why()
	}
	return claim, unread
}
