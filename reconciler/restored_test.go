package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan/plantest"
)

// leakOn is a proven leak of worker-1, whose report was written at a time after the start and is always renewed.
func leakOn(writtenAfter time.Duration) Part {
	return All(UsualPool, Node("worker-1"), written("worker-1", writtenAfter, Gone("box-1", UsualUID)))
}

// leakBeside is leakOn beside a node whose report was written and renewed then, and not since.
func leakBeside(node string, after time.Duration) Part {
	return All(leakOn(after), Node(node), written(node, after, RenewedAt(Now.Add(after))))
}

// restoreReported lets an agent note a restore of etcd that it detected at a time after the start.
func restoreReported(node string, after, write time.Duration) Part {
	return written(node, write, func(r *podstate.Report) { r.RestoreNonce = after.String() })
}

// leakReported is leakOn whose agent noted a restore.
func leakReported(after, write time.Duration) Part {
	return All(UsualPool, Node("worker-1"), restoreReported("worker-1", after, write),
		func(o *Observed) { Gone("box-1", UsualUID)(o.Reports.Or(nil)[0]) })
}

func writtenBefore(r *podstate.Report) {
	r.WrittenAt = Now.Add(-hour)
	RenewedAt(r.WrittenAt)(r)
}

func acknowledged(id string) Part { return func(o *Observed) { o.Acknowledged = id } }

const minute, hour, day = time.Minute, time.Hour, 24 * time.Hour

// web-1 got another sandbox between backup and restore, with the address of an allocation that the restore brought
// back. No CNI cache lists its addresses, and its network-status is again that of the sandbox before.
func TestRestore_StatusOfTheBackup(t *testing.T) {
	settled := func(created time.Duration, pool Part) Ruling {
		t.Helper()
		p := newProcess(t, atOnce)
		usual := All(pool, Node("worker-1"), Pod("web-1", UID("uid-9"), Carrying("10.0.0.9")), written("worker-1",
			3*minute, Gone("box-1", UsualUID), Sandbox("box-9", "uid-9", OfPod("web-1"), func(b *v1alpha1.Sandbox) {
				b.AddressesUnread, b.CreatedAt = true, metav1.NewTime(Now.Add(created))
			})))
		p.pass(0, usual, revision(100))
		p.pass(2*minute, usual, revision(90))
		p.pass(4*minute, usual, revision(91))
		return RulingOf(AllocationOf(t, Judged(p.next, facts.Policy{}), "10.0.0.5"))
	}
	if got := settled(minute, UsualPool); got.Verdict != judge.Held || got.Reason != judge.ClaimedByOther {
		t.Errorf("of a sandbox from before the restore: %v", got)
	}
	if got := settled(3*minute, UsualPool); got.Verdict != judge.Stale {
		t.Errorf("of a sandbox since the restore: %v", got)
	}
	both := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"),
		Alloc("9", "default/web-1", "box-9", "net1"))
	if got := settled(minute, both); got.Verdict != judge.Stale {
		t.Errorf("of a sandbox whose allocation has the address of the network-status: %v", got)
	}
}

