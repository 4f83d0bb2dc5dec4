package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// An agent that begins between a restore and the pass that shows it does not know of it, and has
// nothing else to write while nothing happens on its node.
func TestAnAgentThatBeganAfterARestoreIsHeardByItsRenewals(t *testing.T) {
	lease := func(version string, edits ...ReportEdit) Part {
		return written("worker-1", 0, append(edits, func(r *podstate.Report) { r.LeaseVersion = version })...)
	}
	watched := func(o *Observed) { o.Watched = true }
	leak := func(after time.Duration) Part { // on a node that is heard
		return All(UsualPool, Node("worker-1"), Node("worker-2"), written("worker-2", after, Gone("box-1", UsualUID)))
	}
	shown := func(o *Observed) { o.Restored = "another replica says so" }
	longAgo := func(r *podstate.Report) { r.Renewed = Now.Add(-time.Minute) }
	otherHash := func(r *podstate.Report) { r.Renewed = time.Time{} }
	for says, c := range map[string]struct {
		shows, then, now Part
		released         bool
	}{
		"it has renewed its Lease":                              {lease("10"), lease("10"), lease("11"), true},
		"it has not":                                            {lease("10"), lease("10"), lease("10"), false},
		"the pass that showed it read it before":                {lease("90"), lease("10"), lease("11"), true},
		"the first that was read is a watch's of long ago":      {All(lease("5"), watched), All(lease("5"), watched), lease("10"), false},
		"somebody else has written its Lease":                   {lease("10", longAgo), lease("10", longAgo), lease("11", longAgo), false},
		"a later backup was restored, which nothing else shows": {lease("10", longAgo), lease("10", longAgo), lease("12", longAgo), false},
		"its Lease confirms another report":                     {lease("10"), lease("10"), lease("11", otherHash), false},
		"what it renews with is not known":                      {lease(""), lease(""), lease("11"), false},
		"it has renewed its Lease between later ones":           {lease(""), lease("10"), lease("11"), true},
		"a watch tells, which keeps no versions of Leases":      {lease("10"), lease("10"), All(lease(""), watched), false},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			s := &memoryStore{}
			p.Restores = s
			p.wantRefused("the pass that shows it", EtcdRestored, p.pass(minute, leak(minute), c.shows, shown))
			p.wantRefused("then", EtcdRestored, p.pass(2*minute, leak(2*minute), c.then))
			next := newProcess(t, atOnce)
			next.Restores = &memoryStore{text: s.text}
			for of, p := range map[string]*process{"this process": p, "the next one": next} {
				plan := p.pass(3*minute, leak(3*minute), c.now)
				if c.released {
					p.wantReleased(of, plan)
					continue
				}
				p.wantRefused(of, EtcdRestored, plan)
			}
		})
	}
}

// Who tells of a restore may have begun after it, and does not know of a node that the backup
// does not have.
func TestWhoLearnsOfARestoreRemembersWhatItHasLost(t *testing.T) {
	both := All(leakOn(0), Node("worker-2"), written("worker-2", 0))
	noticed := Now.Add(minute).Format(time.RFC3339)
	for says, c := range map[string]struct {
		text  string
		shown Part
	}{
		"of a restore":                     {`{"restored":"` + noticed + `","why":"an agent"}`, Nothing},
		"that one is settled":              {`{"restored":"` + noticed + `","why":"an agent","settled":true}`, Nothing},
		"that the one it saw, too, is":     {`{"restored":"` + noticed + `","why":"an agent","settled":true}`, revision(90)},
		"of another than the one it knows": {`{"restored":"` + Now.Add(2*minute).Format(time.RFC3339) + `","why":"an agent"}`, revision(90)},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			s := &memoryStore{}
			p.Restores = s
			p.wantReleased("before it", p.pass(0, both, revision(100)))
			if p.pass(minute, both, c.shown); s.text == "" {
				t.Fatal("nothing is kept")
			}
			s.text = c.text
			heard := leakOn(3 * minute)
			p.wantRefused("worker-2 is not there", EtcdRestored, p.pass(3*minute, heard))
			p.wantRefused("nor then", EtcdRestored, p.pass(4*minute, heard))
			back := All(heard, Node("worker-2"), written("worker-2", 5*minute))
			p.pass(5*minute, back)
			p.wantReleased("it is back", p.pass(6*minute, back))
		})
	}
}
