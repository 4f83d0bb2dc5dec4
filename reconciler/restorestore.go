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

// storedRestore is the text by which processes share what they know of the last restore: after a restart, in a Job, in
// a run by hand. A restore reverts the text, too, so what a process has detected itself has precedence.
type storedRestore struct {
	text    string // as last read or written
	written string // as this process knew it, and wrote it or found it written
	isRead  bool
	readErr error
}

const longestText = 128 << 10 // all annotations together may have 256 KiB

// text is what the store keeps. A text that is too long loses first the doubts, then the nodes: the next process then
// doubts everything, and does not know which nodes are lost.
func (r *restore) text() (string, error) {
	if r.At.IsZero() {
		return "", nil
	}
	short := *r
	text, err := json.Marshal(&short)
	if len(text) > longestText {
		short.DoubtsAll, short.Taints = true, nil
		text, err = json.Marshal(&short)
	}
	if len(text) > longestText {
		short.Pending, short.MissingSince = nil, nil
		text, err = json.Marshal(&short)
	}
	return string(text), err
}

func readRestore(text string, now time.Time) (r restore, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("the annotation is not JSON of this program (%w); remove it to start again", err)
	}
	if r.At.After(now) { // a clock was wrong
		r.At = now
	}
	if r.DetectedAt.IsZero() {
		r.DetectedAt = now
	}
	return r, nil
}

// loadRestore reads what other processes have kept, in each full pass and before the second check of a cache pass.
// Nothing is released while it cannot be read.
func (r *Reconciler) loadRestore(ctx context.Context, o *judge.Observation) {
	k := &r.History.storedRestore
	if r.RestoreStore == nil {
		return
	}
	var kept restore
	isOwn := false
	err := r.RestoreStore.Update(ctx, func(text string) (_ string, err error) {
		isOwn, k.text = k.isRead && text == k.written, text
		kept, err = readRestore(text, o.Now)
		return text, err
	})
	switch {
	case errors.Is(err, ErrForbidden) && r.WithoutRestoreStore:
		k.readErr = nil
		o.Warnings = append(o.Warnings, fmt.Sprintf("cannot read the etcd restore state, which --without-lease accepts: %v",
			err))
	case err != nil:
		if k.readErr = err; errors.Is(err, ErrForbidden) {
			k.readErr = fmt.Errorf("%w; grant get, create and update on leases, or use --without-lease", err)
		}
		o.Warnings = append(o.Warnings, fmt.Sprintf("cannot read the etcd restore state, so nothing is released: %v", err))
	default:
		if !isOwn {
			r.History.mergeRestore(kept)
		}
		k.isRead, k.readErr = true, nil
	}
}

// mergeRestore takes over a later restore than this process knows of, that the same one is settled, or which nodes it
// has lost: see ShareLost. Nodes that this process knew, and that the restore lost, stay pending. A text that is first
// read while a restore is known may be of the backup, or name what an earlier restore had lost.
func (h *History) mergeRestore(kept restore) {
	r, isFirst := &h.restore, !h.storedRestore.isRead
	lost := kept.lostNodes()
	switch isLater := kept.At.After(r.At); {
	case isLater || kept.At.Equal(r.At) && kept.IsSettled && len(r.lostNodes()) == 0:
		before := *r
		*r = kept
		r.knownNodes, r.passDetectedAt, lost = before.knownNodes, before.passDetectedAt, before.lostNodes()
		if isLater && !isFirst {
			lost = slices.AppendSeq(lost, maps.Keys(before.knownNodes))
		}
		if isLater {
			h.resetConfirmations()
		}
	case (r.IsSettled || !isFirst) && r.At.Sub(kept.At) > sameRestoreWithin:
		lost = nil
	}
	for _, name := range lost {
		r.addLost(name)
	}
	// Agents exist even if a restore has lost their reports.
	h.hasReports = h.hasReports || !r.IsSettled && len(r.Pending)+len(r.MissingSince) > 0
}

// saveRestore keeps changes for other processes.
func (r *Reconciler) saveRestore(ctx context.Context, o *judge.Observation) {
	k := &r.History.storedRestore
	if r.RestoreStore == nil || !k.isRead || r.Options.DryRun {
		return
	}
	text, err := r.History.restore.text()
	if err == nil && (text == k.text || text == "") {
		k.written = text
		return
	}
	if err == nil {
		err = r.RestoreStore.Update(ctx, func(now string) (string, error) {
			if kept, err := readRestore(now, o.Now); err == nil && now != k.written {
				r.History.mergeRestore(kept)
			}
			text, err = r.History.restore.text()
			k.text = text
			return text, err
		})
	}
	if err != nil {
		k.text = ""
		r.Log.Warn("Could not persist etcd restore state", "error", err)
		return
	}
	k.written = k.text
}

// ShareLost writes which nodes a restore has lost, for the process that makes the passes: it may have started since.
// why is the evidence of the restore, now the time by the API server's clock.
func ShareLost(ctx context.Context, store StateStore, why string, now time.Time, nodes []string) error {
	return store.Update(ctx, func(text string) (string, error) {
		kept, err := readRestore(text, now)
		if err != nil {
			return text, err
		}
		h := &History{restore: kept}
		if now.Sub(kept.At) > sameRestoreWithin { // the text may be of the backup
			h.beginRestore(restore{At: now, DetectedAt: now, Why: why}, now)
		}
		for _, name := range nodes {
			h.restore.addLost(name)
		}
		return h.restore.text()
	})
}
