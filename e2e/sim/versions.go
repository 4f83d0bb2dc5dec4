package sim

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// versions are what a process has read of pools, reports and their Leases by quorum, or written. A version that runs
// backwards shows it a restore of etcd, whatever the product makes of it.
type versions struct {
	mu           sync.Mutex
	known        map[key]uint64 // after the last complete pass, and those written since
	reading      map[key]uint64 // in this pass
	ranBackwards time.Time      // the last time
	began        time.Time      // the last pass
	recorded     time.Time      // when it last recorded a restore for the others
	refused      time.Time      // when it last could not
}

// versionsFor are the versions that the answer to a request has: of pools, reports and their Leases. The empty name is
// the revision of a list of pools.
func (s *Simulation) versionsFor(q *fakeapi.Request) map[key]uint64 {
	isAgents := q.Resource == fakeapi.Reports || q.Resource == fakeapi.Leases && q.Namespace == leaseNamespace
	if q.Resource != fakeapi.Pools && !isAgents || q.Query.Has("watch") || q.Query.Get("resourceVersion") == "0" ||
		q.Writes() && q.Name == "" {
		return nil
	}
	found := map[key]uint64{}
	if q.Resource == fakeapi.Pools && q.Name == "" && !q.Writes() {
		found[key{Resource: fakeapi.Pools}] = s.api.Revision
	}
	for _, k := range fakeapi.ListOf(s.api.Objects, q.Resource, q.Namespace, q.Name) {
		found[k], _ = strconv.ParseUint(s.api.Objects[k].ResourceVersion, 10, 64)
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

// noteRecord notes how a request for the record of restores was answered.
func (v *versions) noteRecord(w *call, status int) {
	isCreate := w.Name == "" && bytes.Contains(w.Body, []byte(restore.Lease))
	if w.Resource != fakeapi.Leases || w.Name != restore.Lease && !isCreate {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch isDone := status/100 == 2; {
	case isDone && w.Writes():
		v.recorded = time.Now()
	case !isDone && status != http.StatusNotFound:
		v.refused = time.Now()
	}
}

// mayNotRecord reports whether all requests for the record of restores that the process made since a time were refused,
// and it made some.
func (v *versions) mayNotRecord(since time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.refused.After(since) && !v.recorded.After(since)
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
