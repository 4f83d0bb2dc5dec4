package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// maxBatch is how many changes are tried under one hold at most: a hold of two seconds has room for them on a server
	// that needs some 2 ms for a change.
	maxBatch = 1000
	// tries is how often a change is checked and written without getting through, before it is given up until the
	// next pass.
	tries = 5
	// maxBarren is how many holds in a row that get nothing through end the pass for all changes that are left.
	maxBarren = 15
)

var (
	errLeaseMissing = errors.New("a pool's own Lease was busy with ADDs and DELs each time")
	errPaused       = errors.New("it is paused")
	// errPreconditions: what was seen is no ground to write any more.
	errPreconditions = errors.New("nothing is written now")
	errAllPaused     = fmt.Errorf("%w: %w: everything, by the annotation %s", errPreconditions, errPaused, ippool.PausedAnnotation)
)

// kind is what releases and repairs differ in.
type kind interface {
	// keys names what the second check reads under the Leases.
	keys(todo []*change) LiveKeys
	// judge judges changes again by what was read last, and returns those that still stand.
	judge(todo []*change) checked
	// refuse records changes that are given up.
	refuse(changes []*change, err error)
	// finish records a change that is written.
	finish(c *change)
}

// checked are changes that have passed the second check: only they are written.
type checked []*change

// executor writes the changes of a pass that need the same Leases: nothing else writes to pools and reservations.
type executor struct {
	*liveIndex
	kind
	doing     string // what progress says
	namespace string
	leases    []string
	out       *Result
	// writeFor is for how long after a hold began writes begin under it, and for half as long at least after the
	// second check; zero for as long as the hold allows.
	writeFor time.Duration
	recorded map[string]bool // reservations whose release is recorded
	wrote    int             // changes that were written
	// conflicts has the resourceVersion at which the last patch of a pool met a conflict.
	conflicts map[string]string
}

// execute writes changes. One group that fails does not stop the others.
func (r *Reconciler) execute(ctx context.Context, o *judge.Observation, changes []*change, out *Result, isRepair bool) {
	live := &liveIndex{Reconciler: r, first: o}
	for _, g := range grouped(changes) {
		e := &executor{liveIndex: live, namespace: g.namespace, leases: g.leases, out: out, recorded: map[string]bool{}, conflicts: map[string]string{}}
		if e.kind, e.doing = (releases{e}), "releasing"; isRepair {
			e.kind, e.doing, e.writeFor = repairs{e}, "repairing", writeBackFor
		}
		e.run(ctx, g.changes)
	}
}

// run writes the changes, a batch under each hold. What a hold had no time for comes first under the next one; what
// failed goes back to the end of the queue, and is given up when it has failed too often.
func (e *executor) run(ctx context.Context, todo []*change) {
	size, isSpent, barren := maxBatch, false, 0 // whether the last hold was too short; how many in a row got nothing through
	for len(todo) > 0 {
		e.progress("%s in namespace %s: %d to go", e.doing, e.namespace, len(todo)) // a step for the liveness probe, too
		n := min(size, len(todo))
		begun, wrote := countBegun(todo[:n]), e.wrote
		if isSpent && begun > 0 { // no more reservations are deleted before these have their entries removed
			n = begun
		}
		left, err := e.attempt(ctx, todo[:n])
		if left = e.refuseDenied(left); err == nil || errors.Is(err, ErrForbidden) {
			if err = worst(left); err == nil && len(left) > 0 {
				err = ErrConflict
			}
		}
		rest := todo[n:]
		isSpent = errors.Is(err, ErrHoldSpent)
		isBarren := e.wrote == wrote && len(left) == n && !(isSpent && countBegun(left) > begun)
		if barren++; !isBarren {
			barren = 0
		}
		switch {
		case stops(err), barren == maxBarren:
			e.giveUp(slices.Concat(left, rest), err)
			return
		case ctx.Err() != nil:
			e.giveUp(slices.Concat(left, rest), errors.New(cmp.Or(err, ctx.Err()).Error()))
			return
		case len(left) == 0: // one slow moment must not cost the rest of the run
			size = min(2*size, maxBatch)
		case isBarren && isSpent && n > 1:
			size = n / 2
		case isBarren:
			failed, again := divide(left, func(c *change) bool { c.tries++; return c.tries == tries })
			e.giveUp(failed, err)
			left = again
		}
		if todo = slices.Concat(rest, left); isSpent {
			begun, others := divide(left, (*change).begun)
			todo = slices.Concat(begun, others, rest)
		}
		if isBarren && len(todo) > 0 {
			e.wait(ctx, 100*time.Millisecond<<min(barren, tries)) // the hold was too short, or somebody was faster
		}
	}
}

