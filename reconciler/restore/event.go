package restore

import "time"

// Event is what a Guard observes or does: one of the types below.
type Event interface{ isEvent() }

// Unreachable is the start of an outage of the API server.
type Unreachable struct{ Err error }

// NotRaised is a restore after which no fence is raised, because no pool is known yet. Only the first one is an Event.
type NotRaised struct{ Why string }

// Raised is a fence that this replica begins to raise.
type Raised struct {
	Why     string        // evidence of the restore
	Timeout time.Duration // how long the fence stands at most
}

// Complete is a fence that holds all Leases for the first time.
type Complete struct {
	After       time.Duration // since it was raised
	SinceOutage time.Duration // since the end of the last outage of the API server; zero if that was no recent one
}

// Lowered is a fence that has ended.
type Lowered struct {
	Outcome   Outcome
	Age       time.Duration // how long ADDs and DELs have waited
	Remaining string        // the work that remains if it has TimedOut
	IsLeader  bool          // this replica leads, and so knows the work that remains
}

// Outcome is how a fence ended.
type Outcome string

const (
	Settled  Outcome = "Settled"  // no work remains
	TimedOut Outcome = "TimedOut" // work remains, or it is unknown
	ByPeer   Outcome = "ByPeer"   // another replica has lowered the fence, and reports its own outcome
)

func (Unreachable) isEvent() {}
func (NotRaised) isEvent()   {}
func (Raised) isEvent()      {}
func (Complete) isEvent()    {}
func (Lowered) isEvent()     {}
