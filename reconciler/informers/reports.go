package informers

import (
	"fmt"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// leaseDelay is for how long an agent may have written a report and not yet the
// Lease with its hash.
const leaseDelay = 5 * time.Second

// addReport puts a node's report with its Lease into an observation.
func (v *view) addReport(o *judge.Observation, name string, r *report) {
	if r.err != nil {
		o.ReportsUnreadable = true
		o.Unreadable = append(o.Unreadable, fmt.Sprintf("SandboxReport %s: %v", name, r.err))
		return
	}
	lease := v.leaseOf(name)
	if r.previous != nil && o.Now.Sub(r.previousSince) < leaseDelay && verifies(lease, r.previous) {
		r = r.previous
	}
	o.Reports = append(o.Reports, podstate.ReadHashedReport(r.SandboxReport, r.hash, lease))
}

// keepPrevious keeps, beside a report that has just come, the one before it while
// the agent's Lease still has the hash of that one: else each report would leave its node
// without a fresh one until the Lease is written, and confirmation would start over.
func (v *view) keepPrevious(before, after *item) {
	r, ok := after.parsed.(*report)
	if !ok || before == nil {
		return
	}
	lease, old := v.leaseOf(after.Name), before.parsed.(*report)
	if old.previous != nil && verifies(lease, old.previous) {
		old = old.previous
	}
	if r.err == nil && old.err == nil && old.hash != r.hash && verifies(lease, old) {
		kept := *old
		kept.previous = nil
		r.previous, r.previousSince = &kept, v.now()
	}
}

func (v *view) leaseOf(node string) *coordinationv1.Lease {
	if i := v.objects["leases"][types.NamespacedName{Namespace: v.leases, Name: node}]; i != nil {
		return i.parsed.(*coordinationv1.Lease)
	}
	return nil
}

// verifies reports whether an agent's Lease has the hash of a report, which counts as fresh
// only then.
func verifies(l *coordinationv1.Lease, r *report) bool {
	return l != nil && r.hash != "" && l.Annotations[v1alpha1.HashAnnotation] == r.hash
}

// knownReports are the nodes whose reports the watches have delivered, whichever caches they
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
// report a restore.
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
// did not deliver that a report went.
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
