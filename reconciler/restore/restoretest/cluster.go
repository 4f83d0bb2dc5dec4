// Package restoretest has a cluster for tests of a restore.Guard. A test changes its fields, and it counts calls.
package restoretest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// Cluster is the restore.Detector and the restore.Fence of a Guard. Its fields are used within Change, or while
// everything is at rest.
type Cluster struct {
	mu         sync.Mutex
	IsAway     bool           // the API server refuses connections
	Hangs      bool           // the API server does not answer
	Answer     restore.Answer // HasReconnected is of one answer
	PoolLeases map[string][]string
	Recorded   []string // calls of RecordRestore

	Raises, Lowers, Leaves int                 // numbers of calls
	Asked                  map[string][]string // the Leases of the last call of Raise
	StandsSince            time.Time           // zero without a fence
	IsBusy                 bool                // others hold the Leases
	Age                    time.Duration       // of the fence when it is raised
	IsEndedByPeer          bool
	FullPasses             int // that the Guard has requested
	Events                 []restore.Event
}

// NewCluster returns a cluster with one Lease, at revision 100.
func NewCluster() *Cluster {
	return &Cluster{PoolLeases: map[string][]string{"kube-system": {"whereabouts"}}, Answer: restore.Answer{Revision: 100}}
}

// Guard returns a Guard of the cluster. onEvent and fullPass receive what the cluster records, too.
func (c *Cluster) Guard(fullPass func(), onEvent func(restore.Event)) *restore.Guard {
	return restore.NewGuard(restore.GuardConfig{Fence: c, Detector: c, Timeout: restore.LongestFence,
		FullPass: func() { c.do(func() { c.FullPasses++ }); fullPass() },
		OnEvent:  func(e restore.Event) { c.do(func() { c.Events = append(c.Events, e) }); onEvent(e) }})
}

// Guarded runs a test in a bubble in which a Guard runs, for a second so far.
func (c *Cluster) Guarded(t *testing.T, test func(t *testing.T, g *restore.Guard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := c.Guard(func() {}, func(restore.Event) {})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { g.Run(ctx); close(ended) }()
		c.Wait(time.Second)
		test(t, g)
		stop()
		<-ended
	})
}

func (c *Cluster) do(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
}

// Change changes the cluster, and waits.
func (c *Cluster) Change(change func(), wait time.Duration) {
	c.do(change)
	c.Wait(wait)
}

// Wait waits until everything is at rest after d.
func (c *Cluster) Wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// RestoreEtcd restores etcd: the API server is away for 20 s, and then at an older revision.
func (c *Cluster) RestoreEtcd() {
	c.Change(func() { c.IsAway = true }, 20*time.Second)
	c.Change(func() { c.IsAway, c.Answer.Revision = false, 10 }, time.Second)
}

// IsFenced checks whether the fence stands.
func (c *Cluster) IsFenced(t *testing.T, want bool) {
	t.Helper()
	c.do(func() { Equal(t, "fenced", !c.StandsSince.IsZero(), want) })
}

// Report is the report of a node, confirmed at some time.
func Report(node string, confirmedAt time.Time) *podstate.Report {
	r := &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return &podstate.Report{SandboxReport: r, ConfirmedAt: confirmedAt, LeaseRenewedAt: confirmedAt}
}

// Equal compares two values as text.
func Equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Ping implements restore.Detector.
func (c *Cluster) Ping(ctx context.Context) (restore.Answer, error) {
	c.mu.Lock()
	away, hangs, answer := c.IsAway, c.Hangs, c.Answer
	c.Answer.HasReconnected = false
	c.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return restore.Answer{}, ctx.Err()
	case away:
		return restore.Answer{}, errors.New("connection refused")
	}
	return answer, nil
}

// Leases implements restore.Detector.
func (c *Cluster) Leases() map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.PoolLeases
}

// RestartFullPass implements restore.Detector.
func (c *Cluster) RestartFullPass() {}

// RecordRestore implements restore.Detector.
func (c *Cluster) RecordRestore(why string) { c.do(func() { c.Recorded = append(c.Recorded, why) }) }

// Lead implements restore.Fence.
func (c *Cluster) Lead() {}

// Leave implements restore.Fence.
func (c *Cluster) Leave() { c.do(func() { c.Leaves++; c.StandsSince = time.Time{} }) }

// Raise implements restore.Fence.
func (c *Cluster) Raise(leases map[string][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Asked = leases
	if c.StandsSince.IsZero() {
		c.Raises++
	}
	if !c.IsBusy && c.StandsSince.IsZero() {
		c.StandsSince = time.Now().Add(-c.Age)
	}
}

// Lower implements restore.Fence.
func (c *Cluster) Lower(context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.StandsSince.IsZero() || c.IsBusy {
		c.Lowers++
	}
	c.StandsSince = time.Time{}
}

// State implements restore.Fence.
func (c *Cluster) State() restore.FenceState {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := restore.FenceState{Since: c.StandsSince, IsEndedByPeer: c.IsEndedByPeer}
	if !c.StandsSince.IsZero() {
		s.Age = time.Since(c.StandsSince)
	}
	return s
}

// Since implements reconciler.Fence.
func (c *Cluster) Since() time.Time { return c.State().Since }
