package sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// everyAgentWrites is the age at which a backup lacks a write of every agent that reaches the API server, by which a
// restore is detected: they renew every 20 s.
const everyAgentWrites = 21 * time.Second

func (s *Simulation) saveBackup() {
	s.backup = s.api.Store.Backup()
	s.say("etcd is backed up at %d", s.backup.Revision)
}

// restore restores the backup. If blind, kubelets receive nothing for a while: their watches begin at revisions in the
// future. A node that is unreachable meanwhile has the backup's report, which is fresh if the backup is young enough.
// Other objects may be written at once, so that revisions are soon as large as before.
func (s *Simulation) restore(blind bool, cutOff *node) {
	s.restoreEtcd(false, blind, cutOff)
}

// restoreEtcd is restore. If quick, etcd is back before the second check reads again what it has read, and others write
// at once.
func (s *Simulation) restoreEtcd(quick, blind bool, cutOff *node) {
	if s.backup == nil || s.away || s.visits > 0 {
		return
	}
	s.away, s.restoring = true, true
	if !s.restoredAt.After(s.backup.At) {
		s.wentAt = nil
	}
	s.wentAt, s.detectedBefore = append(s.wentAt, time.Now()), s.lastDetected()
	s.api.CutWatches("")
	for _, w := range s.waiting { // the API servers are stopped: pending requests are dropped
		w.reply(fakeapi.Answer{Err: errCut})
	}
	s.waiting = nil
	s.say("etcd goes")
	if cutOff != nil && cutOff.linked {
		s.link(cutOff, false)
		s.unlessQuiet(s.between(20*time.Second, 2*time.Minute), func() { s.link(cutOff, true) })
	}
	for _, r := range s.replicas {
		if r.synced != nil && r.knewAt.IsZero() && r.synced() {
			r.knewAt = time.Now()
		}
	}
	ownLease := fakeapi.At(fakeapi.Leases, ownNamespace, kube.OwnLease)
	led := s.api.Get(ownLease)
	longest, others := 15*time.Second, 0
	if quick {
		longest, others = 2*time.Second, 1
	}
	s.after(s.between(time.Second, longest), func() {
		known := maps.Clone(s.api.Objects)
		s.api.Restore(s.backup)
		for _, n := range s.nodes {
			if k := fakeapi.At(fakeapi.Nodes, "", n.name); known[k] != nil && s.api.Get(k) == nil {
				n.lostAt = s.wentAt[len(s.wentAt)-1]
			}
		}
		s.wakeSlicer()
		s.api.Stale = nil
		others = max(others, s.rng.IntN(2)) * 60
		for range others {
			s.writeOther()
		}
		again := s.api.Get(ownLease)
		isOlder := led != nil && again != nil && led.ResourceVersion != again.ResourceVersion
		s.isHidden = others > 0 && (!s.plan.Repair || !isOlder)
		s.restoring = false
		s.apiStarts()
		s.restoredAt = time.Now()
		s.restores = append(s.restores, s.restoredAt)
		s.count("restored")
		s.say("etcd is back as it was at %d", s.backup.Revision)
		s.nudge(70)
		for _, n := range s.nodes {
			if blind {
				n.blind = time.Now().Add(s.between(0, 3*time.Minute))
			}
			s.wake(n)
		}
	})
}

// writeOther writes an object that the product does not read.
func (s *Simulation) writeOther() {
	s.api.Put(fakeapi.At(fakeapi.Events, podNamespace, "others"),
		map[string]any{"apiVersion": "v1", "kind": "Event"}, s.api.Now(),
		"others")
}

// lastDetected is the newest restore that a process knows of, by its own date.
func (s *Simulation) lastDetected() (last time.Time) {
	for _, r := range s.replicas {
		if at := r.restored(); at.After(last) {
			last = at
		}
	}
	return last
}

// detectedBy is the newest restore that the process of a client knows of, by its own date.
func (s *Simulation) detectedBy(c *client) (at time.Time) {
	for _, r := range s.replicas {
		if r.as == c {
			at = r.restored()
		}
	}
	return at
}

func (s *Simulation) restoredSince(t time.Time) bool { return s.restoredAt.After(t) }

