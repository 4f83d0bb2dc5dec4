package document

import "net/netip"

// AddressList is the document of explain for a list of addresses.
type AddressList struct {
	Header
	// Addresses are in the order of the list, one for each pool that has the address in its range.
	Addresses []AddressState `json:"addresses"`
}

// AddressState is the state of an address in a pool.
type AddressState struct {
	IP string `json:"ip"`
	// State is Free, InUse, Held, Stale, Reserved, Excluded (no definition assigns the address), Unknown (no definition of
	// the pool can be read) or OutsideEveryPool.
	State  string `json:"state"`
	Pool   string `json:"pool,omitempty"`
	PodRef string `json:"podRef,omitempty"`
}

// AddressRun is a range of addresses of a pool that have the same state.
type AddressRun struct {
	First netip.Addr `json:"first"`
	// Last is absent for an allocation.
	Last netip.Addr `json:"last,omitzero"`
	// State is as in AddressState.
	State  string `json:"state"`
	PodRef string `json:"podRef,omitempty"`
	// Reason is that of the verdict; absent without one.
	Reason string `json:"reason,omitempty"`
}
