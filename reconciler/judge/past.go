package judge

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Past is what earlier observations of this process taught. Judging reads it and never writes it.
type Past interface {
	// SawReports reports whether a SandboxReport was ever there: without one now there are agents all the same.
	SawReports() bool
	// DoubtsTaint reports whether the out-of-service taint of a node may be one that a restore
	// of etcd has brought back: it then proves nothing.
	DoubtsTaint(n *podstate.Node) bool
	// DoubtsBoot reports whether the boot and the machine that a Node tells of may be those that
	// a restore of etcd has brought back: another one in a report is then no earlier one.
	DoubtsBoot(n *podstate.Node) bool
	// Of is what is known of an allocation or a reservation; the zero Seen where nothing is.
	Of(id ID) Seen
}

// Seen is what earlier observations taught of one allocation or reservation.
type Seen struct {
	// First is when it was seen first; zero where it was not.
	First time.Time
	// StaleSince is since when it was judged Stale at every observation; zero if it was not at the last one.
	StaleSince time.Time
	// UncontradictedSince is the same for what is Stale or NotKnown; zero, too, for a
	// reservation of which there is an entry.
	UncontradictedSince time.Time
	// RanOn are the nodes of pods that were seen by the owner's name.
	RanOn []string
	// CarriedOn are the nodes of pods of other names that were seen carrying the address.
	CarriedOn []string
}

// noPast is that of a process that has observed nothing before.
type noPast struct{}

func (noPast) SawReports() bool                { return false }
func (noPast) DoubtsTaint(*podstate.Node) bool { return false }
func (noPast) DoubtsBoot(*podstate.Node) bool  { return false }
func (noPast) Of(ID) Seen                      { return Seen{} }
