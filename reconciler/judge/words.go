package judge

// Verdict is the outcome of judging. The word is the same in the CLI, JSON, metrics and logs.
type Verdict string

const (
	InUse Verdict = "InUse" // there is proof of use, or it is too early to judge
	Held  Verdict = "Held"  // not proven stale; the reason says why
	Stale Verdict = "Stale" // to be released, at once if proven, else after --confirm-after
)

func (v Verdict) String() string { return string(v) }

// Reason is why a verdict was given. The word is the same in the CLI, JSON, metrics, events and logs.
type Reason string

const (
	Malformed            Reason = "Malformed"
	UnknownField         Reason = "UnknownField"
	UnsupportedRange     Reason = "UnsupportedRange"
	PhantomPod           Reason = "PhantomPod"
	TerminalButRunning   Reason = "TerminalButRunning"
	Terminating          Reason = "Terminating"
	StuckTerminating     Reason = "StuckTerminating"
	SandboxReady         Reason = "SandboxReady"
	PodReplaced          Reason = "PodReplaced"
	PodPending           Reason = "PodPending"
	AddressOnPod         Reason = "AddressOnPod"
	AttachedReason       Reason = "Attached"
	SandboxNotReady      Reason = "SandboxNotReady"
	NodeDeadReason       Reason = "NodeDead"
	NodeMissingReason    Reason = "NodeMissing"
	PodFinished          Reason = "PodFinished"
	NodeUnreachable      Reason = "NodeUnreachable"
	NoFreshReportReason  Reason = "NoFreshReport"
	SandboxReplaced      Reason = "SandboxReplaced"
	NetworkStatusMissing Reason = "NetworkStatusMissing"
	AddressNotOnPod      Reason = "AddressNotOnPod"
	InterfaceUnplugged   Reason = "InterfaceUnplugged"
	SandboxStopped       Reason = "SandboxStopped"
	PodGone              Reason = "PodGone"
	ClaimedByOther       Reason = "ClaimedByOther"
	Recent               Reason = "Recent"
	BeingDeleted         Reason = "BeingDeleted"
	Claimed              Reason = "Claimed"
	ClaimUnknown         Reason = "ClaimUnknown"
	ClaimGone            Reason = "ClaimGone"
	GuestAddress         Reason = "GuestAddress"
	GuestUnknown         Reason = "GuestUnknown"
	NodesUnknown         Reason = "NodesUnknown"
	NoRule               Reason = "NoRule"
)

func (r Reason) String() string { return string(r) }

// ReasonNames are all reasons.
func ReasonNames() []string {
	return []string{"Malformed", "UnknownField", "UnsupportedRange", "PhantomPod", "TerminalButRunning", "Terminating",
		"StuckTerminating", "SandboxReady", "PodReplaced", "PodPending", "AddressOnPod", "Attached", "SandboxNotReady",
		"NodeDead", "NodeMissing", "PodFinished", "NodeUnreachable", "NoFreshReport", "SandboxReplaced",
		"NetworkStatusMissing", "AddressNotOnPod", "InterfaceUnplugged", "SandboxStopped", "PodGone", "ClaimedByOther",
		"Recent", "BeingDeleted", "Claimed", "ClaimUnknown", "ClaimGone", "GuestAddress", "GuestUnknown", "NodesUnknown",
		"NoRule"}
}
