package reconciler_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// running is a READY sandbox of the pod of a name, with an address of the pool.
func running(name string, i int) v1alpha1.Sandbox {
	return v1alpha1.Sandbox{ID: "box-" + name, Namespace: "default", Name: name, UID: "u", State: v1alpha1.SandboxReady,
		Addresses: []v1alpha1.Address{{IP: addressOf(i).String(), IfName: "net1", Network: "wb", Range: "10.0.0.0/16"}}}
}

// reported lets the nodes report these sandboxes, always fresh.
func (s *simulator) reported(by map[string][]v1alpha1.Sandbox) {
	before := s.step
	s.step = func(call, object string) {
		if before != nil {
			before(call, object)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reports = nil
		for node, sandboxes := range by {
			r := &v1alpha1.SandboxReport{Sandboxes: sandboxes}
			r.Name, r.BootID, r.ObservedAt.Time = node, "boot of "+node, time.Now()
			s.reports = append(s.reports, &podstate.Report{SandboxReport: r, ConfirmedAt: time.Now(), LeaseRenewedAt: time.Now(),
				WrittenAt: time.Now()})
		}
	}
}

// runsOn binds pods to a node.
func (s *simulator) runsOn(node string, names ...string) {
	for _, name := range names {
		s.pods[types.NamespacedName{Namespace: "default", Name: name}].Spec.NodeName = node
	}
}

// fence is a reconciler.Fence by a function.
type fence func() time.Time

func (f fence) Since() time.Time { return f() }

// fencedSince is a fence that stands since a time.
func fencedSince(at time.Time) fence { return func() time.Time { return at } }

// aRestoredPast is a restored pool with the entry and the reservation of a pod of the past. That pod is in the API and
// runs nowhere, and another pod has its address.
func (s *simulator) aRestoredPast() {
	s.aNetwork()
	s.entry(bluePool, 1, "default/past", "box-past", true)
	s.pod("past", "p", 1)
	s.pod("web", "u", 1)
	s.runsOn("worker-1", "past", "web")
	s.reported(map[string][]v1alpha1.Sandbox{"worker-1": {running("web", 1)}})
	time.Sleep(5 * time.Minute)
}

func TestRepair_BehindTheFence(t *testing.T) {
	for ago, took := range map[time.Duration]time.Duration{10 * time.Second: 0, 4 * time.Second: 6 * time.Second} {
		inBubble(t, fmt.Sprint("the fence stood for ", ago), func(t *testing.T, s *simulator) {
			s.aRestoredPast()
			r := s.reconciler(t)
			r.Options.Repair, r.Fence = true, fencedSince(time.Now().Add(-ago))
			out, waited := run(t, r)
			same(t, "it took", waited, took)
			same(t, "not repaired", fmt.Sprint(out.Unrepaired), "[]")
			entry := s.entryAt("1")
			same(t, "entry", entry, "box-web default/web")
		})
	}
}

// A watch may still have a pod that a restore has lost. The entry must not be written for it.
func TestRepair_WatchedPodIsReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aRestoredPast()
		s.watched = true
		lost := s.pods[types.NamespacedName{Namespace: "default", Name: "web"}]
		reports := s.step
		s.step = func(call, object string) {
			reports(call, object)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.pods, types.NamespacedName{Namespace: "default", Name: "web"})
			if call == "observe" {
				s.pods[types.NamespacedName{Namespace: "default", Name: "web"}] = lost
			}
		}
		observing := s.step
		s.step = func(call, object string) {
			if call != "observing" {
				observing(call, object)
			}
		}
		r := s.reconciler(t)
		r.Options.Repair = true
		run(t, r)
		entry := s.entryAt("1")
		same(t, "the entry is not written", entry, "box-past default/past")
	})
}

func TestRepair_FenceEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.aRestoredPast()
		r := s.reconciler(t)
		since, calls := time.Now().Add(-time.Minute), 0
		r.Options.Repair, r.Fence = true, fence(func() time.Time {
			if calls++; calls == 1 {
				return since
			}
			return time.Time{}
		})
		out := pass(t, r)
		same(t, "writes", s.made("patch", "delete", "create"), []string{})
		same(t, "to repair", out.ToRepair, 1)
		_, took := run(t, r)
		same(t, "it took", took, time.Minute)
		entry := s.entryAt("1")
		same(t, "entry", entry, "box-web default/web")
	})
}

