// Package ippool reads and changes what whereabouts stores: IPPools with their allocations,
// OverlappingRangeIPReservations, and the NetworkAttachmentDefinitions that use them. It
// does no I/O and knows nothing of pods.
//
// Begin with Pool and Allocation (pool.go). An allocation's key is the offset of its address
// in the pool's Range (range.go), a reservation (reservation.go) is found by its name
// (name.go), and a NAD (network.go) maps a network to pools. patch.go builds the JSON
// patches that remove or write single entries and nothing else.
//
// Everything is read from the objects as they are, never through typed structs:
// an entry may carry fields that a later whereabouts adds, and none may be lost.
package ippool
