package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

func TestExitCode_OfRefusals(t *testing.T) {
	refused := func(item *judge.Item, why plan.Refusal) plan.Refused {
		return plan.Refused{Item: item, Gate: plan.Gate{Why: why}}
	}
	awaiting := func(at time.Time) []plan.Refused {
		x := refused(&judge.Item{Allocation: &ippool.Allocation{}}, plan.AwaitingConfirmation)
		x.Gate.At = at
		return []plan.Refused{x}
	}
	allocation := &judge.Item{Allocation: &ippool.Allocation{}}
	reservation := &judge.Item{Reservation: &ippool.Reservation{}}
	for name, c := range map[string]struct {
		refused []plan.Refused
		code    int
		says    string
	}{
		"nothing":       {nil, exitDone, ""},
		"paused":        {[]plan.Refused{refused(allocation, plan.Paused)}, exitDone, ""},
		"etcd restored": {[]plan.Refused{refused(reservation, plan.EtcdRestored)}, exitDone, ""},
		"not confirmed": {awaiting(time.Now()), exitNotObserved, "1 allocations and reservations are unconfirmed"},
		"found later":   {awaiting(time.Time{}), exitDone, ""},
		"the breaker": {[]plan.Refused{refused(allocation, plan.Breaker)}, exitAllocations,
			"1 allocations and 0 reservations"},
		"Leases forbidden": {[]plan.Refused{refused(allocation, plan.NoLease)}, exitAllocations,
			"1 allocations and 0 reservations"},
		"a reservation": {[]plan.Refused{refused(reservation, plan.WriteFailed)}, exitReservations,
			"0 allocations and 1 reservations"},
		"of each one": {[]plan.Refused{refused(reservation, plan.WriteFailed),
			refused(allocation, plan.Changed),
			refused(allocation, plan.AwaitingConfirmation), refused(allocation,
				plan.Paused)}, exitAllocations, "1 allocations and 1 reservations"},
	} {
		code, err := exitCode(&reconciler.Result{Refused: c.refused})
		if code != c.code || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: exit code %d, %v", name, code, err)
		}
	}
}

// unreachable is a source that cannot be read.
type unreachable struct{ reconciler.Source }

func (unreachable) List(context.Context) (*facts.Observation, error) {
	return nil, errors.New("the API server cannot be reached")
}

func TestMakePass_ClusterThatCannotBeRead(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx  context.Context
		code int
		says string
	}{
		{t.Context(), exitNotObserved, `"reconciler run failed" error="the API server cannot be reached"`},
		{stopped, exitDone, `"reconciler run failed" error=terminated`},
	} {
		var logs bytes.Buffer
		r := &reconciler.Reconciler{Source: unreachable{}, Clock: clock.RealClock{},
			Log: slog.New(slog.NewTextHandler(&logs, nil)), Process: &reconciler.Process{}}
		if code := makePass(c.ctx, r); code != c.code || !strings.Contains(logs.String(), c.says) {
			t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, logs.String())
		}
	}
}
