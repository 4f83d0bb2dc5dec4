package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// denied is a simulator whose first lists fail, as those of an API server that has just started.
type denied struct {
	*simulator
	lists int
	why   error
}

func (d *denied) List(ctx context.Context) (*facts.Observation, error) {
	if d.lists--; d.lists >= 0 {
		return nil, d.why
	}
	return d.simulator.List(ctx)
}

// The fence ends with recover: lists that are denied for a moment are read again, before the fence, too.
func TestRecover_IsDenied(t *testing.T) {
	for name, c := range map[string]struct {
		lists    int
		why      error
		isFenced bool
		want     bool
	}{
		"once, behind a fence":              {1, errServer, true, true},
		"for ever, behind a fence":          {1000, errServer, true, false},
		"once, without a fence":             {1, errServer, false, false},
		"denied once, before the fence":     {1, apply.ErrForbidden, false, true},
		"denied for ever, before the fence": {1000, apply.ErrForbidden, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.lacksAnEntry()
				r := s.reconciler(t)
				r.Source, r.Options.Repair = &denied{s, c.lists, c.why}, true
				if c.isFenced {
					r.Fence = fencedSince(time.Now().Add(-time.Minute))
				}
				began := time.Now()
				_, err := r.Recover(t.Context())
				if isWritten := s.entries(bluePool)["1"] != nil; isWritten != c.want || (err == nil) != c.want {
					t.Errorf("the entry is written: %t, %v", isWritten, err)
				}
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("it ended after %s", took)
				}
			})
		})
	}
}

// versioned is a simulator whose agents' Leases have versions that grow with their renewals.
type versioned struct{ *simulator }

func (v versioned) List(ctx context.Context) (*facts.Observation, error) {
	return withVersions(v.simulator.List(ctx))
}

func (v versioned) Relist(ctx context.Context, before *facts.Observation) (*facts.Observation, error) {
	return withVersions(v.simulator.Relist(ctx, before))
}

func withVersions(o *facts.Observation, err error) (*facts.Observation, error) {
	if err == nil {
		for _, r := range o.Reports.Or(nil) {
			r.LeaseVersion = fmt.Sprint(time.Now().Unix())
		}
		ReadByQuorum(o)
	}
	return o, err
}

// A replica of serve has stored a restore. It has lost the Node object of worker-9, which has not reported since, so
// that its addresses are unknown. The fence ends with recover, and so must stand until worker-9 has reported.
func TestRecover_WaitsForNodesThatARestoreAwaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.lacksAnEntry()
		s.nodes = map[string]*podstate.Node{"worker-1": {Name: "worker-1", Ready: true, BootID: "boot of worker-1"}}
		r := s.reconciler(t)
		r.Source, r.RestoreStore, r.Options.Repair = versioned{s}, s, true
		began := time.Now()
		s.kept = fmt.Sprintf(`{"id":"abc","restored":%q,"why":"etcd ran backwards","asked":true,`+
			`"awaited":{"worker-9":true}}`, began.Add(-5*time.Second).UTC().Format(time.RFC3339))
		r.Fence = fence(func() time.Time {
			if time.Since(began) > restore.LongestFence {
				return time.Time{}
			}
			return began
		})
		out, err := r.Recover(t.Context())
		check(t, err)
		if took := time.Since(began); took < restore.LongestFence || took > restore.LongestFence+10*time.Second {
			t.Errorf("it ends after %s", took)
		}
		if isWritten := s.entries(bluePool)["1"] != nil; !isWritten || fmt.Sprint(out.Restore.Awaiting) != "[worker-9]" {
			t.Errorf("what worker-1 runs is written: %t, awaited %v", isWritten, out.Restore.Awaiting)
		}
	})
}
