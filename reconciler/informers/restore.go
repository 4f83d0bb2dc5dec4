package informers

import (
	"context"
	"errors"
	"fmt"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Leases returns whereabouts' Leases of all pools in the caches, by namespace; nil if the caches are not synced.
func (s *Source) Leases() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isSynced {
		return nil
	}
	var pools []*ippool.Pool
	for _, i := range s.store(ippool.PoolResource.Resource).objects {
		pools = append(pools, i.parsed.(*ippool.Pool))
	}
	return ippool.LeasesOf(pools)
}

// RestartFullPass restarts the current quorum read, if any. Its requests may wait for an API server that is gone.
func (s *Source) RestartFullPass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancelFullPass != nil {
		s.cancelFullPass()
	}
}

// compareRevisions returns evidence that etcd is at an older resourceVersion than the watches have delivered, or "".
func (s *Source) compareRevisions(ctx context.Context) (why string, err error) {
	for _, k := range s.stores {
		s.mu.Lock()
		newest, isRefused := k.newest, k.refusal != nil
		s.mu.Unlock()
		if newest == 0 || isRefused {
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

// RecordRestore records evidence that etcd was restored. The next full pass reports it, and the caches are rebuilt.
func (s *Source) RecordRestore(why string) {
	s.mu.Lock()
	s.setRestore(why)
	s.mu.Unlock()
	s.Rebuild(why)
}

// setRestore records a restore for the next full pass. The caller holds mu.
func (s *Source) setRestore(why string) {
	s.restore, s.restoreTime = why, s.Now()
	s.invalidate(errors.New(why))
}

// takeRestore returns and clears the recorded restore. A replica that does not lead makes no full pass. When it becomes
// the leader much later, the restore is not new: the previous leader has reported it.
func (s *Source) takeRestore() (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Now().Sub(s.restoreTime) <= missingPeriod {
		why = s.restore
	}
	s.restore = ""
	return why
}
