package judge

import (
	"fmt"
	"slices"
)

// Verdict is what is to become of an allocation or reservation. Its text is the
// name of the constant.
type Verdict uint8

const (
	_ Verdict = iota
	// InUse: there is proof of use, or it is too early to ask.
	InUse
	// Held: not proven stale; the reason says what stands against it.
	Held
	// Stale: to be released, at once if proven, else after --confirm-after.
	Stale
)

func verdictNames() []string { return []string{"", "InUse", "Held", "Stale"} }

func (v Verdict) String() string { return verdictNames()[v] }

// MarshalText gives the word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the word.
func (v *Verdict) UnmarshalText(text []byte) error {
	i := slices.Index(verdictNames(), string(text))
	if i < 0 {
		return fmt.Errorf("%q is no verdict", text)
	}
	*v = Verdict(i)
	return nil
}

// Reason is why. Its text is the same word in the CLI, metrics, events and logs.
type Reason uint8

const (
	_ Reason = iota
	Malformed
	UnknownField
	PhantomPod
	TerminalButRunning
	Terminating
	StuckTerminating
	SandboxReady
	PodReplaced
	PodPending
	AddressOnPod
	AttachedReason
	SandboxNotReady
	NodeDeadReason
	NodeMissingReason
	PodFinished
	NodeUnreachable
	NoFreshReportReason
	SandboxReplaced
	NetworkStatusMissing
	AddressNotOnPod
	SandboxStopped
	PodGone
	ClaimedByOther
	Recent
	BeingDeleted
	NoRule
)

func reasonNames() []string {
	return []string{"", "Malformed", "UnknownField", "PhantomPod", "TerminalButRunning", "Terminating", "StuckTerminating",
		"SandboxReady", "PodReplaced", "PodPending", "AddressOnPod", "Attached", "SandboxNotReady", "NodeDead", "NodeMissing",
		"PodFinished", "NodeUnreachable", "NoFreshReport", "SandboxReplaced", "NetworkStatusMissing", "AddressNotOnPod",
		"SandboxStopped", "PodGone", "ClaimedByOther", "Recent", "BeingDeleted", "NoRule"}
}

// ReasonNames are all reasons.
func ReasonNames() []string { return reasonNames()[1:] }

func (r Reason) String() string { return reasonNames()[r] }

// MarshalText gives the word.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the word.
func (r *Reason) UnmarshalText(text []byte) error {
	i := slices.Index(reasonNames(), string(text))
	if i < 0 {
		return fmt.Errorf("%q is no reason", text)
	}
	*r = Reason(i)
	return nil
}
