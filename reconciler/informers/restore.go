package informers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// watchRestores detects restores of etcd, and shares what they have lost once the rebuilt caches have listed all. Where
// another replica leads no pass does so, and that replica may have started since.
func (s *Source) watchRestores(ctx context.Context) {
	isShared := false
	_ = wait.PollUntilContextCancel(ctx, time.Second, false, func(ctx context.Context) (isDone bool, err error) {
		if s.Synced() && s.checkWatches(ctx) == nil && !isShared {
			isShared = s.shareLost(ctx)
		}
		return false, nil
	})
}

// shareLost shares what a restore has lost, if there was one. It returns false if it must be called again.
func (s *Source) shareLost(ctx context.Context) (isDone bool) {
	s.mu.Lock()
	why, lost, now := s.restore, slices.Sorted(maps.Keys(s.missingReports())), s.Now()
	isNew := why != "" && s.isRestoreNew()
	s.mu.Unlock()
	if !isNew || len(lost) == 0 {
		return true
	}
	err := s.RestoreStore().Update(ctx, func(text string) (string, error) {
		return restore.AddLost(text, why, now, lost, s.RestoreIDs)
	})
	isForbidden := errors.Is(err, apply.ErrForbidden)
	if isForbidden {
		s.log.Warn("Cannot persist the nodes that an etcd restore has lost: forbidden", "nodes", lost, "error", err)
	} else if err != nil { // a second later it is tried again
		s.log.Debug("Could not persist the nodes that an etcd restore has lost", "nodes", lost, "error", err)
	}
	return err == nil || isForbidden
}

// checkWatches compares the revisions after a watch was opened, and records a restore. A watch that resumes at a
// revision which a restored etcd has not reached yet delivers nothing.
func (s *Source) checkWatches(ctx context.Context) error {
	s.mu.Lock()
	opens, isChecked := s.opens, s.opens == s.checked
	s.mu.Unlock()
	if isChecked {
		return nil
	}
	why, err := s.compareRevisions(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if why != "" {
		s.setRestore(why)
		return errors.New(why)
	}
	s.checked = opens
	return nil
}

// compareRevisions returns evidence that etcd is at an older resourceVersion than the watches have delivered, or "".
func (s *Source) compareRevisions(ctx context.Context) (why string, err error) {
	for _, k := range s.stores {
		s.mu.Lock()
		newest, isRefused := k.newest, k.isRefused()
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
	defer s.mu.Unlock()
	s.setRestore(why)
}

// setRestore records a restore for the next full pass, and requests a rebuild. The caller holds mu.
func (s *Source) setRestore(why string) {
	s.restore, s.restoreTime = why, s.Now()
	s.invalidate(errors.New(why))
	s.requestRebuild(why)
}

// takeRestore returns and clears the recorded restore. A replica that does not lead makes no full pass. When it becomes
// the leader much later, the restore is not new: the previous leader has reported it.
func (s *Source) takeRestore() (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isRestoreNew() {
		why = s.restore
	}
	s.restore = ""
	return why
}

// isRestoreNew reports whether the recorded restore is young. It is if nobody knew the API server's time when it was
// recorded. The caller holds mu.
func (s *Source) isRestoreNew() bool {
	return s.restoreTime.IsZero() || s.Now().Sub(s.restoreTime) <= missingPeriod
}
