package document

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
