package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

func TestRestoreStore(t *testing.T) {
	t.Run("cannot be read: nothing is released", func(t *testing.T) {
		p := newProcess(t, atOnce)
		s := &memoryStore{err: errors.New("the API server is unreachable")}
		p.RestoreStore = s
		p.waits("at first", 0, leakOn(0))
		s.err = nil
		p.releases("then", minute, leakOn(0))
	})
	t.Run("is not what was written there", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.RestoreStore = &memoryStore{text: "{"}
		made := p.waits("at first", 0, leakOn(0))
		wantDetail(t, made, "remove it")
	})
	t.Run("is forbidden: nothing is released", func(t *testing.T) {
		p := newProcess(t, atOnce)
		s := &memoryStore{text: fmt.Sprintf(`{"restored":%q,"why":"x","awaited":{"worker-9":true}}`,
			Now.Add(-time.Minute).Format(time.RFC3339)), err: fmt.Errorf("%w: denied", apply.ErrForbidden)}
		p.RestoreStore = s
		made := p.waits("a right is missing", 0, leakOn(0))
		wantDetail(t, made, "grant get, create and update on leases")
		accepting := newProcess(t, atOnce)
		accepting.RestoreStore, accepting.WithoutRestoreStore = s, true
		accepting.releases("it is accepted that a right is missing", 0, leakOn(0))
		s.err = nil
		p.waits("it is given back, and worker-9 must report", minute, leakOn(0))
		s.text = ""
		p = p.restarted()
		p.releases("no restore is known", 2*minute, leakOn(0))
	})
	t.Run("is written when it changes", func(t *testing.T) {
		p := newProcess(t, atOnce)
		s := &memoryStore{}
		p.RestoreStore = s
		p.pass(0, leakOn(0), revision(100))
		if s.text != "" {
			t.Errorf("kept, without a restore: %s", s.text)
		}
		p.pass(minute, leakOn(0), revision(90))
		p.pass(2*minute, leakOn(2*minute), revision(91))
		if !strings.Contains(s.text, `"settled":true`) {
			t.Errorf("kept: %s", s.text)
		}
		s.err = errors.New("it was read again")
		p.pass(3*minute, leakOn(2*minute), revision(92))
		if !p.Process.Known.IsStored() {
			t.Error("it was written though nothing changed")
		}
	})
	t.Run("is not written by a dry run", func(t *testing.T) {
		p := newProcess(t, plan.Options{DryRun: true})
		s := &memoryStore{}
		p.RestoreStore = s
		p.seesRestore(leakOn(0))
		if s.text != "" {
			t.Errorf("kept: %s", s.text)
		}
	})
	t.Run("by an earlier process: a dry run says that nothing is released", func(t *testing.T) {
		s := &memoryStore{}
		one, two := newProcess(t, atOnce), newProcess(t, plan.Options{DryRun: true})
		one.RestoreStore, two.RestoreStore = s, s
		one.seesRestore(leakOn(0))
		two.waits("the dry run", 2*minute, leakBeside("silent", 0), revision(91))
	})
	t.Run("by another process that has settled it", func(t *testing.T) {
		s := &memoryStore{}
		one, two := newProcess(t, atOnce), newProcess(t, atOnce)
		one.RestoreStore, two.RestoreStore = s, s
		one.seesRestore(leakOn(0))
		two.pass(2*minute, leakBeside("silent", 0), revision(91))
		two.releases("the other", 3*minute, leakBeside("silent", 0), two.acknowledged(), revision(92))
		one.pass(4*minute, leakOn(0), Node("worker-2"), revision(93))
		one.releases("this one", 5*minute, leakOn(0), Node("worker-2"), revision(94))
	})
	t.Run("by another process that has detected a restore while this one waited", func(t *testing.T) {
		s := &memoryStore{}
		one, two := newProcess(t, atOnce), newProcess(t, atOnce)
		one.RestoreStore, two.RestoreStore = s, s
		one.releases("before it", 0, leakOn(0))
		two.seesRestore(leakOn(0))
		one.waits("after it", minute+10*time.Second, leakOn(0))
		s.err = errors.New("the API server is unreachable")
		one.waits("what is kept cannot be read", 3*minute, leakOn(3*minute))
		s.err = nil
		one.releases("the node has written since", 4*minute, leakOn(4*minute))
	})
}