// A write must be proven when it is made: the entry changes during the wait for the Lease.
func TestRepair_EntryChanges(t *testing.T) {
	for says, c := range map[string]struct {
		change func(s *simulator)
		want   string
	}{
		"a DEL removed it, and an ADD wrote another": {func(s *simulator) {
			s.entry(bluePool, 1, "default/new", "box-new", false)
		}, "box-new default/new"},
		"it belongs to a sandbox that is being set up": {func(s *simulator) {
			s.entry(bluePool, 1, "default/past", "box-attached", false)
		}, "box-attached default/past"},
	} {
		for _, moment := range []string{"hold", "patch"} {
			inBubble(t, says+", before "+moment, func(t *testing.T, s *simulator) {
				s.aRestoredPast()
				reports := s.step
				done := false
				s.step = func(call, object string) {
					reports(call, object)
					for _, r := range s.reports {
						for _, id := range []string{"box-attached", "box-new"} {
							r.Attachments = append(r.Attachments, v1alpha1.Attachment{ID: id, Since: r.ObservedAt})
						}
					}
					if call == moment && !done {
						done = true
						c.change(s)
					}
				}
				r := s.reconciler(t)
				r.Options.Repair = true
				out, _ := run(t, r)
				entry := s.entryAt("1")
				same(t, "entry", entry, c.want)
				same(t, "repaired", len(out.Repaired), 0)
			})
		}
	}
}

// The report of one agent does not fill a range: half of it is written beside the requests of the API's pods, and the
// rest is refused.
func TestRepairLimit_Pool(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		const pool = "10.0.0.0-25"
		s.poolOf(pool, "10.0.0.0/25")
		s.addNAD("wb", ippool.Network{Ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/25")}})
		var sandboxes []v1alpha1.Sandbox
		for i := 1; i <= 126; i++ {
			b := running(fmt.Sprint("fake-", i), i)
			b.Addresses[0].Range = "10.0.0.0/25"
			sandboxes = append(sandboxes, b)
		}
		s.pod("fake-120", "u", 120)
		s.runsOn("worker-1", "fake-120")
		s.reported(map[string][]v1alpha1.Sandbox{"worker-1": sandboxes, "worker-2": {}})
		time.Sleep(5 * time.Minute)
		r := s.reconciler(nil)
		r.Options.Repair = true
		out, _ := run(t, r)
		entries := s.entries(pool)
		same(t, "entries", len(entries), 64)
		if entries["120"] == nil {
			t.Error("the one whose pod is known is not among them")
		}
		same(t, "refused", len(out.Unrepaired), 62)
		same(t, "to repair", out.ToRepair, 62)
		for _, u := range out.Unrepaired {
			if u.Why != plan.Breaker || !strings.Contains(u.Detail, "node worker-1 alone") || !strings.Contains(u.Detail,
				"--allow-mass-repair") {
				t.Fatalf("%s: %s", u.Why, u)
			}
		}
		run(t, r)
		same(t, "entries after another run", len(s.entries(pool)), 64)
		next := s.reconciler(nil)
		next.Options.Repair = true
		run(t, next) // it counts recorded phantoms
		same(t, "entries after a run of another process", len(s.entries(pool)), 64)
		r.Options.AllowMassRepair = true
		run(t, r)
		same(t, "entries with --allow-mass-repair", len(s.entries(pool)), 126)
	})
}

// No definition can be read, so that no pod is known to request the network. Pods of the API are recorded under their
// own names, and count for an hour; recorded phantoms count for as long as they run.
func TestRepairLimit_Node(t *testing.T) {
	for _, c := range []struct {
		says           string
		of             int
		inAPI          bool
		want, anHourOn int
	}{{"400 phantoms", 400, false, 110, 110}, {"100 phantoms", 100, false, 100, 100}, {"400 pods", 400, true, 110, 220}} {
		inBubble(t, c.says, func(t *testing.T, s *simulator) {
			s.entry(bluePool, 9999, "default/other", "box-other", false)
			var sandboxes []v1alpha1.Sandbox
			for i := 1; i <= c.of; i++ {
				b := running(fmt.Sprint("web-", i), i)
				sandboxes = append(sandboxes, b)
				if c.inAPI {
					s.pod(b.Name, "u", i)
				}
			}
			other := running("other", 9999)
			s.pod("other", "u", 9999)
			s.runsOn("worker-2", "other")
			s.nodes = map[string]*podstate.Node{"worker-1": {Name: "worker-1", Ready: true}, "worker-2": {Name: "worker-2",
				Ready: true}}
			s.reported(map[string][]v1alpha1.Sandbox{"worker-1": sandboxes, "worker-2": {other}})
			time.Sleep(5 * time.Minute)
			r := s.reconciler(nil)
			r.Options.Repair = true
			out, _ := run(t, r)
			same(t, "entries", len(s.entries(bluePool)), c.want+1)
			same(t, "refused", len(out.Unrepaired), c.of-c.want)
			run(t, r)
			same(t, "entries after another run", len(s.entries(bluePool)), c.want+1)
			time.Sleep(time.Hour + time.Minute)
			run(t, r)
			same(t, "entries an hour later", len(s.entries(bluePool)), c.anHourOn+1)
		})
	}
}

// The backup is younger than the last pass, and other writes have raised the revision since.
func TestRestore_LostWrite(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		time.Sleep(time.Hour)
		backup := s.api.Get(keyOf("IPPool", bluePool))
		r := s.reconciler(t)
		out, _ := run(t, r)
		same(t, "released", len(out.Released) > 0, true)
		time.Sleep(time.Minute)
		s.api.Objects[keyOf("IPPool", bluePool)] = backup
		s.api.Revision += 100
		out = pass(t, r)
		same(t, "released from the backup", len(out.Released), 0)
		if len(out.Refused) == 0 || out.Refused[0].Why != plan.EtcdRestored || !strings.Contains(out.Refused[0].Detail,
			"IPPool kube-system/10.0.0.0-16 is at resourceVersion") {
			t.Errorf("refused are %+v", out.Refused)
		}
	})
}

