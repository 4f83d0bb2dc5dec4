package restore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// reportedByAgent begins last.Why where an agent reported the restore, to this replica or to another one.
const reportedByAgent = "reported by the agent on node "

// Detect is the State after an observation that is not judged: the next one does not show the restore again. restored
// is what Observe returns.
func (s State) Detect(o *facts.Observation) (next State, restored string) {
	if !s.hasPassed && len(o.MissingReports) > 0 { // these nodes had reports before the first pass
		s.sawReports, s.knownNodes = true, maps.Clone(o.MissingReports)
		if s.last.ID != "" && !s.last.IsSettled { // the pass that showed the restore could not read reports
			s.last = s.last.withLost(slices.Collect(maps.Keys(o.MissingReports)))
		}
	}
	s, older := s.withVersions(o.Versions)
	if o.Revision != 0 && o.Reports.IsKnown() && o.AgentLeases.IsKnown() { // objects that are gone are forgotten
		s.versions = newest(o.Versions)
	}
	if restored = cmp.Or(o.Restored, older); restored != "" {
		s = s.Detected(restored, o.Now)
	}
	return s, restored
}

// Detected is the State after an observation of this process has shown a restore, which counts once for each time.
func (s State) Detected(why string, now time.Time) State {
	if s.passDetectedAt.Equal(now) {
		return s
	}
	s.passDetectedAt = now
	return s.begin(why, now, false)
}

// ReadLive is the State after a live read. restored is what shows a restore of etcd, "" for nothing.
func (s State) ReadLive(live *facts.Live, now time.Time) (next State, restored string) {
	if s, restored = s.withVersions(live.Versions); restored != "" {
		s = s.Detected(restored, now)
	}
	return s, restored
}

// Wrote is the State after a write to pools. Nil is a pool that is gone.
func (s State) Wrote(pools map[types.NamespacedName]*ippool.Pool) State {
	versions := maps.Clone(s.versions)
	if versions == nil {
		versions = make(map[string]string, len(pools))
	}
	for _, p := range pools {
		if p != nil && !isOlder(p.ResourceVersion, versions[facts.PoolObject+p.Ref()]) { // else the next read shows it
			versions[facts.PoolObject+p.Ref()] = p.ResourceVersion
		}
	}
	s.versions = versions
	return s
}

// withVersions is the State with the versions that answers to quorum reads had. older says which object has an older
// version than this process has read by quorum or written before; "" for none. Objects show restores that the revision
// of the list does not show: the backup may be younger than the last pass, or new writes may have raised it again.
// Watches lag behind and prove nothing.
func (s State) withVersions(read []facts.Version) (next State, older string) {
	if len(read) == 0 {
		return s, ""
	}
	versions := make(map[string]string, max(len(s.versions), len(read)))
	maps.Copy(versions, s.versions)
	for _, v := range read {
		if before := versions[v.Object]; older == "" && isOlder(v.ResourceVersion, before) {
			older = fmt.Sprintf("%s is at resourceVersion %s after %s", v.Object, v.ResourceVersion, before)
		}
		versions[v.Object] = v.ResourceVersion
	}
	if s.versions = versions; older != "" { // the others are of before, and would show the same restore again
		s.versions = newest(read)
	}
	return s, older
}

// newest are the last of each object's versions.
func newest(read []facts.Version) map[string]string {
	versions := make(map[string]string, len(read))
	for _, v := range read {
		versions[v.Object] = v.ResourceVersion
	}
	return versions
}
