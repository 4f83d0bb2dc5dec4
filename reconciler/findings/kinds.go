package findings

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Kind is the kind of a finding.
type Kind string

const (
	Phantom              Kind = "Phantom"
	Conflict             Kind = "Conflict"
	Unrecorded           Kind = "Unrecorded"
	Misrecorded          Kind = "Misrecorded"
	MissingReservation   Kind = "MissingReservation"
	NoFreshReportFinding Kind = "NoFreshReport"
	NodeNotReady         Kind = "NodeNotReady"
	UnreadSandbox        Kind = "UnreadSandbox"
	MalformedFinding     Kind = "Malformed"
	StatusMismatch       Kind = "StatusMismatch"
	NotAttached          Kind = "NotAttached"
	PendingLeak          Kind = "PendingLeak"
	ForeignPool          Kind = "ForeignPool"
	ClaimDiffers         Kind = "ClaimDiffers"
	GuestAddressFinding  Kind = "GuestAddress"
	OutsideDefinition    Kind = "OutsideDefinition"
	SliceWithoutNode     Kind = "SliceWithoutNode"

	UnsupportedRangeFinding Kind = "UnsupportedRange"
)

// Kinds are all kinds by severity: outages first. The last is information only.
func Kinds() []Kind {
	return []Kind{Conflict, Unrecorded, Misrecorded, Phantom, GuestAddressFinding, ClaimDiffers, MissingReservation,
		NotAttached, PendingLeak, UnreadSandbox, ForeignPool, UnsupportedRangeFinding, MalformedFinding,
		NoFreshReportFinding, NodeNotReady, OutsideDefinition, SliceWithoutNode, StatusMismatch}
}

// KindsOf are the kinds of findings that rest on a source. While it is unknown, there may be more of them.
func KindsOf(source facts.SourceName) []Kind {
	switch source {
	case facts.SourceNodes:
		return []Kind{Misrecorded, PendingLeak, ForeignPool, NoFreshReportFinding, NodeNotReady, GuestAddressFinding,
			SliceWithoutNode}
	case facts.SourceDefinitions:
		return []Kind{Conflict, Unrecorded, Misrecorded, MissingReservation, NotAttached, MalformedFinding,
			OutsideDefinition, SliceWithoutNode, StatusMismatch}
	case facts.SourceReports, facts.SourceLeases:
		return []Kind{Conflict, Unrecorded, Misrecorded, Phantom, NotAttached, PendingLeak, UnreadSandbox, ForeignPool,
			OutsideDefinition, StatusMismatch, GuestAddressFinding, SliceWithoutNode}
	case facts.SourceReservations:
		return []Kind{Unrecorded, MissingReservation}
	case facts.SourceClaims:
		return []Kind{ClaimDiffers}
	case facts.SourceGuests:
		return []Kind{GuestAddressFinding}
	}
	return nil
}

// UnknownKinds are the kinds of findings, by severity, that rest on an unknown source. That none of such a kind is
// found does not mean that there is none.
func UnknownKinds(o *facts.Observation) (kinds []Kind) {
	unknown := o.UnknownSources()
	for _, kind := range Kinds() {
		if slices.ContainsFunc(unknown, func(s facts.SourceState) bool { return slices.Contains(KindsOf(s.Name), kind) }) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
