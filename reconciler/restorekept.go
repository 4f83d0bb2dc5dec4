package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"k8s.io/apimachinery/pkg/util/sets"
)

// storedRestore is how what is remembered of restores is shared with other processes: the
// next one after a restart, that of a Job, a run by hand. A restore takes it back as well:
// the memory of a process counts first.
type storedRestore struct {
	text   string // as it was read or written last
	read   bool
	unread error // why it could not be read
	// forbidden is until when there is no right to it: an API server that has just begun
	// may say so of all.
	forbidden time.Time
}

// askAgain is how long after a refusal it is asked for again.
const askAgain = time.Minute

// restoreDocument is what is kept.
type restoreDocument struct {
	At      time.Time            `json:"restored,omitzero"`
	Intact  time.Time            `json:"intact,omitzero"`
	Why     string               `json:"why,omitempty"`
	Settled bool                 `json:"settled,omitempty"`
	Lost    []string             `json:"lost,omitempty"`
	Gone    map[string]time.Time `json:"gone,omitempty"`
	Nodes   []string             `json:"nodes,omitempty"`
	Leases  map[string]string    `json:"leases,omitempty"`
	// Doubted are the out-of-service taints that are not believed, by node; DoubtsAll where
	// no pass has seen yet which there are.
	Doubted   map[string]string `json:"doubted,omitempty"`
	DoubtsAll bool              `json:"doubtsAll,omitempty"`
	// DoubtedBoots are the bootIDs of Nodes that may be the backup's, by node.
	DoubtedBoots map[string]string `json:"doubtedBoots,omitempty"`
}

// keptMost is how long the text may get: annotations may have 256 KiB in all.
const keptMost = 128 << 10

// document is what is to be kept. Where that is too long, what can be doubted again is left
// out, else the names of very many nodes: those that a restore has lost then count for as
// long as this process lives.
func (r *restore) document() (string, error) {
	whole := restoreDocument{At: r.at, Intact: r.intact, Why: r.why, Settled: r.settled, Gone: r.gone,
		Lost: slices.Sorted(maps.Keys(r.lost)), Nodes: sets.List(r.nodes), Leases: r.leases, Doubted: r.taints.as, DoubtsAll: r.taints.all, DoubtedBoots: r.taints.boots}
	leases := func(d *restoreDocument) { d.Leases = nil } // the next process reads them again
	doubts := func(d *restoreDocument) {                  // the next process doubts all that it then finds
		d.DoubtsAll, d.Doubted, d.DoubtedBoots = d.DoubtsAll || len(d.Doubted)+len(d.DoubtedBoots) > 0, nil, nil
	}
	nodes := func(d *restoreDocument) { d.Nodes = nil }
	lost := func(d *restoreDocument) { d.Lost = nil }
	var text []byte
	var err error
	for _, leaveOut := range [][]func(*restoreDocument){{}, {leases}, {leases, doubts}, {leases, nodes}, {leases, doubts, nodes}, {leases, doubts, nodes, lost}} {
		d := whole
		for _, leave := range leaveOut {
			leave(&d)
		}
		if text, err = json.Marshal(d); err != nil || len(text) <= keptMost {
			break
		}
	}
	return string(text), err
}

func readRestore(text string, now time.Time) (d restoreDocument, err error) {
	if text == "" {
		return d, nil
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return d, fmt.Errorf("it is not what was written there (%w); remove it, and it begins again", err)
	}
	if d.At.After(now) { // a clock that was wrong
		d.At = now
	}
	return d, nil
}