// worker-2 was removed after the backup: the restore brings back its report and its Node object. Its refused entries
// keep the report from being deleted.
func TestRestore_MissingNode(t *testing.T) {
	stale := StaleReport("worker-2", writtenBefore)
	for says, c := range map[string]struct {
		there Part          // at the pass that detects the restore
		until time.Duration // from when it need not report
	}{
		"its object was deleted since":             {All(Node("worker-2", NotReadyFor(hour)), stale), hour + 2*minute},
		"its object was deleted before the backup": {stale, hour + minute},
	} {
		t.Run(says, func(t *testing.T) {
			p := storing(t)
			p.WantRefused("the pass that detected it", plan.EtcdRestored, p.seesRestore(leakOn(0), c.there))
			p.waits("the next pass", 90*time.Second, leakOn(0), c.there, revision(90))
			p.waits("its object is gone", 2*minute, leakOn(2*minute), stale, revision(91))
			p.waits("a second less than an hour later", c.until-time.Second, leakOn(2*minute), stale, revision(92))
			p = p.restarted()
			p.releases("an hour later, in another process", c.until, leakOn(2*minute), stale, revision(93))
		})
	}
	t.Run("it exists again within the hour", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.seesRestore(leakOn(0), stale)
		p.pass(2*minute, leakOn(2*minute), stale, revision(91))
		p.waits("there", 30*minute, leakOn(2*minute), stale, Node("worker-2"), revision(92))
		p.waits("gone again", 70*minute, leakOn(2*minute), stale, revision(93))
	})
	t.Run("by the watches alone it is not settled", func(t *testing.T) {
		p := newProcess(t, atOnce)
		watched := func(o *Observed) { o.Watched = true }
		p.seesRestore(leakOn(0), stale)
		p.pass(2*minute, leakOn(2*minute), stale)
		p.releases("until the second check", 2*hour, leakOn(2*minute), stale, watched)
		p.waits("a quorum read has it", 2*hour+minute, leakOn(2*minute), stale, Node("worker-2"), revision(91))
	})
	t.Run("if Nodes are forbidden it must report", func(t *testing.T) {
		p := newProcess(t, atOnce)
		bare := func(write time.Duration) Part {
			return All(UsualPool, written("worker-1", write, Gone("box-1", UsualUID)), stale, NodesUnknown)
		}
		p.seesRestore(bare(0))
		p.pass(2*minute, bare(2*minute), revision(91))
		p.waits("a day later", day, bare(2*minute), revision(92))
	})
	t.Run("and a pass is made when the hour has passed", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.seesRestore(leakOn(0), stale)
		p.pass(2*minute, leakOn(2*minute), stale, revision(91))
		if due := p.Process.Known.NextTimeout(Now.Add(3 * minute)); !due.Equal(Now.Add(hour + minute)) {
			t.Errorf("due at %s", due)
		}
	})
}

// A restore is settled once.
func TestRestore_StaysSettled(t *testing.T) {
	leakOn := func(after time.Duration) Part { return leakBeside("silent", after) }
	settled := func(p *process) {
		p.WantRefused("the pass that detected it", plan.EtcdRestored, p.seesRestore(leakOn(0)))
		p.releases("written since", 2*minute, leakOn(2*minute), revision(91))
	}
	newNode := Node("autoscaled")
	t.Run("when a node joins that has not yet reported", func(t *testing.T) {
		p := newProcess(t, atOnce)
		settled(p)
		p.releases("90 days later", 90*day, leakOn(2*minute), newNode, revision(1000))
	})
	t.Run("in the process after it", func(t *testing.T) {
		p := storing(t)
		settled(p)
		next := All(leakReported(minute, 2*minute), Node("silent"), written("silent", 2*minute))
		p.pass(3*minute, next, revision(91))
		p.releases("noted and answered", 4*minute, next, revision(91))
		p.restarted().releases("with what was kept", 10*minute, next, newNode, revision(92))
		forgetful := p.restarted()
		forgetful.RestoreStore = nil
		forgetful.waits("without it", 10*minute, next, newNode, revision(92))
	})
	t.Run("unless there is another", func(t *testing.T) {
		p := newProcess(t, atOnce)
		settled(p)
		p.waits("detected by a pass", 3*minute, leakOn(2*minute), revision(80))
		p.waits("and the next pass", 4*minute, leakOn(2*minute), revision(81))
		p.releases("written since", 5*minute, leakOn(4*minute), revision(82))
		p.waits("reported by an agent", hour, leakOn(4*minute), Node("worker-2"),
			restoreReported("worker-2", 50*minute, 51*minute), revision(83))
		p.releases("written since", hour+minute, leakOn(hour+minute/2), Node("worker-2"),
			restoreReported("worker-2", 50*minute, 51*minute), revision(84))
	})
	t.Run("not before it is", func(t *testing.T) {
		p := storing(t)
		p.seesRestore(leakOn(0))
		p.restarted().waits("the process after the one that saw it", hour, leakOn(0), revision(500))
	})
}

