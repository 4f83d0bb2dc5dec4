package informers

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// knownReports are the nodes whose reports the watches have told of, whichever caches they
// fed. A replica that does not lead has watched before a restore of etcd and has made no
// pass: so it knows what the restore has lost, even where the leader ended because it could
// not renew its Lease meanwhile.
type knownReports struct {
	mu      sync.Mutex
	present sets.Set[string]
	missed  map[string]time.Time // since when one that was present is not
}

func newKnownReports() *knownReports {
	return &knownReports{present: sets.New[string](), missed: map[string]time.Time{}}
}

// missedFor is for how long it counts that a report was there: longer than agents take to
// tell of a restore.
const missedFor = 10 * time.Minute

func (k *knownReports) added(resource string, name types.NamespacedName) {
	if resource != v1alpha1.Resource().Resource {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.present.Insert(name.Name)
	delete(k.missed, name.Name)
}

func (k *knownReports) removed(resource string, name types.NamespacedName, now time.Time) {
	if resource != v1alpha1.Resource().Resource {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.present.Delete(name.Name)
	k.missed[name.Name] = now
}

// setMissed puts into an observation which reports it lacks. Caches that were thrown away
// did not tell that a report went.
func (k *knownReports) setMissed(o *judge.Observation) {
	if o.ReportsUnreadable {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := k.present.Clone()
	for _, r := range o.Reports {
		gone.Delete(r.Name)
		delete(k.missed, r.Name)
	}
	for name := range gone {
		k.present.Delete(name)
		k.missed[name] = o.Now
	}
	maps.DeleteFunc(k.missed, func(_ string, since time.Time) bool { return o.Now.Sub(since) > missedFor })
	o.Missed = maps.Clone(k.missed)
}
