package judge

import "time"

// Past is what this process learned from earlier observations of one allocation or reservation, as values: judging and
// later readers of a judgement read it beside later passes.
type Past interface {
	// Of is the history of an allocation or reservation; zero if it is unknown.
	Of(id ID) ItemHistory
}

// ItemHistory is what earlier observations found about one allocation or reservation.
type ItemHistory struct {
	First      time.Time // when it was first observed; zero for never
	StaleSince time.Time // since when every observation judged it Stale; zero if the last one did not
	// UncontradictedSince is since when every observation judged it Stale or IsUndetermined. It is zero for a reservation
	// with an allocation.
	UncontradictedSince time.Time
	RanOn               []string // nodes of pods by the owner's name
	CarriedOn           []string // nodes of other pods that carried the address
	// RanOnlyThere: the name of the owner is given once, and that pod was observed bound to a node. It is in RanOn.
	RanOnlyThere bool
}

// noPast is the Past of a process without earlier observations.
type noPast struct{}

func (noPast) Of(ID) ItemHistory { return ItemHistory{} }

// Overrides are items that a person asserts to be stale, each with the reason that it was Held for when the person read
// the evidence. It counts only while that is the reason, and only where the table says so.
type Overrides map[ID]Reason
