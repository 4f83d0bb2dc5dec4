package facts

import (
	"net/netip"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"k8s.io/apimachinery/pkg/types"
)

// GuestAddress is an address that a machine's status reports for its guest.
type GuestAddress struct {
	Guest *podstate.Guest
	NAD   *ippool.NAD // nil if it cannot be read
}

func (f *Facts) addGuests() {
	f.guests = map[netip.Addr][]GuestAddress{}
	f.guestsByUID = map[string]*podstate.Guest{}
	for _, g := range f.o.Guests.Or(nil) {
		if f.guestsByUID[g.UID] == nil {
			f.guestsByUID[g.UID] = g
		}
		for _, i := range g.Interfaces {
			for _, addr := range i.Addresses {
				f.guests[addr] = append(f.guests[addr], GuestAddress{g, f.nads[i.Network]})
			}
		}
	}
}

// Claim returns an IPAMClaim, nil for none, and why it is unread, "" if that is known.
func (f *Facts) Claim(name types.NamespacedName) (claim *ippool.Claim, unread string) {
	claims, known := f.o.IPAMClaims.Get()
	claim, isRead := f.live.claims[name]
	if !isRead {
		claim = claims[name]
	}
	switch {
	case claim != nil:
		unread = claim.Unread
	case !known:
		unread = f.o.IPAMClaims.Why()
	}
	return claim, unread
}
