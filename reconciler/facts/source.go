package facts

import (
	"cmp"
	"errors"
	"slices"
)

// Source is one kind of evidence. It is complete: all of its objects were read, by one quorum list. Or it is unknown,
// with the reason. The zero value was never read, and is unknown.
//
// The content can only be taken by Get or Or. So a rule that reads it also says what follows if it is unknown. An
// unknown source never proves that something is missing.
type Source[T any] struct {
	content  T
	revision string
	known    bool
	err      error // why it is unknown; nil if it was never read
}

// Complete returns a source with all objects of a kind. revision is the resourceVersion of the list, "" for files.
func Complete[T any](content T, revision string) Source[T] {
	return Source[T]{content: content, revision: revision, known: true}
}

// Unknown returns a source that could not be read, with the reason: forbidden, not served, served in another version,
// answered with an error, or incomplete.
func Unknown[T any](why error) Source[T] { return Source[T]{err: why} }

// Get returns the content; known is false, and the content is empty, if the source is unknown.
func (s Source[T]) Get() (content T, known bool) { return s.content, s.known }

// Or returns the content, or the given value if the source is unknown.
func (s Source[T]) Or(unknown T) T {
	if !s.known {
		return unknown
	}
	return s.content
}

// With returns the source with this content, if it is known.
func (s Source[T]) With(content T) Source[T] {
	if s.known {
		s.content = content
	}
	return s
}

// IsKnown reports whether the source is complete.
func (s Source[T]) IsKnown() bool { return s.known }

// Revision is the resourceVersion of the list that was read, "" for files and for an unknown source.
func (s Source[T]) Revision() string { return s.revision }

// Why is the reason for which the source is unknown, "" for a complete one.
func (s Source[T]) Why() string {
	if err := s.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// Err is the reason as an error, nil for a complete source.
func (s Source[T]) Err() error {
	if s.known {
		return nil
	}
	return cmp.Or(s.err, errNotRead)
}

var errNotRead = errors.New("not read")

// SourceName names a kind of evidence in notes and metrics.
type SourceName string

const (
	SourceNodes        SourceName = "nodes"
	SourceDefinitions  SourceName = "network-attachment-definitions"
	SourceReports      SourceName = "sandboxreports"
	SourceLeases       SourceName = "leases"
	SourceReservations SourceName = "overlappingrangeipreservations"
	SourceClaims       SourceName = "ipamclaims"
	SourceGuests       SourceName = "virtualmachineinstances"
)

// SourceState is whether a source is known.
type SourceState struct {
	Name SourceName
	// Unknown is why the source is unknown; "" if it is complete, or if nothing that was observed depends on it.
	Unknown string
	// Err is Unknown as an error, nil if that is "".
	Err error
	// Costs is what follows while the source is unknown, as the end of a sentence.
	Costs string
}

// Sources are the states of all sources, always in the same order.
func (o *Observation) Sources() []SourceState {
	states := []SourceState{
		{SourceNodes, "", o.Nodes.Err(),
			"no node counts as dead, missing or reporting, and what a node may still run is held"},
		{SourceDefinitions, "", o.NADs.Err(),
			"conflicts, missing reservations and pools, and the size of ranges are unknown"},
		{SourceReports, "", o.Reports.Err(), "what only they can prove is held, and phantom pods are unknown"},
		{SourceLeases, "", o.AgentLeases.Err(), "no report counts as fresh"},
		{SourceReservations, "", o.Reservations.Err(),
			"missing reservations and reservations without an allocation are unknown"},
		{SourceClaims, "", o.IPAMClaims.Err(), "addresses of stopped machines are held"},
		{SourceGuests, "", o.Guests.Err(), "addresses that a guest may have kept are held"},
	}
	for i := range states {
		switch s := &states[i]; {
		case s.Name == SourceClaims && !o.NamesIPAMClaim(), s.Name == SourceGuests && !o.NeedsGuests(),
			s.Name == SourceLeases && (!o.Reports.IsKnown() || len(o.Reports.Or(nil)) == 0):
			s.Err = nil // nothing depends on it
		}
		if err := states[i].Err; err != nil {
			states[i].Unknown = err.Error()
		}
	}
	return states
}

// UnknownSources are the sources that are unknown and that something depends on.
func (o *Observation) UnknownSources() []SourceState {
	return slices.DeleteFunc(o.Sources(), func(s SourceState) bool { return s.Unknown == "" })
}