// The store cannot be read at the pass that detects a restore. When it can be, its text is of the backup.
func TestRestoreStore_ReadLate(t *testing.T) {
	for says, c := range map[string]struct {
		first Part
		text  string
	}{
		"a pass has detected it, the store is empty": {All(leakBeside("silent", 0),
			func(o *Observed) { o.Restored = "its watches say so" }), ""},
		"a pass has detected it, the store has an earlier one": {All(leakBeside("silent", 0),
			func(o *Observed) { o.Restored = "its watches say so" }), `{"restored":"2020-01-01T00:00:00Z","settled":true}`},
		"an agent has reported it": {All(leakBeside("silent", 0), Node("worker-2"), restoreReported("worker-2", minute,
			2*minute)), ""},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			s := &memoryStore{text: c.text, err: errors.New("etcdserver: request timed out")}
			p.RestoreStore = s
			p.waits("the pass that detects it", 3*minute, c.first)
			s.err = nil
			later := All(c.first, func(o *Observed) { o.Restored = "" })
			p.waits("a node has not written since", 4*minute, later)
		})
	}
}

// The Lease with the state is deleted, or reading it is forbidden, while a restore is awaited: the process that knows
// of the restore goes on waiting, and writes its state again.
func TestRestoreStore_LostWhileAwaited(t *testing.T) {
	p := newProcess(t, atOnce)
	s := &memoryStore{}
	p.RestoreStore = s
	silent := leakBeside("silent", 0)
	p.WantRefused("the pass that detects it", plan.EtcdRestored, p.seesRestore(silent))
	s.err = fmt.Errorf("%w: denied", apply.ErrForbidden)
	p.waits("forbidden", 2*minute, leakBeside("silent", 0), revision(91))
	s.err, s.text = nil, ""
	p.waits("deleted", 3*minute, leakBeside("silent", 0), revision(92))
	if !strings.Contains(s.text, "silent") {
		t.Errorf("it was not written again: %q", s.text)
	}
	p = p.restarted()
	p.waits("in the next process", 4*minute, leakBeside("silent", 0), revision(93))
}

// The process that wrote the store may have started after the restore, and not know a node that the backup lacks.
func TestRestoreStore_KeepsLostNodes(t *testing.T) {
	both := All(leakOn(0), Node("worker-2"), written("worker-2", 0))
	noticed := Now.Add(minute).Format(time.RFC3339)
	for says, c := range map[string]struct {
		text  string
		shown Part
	}{
		"of a restore":                 {`{"restored":"` + noticed + `","why":"an agent"}`, Nothing},
		"that one is settled":          {`{"restored":"` + noticed + `","why":"an agent","settled":true}`, Nothing},
		"that the one it saw, too, is": {`{"restored":"` + noticed + `","why":"an agent","settled":true}`, revision(90)},
		"of another than the one it knows": {`{"restored":"` + Now.Add(2*minute).Format(time.RFC3339) + `","why":"an agent"}`,
			revision(90)},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			s := &memoryStore{}
			p.RestoreStore = s
			p.releases("before it", 0, both, revision(100))
			p.pass(minute, both, c.shown)
			s.text = c.text
			reported := leakOn(3 * minute)
			p.waits("worker-2 is not there", 3*minute, reported)
			p.waits("nor then", 4*minute, reported)
			back := All(reported, Node("worker-2"), written("worker-2", 5*minute))
			p.pass(5*minute, back)
			p.releases("it is back", 6*minute, back)
		})
	}
}

// A replica finds a restore while RBAC forbids its Lease, as an API server does that has just started. Its next pass
// reads no cluster. Another replica, which knows nothing newer than the backup, could release until the one after that.
func TestRestoreStore_IsWrittenByAPassThatFails(t *testing.T) {
	for says, c := range map[string]struct {
		forbidden bool // the Lease, in the pass that shows the restore
		next      Source
	}{
		"a list is forbidden":            {forbidden: true, next: &scripted{err: errors.New("forbidden")}},
		"the restore shows without pods": {next: &scripted{parts: []Part{leakOn(0), revision(90), At(Now.Add(minute))}}},
	} {
		t.Run(says, func(t *testing.T) {
			p, s := newProcess(t, atOnce), &memoryStore{}
			p.RestoreStore = s
			p.pass(0, leakOn(0), revision(100))
			if c.forbidden {
				s.err = fmt.Errorf("%w: denied", apply.ErrForbidden)
				p.passOnce(minute, leakOn(0), revision(90))
				s.err = nil
			}
			p.Source, p.PodsComplete = c.next, false
			if _, _, err := p.Pass(t.Context(), nil); err == nil {
				t.Fatal("the pass did not fail")
			}
			if id := p.Process.Known.ID(); id == "" || !strings.Contains(s.text, id) {
				t.Errorf("restore %q is known, kept is %q", id, s.text)
			}
		})
	}
}

// shareLost is what a replica does that does not lead.
func shareLost(ctx context.Context, s StateStore, now time.Time, node string) error {
	return s.Update(ctx, func(text string) (string, error) {
		next, _, err := restore.Share(text, "", "its watches say so", now, []string{node}, nil)
		return next, err
	})
}

