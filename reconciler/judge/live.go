package judge

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"k8s.io/apimachinery/pkg/types"
)

// Live is what a live read found, or what watches told since everything was
// observed. In the maps nil means that there is no such object any more.
type Live struct {
	// Now is the API server's time of the read; zero if it did not tell.
	Now time.Time
	// Restored says what showed that etcd was restored, "" if nothing did.
	Restored string
	// Pools are those that were read in full, or are gone.
	Pools map[types.NamespacedName]*ippool.Pool
	// Changed are pools at another resourceVersion that were not read in full:
	// nothing may be concluded about their entries.
	Changed      map[types.NamespacedName]bool
	Reservations map[types.NamespacedName]*ippool.Reservation
	Pods         map[types.NamespacedName]*podstate.Pod
	// Reports by node. Only watches tell of them: a live read reads none.
	Reports map[string]*podstate.Report
}