// loadRestore reads what was kept by others; once, where watches are relied upon: by them a
// process notices a restore as soon as any other. An error holds releases back until it could
// be read.
func (r *Reconciler) loadRestore(ctx context.Context, o *judge.Observation) {
	k := &r.History.storedRestore
	if r.Restores == nil || k.read && o.Watched || o.Now.Before(k.forbidden) {
		return
	}
	before := k.text
	var d restoreDocument
	err := r.Restores.Amend(ctx, func(kept string) (_ string, err error) {
		k.text = kept
		d, err = readRestore(kept, o.Now)
		return kept, err
	})
	switch {
	case errors.Is(err, ErrForbidden):
		first := k.forbidden.IsZero()
		if k.forbidden, k.unread = o.Now.Add(askAgain), nil; !first {
			return
		}
		r.Log.Warn("what this process learns of restores of etcd it cannot tell to the next: there is no right to keep it", "error", err)
	case err != nil:
		k.unread = err
		o.Warnings = append(o.Warnings, fmt.Sprintf("what is kept of restores of etcd could not be read, so nothing is released: %v", err))
	case !k.read:
		k.read, k.unread = true, nil
		r.History.loadRestore(d)
	default:
		if k.unread = nil; k.text != before {
			r.History.learnRestore(d)
		}
	}
}

// learnRestore takes over a later restore than is known here, or that this one is settled. Whoever
// told of it may not know of a node that the restore has lost, and that was known here.
func (h *History) learnRestore(d restoreDocument) {
	r := &h.restore
	switch {
	case d.At.After(r.at):
		lost := map[string]bool{}
		for name := range sets.KeySet(r.lost).Union(r.nodes).Union(sets.KeySet(r.missed)) {
			lost[name] = true
		}
		h.adoptRestore(d)
		if maps.Copy(r.lost, lost); len(lost) > 0 {
			r.settled = false
		}
		h.resetConfirmations()
	case d.At.Equal(r.at) && d.Settled && len(r.lost) == 0:
		h.adoptRestore(d)
	}
}

// loadRestore takes over what others have kept. A restore that was noticed here before that
// could be read counts: what is kept may be of the backup.
func (h *History) loadRestore(d restoreDocument) {
	r := &h.restore
	r.nodes = r.nodes.Union(sets.New(d.Nodes...))
	if !r.at.After(d.At) {
		h.adoptRestore(d)
		return
	}
	for _, name := range slices.Concat(d.Lost, d.Nodes) {
		if !r.settled {
			r.lost[name] = true
		}
	}
}

// adoptRestore takes over what others know of a restore.
func (h *History) adoptRestore(d restoreDocument) {
	r := &h.restore
	r.at, r.intact, r.why, r.settled = d.At, d.Intact, d.Why, d.Settled
	r.leases = d.Leases
	if r.lost, r.gone, r.awaited = map[string]bool{}, map[string]time.Time{}, nil; r.intact.IsZero() {
		r.undated = r.at
	}
	r.taints = doubtedTaints{all: d.DoubtsAll, as: d.Doubted, boots: d.DoubtedBoots}
	maps.Copy(r.gone, d.Gone)
	for _, name := range d.Lost {
		r.lost[name] = true
	}
	// Agents were there before a restore that is not settled: that it lost their reports
	// is no sign that there are none.
	h.reports = h.reports || !r.at.IsZero() && !r.settled && len(r.lost)+len(r.gone)+len(r.nodes) > 0
}

// saveRestore keeps what has changed for others. Where somebody else knows of a later
// restore, or has seen this one settled, that counts.
func (r *Reconciler) saveRestore(ctx context.Context, o *judge.Observation) {
	k := &r.History.storedRestore
	if r.Restores == nil || !k.read || r.Options.DryRun {
		return
	}
	text, err := r.History.restore.document()
	if err == nil && text == k.text {
		return
	}
	if err == nil {
		err = r.Restores.Amend(ctx, func(kept string) (string, error) {
			if d, err := readRestore(kept, o.Now); err == nil {
				r.History.learnRestore(d)
			}
			text, err = r.History.restore.document()
			k.text = text
			return text, err
		})
	}
	if err != nil {
		k.text = ""
		r.Log.Warn("what is known of restores of etcd could not be kept for the next process", "error", err)
	}
}
