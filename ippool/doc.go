// Package ippool knows what whereabouts stores: IPPools, their allocations,
// OverlappingRangeIPReservations, the names and keys they go by, and the JSON
// patches that remove single entries without touching anything else. It reads
// and builds; it does no I/O and knows nothing of pods.
//
// Everything is read from the objects as they are, never through typed structs:
// an entry may carry fields that a later whereabouts adds, and none may be lost.
package ippool
