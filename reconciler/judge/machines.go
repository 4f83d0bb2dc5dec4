package judge

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
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
func (x *judging) stateOfIPAMClaim(name types.NamespacedName) (_ IPAMClaimState, text string) {
	text = "IPAMClaim " + name.String()
	claim, unread := x.Claim(name)
	switch {
	case unread != "":
		return ClaimNotRead, fmt.Sprintf("the address belongs to %s, which is unknown: %s", text, unread)
	case claim != nil:
		return ClaimExists, text
	}
	return ClaimMissing, text
}

// guestBeside is a guest that has the item's address on the same network. A machine that has migrated may keep the
// address of its first pod (kubevirt issue 13709).
func (x *judging) guestBeside(it *Item) rival {
	for _, g := range x.GuestsAt(it.Address()) {
		if it.mayBeOn(g.NAD) {
			return rival{name: "VirtualMachineInstance " + g.Guest.String(), isGuest: true}
		}
	}
	return rival{}
}
