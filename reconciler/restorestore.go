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
)

// storedRestore is the text by which processes share what they know of the last restore: a process after a restart,
// that of a Job, a run by hand. A restore takes the text back as well, so what a process has detected itself counts first.
type storedRestore struct {
	text        string // as it was last read or written
	isRead      bool
	unread      error // why it could not be read
	isForbidden bool  // RBAC forbade it once; an API server that has just started may forbid everything
}

// longestText is how long the text may be: annotations may have 256 KiB in all.
const longestText = 128 << 10

// text is what is kept. Doubts, and if that is not enough the nodes, are dropped where it is too long: the next process
// then doubts everything that it finds, and does not know which nodes are lost.
func (r *restore) text() (string, error) {
	if r.At.IsZero() {
		return "", nil
	}
	short := *r
	text, err := json.Marshal(&short)
	if len(text) > longestText {
		short.DoubtsAll, short.Taints, short.Boots = true, nil, nil
		text, err = json.Marshal(&short)
	}
	if len(text) > longestText {
		short.Awaited, short.Gone = nil, nil
		text, err = json.Marshal(&short)
	}
	return string(text), err
}

func readRestore(text string, now time.Time) (r restore, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("it is not what was written there (%w); remove it, and it begins again", err)
	}
	if r.At.After(now) { // a clock that was wrong
		r.At = now
	}
	if r.Noticed.IsZero() {
		r.Noticed = now
	}
	return r, nil
}

// loadRestore reads what others have kept: once where watches are relied upon, which show a restore to every process.
// Nothing is released while it cannot be read.
func (r *Reconciler) loadRestore(ctx context.Context, o *judge.Observation) {
	k := &r.History.storedRestore
	if r.RestoreStore == nil || k.isRead && o.Watched {
		return
	}
	var kept restore
	err := r.RestoreStore.Update(ctx, func(text string) (_ string, err error) {
		k.text = text
		kept, err = readRestore(text, o.Now)
		return text, err
	})
	switch {
	case errors.Is(err, ErrForbidden):
		if !k.isForbidden {
			r.Log.Warn("what this process learns of restores of etcd it cannot tell to the next: there is no right to keep it", "error", err)
		}
		k.isForbidden, k.unread = true, nil
	case err != nil:
		k.unread = err
		o.Warnings = append(o.Warnings, fmt.Sprintf("what is kept of restores of etcd could not be read, so nothing is released: %v", err))
	default:
		r.History.mergeRestore(kept)
		k.isRead, k.unread = true, nil
	}
}

// mergeRestore takes over a later restore than this process knows of, or that the same one is settled. Another process
// may not know of a node that the restore has lost and that was known here. What is read late, when this process
// already knows of a restore, may be of the backup, or of what an earlier restore had lost.
func (h *History) mergeRestore(kept restore) {
	r, isFirst := &h.restore, !h.storedRestore.isRead
	lost := kept.lost()
	switch isLater := kept.At.After(r.At); {
	case isLater || kept.At.Equal(r.At) && kept.Settled && len(r.lost()) == 0:
		before := *r
		*r = kept
		r.missing, r.seen, lost = before.missing, before.seen, before.lost()
		if isLater && !isFirst {
			lost = slices.AppendSeq(lost, maps.Keys(before.missing))
		}
		if isLater {
			h.resetConfirmations()
		}
	case r.Settled || !isFirst:
		lost = nil
	}
	for _, name := range lost {
		r.lose(name)
	}
	// That a restore has lost the reports is no sign that there are no agents.
	h.reports = h.reports || !r.Settled && len(r.Awaited)+len(r.Gone) > 0
}

// saveRestore keeps what has changed for others.
func (r *Reconciler) saveRestore(ctx context.Context, o *judge.Observation) {
	k := &r.History.storedRestore
	if r.RestoreStore == nil || !k.isRead || r.Options.DryRun {
		return
	}
	text, err := r.History.restore.text()
	if err == nil && (text == k.text || text == "") {
		return
	}
	if err == nil {
		err = r.RestoreStore.Update(ctx, func(now string) (string, error) {
			if kept, err := readRestore(now, o.Now); err == nil {
				r.History.mergeRestore(kept)
			}
			text, err = r.History.restore.text()
			k.text = text
			return text, err
		})
	}
	if err != nil {
		k.text = ""
		r.Log.Warn("what is known of restores of etcd could not be kept for the next process", "error", err)
	}
}