// isUndetected reports whether reports of a restored backup are still fresh that lack a running sandbox, or its node is
// unreachable or without an agent, while the process that writes cannot know of the restore. serve cannot if it was
// started after the first restore that lost the sandbox. A run cannot if no version that it has read or written before
// its request ran backwards, and no other process had recorded the restore when its pass began, or was allowed to;
// another restore of that backup loses such a record. What it detects while its request hangs is too late. Processes
// date restores by the API servers' clocks, one of which may be ahead, so an earlier restore may look like this one.
func (s *Simulation) isUndetected(b *sandbox) bool {
	if !s.restoredSince(b.since) {
		return false
	}
	isLate := s.asked.Sub(s.backup.At) > reportsLookFresh+evidenceLasts
	if isLate && (b.node.linked && !b.node.silent() || s.isNoted()) {
		return false
	}
	lostAt := s.wentAt[len(s.wentAt)-1]
	if i := slices.IndexFunc(s.wentAt, b.since.Before); i >= 0 {
		lostAt = s.wentAt[i]
	}
	if at := s.writer.versions.ranBackwards; at.After(lostAt) && !at.After(s.asked) {
		return false
	}
	return !slices.ContainsFunc(s.replicas, func(r *replica) bool {
		if s.plan.Serve {
			return r.as == s.writer && !r.started.After(lostAt)
		}
		noticed := r.restored().Add(-max(0, s.plan.Skew))
		since := s.backup.At
		if r.started.After(lostAt) {
			since = lostAt
		}
		knew := s.detected.Add(-max(0, s.plan.Skew))
		return r.as == s.writer && knew.After(since) || s.restoredAt.Before(noticed) &&
			!r.as.versions.mayNotRecord(s.restoredAt) && s.asked.Sub(noticed) > aPassTakes &&
			noticed.Before(s.writer.versions.began)
	})
}

// waitsAgain reports whether the process that writes has known of a restore for less time than a confirmation takes. In
// that time kubelets end what the API lacks, so the process releases nothing. A person does not wait.
func (s *Simulation) waitsAgain(b *sandbox) bool {
	knew := s.detected
	if at := s.writer.versions.ranBackwards; at.After(knew) && !at.After(s.asked) {
		knew = at
	}
	return !s.writer.isByHand && s.restoredSince(b.since) && s.asked.Sub(knew) < s.plan.Confirm-clocksDiffer
}

// clocksDiffer is how much the clocks of two API servers may differ. They date a restore.
const clocksDiffer = 10 * time.Second

// nonce is what an agent draws when it detects a restore: the time, and its node.
func nonce(n *node) string { return strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + n.name }

// isNoted reports whether an agent has noted a restore since etcd stopped the last time, and so long ago that whoever
// writes now has read it.
func (s *Simulation) isNoted() bool {
	for _, k := range fakeapi.ListOf(s.api.Objects, fakeapi.Leases, leaseNamespace, "") {
		_, text, _ := strings.Cut(string(s.api.Objects[k].JSON), `"`+v1alpha1.RestoreAnnotation+`":"`)
		text, _, isNonce := strings.Cut(text, "-")
		nanos, err := strconv.ParseInt(text, 36, 64)
		at := time.Unix(0, nanos)
		if isNonce && err == nil && at.After(s.wentAt[len(s.wentAt)-1]) && s.asked.Sub(at) > evidenceLasts {
			return true
		}
	}
	return false
}

// aPassTakes is how long a pass may take that began before another process detected a restore.
const aPassTakes = 15 * time.Second

// reportsLookFresh is how long restored reports count as fresh.
const reportsLookFresh = time.Minute

// everyThird is a node for one value in three.
func (s *Simulation) everyThird(a int) *node {
	if a%3 != 0 {
		return nil
	}
	return s.nodeAt(a)
}

// when acts some time after a condition holds, if that is within half a minute and before all is healed.
func (s *Simulation) when(holds func() bool, later time.Duration, do func()) {
	end := time.Now().Add(30 * time.Second)
	var poll func()
	poll = func() {
		switch {
		case holds():
			s.unlessQuiet(later, do)
		case time.Now().Before(end):
			s.unlessQuiet(250*time.Millisecond, poll)
		}
	}
	poll()
}

// unlessQuiet acts later, unless all is healed by then.
func (s *Simulation) unlessQuiet(later time.Duration, do func()) {
	s.after(later, func() {
		if !s.quiet {
			do()
		}
	})
}
