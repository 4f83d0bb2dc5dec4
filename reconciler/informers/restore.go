package informers

import (
	"context"
	"errors"
	"fmt"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// The methods in this file, Ping and Now are what package serve's Guard needs to detect a restore.

// Leases are whereabouts' Leases that ADDs and DELs may take for the pools that the
// watches have delivered, by namespace; nil where there are no caches.
func (s *Source) Leases() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.synced {
		return nil
	}
	var pools []*ippool.Pool
	for _, i := range s.store(ippool.PoolResource.Resource).objects {
		pools = append(pools, i.parsed.(*ippool.Pool))
	}
	return ippool.LeasesOf(pools)
}

// RestartFullPass has a quorum read that is under way begin again: its requests may wait
// for an API server that is not there any more.
func (s *Source) RestartFullPass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancelFullPass != nil {
		s.cancelFullPass()
	}
}

// backwards returns what shows that etcd is at an older resourceVersion than the watches have delivered, "" if nothing
// does.
func (s *Source) backwards(ctx context.Context) (why string, err error) {
	for _, k := range s.stores {
		s.mu.Lock()
		newest := k.newest
		if k.refusal != nil {
			newest = 0
		}
		s.mu.Unlock()
		if newest == 0 {
			continue
		}
		now, err := s.Cluster.Revision(ctx, k.resource, k.namespace, k.name)
		if err != nil {
			return "", err
		}
		if now < newest {
			return fmt.Sprintf("etcd is at resourceVersion %d, and the watch of %s has delivered %d",
				now, k.resource.Resource, newest), nil
		}
	}
	return "", nil
}

// RecordRestore takes what shows that etcd was restored: the next full pass reports it, and the caches are rebuilt.
func (s *Source) RecordRestore(why string) {
	s.mu.Lock()
	s.setRestored(why)
	s.mu.Unlock()
	s.Rebuild(why)
}

// setRestored has the next full pass report a restore. The caller holds mu.
func (s *Source) setRestored(why string) {
	s.restored, s.restoreNoticedAt = why, s.Now()
	s.invalidate(errors.New(why))
}

// takeRestore returns the restore that no full pass has reported yet, which this one does. A replica that does not lead
// makes none, and a restore of long ago is not new when it begins to: the leader of then has reported it.
func (s *Source) takeRestore() (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Now().Sub(s.restoreNoticedAt) <= missedFor {
		why = s.restored
	}
	s.restored = ""
	return why
}