// worker-9 is newer than the backup: after the restore the API has neither its Node object nor its report, and its pods
// still run.
func TestRestore_LostNode(t *testing.T) {
	newer := All(Node("worker-9"), written("worker-9", 0))
	lost := func(t *testing.T) *process {
		p := storing(t)
		p.pass(0, leakOn(0), newer, revision(100))
		p.waits("the pass that detected it", minute, leakOn(0), revision(90))
		return p
	}
	t.Run("for as long as that takes, and it is named", func(t *testing.T) {
		p := lost(t)
		made := p.waits("days later", 3*day, leakOn(2*minute), revision(91))
		wantDetail(t, made, "worker-9", Now.Add(minute).Format(time.RFC3339))
		p.restarted().waits("in the process after it", 4*day, leakOn(2*minute), revision(92))
	})
	t.Run("until it reports", func(t *testing.T) {
		p := lost(t)
		p.waits("its object alone", 2*minute, leakOn(2*minute), Node("worker-9"), revision(91))
		p.releases("its report", 3*minute, leakOn(2*minute), Node("worker-9"), written("worker-9", 3*minute), revision(92))
	})
	t.Run("also where it has lost the labels by which agents are known", func(t *testing.T) {
		p := lost(t)
		p.waits("its object alone", 2*minute, leakOn(2*minute), Node("worker-9", WithoutAgent), revision(91))
		p.waits("and later", 2*hour, leakOn(2*minute), Node("worker-9", WithoutAgent), revision(92))
	})
	t.Run("until it is proven dead", func(t *testing.T) {
		p := lost(t)
		dead := Node("worker-9", NotReadyFor(hour), OutOfService)
		p.waits("back, and not Ready", 2*minute, leakOn(2*minute), Node("worker-9", NotReadyFor(hour)), revision(91))
		p.releases("dead", 3*minute, leakOn(2*minute), dead, revision(92))
	})
	t.Run("until it came back and was deleted", func(t *testing.T) {
		p := lost(t)
		p.waits("its object alone", 2*minute, leakOn(2*minute), Node("worker-9"), revision(91))
		p.waits("deleted", 3*minute, leakOn(2*minute), revision(92))
		p.waits("within the hour", 3*minute+hour-time.Second, leakOn(2*minute), revision(93))
		p.releases("an hour later", 3*minute+hour, leakOn(2*minute), revision(94))
	})
	t.Run("until an operator acknowledges the restore", func(t *testing.T) {
		p := lost(t)
		p.waits("of an earlier restore", 2*minute, leakOn(2*minute), acknowledged("another"), revision(91))
		p.waits("of all that are to come", 3*minute, leakOn(2*minute), acknowledged("*"), revision(92))
		p.releases("of this one", 4*minute, leakOn(2*minute), p.acknowledged(), revision(93))
		p.restarted().releases("which is remembered", 5*minute, leakOn(2*minute), revision(94))
	})
	t.Run("also where the backup has a report of one before it by its name", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(0, leakOn(0), newer, revision(100))
		older := StaleReport("worker-9", writtenBefore)
		p.waits("the pass that detected it", minute, leakOn(0), older, revision(90))
		p.waits("the next pass", 2*minute, leakOn(2*minute), older, revision(91))
		p.waits("a day later", day, leakOn(2*minute), older, revision(92))
	})
	t.Run("also where an agent was the first to report it", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(0, leakOn(0), newer)
		// Its revision is beyond the old one, as with --bump-revision: a pass does not detect the restore.
		reported := leakReported(minute, 2*minute)
		p.pass(90*time.Second, leakOn(0))
		p.waits("reported when it was already missing", 3*minute, reported)
		p.releases("its report", 4*minute, reported, newerSince)
	})
	t.Run("also by a replica that watched before and makes its first pass", func(t *testing.T) {
		missed := func(after time.Duration) Part {
			return func(o *Observed) { o.MissingReports = map[string]time.Time{"worker-9": Now.Add(after)} }
		}
		reported := leakReported(minute, 2*minute)
		p := newProcess(t, atOnce)
		p.waits("reported by an agent", 3*minute, reported, missed(2*minute))
		p.waits("and later", hour, reported)
		p = newProcess(t, atOnce)
		p.waits("seen by itself", 3*minute, leakOn(0), missed(2*minute),
			func(o *Observed) { o.Restored = "its watches say so" })
		p.waits("and later", hour, leakOn(4*minute))
		p = newProcess(t, atOnce)
		p.waits("missed minutes before", 3*minute, reported, missed(0))
		p.waits("and later", hour, reported)
		p = newProcess(t, atOnce)
		p.pass(2*minute, leakOn(0))
		p.waits("deleted before the restore", 3*minute, reported, missed(2*minute))
		p.releases("which only worker-1 has to report", 4*minute, reported)
		p = newProcess(t, atOnce)
		if made := p.pass(3*minute, UsualPool, Node("worker-1"), missed(2*minute)); len(made.Release)+len(made.Refused) > 0 {
			t.Errorf("there were reports, and without them it is judged stale: releases %d, refuses %s", len(made.Release),
				plantest.Refusals(made))
		}
	})
	t.Run("not if its object was missing before", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(-minute, leakOn(0), StaleReport("worker-9", writtenBefore), revision(99))
		p.pass(0, leakOn(0), StaleReport("worker-9", writtenBefore), revision(100))
		p.pass(minute, leakOn(0), revision(90))
		p.releases("written since", 2*minute, leakOn(2*minute), revision(91))
	})
	t.Run("not if it was deleted long before an agent reported the restore", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(0, leakOn(0), newer)
		p.pass(minute, leakOn(0))
		reported := leakReported(12*minute, 12*minute)
		p.pass(11*minute+time.Second, leakOn(0))
		p.pass(12*minute, reported)
		p.releases("its object was deleted before", 13*minute, reported)
	})
}

