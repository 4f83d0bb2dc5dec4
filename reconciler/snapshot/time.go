package snapshot

import (
	"path"
	"strings"
	"time"
)

// timestampFile is what must-gather and inspect write beside what they gather: the times at which they began and
// ended, a line each (oc, pkg/cli/admin/mustgather and pkg/cli/admin/inspect).
const timestampFile = "timestamp"

// takeTimestamp takes in the first time of a timestamp file, as Go prints it: "2026-11-20 12:00:00.123 +0100 CET".
// Without a zone it is UTC. Of several files the earliest counts.
func (f *Snapshot) takeTimestamp(name string, head []byte) {
	fields := strings.Fields(string(head))
	if path.Base(name) != timestampFile || len(fields) < 2 {
		return
	}
	day := strings.Join(fields[:2], " ")
	at, err := time.Parse("2006-01-02 15:04:05 -0700", day+" "+strings.Join(fields[2:min(3, len(fields))], ""))
	if err != nil {
		at, err = time.Parse("2006-01-02 15:04:05", day)
	}
	if err == nil && (f.gathered.IsZero() || at.Before(f.gathered)) {
		f.gathered = at
	}
}

// time is when the snapshot was taken, and what says so: the newest Lease renewal or report, or where that is of
// before the snapshot was begun its timestamp file; where it has none of these the newest time of a pod, Node or
// reservation.
func (f *Snapshot) time() (at time.Time, by string) {
	newer := func(t time.Time, what string) {
		if t.After(at) {
			at, by = t, what
		}
	}
	newer(f.gathered, "its timestamp file")
	for _, l := range f.nodeLeases() {
		newer(l.Spec.RenewTime.Time, "the newest renewal of an agent's Lease")
	}
	for _, r := range f.reports {
		newer(r.ObservedAt.Time, "the newest SandboxReport")
	}
	if !at.IsZero() {
		return at, by
	}
	const newest = "the newest time in it"
	for _, p := range f.pods {
		newer(p.Created, newest)
		newer(p.LastFinished, newest)
	}
	for _, n := range f.nodes {
		newer(n.Created, newest)
		newer(n.NotReadySince, newest)
	}
	for _, r := range f.reservations {
		newer(r.Created, newest)
	}
	if at.IsZero() {
		return time.Now(), "the present time, since it has none"
	}
	return at, by
}
