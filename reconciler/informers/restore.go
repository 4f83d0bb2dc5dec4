package informers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// watchRestores detects restores of etcd, and shares them: at once, and what they have lost once the rebuilt caches
// have listed all. Where another replica leads no pass does so, and that replica may have started since.
func (s *Source) watchRestores(ctx context.Context) {
	hasShared, hasSharedLost, isWarned := false, false, false
	share := func(hasListed bool) bool {
		isDone, err := s.share(ctx, hasListed)
		switch isForbidden := errors.Is(err, apply.ErrForbidden); {
		case isForbidden && !isWarned:
			isWarned = true
			s.log.Warn("Cannot persist an etcd restore: forbidden; trying again", "error", err)
		case err != nil && !isForbidden:
			s.log.Debug("Could not persist an etcd restore", "error", err)
		}
		return isDone
	}
	_ = wait.PollUntilContextCancel(ctx, time.Second, false, func(ctx context.Context) (isDone bool, err error) {
		switch hasListed := s.hasListed() && s.checkWatches(ctx) == nil; {
		case hasListed && !hasSharedLost:
			hasSharedLost = share(true)
		case !hasListed && !hasShared:
			hasShared = share(false)
		}
		return false, nil
	})
}

// hasListed reports whether the caches show which reports a restore has lost. Those that RBAC forbids to read are not
// lost; without their CRD all are.
func (s *Source) hasListed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isSynced && !apierrors.IsForbidden(s.store(reportResource).noList)
}

// share shares a restore that no pass has taken, and what it has lost if the caches have listed all. It must be called
// again where it is not done, also if it is forbidden: an API server that has just started, as after a restore, forbids
// what it grants a moment later.
func (s *Source) share(ctx context.Context, hasListed bool) (isDone bool, err error) {
	s.mu.Lock()
	why, shared, now := s.restore, s.sharedID, s.Now()
	isNew := why != "" && s.isRestoreNew()
	var lost []string
	if hasListed {
		lost = slices.Sorted(maps.Keys(s.missingReports()))
	}
	s.mu.Unlock()
	switch {
	case !isNew:
		return hasListed, nil
	case shared != "" && len(lost) == 0:
		return true, nil
	}
	id := ""
	err = s.RestoreStore().Update(ctx, func(text string) (next string, err error) {
		next, id, err = restore.Share(text, shared, why, now, lost, s.RestoreIDs)
		return next, err
	})
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sharedID = id
	return true, nil
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
	why, err := s.compareRevisions(ctx, s.stores)
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

// compareRevisions returns evidence that etcd is at an older resourceVersion than the watches of some kinds have
// delivered, or "". A kind that the API server refuses now shows nothing.
func (s *Source) compareRevisions(ctx context.Context, kinds []*store) (why string, err error) {
	for _, k := range kinds {
		s.mu.Lock()
		newest := k.newest
		s.mu.Unlock()
		if newest == 0 {
			continue
		}
		now, err := s.Cluster.Revision(ctx, k.resource, k.namespace, k.name)
		switch {
		case isRefusal(err):
			continue
		case err != nil:
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
	s.restore, s.restoreTime, s.sharedID = why, s.Now(), ""
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