// stops reports whether an error of a hold stands against all changes that need it.
func stops(err error) bool {
	return errors.Is(err, ErrLeaseForbidden) || errors.Is(err, ErrLeaseBusy) || errors.Is(err, ErrLeaseFailed)
}

// attempt takes the Leases, checks the changes under them and writes them. It returns those that must be tried again;
// the error is one that is about all of them.
func (e *executor) attempt(ctx context.Context, todo []*change) (left []*change, err error) {
	if err := e.refresh(ctx); err != nil {
		return todo, err
	}
	left = todo
	err = e.Writer.Hold(ctx, e.namespace, e.leases, func(ctx context.Context, h *Hold) (err error) {
		left, err = e.underHold(ctx, h, todo)
		return err
	})
	e.Log.Debug("a hold of the Lease", "namespace", e.namespace, "leases", e.leases, "items", len(todo), "left", len(left), "error", err)
	if slices.ContainsFunc(left, (*change).begun) {
		// A write failed after reservations were deleted: whatever proves live must have its own back at once, not
		// at the next turn with the Lease.
		if still, checkErr := e.check(ctx, left); checkErr == nil {
			left = still
		}
	}
	return left, err
}

// underHold checks what can have changed since the Leases were asked for, and writes. It returns the changes that
// must be tried again, and why.
func (e *executor) underHold(ctx context.Context, h *Hold, todo []*change) (left []*change, err error) {
	asked := e.Clock.Now()
	if err := e.refresh(ctx); err != nil { // the wait for the Lease may have been long
		return todo, err
	}
	began, isBounded := e.Clock.Now(), !h.Until.IsZero()
	if isBounded { // what that took is not taken from the work
		h.Until = h.Until.Add(began.Sub(asked))
	}
	work, without := divide(todo, func(c *change) bool { return h.covers(c.leases) })
	for _, c := range without {
		c.err = errLeaseMissing
	}
	if len(work) > 0 {
		still, err := e.check(ctx, work)
		if err != nil {
			return todo, err
		}
		if isBounded && e.writeFor > 0 {
			h.Until = later(began.Add(e.writeFor), e.Clock.Now().Add(e.writeFor/2))
		}
		left = e.write(ctx, h, still)
	}
	left = append(left, without...)
	return left, worst(left)
}

// check is the second check: it reads live what can have changed, and judges again. It returns what still stands.
func (e *executor) check(ctx context.Context, todo []*change) (checked, error) {
	if err := e.read(ctx, e.keys(todo)); err != nil {
		return nil, err
	}
	return e.judge(todo), nil
}

// giveUp ends changes for this pass. What is not known to have gone well gets its reservations back: one too many is
// found and released later, one too few may give a live address away.
func (e *executor) giveUp(changes []*change, err error) {
	e.refuse(changes, err)
	e.putBack(changes)
}

// refuseDenied gives up the changes whose write is forbidden, since to try it again would be useless. It returns the
// others, which may be allowed.
func (e *executor) refuseDenied(left []*change) (others []*change) {
	denied, others := divide(left, func(c *change) bool { return errors.Is(c.err, ErrForbidden) })
	for _, c := range denied {
		e.refuse([]*change{c}, c.err)
	}
	e.putBack(denied)
	return others
}

