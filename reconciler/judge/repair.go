package judge

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Repair is what --repair would write for a finding: an entry where it has a key,
// else a reservation.
type Repair struct {
	Pool        *ippool.Pool        // of the entry
	Key         string              // of the entry
	Instead     *ippool.Allocation  // the entry that is replaced; nil for an empty slot
	NewPool     bool                // the pool is not there, and is made with the entry
	Overlapping bool                // the entry needs a reservation, too
	Replaced    *ippool.Reservation // another pod's, in the place of which it is written; nil for none
	Address     netip.Addr
	Network     string
	ContainerID string
	PodRef      string
	IfName      string
	Node        string // by whose report it is known
	Fenced      bool   // what it rests on was seen behind the fence: nothing is waited for
}

// NewReservation is what a repair creates.
func (w *Repair) NewReservation() *unstructured.Unstructured {
	return ippool.NewReservation(w.Pool.Namespace, w.Network, w.Address, w.PodRef, w.IfName)
}