// Another process released the allocations between the list and the read under the Lease, which showed that.
func TestRestore_LostWriteOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		time.Sleep(time.Hour)
		backup := s.api.Get(keyOf("IPPool", bluePool))
		r := s.reconciler(t)
		s.step = func(call, _ string) {
			if call == "fresh" {
				s.fill(bluePool, "1", nil)
				s.fill(bluePool, "2", nil)
			}
		}
		out := pass(t, r)
		same(t, "released by this process", len(out.Released), 0)
		s.step = nil
		s.api.Objects[keyOf("IPPool", bluePool)] = backup
		s.api.Revision += 100
		out = pass(t, r)
		same(t, "released from the backup", len(out.Released), 0)
		if len(out.Refused) == 0 || out.Refused[0].Why != plan.EtcdRestored {
			t.Errorf("refused are %+v", out.Refused)
		}
	})
}

// The only read of an older pool is part of one that fails: then an ADD has written the pool again. What was confirmed
// before the restore is not.
func TestRestore_ReadThatFails(t *testing.T) {
	for _, c := range []struct{ says, call string }{
		{"a pass", "observe"}, {"the second check", "refresh"}, {"the read under the Lease", "fresh"},
	} {
		inBubble(t, c.says, func(t *testing.T, s *simulator) {
			s.leaks(bluePool, 2)
			backup := s.api.Get(keyOf("IPPool", bluePool))
			s.fill(bluePool, "8", map[string]any{"id": "box-8", "podref": "default/web-8"})
			r := s.confirming(t)
			pass(t, r)
			time.Sleep(r.Options.ConfirmAfter)
			hasFailed, isOver := false, false
			writesAgain := func() {
				isOver, s.fault = true, nil
				s.fill(bluePool, "9", map[string]any{"id": "box-9", "podref": "default/web-9"})
			}
			s.fault = func(call, _ string) (err error, after bool) {
				if call == c.call {
					hasFailed, err = true, errors.New("forbidden")
				}
				return err, true
			}
			s.step = func(call, _ string) {
				switch {
				case strings.HasSuffix(call, "ing"): // the read has yet to end
				case hasFailed && !isOver:
					writesAgain()
				case call == c.call && !isOver:
					s.mu.Lock()
					defer s.mu.Unlock()
					s.api.Objects[keyOf("IPPool", bluePool)] = backup
					s.api.Revision += 100
				}
			}
			if out, _, err := r.Pass(t.Context(), nil); err == nil {
				same(t, "released by the pass that reads it", len(out.Released), 0)
			}
			same(t, "it has failed", hasFailed, true)
			if !isOver {
				writesAgain()
			}
			out := pass(t, r)
			same(t, "released from the backup", len(out.Released), 0)
			same(t, "refused", refusalCounts(out), refusals{plan.AwaitingConfirmation: 3})
		})
	}
}

// The second check is tried again, and reads what an ADD has written since. All that the first check has read is of
// before the restore.
func TestRestore_SecondCheckThatFails(t *testing.T) {
	for _, call := range []string{"refresh", "fresh"} {
		inBubble(t, call, func(t *testing.T, s *simulator) {
			s.leaks(bluePool, 2)
			backup := s.api.Get(keyOf("IPPool", bluePool))
			s.fill(bluePool, "8", map[string]any{"id": "box-8", "podref": "default/web-8"})
			tries := 0
			s.fault = func(name, _ string) (error, bool) {
				if name == call && tries == 1 {
					return errors.New("forbidden"), true
				}
				return nil, false
			}
			s.step = func(name, _ string) {
				if name != call {
					return
				}
				switch tries++; tries {
				case 1:
					s.mu.Lock()
					defer s.mu.Unlock()
					s.api.Objects[keyOf("IPPool", bluePool)] = backup
					s.api.Revision += 100
				case 2:
					s.fill(bluePool, "9", map[string]any{"id": "box-9", "podref": "default/web-9"})
				}
			}
			out := pass(t, s.reconciler(t))
			same(t, "tried again", tries > 1, true)
			same(t, "released", len(out.Released), 0)
			if n := refusalCounts(out)[plan.EtcdRestored]; n == 0 {
				t.Errorf("refused are %v", refusalCounts(out))
			}
		})
	}
}

// An ADD may have written after the pool was read.
func TestCheck_Fenced(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		r := s.reconciler(t)
		calls := 0
		r.Fence = fence(func() time.Time {
			if calls++; calls == 1 {
				return time.Time{}
			}
			return time.Unix(1e9, 0)
		})
		for _, want := range []bool{false, true} {
			j, err := r.Check(t.Context())
			check(t, err)
			same(t, "behind the fence", !j.Observation.FencedSince.IsZero(), want)
		}
	})
}
