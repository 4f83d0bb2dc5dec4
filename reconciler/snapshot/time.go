package snapshot

import (
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// timeFields are the fields with times that the API server, a kubelet, a node's agent or the writer of an Event set to
// its present. None of them is in the future, if the clocks are right.
var timeFields = lean.Fields{
	lean.F(0, "metadata", lean.F(0, "creationTimestamp"), lean.F(0, "managedFields", lean.F(0, "time"))),
	lean.F(0, "spec", lean.F(0, "renewTime"), lean.F(0, "acquireTime")), // of a Lease
	lean.F(0, "status", lean.F(0, "startTime"),
		lean.F(0, "conditions", lean.F(0, "lastHeartbeatTime"), lean.F(0, "lastTransitionTime")),
		lean.F(0, "containerStatuses", lean.F(0, "state",
			lean.F(0, "running", lean.F(0, "startedAt")), lean.F(0, "terminated", lean.F(0, "finishedAt"))))),
	lean.F(0, "observedAt"), // of a SandboxReport
	lean.F(0, "eventTime"), lean.F(0, "lastTimestamp"), lean.F(0, "series", lean.F(0, "lastObservedTime")),
}

// noteTimes notes the newest time in an object that is judged, or in an Event.
func (s *Snapshot) noteTimes(o *object) {
	if o.judgedKind() == "" && o.kind != "Event" {
		return
	}
	eachText(lean.New(timeFields.AppendJSON(nil, lean.New(o.text))), func(text string) {
		if at, err := time.Parse(time.RFC3339, text); err == nil && at.After(s.newest) {
			s.newest, s.newestIn = at, o.kind+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
		}
	})
}

// eachText calls text for each string in a JSON value.
func eachText(r *lean.Reader, text func(string)) {
	switch r.Kind() {
	case '{':
		r.Object(func([]byte) { eachText(r, text) })
	case '[':
		r.Array(func() { eachText(r, text) })
	case '"':
		text(r.Text())
	}
}

// time returns the newest time in the snapshot, and what has it. The snapshot was taken then, or a little later. Only a
// timestamp file has the time itself.
func (s *Snapshot) time() (at time.Time, by string) {
	switch {
	case s.newest.After(s.gathered):
		return s.newest, s.newestIn
	case !s.gathered.IsZero():
		return s.gathered, "its timestamp file"
	}
	return time.Now(), "this machine's clock, since no object has a time"
}
