package reconciler

import (
	"net/netip"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// repair is what --repair would write for a finding: an entry where it has a key,
// else a reservation.
type repair struct {
	pool        *ippool.Pool        // of the entry
	key         string              // of the entry
	instead     *ippool.Allocation  // the entry that is replaced; nil for an empty slot
	overlapping bool                // the entry needs a reservation, too
	replaced    *ippool.Reservation // another pod's, in the place of which it is written; nil for none
	address     netip.Addr
	network     string
	containerID string
	podRef      string
	ifName      string
	node        string // by whose report it is known
	phantom     bool   // the API does not have its pod
	fenced      bool   // what it rests on was seen behind the fence: nothing is waited for
}

// reservation is what a repair creates.
func (w *repair) reservation() *unstructured.Unstructured {
	return ippool.NewReservation(w.pool.Namespace, w.network, w.address, w.podRef, w.ifName)
}
