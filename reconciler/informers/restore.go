package informers

import (
	"context"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// The methods in this file are what package serve's Guard needs to detect a restore.

// Ping asks the API server for as little as possible; see kube.Cluster.
func (s *Source) Ping(ctx context.Context) (kube.Answer, error) { return s.cluster.Ping(ctx) }

// Now is the time by the API server's clock.
func (s *Source) Now() time.Time { return s.cluster.Now() }

// Leases are whereabouts' Leases that ADDs and DELs may take for the pools that the
// watches have told of, by namespace; nil where there are no caches.
func (s *Source) Leases() map[string][]string {
	current := s.session()
	if current == nil {
		return nil
	}
	current.view.mu.Lock()
	defer current.view.mu.Unlock()
	var pools []*ippool.Pool
	for _, i := range current.view.objects[ippool.PoolResource.Resource] {
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

// fullPassBegins takes what ends the quorum read that begins.
func (s *Source) fullPassBegins(cancel context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelFullPass = cancel
}

// backwards returns what showed that etcd was restored since the caches were built,
// "" if nothing did: an object came at an older resourceVersion than before, or
// etcd is at an older one than the watches have delivered.
func (s *Source) backwards(ctx context.Context, current *session) (why string, err error) {
	newest, why := current.view.newestVersions()
	for _, k := range current.kinds {
		seen := newest[k.resource.Resource]
		if why != "" || seen == 0 {
			continue
		}
		now, err := s.cluster.Revision(ctx, k.resource, k.where["metadata.namespace"], k.where["metadata.name"])
		if err != nil {
			return "", err
		}
		if now < seen {
			why = fmt.Sprintf("etcd is at resourceVersion %d, and the watch of %s has told of %d", now, k.resource.Resource, seen)
		}
	}
	return why, nil
}

// RecordRestore takes what shows that etcd was restored: the next full pass reports it, and the caches are rebuilt.
func (s *Source) RecordRestore(why string) {
	s.setRestored(why)
	s.Rebuild(why)
}

func (s *Source) setRestored(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restored, s.restoreNoticedAt = why, s.Now()
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
