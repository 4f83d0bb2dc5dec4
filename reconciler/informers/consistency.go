package informers

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// List returns what the watches have told. The error is ErrCacheUnverified where
// that may differ from what the API server has.
func (s *Source) List(ctx context.Context) (*judge.Observation, error) {
	session, err := s.verifiedSession(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	o := session.view.observe(last)
	s.reports.setMissed(o)
	return o, nil
}

// verifiedSession returns the caches where they can be relied upon. The error is
// ErrCacheUnverified.
func (s *Source) verifiedSession(ctx context.Context) (*cacheSession, error) {
	session := s.session()
	if session == nil {
		return nil, fmt.Errorf("%w: there are none yet", ErrCacheUnverified)
	}
	if err := s.verify(ctx, session); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCacheUnverified, err)
	}
	return session, nil
}

// verify returns why the caches cannot be relied upon, nil if they can. Where a watch was
// opened again since, the revision is compared: one that was resumed at a revision that
// a restored etcd has not reached yet is open and tells nothing.
func (s *Source) verify(ctx context.Context, session *cacheSession) error {
	if err := session.watches.status(session.kinds); err != nil {
		return err
	}
	session.mu.Lock()
	verified, compared := session.verified, session.opens
	session.mu.Unlock()
	if !verified {
		return fmt.Errorf("they were not compared with a full pass yet")
	}
	_, opens := session.watches.counts()
	if opens == compared {
		return nil
	}
	why, err := s.backwards(ctx, session)
	if err != nil {
		return err
	}
	if why != "" {
		session.invalidate()
		s.mu.Lock()
		s.restored, s.restoreNoticedAt = why, s.Now()
		s.mu.Unlock()
		return errors.New(why)
	}
	session.mu.Lock()
	session.opens = opens
	session.mu.Unlock()
	return nil
}

// backwards returns what showed that etcd was restored since the caches were built,
// "" if nothing did: an object came at an older resourceVersion than before, or
// etcd is at an older one than the watches have told of.
func (s *Source) backwards(ctx context.Context, session *cacheSession) (why string, err error) {
	newest, why := session.view.newestVersions()
	for _, k := range session.kinds {
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

// invalidate has the caches count for nothing until they are compared again.
func (c *cacheSession) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verified = false
}

// setVerified takes note that the caches agreed with a quorum read, which began when so
// many watches had been opened.
func (c *cacheSession) setVerified(opens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verified, c.opens = true, opens
}

// newestVersions are the newest resourceVersions so far, by resource, and what showed that
// etcd was restored, "" if nothing did.
func (v *view) newestVersions() (newest map[string]uint64, restored string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.newest), v.restored
}