func newerSince(o *Observed) { All(Node("worker-9"), written("worker-9", 3*minute))(o) }

// Whoever can write one report must not pause all releases for ever.
func TestRestore_OneAgentReports(t *testing.T) {
	with := func(liar Part) Part { return All(leakOn(0), Node("worker-2"), liar) }
	t.Run("and its node is named", func(t *testing.T) {
		p := newProcess(t, atOnce)
		made := p.waits("reported", 2*minute, with(restoreReported("worker-2", minute, 2*minute)))
		wantDetail(t, made, "reported by the agent on node worker-2", "until these nodes report: worker-1")
	})
	t.Run("whatever its text", func(t *testing.T) {
		p := newProcess(t, atOnce)
		future := func(write time.Duration) Part {
			return written("worker-2", write, func(r *podstate.Report) { r.RestoreNonce = "2099-01-01T00:00:00Z" })
		}
		p.waits("of the future", 2*minute, with(future(minute)))
		p.releases("written since", 3*minute, leakOn(2*minute), Node("worker-2"), future(minute))
		p.releases("and written again", hour, leakOn(2*minute), Node("worker-2"), future(50*minute))
	})
	t.Run("again and again, at most three times in ten minutes", func(t *testing.T) {
		p := storing(t)
		noted := func(i int, after time.Duration) Part { // the agent's ith nonce
			return All(leakOn(after), Node("worker-2"), restoreReported("worker-2", time.Duration(i)*minute, after))
		}
		p.releases("before", 0, leakOn(0), Node("worker-2"), written("worker-2", 0))
		for i := 1; i <= 3; i++ {
			after := time.Duration(2*i) * minute
			p.waits(fmt.Sprint("nonce ", i), after, noted(i, after))
			if id := p.Process.Known.ID(); !strings.HasSuffix(id, fmt.Sprint("-", i)) || p.Process.Known.IsAgain() != (i > 1) {
				t.Errorf("nonce %d: ID %s, again %v", i, id, p.Process.Known.IsAgain())
			}
			p.releases(fmt.Sprint("nonce ", i, " is answered"), after+minute, noted(i, after+minute))
		}
		made := p.waits("the fourth", 8*minute, noted(4, 8*minute))
		wantDetail(t, made, "worker-2 has noted restores of etcd again and again", "10:12:00Z")
		if id := p.Process.Known.ID(); !strings.HasSuffix(id, "-3") {
			t.Errorf("ID %s", id)
		}
		p.waits("ten minutes after the first", 12*minute, noted(4, 12*minute))
		p.releases("it is answered, too", 13*minute, noted(4, 13*minute))
	})
	t.Run("beside a pass that detected it", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.seesRestore(with(written("worker-2", 0)))
		late := restoreReported("worker-2", 2*minute, 2*minute)
		p.waits("both have written since, and one has noted it", 3*minute, leakOn(2*minute),
			Node("worker-2"), late, revision(91))
		if !p.Process.Known.IsAgain() {
			t.Error("it had not reported before, so it may be the same restore")
		}
		p.releases("both have written again", 4*minute, leakOn(2*minute), Node("worker-2"), late, revision(92))
	})
	t.Run("of the future, by a source that has no server's clock", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(2*minute, with(restoreReported("worker-2", 3*day, minute)))
		if at, _ := p.Process.Known.Last(); !at.Equal(Now.Add(2 * minute)) {
			t.Errorf("dated %s", at)
		}
	})
}