// whyOf is the refusal that an error stands for.
func whyOf(err error) Refusal {
	switch {
	case errors.Is(err, ErrLeaseBusy), errors.Is(err, errLeaseMissing):
		return LeaseBusy
	case errors.Is(err, ErrLeaseForbidden):
		return NoLease
	case errors.Is(err, ErrConflict):
		return Changed
	case errors.Is(err, errPaused):
		return Paused
	case errors.Is(err, errPreconditions):
		return EtcdRestored
	}
	return WriteFailed
}

// divide divides changes into those of which is is true, and the others.
func divide(changes []*change, is func(*change) bool) (with, without []*change) {
	for _, c := range changes {
		if is(c) {
			with = append(with, c)
		} else {
			without = append(without, c)
		}
	}
	return with, without
}

// maxLeases is how many Leases are held at once.
const maxLeases = 16

// group is what is written under the same Leases.
type group struct {
	namespace string
	leases    []string // the shared one first: without it nothing can be done
	changes   []*change
}

// grouped puts together what can be written under one hold. The pools of node slices have a Lease each: several are
// held at once, since all of them also take the shared one, which must be left to others after each hold.
func grouped(changes []*change) []*group {
	var all []*group
	for _, c := range changes {
		at := slices.IndexFunc(all, func(g *group) bool { return g.namespace == c.namespace() && g.takes(c.leases) })
		if at < 0 {
			at = len(all)
			all = append(all, &group{namespace: c.namespace(), leases: []string{ippool.SharedLease}})
		}
		g := all[at]
		for _, n := range c.leases {
			if !slices.Contains(g.leases, n) {
				g.leases = append(g.leases, n)
			}
		}
		g.changes = append(g.changes, c)
	}
	return all
}

// takes reports whether these Leases can be held with the group's.
func (g *group) takes(names []string) bool {
	more := 0
	for _, n := range names {
		if !slices.Contains(g.leases, n) {
			more++
		}
	}
	return more == 0 || len(g.leases)+more <= maxLeases
}

// refreshEvery is how old reports, Leases, Nodes and definitions may be when
// something is judged that is about to be written.
const refreshEvery = 5 * time.Second

// liveIndex is what writes are judged on: what was read last, with what live reads found
// and what our own writes did since.
type liveIndex struct {
	*Reconciler
	first     *judge.Observation // of before the first refresh
	x         *judge.Index       // nil before it
	refreshed time.Time
}

// observation is what the index was built from, with what was found since but for pods and reservations.
func (b *liveIndex) observation() *judge.Observation { return b.x.Base() }

// refresh reads again what is not read live, where that was long ago. It is best called while no Lease is held.
func (b *liveIndex) refresh(ctx context.Context) error {
	if !b.refreshed.IsZero() && b.Clock.Since(b.refreshed) < refreshEvery {
		return nil
	}
	before := b.first
	if b.x != nil {
		before = b.x.Observation()
	}
	o, err := b.Source.Relist(ctx, before)
	if err != nil {
		return fmt.Errorf("read reports, nodes and pools again: %w", err)
	}
	b.History.checkRevision(o)
	o.Restored = cmp.Or(o.Restored, before.Restored)
	o.Local, o.FencedSince = before.Local, b.fencedSince()
	if o.Now.Before(before.Now) {
		o.Now = before.Now // the API server tells the time to the second; what was confirmed stays so
	}
	b.x, b.refreshed = judge.NewIndex(o, b.History, b.Options.judging()), b.Clock.Now()
	return nil
}

// read makes a live read and puts what it found into the index.
func (b *liveIndex) read(ctx context.Context, need LiveKeys) error {
	live, err := b.Source.GetLive(ctx, b.observation(), need)
	if err != nil {
		return fmt.Errorf("live read: %w", err)
	}
	b.x = b.x.With(live)
	if live.Restored != "" {
		b.History.noteRestore(b.observation())
	}
	return nil
}
