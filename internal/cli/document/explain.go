package document

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Explanation is what explain prints: of what check prints that which is about the subject,
// the evidence, and what can be done.
type Explanation struct {
	Check
	Subject Subject `json:"subject"`
	// Found is false where nothing is known of the subject; Missing says so in sentences.
	Found   bool     `json:"found"`
	Missing []string `json:"missing"`
	// Items are the allocations and then the reservations, in the order that they have in
	// those lists, with their evidence.
	Items []ExplainedItem `json:"items"`
	Pods  []ExplainedPod  `json:"pods"`
	Nodes []ExplainedNode `json:"nodes"`
	// PoolUsage is how full the pools are that it is about.
	PoolUsage []PoolUsage `json:"poolUsage"`
	// Advice is all that can be done, what is most urgent first; of a node or pool with
	// examples of each cause only.
	Advice []Advice `json:"advice"`
	// RecentReleases are what the breaker counts.
	RecentReleases RecentReleases `json:"recentReleases"`
	// Restore is the last restore of etcd that is known; left out where none is.
	Restore *judge.RestoreRow `json:"restore,omitempty"`
}

// Subject is what was asked about.
type Subject struct {
	// Kind is Address, Pod, Node or Pool.
	Kind string `json:"kind"`
	// Name is the subject as explain takes it.
	Name string `json:"name"`
}

// Advice is one thing that an operator can do, or know.
type Advice struct {
	// Cause is the reason, refusal or kind of finding that it is about.
	Cause string `json:"cause"`
	// Why says what it is for, and with what care.
	Why string `json:"why"`
	// Command is for a shell, as it stands; left out where there is nothing to run.
	Command string `json:"command,omitempty"`
	// OnNode is the node on which it must be run; left out for anywhere with a kubeconfig.
	OnNode string `json:"onNode,omitempty"`
}

// ExplainedGate is what stands against the release of an item.
type ExplainedGate struct {
	Refusal reconciler.Refusal `json:"refusal"`
	Detail  string             `json:"detail"`
	// Pool is the pool that it is about, left out where it is about more.
	Pool string `json:"pool,omitempty"`
	// OpensAt is when it opens by itself; left out where it does not.
	OpensAt *time.Time `json:"opensAt,omitempty"`
}

// RecentReleases are the unconfirmed releases within the last hour.
type RecentReleases struct {
	Releases int `json:"releases"`
	// Of is how many allocations there were before them; 0 where there were none.
	Of int `json:"of"`
	// Shared: those of all processes are counted, and not of this one alone.
	Shared bool `json:"shared"`
}

// ExplainedItem is an allocation or reservation with its evidence.
type ExplainedItem struct {
	AllocationRow
	// Key is of an allocation, Reservation and Network are of a reservation, which has no pool.
	Key         string `json:"key,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	Network     string `json:"network,omitempty"`
	// RuleText is the row of the verdict table that decided, with its conditions.
	RuleText string `json:"ruleText"`
	// SharesVerdictOf is the pool whose allocation a reservation belongs to; left out where
	// it stands alone.
	SharesVerdictOf string `json:"sharesVerdictOf,omitempty"`
	// Evidence is left out of what shares a verdict.
	Evidence *Evidence `json:"evidence,omitempty"`
	// Gates are all that stand against the release of something Stale. Without any it is
	// released by the next pass.
	Gates  []ExplainedGate `json:"gates"`
	Advice []Advice        `json:"advice"`
	// KnownForSeconds is for how long this process has known it; 0 where it has just started.
	KnownForSeconds int64 `json:"knownForSeconds"`
}

// Evidence is what a verdict rests on.
type Evidence struct {
	// Problem and Detail say what cannot be read; left out where all can.
	Problem string `json:"problem,omitempty"`
	Detail  string `json:"detail,omitempty"`
	// Pod is the pod by the recorded name; left out where there is none.
	Pod     *EvidencePod    `json:"pod,omitempty"`
	Sandbox EvidenceSandbox `json:"sandbox"`
	// Claimant is who else carries the address, a pod or a sandbox; left out for nobody.
	Claimant     string `json:"claimant,omitempty"`
	ClaimantNode string `json:"claimantNode,omitempty"`
}

// EvidencePod is a pod as far as it is evidence.
type EvidencePod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	Node string `json:"node"`
	// Phase is Pending, live, terminating or finished.
	Phase string `json:"phase"`
	// Ownership is ItsPod, NotItsPod or Unknown: whether the sandbox is the pod's, by UID.
	Ownership string `json:"ownership"`
	// OnPod: the address is on the pod.
	OnPod bool `json:"onPod"`
	// NetworkStatus is Missing, Unreadable or Readable.
	NetworkStatus string `json:"networkStatus"`
}

// EvidenceSandbox is what is known of the sandbox.
type EvidenceSandbox struct {
	State string `json:"state"`
	UID   string `json:"uid"`
	// Nodes could run it; WithoutReport are those of them without a fresh report.
	Nodes         []string `json:"nodes"`
	WithoutReport []string `json:"withoutReport"`
}

// ExplainedPod is what is known of a pod.
type ExplainedPod struct {
	Name string `json:"name"`
	// InAPI: the API has it; the fields up to networkStatus are "" where it does not.
	InAPI         bool   `json:"inAPI"`
	UID           string `json:"uid"`
	Node          string `json:"node"`
	Phase         string `json:"phase"`
	NetworkStatus string `json:"networkStatus"`
	// Carries are the addresses of pools in its network-status.
	Carries []string `json:"carries"`
	// Waits says why it may wait while it is Pending; left out otherwise.
	Waits     string             `json:"waits,omitempty"`
	Sandboxes []ExplainedSandbox `json:"sandboxes"`
}

// ExplainedSandbox is a sandbox or attachment in a report.
type ExplainedSandbox struct {
	ID   string `json:"id"`
	UID  string `json:"uid"`
	Node string `json:"node"`
	// State is Ready, NotReady or Attached.
	State string `json:"state"`
	// Fresh: the report may be relied upon.
	Fresh     bool       `json:"fresh"`
	Created   *time.Time `json:"created,omitempty"`
	Addresses []string   `json:"addresses"`
}

// ExplainedNode is what is known of a node.
type ExplainedNode struct {
	Name string `json:"name"`
	// InAPI: there is a Node object, and it may be read.
	InAPI bool `json:"inAPI"`
	Ready bool `json:"ready"`
	// NotReadySince is left out while it is Ready, or where that is not known.
	NotReadySince *time.Time `json:"notReadySince,omitempty"`
	OutOfService  bool       `json:"outOfService"`
	// Agent is Fresh, NoFreshReport or Dead; left out where no agent is expected.
	Agent string `json:"agent,omitempty"`
	// Awaited: it has not reported since etcd was restored.
	Awaited bool `json:"awaited"`
	// Report is left out where there is none.
	Report *NodeReport `json:"report,omitempty"`
}

// NodeReport is the state of a node's SandboxReport.
type NodeReport struct {
	Fresh bool `json:"fresh"`
	// LeaseRenewed is by the API server's clock; left out where it never was.
	LeaseRenewed *time.Time `json:"leaseRenewed,omitempty"`
	// ObservedAt is by the node's clock.
	ObservedAt  *time.Time `json:"observedAt,omitempty"`
	Runtime     string     `json:"runtime"`
	BootIDKnown bool       `json:"bootIDKnown"`
	Sandboxes   int        `json:"sandboxes"`
	Attachments int        `json:"attachments"`
}