// The process that makes the passes was started after a restore, and another one knows which node the restore has lost.
func TestShareLost(t *testing.T) {
	earlier := fmt.Sprintf(`{"restored":%q,"settled":true}`, Now.Add(-hour).Format(time.RFC3339))
	for says, c := range map[string]struct {
		text      string
		when      time.Duration // the first pass is at two minutes, and settles the restore unless a node is lost
		date      time.Duration // of the restore, by the other process
		noWriting bool          // at the pass when all are back, and since
	}{
		"before the first pass":              {"", 2 * minute, minute, false},
		"the text is of the backup":          {earlier, 2 * minute, minute, false},
		"it is settled":                      {"", 5 * minute, minute, false},
		"it is settled, the date is later":   {"", 5 * minute, 4 * minute, false},
		"it is settled, the date is earlier": {"", 5 * minute, minute / 2, false},
		"no write succeeds later":            {"", 5 * minute, minute, true},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			s := &memoryStore{text: c.text}
			p.RestoreStore = s
			pass := func(after time.Duration, more ...Part) *plan.Plan {
				return p.pass(after, append([]Part{leakOn(after), restoreReported("worker-1", minute, after)}, more...)...)
			}
			for after := 2 * minute; after <= 8*minute; after += minute {
				if node := map[time.Duration]string{0: "worker-9", minute: "worker-8"}[after-c.when]; node != "" {
					check(t, shareLost(t.Context(), s, Now.Add(c.date), node))
				}
				if after >= 7*minute { // another process leads each time
					p = p.restarted()
				}
				if made := pass(after); after >= c.when {
					p.WantRefused(fmt.Sprint("after ", after), plan.EtcdRestored, made)
				}
			}
			back := []Part{Node("worker-8"), written("worker-8", 9*minute), Node("worker-9"), written("worker-9", 9*minute)}
			s.noWriting = c.noWriting
			pass(9*minute, back...)
			p.WantReleased("they have reported, and are removed", pass(10*minute))
		})
	}
	t.Run("it is settled, and only cache passes follow: the second check reads it", func(t *testing.T) {
		p := storing(t)
		settled := All(leakOn(2*minute), restoreReported("worker-1", minute, 2*minute))
		p.pass(minute, settled)
		p.releases("settled", 2*minute, settled)
		p.releases("without doubts", 2*minute+time.Second, settled)
		err := shareLost(t.Context(), p.RestoreStore, Now.Add(minute), "worker-9")
		check(t, err)
		watched := All(settled, func(o *Observed) { o.Watched = true })
		p.releases("before the second check", 3*minute, watched)
		live := &liveFacts{r: p.Reconciler, first: p.next.Observation, known: p.Process.Known}
		check(t, live.Refresh(t.Context()))
		p.Process.Known = live.known
		p.waits("since the second check", 4*minute, watched)
	})
}

// The API lists no pods yet. That pass ends early, and is the only one that shows the restore.
func TestRestore_ShownByAPassWithoutPods(t *testing.T) {
	p := newProcess(t, atOnce)
	p.PodsComplete = false
	p.next = Observe(leakOn(0), func(o *Observed) {
		o.Restored, o.MissingReports = "its watches say so", map[string]time.Time{"worker-9": Now}
	})
	if _, err := p.Check(t.Context()); err == nil {
		t.Fatal("the list of pods is believed")
	}
	p.PodsComplete = true
	p.waits("worker-9 must report", minute, leakOn(minute))
	p.waits("worker-9 must still report", 2*minute, leakOn(2*minute))
}

// Nothing is released while a restore is not stored: another process would not know of it, and this one could not see
// that the text runs backwards.
func TestRestoreStore_CannotBeWritten(t *testing.T) {
	p := newProcess(t, atOnce)
	s := &memoryStore{noWriting: true}
	p.RestoreStore = s
	p.seesRestore(leakOn(0))
	made := p.waits("a report of since", 2*minute, leakOn(2*minute), revision(91))
	wantDetail(t, made, "cannot store the etcd restore state")
	p.waits("hours later", 2*hour, leakOn(2*hour), revision(92))
	s.noWriting = false
	p.waits("it is stored, and what was read before says nothing", 4*hour, leakOn(4*hour), revision(94))
	p.waits("the first read since", 5*hour, leakOn(5*hour), revision(95))
	p.releases("it is stored, and the node has reported since", 6*hour, leakOn(6*hour), revision(96))
	s.noWriting = true
	p.pass(7*hour, leakOn(7*hour), revision(80))
	p.waits("acknowledged", 8*hour, leakOn(8*hour), p.acknowledged(), revision(81))
	accepting := newProcess(t, atOnce)
	accepting.RestoreStore = &memoryStore{err: fmt.Errorf("%w: denied", apply.ErrForbidden)}
	accepting.WithoutRestoreStore = true
	accepting.seesRestore(leakOn(0))
	accepting.releases("an operator accepts that it is forbidden", 2*minute, leakOn(2*minute), revision(91))
}
