package restore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// stored is what a process knows of the text by which processes share what they know of the last restore: after a
// restart, in a Job, in a run by hand. A restore reverts the text, too, so what a process has detected itself has
// precedence.
type stored struct {
	text    string // as last read or written; "" if that is not known
	written string // as this process knew it, and wrote it or found it written
	isRead  bool
	err     error // why it cannot be read; nothing is released then
}

const longestText = 128 << 10 // all annotations together may have 256 KiB

// text is what is stored. A text that is too long loses first the doubts, then the nodes: the next process then
// doubts everything, and does not know which nodes are lost.
func (r last) text() (string, error) {
	if r.At.IsZero() {
		return "", nil
	}
	text, err := json.Marshal(&r)
	if len(text) > longestText {
		r.DoubtsAll, r.Taints = true, nil
		text, err = json.Marshal(&r)
	}
	if len(text) > longestText {
		r.Pending, r.MissingSince = nil, nil
		text, err = json.Marshal(&r)
	}
	return string(text), err
}

func parse(text string, now time.Time) (r last, err error) {
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
		s = s.merge(kept)
	}
	s.stored.isRead = true
	return s.Unread(nil), nil
}

// Unread is the State where the stored text cannot be read: releases are paused. Nil is no such error.
func (s State) Unread(err error) State {
	s.stored.err = err
	return s
}

// merge takes over a later restore than this process knows of, that the same one is settled, or which nodes it
// has lost: see AddLost. Nodes that this process knew, and that the restore lost, stay pending. A text that is first
// read while a restore is known may be of the backup, or name what an earlier restore had lost.
func (s State) merge(kept last) State {
	isFirst, lost := !s.stored.isRead, kept.lostNodes()
	switch isLater := kept.At.After(s.last.At); {
	case isLater || kept.At.Equal(s.last.At) && kept.IsSettled && len(s.last.lostNodes()) == 0:
		lost = s.last.lostNodes()
		s.last = kept
		if isLater && !isFirst {
			lost = slices.AppendSeq(lost, maps.Keys(s.knownNodes))
		}
		if isLater {
			s.number++
		}
	case (s.last.IsSettled || !isFirst) && s.last.At.Sub(kept.At) > SameRestoreWithin:
		lost = nil
	}
	s.last = s.last.withLost(lost)
	// Agents exist even if a restore has lost their reports.
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
		s = s.merge(kept)
	}
	text, err = s.last.text()
	s.stored.text = text
	return s, text, err
}

// Written is the State after what it knows was stored, or was found there.
func (s State) Written() State {
	s.stored.written = s.stored.text
	return s
}

// NotWritten is the State after what it knows could not be stored.
func (s State) NotWritten() State {
	s.stored.text = ""
	return s
}

// AddLost returns a stored text with the nodes that a restore has lost, for the process that makes the passes: it may
// have started since. why is the evidence of the restore, now the time by the API server's clock.
func AddLost(text, why string, now time.Time, nodes []string) (string, error) {
	kept, err := parse(text, now)
	if err != nil {
		return text, err
	}
	s := State{last: kept}
	if now.Sub(kept.At) > SameRestoreWithin { // the text may be of the backup
		s = s.begin(last{At: now, DetectedAt: now, Why: why}, now)
	}
	return s.last.withLost(nodes).text()
}
