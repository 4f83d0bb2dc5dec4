package sim

import (
	"maps"
	"strconv"
	"sync"
	"time"
)

// versions are what a process has read of pools, reports and their Leases by quorum, or written. A version that runs
// backwards shows it a restore of etcd, whatever the product makes of it.
type versions struct {
	mu           sync.Mutex
	known        map[key]uint64 // after the last complete pass, and those written since
	reading      map[key]uint64 // in this pass
	ranBackwards time.Time      // the last time
	began        time.Time      // the last pass
}

// versionsFor are the versions that the answer to a request has: of pools, reports and their Leases. The empty name is
// the revision of a list of pools.
func (s *apiServer) versionsFor(q *request) map[key]uint64 {
	isAgents := q.resource == reports || q.resource == leases && q.namespace == leaseNamespace
	if q.resource != pools && !isAgents || q.query.Has("watch") || q.query.Get("resourceVersion") == "0" ||
		q.writes() && q.name == "" {
		return nil
	}
	found := map[key]uint64{}
	if q.resource == pools && q.name == "" && !q.writes() {
		found[key{resource: pools}] = s.revision
	}
	for _, k := range listOf(s.objects, q.resource, q.namespace, q.name) {
		found[k], _ = strconv.ParseUint(s.objects[k].ResourceVersion, 10, 64)
	}
	return found
}

// note records the versions in an answer that the process got.
func (v *versions) note(versions map[key]uint64, isWrite bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reading == nil {
		return
	}
	for k, version := range versions {
		if !isWrite && version < v.known[k] {
			v.ranBackwards = time.Now()
		}
		if v.reading[k] = version; isWrite {
			v.known[k] = version
		}
	}
}

func (v *versions) beginPass() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.began = time.Now()
	if v.reading = map[key]uint64{}; v.known == nil {
		v.known = map[key]uint64{}
	}
}

func (v *versions) endPass() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = maps.Clone(v.reading)
}
