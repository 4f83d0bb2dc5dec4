// Package ippool reads and changes what whereabouts stores: IPPools with their allocations,
// OverlappingRangeIPReservations, and the NetworkAttachmentDefinitions that use them. It does no I/O and knows no pods.
//
// Begin with Pool and Allocation (pool.go). An allocation's key is the offset of its address in the pool's Range
// (range.go). A reservation (reservation.go) is found by its name (name.go). A NAD (network.go) maps a network to
// pools. patch.go builds JSON patches that remove or write single entries and nothing else.
//
// An object may have fields of a later whereabouts: they are detected, and never lost.
package ippool
