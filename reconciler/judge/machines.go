package judge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// IPAMClaimState is what is known of the IPAMClaim of an allocation or reservation.
type IPAMClaimState string

const (
	NoClaim      IPAMClaimState = ""        // the item names none
	ClaimExists  IPAMClaimState = "Exists"  // it exists
	ClaimMissing IPAMClaimState = "Missing" // all IPAMClaims were read, and it is not among them
	ClaimNotRead IPAMClaimState = "NotRead" // IPAMClaims could not be read
)

func (s IPAMClaimState) mayExist() bool { return s != NoClaim && s != ClaimMissing }

// stateOfIPAMClaim is the state of an IPAMClaim, also in words. A claim is known by its name only: whereabouts records
// no UID, and reuses the allocation for a new claim of the name.
func (x *Index) stateOfIPAMClaim(name types.NamespacedName) (_ IPAMClaimState, text string) {
	text = "IPAMClaim " + name.String()
	claim, unread := x.claim(name)
	switch {
	case unread != "":
		return ClaimNotRead, fmt.Sprintf("the address belongs to %s, which is unknown: %s", text, unread)
	case claim != nil:
		return ClaimExists, text
	}
	return ClaimMissing, text
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

// guestBeside is a guest that has the item's address on the same network. A machine that has migrated may keep the
// address of its first pod (kubevirt issue 13709).
func (x *Index) guestBeside(it *Item) rival {
	for _, g := range x.guests[it.Address()] {
		if it.mayBeOn(g.nad) {
			return rival{name: "VirtualMachineInstance " + g.guest.String(), isGuest: true}
		}
	}
	return rival{}
}

func (x *Index) podsByRef(refs []string) (pods []*podstate.Pod) {
	for _, ref := range refs {
		namespace, name, _ := strings.Cut(ref, "/")
		pods = append(pods, x.pod(namespace, name))
	}
	return pods
}

// machineFindings are the findings on allocations that differ from their IPAMClaim, or that a guest has after its
// machine's migration.
func (x *finder) machineFindings(items []*Item) (found []Finding) {
	for _, it := range items {
		if it.Allocation == nil || it.Allocation.Problem != "" {
			continue
		}
		f := Finding{IP: it.Text(), Pool: it.Object(), Pods: []string{it.PodRef()}}
		if name := it.IPAMClaim(); name != nil {
			claim, _ := x.claim(*name)
			if claim != nil && len(claim.IPs) > 0 && !slices.ContainsFunc(claim.IPs, it.isAbout) {
				f.Kind = ClaimDiffers
				f.Message = fmt.Sprintf("the allocation of %s names IPAMClaim %s, whose status has %s", it.Text(), name,
					strings.Join(textsOf(claim.IPs), " and "))
				found = append(found, f)
			}
		}
		if it.Reason == GuestAddress || it.Reason == GuestUnknown {
			f.Kind, f.Message = GuestAddressFinding, fmt.Sprintf("%s: %s", it.Text(), it.Message())
			found = append(found, f)
		}
	}
	return found
}

func textsOf(addresses []netip.Addr) (texts []string) {
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	return texts
}
