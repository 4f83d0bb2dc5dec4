package restore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Lease has the State that processes share, in StateAnnotation. It is in the reconciler's namespace.
const (
	Lease           = "ip-reconcile-restore"
	StateAnnotation = "ip-reconcile.dev/restore"
)

// stored is what a process knows of the text by which processes share what they know of the last restore: after a
// restart, in a Job, in a run by hand. A restore reverts the text, too, which shows by its ID.
type stored struct {
	text    string // as last read or written; "" if that is not known
	written string // that this process has written, or has taken over
	id      string // that is known to be stored
	sent    string // the last ID that was sent to the store, or by which a read began
	isRead  bool
	err     error // why it cannot be read; nothing is released then
	failure error // why the last text could not be written
}

const longestText = 200 << 10 // all annotations together may have 256 KiB

// text is what is stored. A text that is too long loses first the doubts, then the nonces, then the nodes: the next
// process then doubts everything, answers all nonces that it finds, and does not know which nodes are lost.
func (r last) text() (string, error) {
	if r.ID == "" {
		return "", nil
	}
	text, err := json.Marshal(&r)
	for _, shorten := range []func(){
		func() { r.DoubtsAll, r.Taints = true, nil },
		func() { r.AnswersAll, r.Nonces = true, nil },
		func() { r.Pending, r.MissingSince = nil, nil },
	} {
		if len(text) > longestText {
			shorten()
			text, err = json.Marshal(&r)
		}
	}
	return string(text), err
}

// parse reads a text. One without an ID is of an earlier version, which dated restores: its date is its ID.
func parse(text string, now time.Time) (r last, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("the annotation is not JSON of this program (%w); remove it to start again", err)
	}
	if r.ID == "" && !r.At.IsZero() {
		r.ID, r.isDated = r.At.UTC().Format(time.RFC3339), true
	}
	if r.At.After(now) || r.At.IsZero() { // a clock was wrong
		r.At = now
	}
	return r, nil
}

// IsRead reports whether the stored text has been read, the last time without an error: a cache pass need not read it.
func (s State) IsRead() bool { return s.stored.isRead && s.stored.err == nil }

// Read takes over what other processes have stored.
func (s State) Read(text string, now time.Time) (State, error) {
	isOwn := s.stored.isRead && text == s.stored.written
	s.stored.text = text
	kept, err := parse(text, now)
	if err != nil {
		return s, err
	}
	if !isOwn {
		s = s.merge(kept, now)
	}
	s.stored.isRead, s.stored.written, s.stored.err = true, text, nil
	return s, nil
}

// Unread is the State where the stored text cannot be read: releases are paused.
func (s State) Unread(err error) State {
	s.stored.err = err
	return s
}

// WithoutStore is the State of a process that goes on where the store is forbidden.
func (s State) WithoutStore() State {
	s.stored.isRead, s.stored.err, s.stored.failure = false, nil, nil
	return s
}

// merge compares the stored ID with the one that is known.
//   - The same: another process may have settled it, and know which nodes are lost: see Share.
//   - A first one, or one that replaced the known one: this process waits by it, too, for every node that it knew. So
//     does a process that stores nothing, by any other that others have stored.
//   - Any other, while nothing was concluded from the known one, which is not known to be stored: that replaces it.
//   - Any other: a restore has reverted the text, or others have replaced it more than once. A new ID replaces it.
func (s State) merge(kept last, now time.Time) State {
	known, isFirst, isStored := s.last, !s.stored.isRead, s.stored.isRead && s.stored.id == s.last.ID
	isSuccessor := kept.Replaces == known.ID && (isStored || known.ID != "")
	switch {
	case kept.ID == known.ID:
		s.last = known.with(kept)
	case isSuccessor, isFirst && known.ID == "", s.IsReader && kept.ID != s.stored.id:
		return s.adopt(kept, now).sawAgents()
	case !isStored && known.Since == "" && !known.IsSettled:
		if s.last.Replaces = kept.ID; isFirst || kept.ID != s.stored.id {
			s.last = s.last.withLost(kept.lostNodes())
		}
	default:
		s = s.begin(fmt.Sprintf("the stored state is of restore %q instead of %q", kept.ID, known.ID), now, false)
		s.last.Replaces = kept.ID
		s.last = s.last.withLost(kept.lostNodes())
	}
	s.stored.id = kept.ID
	return s.sawAgents()
}

// with is the same restore with what another process knows of it. Nodes that this process knew, and that the restore
// lost, stay pending.
func (r last) with(kept last) last {
	if kept.IsSettled && len(r.lostNodes()) == 0 {
		return kept
	}
	if r.Since == "" {
		r.Since = kept.Since
	}
	return r.withUnregistered(kept.Unregistered).withLost(kept.lostNodes())
}

// adopt takes over the restore of another process. This process has read nothing since it knows of the restore, and
// awaits the nodes that it knew before. An ID begins where an earlier version has dated the restore and awaits nodes.
func (s State) adopt(kept last, now time.Time) State {
	lost := slices.AppendSeq(s.last.lostNodes(), maps.Keys(s.knownNodes))
	s.last = kept.withUnregistered(s.last.Unregistered).withLost(lost)
	s.readID, s.stored.id = "", kept.ID
	s.number++
	if kept.isDated && !s.last.IsSettled {
		return s.begin(kept.Why, now, false)
	}
	return s
}

// sawAgents notes that agents exist even if a restore has lost their reports.
func (s State) sawAgents() State {
	s.sawReports = s.sawReports || !s.last.IsSettled && len(s.last.Pending)+len(s.last.MissingSince) > 0
	return s
}

// IsStored reports whether there is nothing to store, because the text says what the State knows. Before the first Read
// nothing is stored.
func (s State) IsStored() bool {
	text, err := s.last.text()
	return !s.stored.isRead || err == nil && (text == s.stored.text || text == "")
}

// Write returns what to store instead of a text, with what other processes have put into that since it was read.
func (s State) Write(over string, now time.Time) (next State, text string, err error) {
	if kept, err := parse(over, now); err == nil && over != s.stored.written {
		s = s.merge(kept, now)
	}
	text, err = s.last.text()
	s.stored.text, s.stored.sent = text, s.last.ID
	return s, text, err
}

// Written is the State after what it knows was stored, or was found there.
func (s State) Written() State {
	s.stored.written, s.stored.failure = s.stored.text, nil
	if s.stored.isRead {
		s.stored.id = s.last.ID
	}
	return s
}

// NotWritten is the State after what it knows could not be stored. Perhaps it was, and the answer is lost.
func (s State) NotWritten(err error) State {
	s.stored.text, s.stored.failure = "", err
	return s
}

// Share returns a stored text with a restore that a process has detected which makes no passes, for the one that makes
// them: that may have started since. lost are the nodes that the restore has lost. why is the evidence of the restore,
// now the time by the API server's clock. The text may be of the backup, so that an ID begins, unless it has the ID
// that this process has shared of the same restore before, or what replaced that: shared, "" for none. id is the ID in
// the text then. ids is State.IDs.
func Share(
	text, shared, why string, now time.Time, lost []string, ids func(n int) string,
) (next, id string, err error) {
	kept, err := parse(text, now)
	if err != nil {
		return text, shared, err
	}
	s := State{IDs: ids, last: kept, stored: stored{id: kept.ID}}
	if shared == "" || kept.ID != shared && kept.Replaces != shared {
		s = s.begin(why, now, false)
	}
	next, err = s.last.withLost(lost).text()
	return next, s.last.ID, err
}
