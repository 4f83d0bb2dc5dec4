package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// unread is a simulator whose first lists lack something, as those of an API server that has just started.
type unread struct {
	*simulator
	what  string
	lists int // which lack it
}

func (u *unread) List(ctx context.Context) (*facts.Observation, error) {
	o, err := u.simulator.List(ctx)
	return u.edit(o), err
}

func (u *unread) Relist(ctx context.Context, before *facts.Observation) (*facts.Observation, error) {
	o, err := u.simulator.Relist(ctx, before)
	return u.edit(o), err
}

func (u *unread) edit(o *facts.Observation) *facts.Observation {
	if u.lists--; o == nil || u.lists < 0 {
		return o
	}
	why := errors.New("cannot read it: forbidden")
	switch u.what {
	case "namespace":
		o.Paused, o.PauseUnknown = true, why.Error()
	case "pause":
		o.Paused = true
	case "reports":
		o.Reports = facts.Unknown[[]*podstate.Report](why)
	case "definitions":
		o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](why)
	}
	return o
}

// lacksAnEntry is a pool without the entry of a pod that runs. The CNI cache has the network's name, and no range.
func (s *simulator) lacksAnEntry() {
	s.aNetwork()
	s.entry(bluePool, 9, "default/other", "box-other", true)
	s.pod("other", "u", 9)
	s.pod("web", "u", 1)
	s.runsOn("worker-1", "web", "other")
	box := running("web", 1)
	box.Addresses[0].Range = ""
	s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {box, running("other", 9)}})
	time.Sleep(5 * time.Minute)
}

// What recover cannot read may lack something, which is not "everything is written".
func TestRecover_WaitsForWhatItCannotRead(t *testing.T) {
	for _, c := range []struct {
		what      string
		lists     int
		isWritten bool
		unknown   string // at the end
	}{
		{"", 0, true, ""},
		{"namespace", 1, true, ""},
		{"definitions", 1, true, ""},
		{"reports", 1, true, ""},
		{"definitions", 1000, false, "network-attachment-definitions: cannot read it: forbidden"},
		{"namespace", 1000, false, "cannot read it: forbidden"},
		{"pause", 1000, false, ""},
	} {
		bubble(t, func(t *testing.T, s *simulator) {
			s.lacksAnEntry()
			r := s.reconciler(t)
			r.Source, r.Options.Repair = &unread{s, c.what, c.lists}, true
			began := time.Now()
			out, err := r.Recover(t.Context())
			check(t, err)
			if isWritten := s.entries(bluePool)["1"] != nil; isWritten != c.isWritten || out.UnknownLack() != c.unknown {
				t.Errorf("%d lists without %s: written %v, unknown %q", c.lists, c.what, isWritten, out.UnknownLack())
			}
			if took := time.Since(began); took > 3*time.Minute {
				t.Errorf("%d lists without %s: it took %s", c.lists, c.what, took)
			}
		})
	}
}

// Under the fence a pass cannot read something once, and so cannot know what the pools lack. The fence stands until a
// pass knows it.
func TestGuard_OutlivesWhatAPassCannotRead(t *testing.T) {
	for _, what := range []string{"", "definitions", "namespace"} {
		w := restoretest.NewCluster()
		w.Guarded(t, func(t *testing.T, g *restore.Guard) {
			s := newSimulator()
			s.lacksAnEntry()
			w.RestoreEtcd()
			w.IsFenced(t, true)
			time.Sleep(12 * time.Second) // the agent reports now, since it paused between its tries
			r := s.reconciler(t)
			r.Source, r.Options.Repair, r.Fence = &unread{s, what, 1}, true, w
			passes := 0
			for ; passes < 5 && !w.Since().IsZero(); passes++ {
				out := pass(t, r)
				out.Restore = &restore.Status{Restored: time.Now(), Why: "older"} // every node has reported
				g.PassEnded(out.RestorePass(nil))
				w.Wait(time.Second)
			}
			if s.entries(bluePool)["1"] == nil || passes == 5 {
				t.Errorf("without %q: after %d passes the fence ends (%v), and the pool has %v", what, passes,
					w.Since().IsZero(), s.entries(bluePool))
			}
		})
	}
}
