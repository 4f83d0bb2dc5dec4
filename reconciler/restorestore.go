package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// leaseGrants ends the error of a StateStore that RBAC forbids.
const leaseGrants = "; grant get, create and update on leases, or use --without-lease"

// loadRestore reads what other processes know of restores, in each full pass and before the second check of a cache
// pass. Nothing is released while it cannot be read.
func (r *Reconciler) loadRestore(ctx context.Context, s restore.State, o *facts.Observation) restore.State {
	if r.RestoreStore == nil {
		return s
	}
	o.RestoreState, s.IsReader = "", r.Options.DryRun
	next := s
	err := r.RestoreStore.Update(ctx, func(text string) (_ string, err error) {
		o.RestoreState = text
		next, err = s.Read(text, o.Now)
		return text, err
	})
	switch {
	case err == nil:
		return next
	case errors.Is(err, apply.ErrForbidden) && r.WithoutRestoreStore:
		o.Warnings = append(o.Warnings, fmt.Sprintf("cannot read the etcd restore state, which --without-lease accepts: %v",
			err))
		return next.WithoutStore()
	}
	o.Warnings = append(o.Warnings, fmt.Sprintf("cannot read the etcd restore state, so nothing is released: %v", err))
	if errors.Is(err, apply.ErrForbidden) {
		err = fmt.Errorf("%w%s", err, leaseGrants)
	}
	return next.Unread(err)
}

// saveRestore stores what this process knows of restores for others. now is the API server's time.
func (r *Reconciler) saveRestore(ctx context.Context, now time.Time) {
	s := r.Process.Known.State
	if r.RestoreStore == nil || r.Options.DryRun {
		return
	}
	if !s.IsStored() {
		err := r.RestoreStore.Update(ctx, func(over string) (text string, err error) {
			s, text, err = s.Write(over, now)
			return text, err
		})
		switch {
		case errors.Is(err, apply.ErrForbidden) && r.WithoutRestoreStore:
			r.Process.Known = r.Process.Known.with(s.WithoutStore())
			return
		case err != nil:
			r.Log.Warn("Could not persist etcd restore state", "error", err)
			r.Process.Known = r.Process.Known.with(s.NotWritten(err))
			return
		}
	}
	r.Process.Known = r.Process.Known.with(s.Written())
}