// A restore to before the CRD of reports loses all reports.
func TestRestore_LostReports(t *testing.T) {
	bare := All(UsualPool, Node("worker-1"))
	p := storing(t)
	p.pass(0, leakOn(0), revision(100))
	p.pass(minute, bare, revision(90))
	if made := p.pass(2*minute, bare, revision(91)); len(made.Release)+len(made.Refused) > 0 {
		t.Errorf("Stale without reports: releases %d, refuses %s", len(made.Release), plantest.Refusals(made))
	}
	if j := Judged(p.next, facts.Policy{}); AllocationOf(t, j, "10.0.0.5").Reason != judge.NoFreshReportReason {
		t.Errorf("judged %v", RulingOf(AllocationOf(t, j, "10.0.0.5")))
	}
	if made := p.restarted().pass(150*time.Second, bare, revision(92)); len(made.Release) > 0 {
		t.Errorf("a new process with the store releases %d", len(made.Release))
	}
	again := leakOn(3 * minute)
	p.releases("reported again", 3*minute, again, revision(93))
}

func TestRestore_State(t *testing.T) {
	p := newProcess(t, atOnce)
	p.pass(0, leakOn(0), Node("worker-2"), written("worker-9", 0), Node("worker-9"), revision(100))
	p.pass(minute, leakOn(0), Node("worker-2"), revision(90))
	p.pass(2*minute, leakOn(2*minute), Node("worker-2"), revision(91))
	j, err := p.Check(t.Context())
	check(t, err)
	if r := j.Restore; r == nil || r.Date() != Now.Add(minute).Format(time.RFC3339) ||
		r.Why != "the list of IPPools is at resourceVersion 90 after 100" ||
		!slices.Equal(r.Awaiting, []string{"worker-2", "worker-9"}) {
		t.Errorf("the restore is %+v", r)
	}
	if !slices.Equal(j.Restore.LostNodes, []string{"worker-9"}) {
		t.Errorf("lost are %v", j.Restore.LostNodes)
	}
	if notes := strings.Join(j.Notes(), "\n"); !strings.Contains(notes,
		"until these nodes report: worker-2, worker-9 (its Node object was lost by the restore)") {
		t.Errorf("the notes are %s", notes)
	}
	p.pass(3*minute, leakOn(2*minute), Node("worker-2"), p.acknowledged(), revision(92))
	if j, err = p.Check(t.Context()); err != nil || j.Restore == nil || !j.Restore.Complete() {
		t.Errorf("settled: %+v, %v", j.Restore, err)
	}
}

// A run that detects a restore makes another pass at once: by what that reads, the next run's reports are since.
func TestRestore_RunReadsAgain(t *testing.T) {
	p := storing(t)
	p.next = Observe(leakOn(0), func(o *Observed) { o.Restored = "its watches say so" })
	p.next.Reports.Or(nil)[0].LeaseVersion = "100"
	ended := make(chan error)
	go func() {
		_, err := p.Run(t.Context())
		ended <- err
	}()
	clock := p.Clock.(*clocktesting.FakeClock)
	for !clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	p.next = Observe(leakOn(0))
	p.next.Reports.Or(nil)[0].LeaseVersion = "101"
	clock.Step(time.Second)
	check(t, <-ended)
	next := p.restarted()
	next.WantReleased("in the next run", next.passOnce(minute, leakOn(minute)))
}
