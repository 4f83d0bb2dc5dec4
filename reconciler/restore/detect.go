package restore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

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
	versions, older := s.versionsWith(o)
	if restored = cmp.Or(o.Restored, older); restored == "" && o.Revision != 0 && o.Revision < s.revision {
		restored = fmt.Sprintf("resourceVersion %d after %d", o.Revision, s.revision)
	}
	s.versions, s.revision = versions, cmp.Or(o.Revision, s.revision)
	if restored != "" {
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

// WithVersions is the State with the versions of pools that this process has written, or read under the Leases. Nil is
// a pool that is gone.
func (s State) WithVersions(pools map[types.NamespacedName]*ippool.Pool) State {
	if len(pools) == 0 {
		return s
	}
	versions := make(map[string]string, len(s.versions)+len(pools))
	maps.Copy(versions, s.versions)
	for _, p := range pools {
		if p != nil {
			versions["IPPool "+p.Ref()] = p.ResourceVersion
		}
	}
	s.versions = versions
	return s
}

// versionsWith returns the versions that are known after an observation. older says which object has an older version
// than this process has read by quorum or written before; "" for none. That shows restores that etcd's revision does
// not show: the backup may be younger than the last pass, or new writes may have raised the revision again. Watches lag
// behind and prove nothing.
func (s State) versionsWith(o *facts.Observation) (versions map[string]string, older string) {
	if o.Watched {
		return s.versions, ""
	}
	versions = make(map[string]string, len(o.Pools)+2*len(o.Reports.Or(nil)))
	if !o.Reports.IsKnown() {
		maps.Copy(versions, s.versions)
	}
	note := func(object, version string) {
		before, known := s.versions[object]
		if version == "" { // was not read
			version = before
		}
		order, err := resourceversion.CompareResourceVersion(version, before)
		if known && err == nil && order < 0 && older == "" {
			older = fmt.Sprintf("%s is at resourceVersion %s after %s", object, version, before)
		}
		versions[object] = version
	}
	for _, p := range o.Pools {
		note("IPPool "+p.Ref(), p.ResourceVersion)
	}
	for _, r := range o.Reports.Or(nil) {
		note("SandboxReport "+r.Name, r.ResourceVersion)
		note("Lease "+r.Name, r.LeaseVersion)
	}
	return versions, older
}
