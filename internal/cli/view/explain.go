package view

import (
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// ExplainReport is the document of explain: the parts of check that are about the subject, the evidence and the
// advice.
type ExplainReport struct {
	CheckReport
	Subject Subject `json:"subject"`
	// Found is false where nothing is known of the subject. Missing has sentences about what does not exist.
	Found   bool     `json:"found"`
	Missing []string `json:"missing"`
	// Items are the allocations and then the reservations, in the order of those lists, with their evidence.
	Items []ExplainedItem `json:"items"`
	Pods  []ExplainedPod  `json:"pods"`
	Nodes []ExplainedNode `json:"nodes"`
	// Carriers are the pods and Nodes that have the subject, an address, whatever assigned it, at most 20. A pod is
	// not listed where a fresh report shows that it does not have the address that its network-status names.
	Carriers []Carrier `json:"carriers"`
	// Conflicts are the addresses of the subject that several pods or sandboxes carry. advice has the ordered steps that
	// end them. They are listed for an address or a pod only.
	Conflicts []Conflict `json:"conflicts"`
	// PoolUsage has the usage of the pools of the subject.
	PoolUsage []PoolUsage `json:"poolUsage"`
	// Advice has the steps that can be taken. The most urgent come first. A node or pool has one example for each cause.
	Advice []Advice `json:"advice"`
	// RecentReleases are the releases that the breaker counts.
	RecentReleases RecentReleases `json:"recentReleases"`
	// Restore is the last etcd restore that was detected; absent where none was.
	Restore *RestoreRow `json:"restore,omitempty"`
}

// Full returns the document with its lists of allocations and reservations.
func (d *ExplainReport) Full() *ExplainReport {
	full := *d
	full.CheckReport = *d.CheckReport.Full()
	return &full
}

// ExplainReports is the document of explain for several subjects, in the order in which they were asked about.
type ExplainReports struct {
	Header
	Explanations []ExplainReport `json:"explanations"`
}

// NewExplainReports returns the document of several explanations, at least one.
func NewExplainReports(all []*ExplainReport) *ExplainReports {
	h := headerOf(KindExplanations, all[0].ObservedAt)
	return &ExplainReports{h, lists.Map(all, func(d *ExplainReport) ExplainReport {
		one := *d
		one.Header = h
		return one
	})}
}

// SetSource implements Document.
func (d *ExplainReports) SetSource(toolVersion string, judged Cluster) {
	d.Header.SetSource(toolVersion, judged)
	for i := range d.Explanations {
		d.Explanations[i].SetSource(toolVersion, judged)
	}
}

// Full returns the document with the lists of allocations and reservations.
func (d *ExplainReports) Full() *ExplainReports {
	full := *d
	full.Explanations = lists.Map(d.Explanations, func(one ExplainReport) ExplainReport { return *one.Full() })
	return &full
}

// WordReport is the document of explain for printed words.
type WordReport struct {
	Header
	// ObservedAt is absent, since words are of no cluster.
	ObservedAt *time.Time `json:"observedAt,omitempty"`
	// Words are in the order in which they were asked about. A word may be of several kinds.
	Words []Word `json:"words"`
}

// NewWordReport returns the document of printed words.
func NewWordReport(found []Word) *WordReport {
	return &WordReport{Header: headerOf(KindWords, time.Time{}), Words: found}
}

// Word is the meaning of a printed word.
type Word struct {
	Word string `json:"word"`
	// Kind is verdict, reason, refusal, finding, sandbox state, agent state, address state, write state,
	// proof or column.
	Kind  string `json:"kind"`
	Means string `json:"means"`
	// Do is what an operator can do; absent where there is nothing to say.
	Do string `json:"do,omitempty"`
}

// Subject is the address, pod, node or pool that is explained.
type Subject struct {
	// Kind is Address, Pod, Node or Pool.
	Kind string `json:"kind"`
	// Name is the subject as explain takes it.
	Name string `json:"name"`
}

// Advice is one step that an operator can take.
type Advice struct {
	// Cause is the reason, refusal or kind of finding of the step.
	Cause string `json:"cause"`
	// Why is the sentence of the step.
	Why string `json:"why"`
	// Command is a complete shell command; absent where the step has none.
	Command string `json:"command,omitempty"`
	// OnNode is the node to run the command on; absent for any machine with a kubeconfig.
	OnNode string `json:"onNode,omitempty"`
}

// ExplainedGate is a gate against the release of an item.
type ExplainedGate struct {
	Refusal plan.Refusal `json:"refusal"`
	Detail  string       `json:"detail"`
	// Pool is the pool of a gate that is about one pool.
	Pool string `json:"pool,omitempty"`
	// OpensAt is when the gate opens by itself; absent where it does not.
	OpensAt *time.Time `json:"opensAt,omitempty"`
}

// ExplainedItem is an allocation or reservation with its evidence.
type ExplainedItem struct {
	AllocationRow
	// Key is an allocation's; Reservation and Network are a reservation's, which has no pool.
	Key         string `json:"key,omitempty" text:"key in the pool"`
	Reservation string `json:"reservation,omitempty" text:"-"`
	Network     string `json:"network,omitempty"`
	// RuleText is the row of the verdict table that decided, with its conditions.
	RuleText string `json:"ruleText" text:"rule"`
	// SharesVerdictOf is the pool with the allocation of a reservation; absent where it has none.
	SharesVerdictOf string `json:"sharesVerdictOf,omitempty"`
	// Evidence is absent where the verdict is shared.
	Evidence *Evidence `json:"evidence,omitempty" text:"-"`
	// ClaimedBy is the pod that the claimant in the evidence is, or whose sandbox it is; absent where it is none.
	ClaimedBy *ConflictCarrier `json:"claimedBy,omitempty" text:"-"`
	// Gates are all gates against the release of a Stale item. The next pass releases a Stale item without gates.
	Gates  []ExplainedGate `json:"gates"`
	Advice []Advice        `json:"advice" text:"-"`
}

// Evidence is the evidence behind a verdict.
type Evidence struct {
	// Problem and Detail say what cannot be parsed; absent where all can.
	Problem string `json:"problem,omitempty"`
	Detail  string `json:"detail,omitempty"`
	// Pod is the pod with the recorded name; absent where the API has none.
	Pod     *EvidencePod    `json:"pod,omitempty"`
	Sandbox EvidenceSandbox `json:"sandbox"`
	// Claimant is another pod or sandbox that carries the address; absent where none does.
	Claimant     string `json:"claimant,omitempty"`
	ClaimantNode string `json:"claimantNode,omitempty"` // of the report that lists the claimant; "" for a pod
}

// NewEvidence returns the document of the evidence on an item.
func NewEvidence(ev *judge.Evidence) *Evidence {
	d := &Evidence{Problem: string(ev.Problem), Detail: ev.Detail, Claimant: ev.Rival,
		ClaimantNode: ev.RivalNode()}
	d.Sandbox = EvidenceSandbox{State: ev.Sandbox.String(), UID: ev.SandboxUID, Nodes: lists.Clone(ev.Nodes),
		NotReady: lists.Clone(ev.NotReady), WithoutReport: lists.Clone(ev.WithoutReport)}
	if p := ev.Pod; p != nil {
		d.Pod = &EvidencePod{Name: p.String(), UID: p.UID, Node: p.Node, Phase: p.Phase.String(),
			Ownership: ev.Ownership.String(), OnPod: ev.OnPod, NetworkStatus: p.Status.String()}
	}
	return d
}

// EvidencePod is the evidence of a pod.
type EvidencePod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	Node string `json:"node"`
	// Phase is Pending, live, terminating or finished.
	Phase string `json:"phase"`
	// Ownership is ItsPod, NotItsPod or Unknown: whether the sandbox belongs to the pod, by UID.
	Ownership string `json:"ownership" text:"owns the sandbox"`
	// OnPod is true where the pod carries the address.
	OnPod bool `json:"onPod" text:"has the address"`
	// NetworkStatus is Missing, Unreadable or Readable.
	NetworkStatus string `json:"networkStatus" text:"network-status"`
}

// EvidenceSandbox is the evidence of a sandbox.
type EvidenceSandbox struct {
	State string `json:"state"`
	UID   string `json:"uid"`
	// Nodes are the nodes that could run the sandbox. NotReady are those of them that are not Ready and hold it, without
	// agents. WithoutReport are those without a fresh report.
	NotReady      []string `json:"notReady" text:"not Ready"`
	Nodes         []string `json:"nodes"`
	WithoutReport []string `json:"withoutReport" text:"without a fresh report"`
}

// ExplainedPod has what is known of a pod.
type ExplainedPod struct {
	Name string `json:"name"`
	// InAPI is true where the API has the pod. Otherwise the fields up to networkStatus are "".
	InAPI         bool   `json:"inAPI" text:"in the API"`
	UID           string `json:"uid"`
	Node          string `json:"node"`
	Phase         string `json:"phase"`
	NetworkStatus string `json:"networkStatus" text:"network-status"`
	// Carries are the addresses of pools in the pod's network-status.
	Carries []string `json:"carries"`
	// Waits says why a Pending pod may wait; absent otherwise.
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
	// Fresh is true where the report is fresh.
	Fresh     bool       `json:"fresh"`
	Created   *time.Time `json:"created,omitempty"`
	Addresses []string   `json:"addresses"`

	Pod types.NamespacedName `json:"-"`
}

// The states of a node's agent.
const (
	AgentFresh         = string(facts.NodeFresh)
	AgentNoFreshReport = string(facts.NodeNoFreshReport)
	AgentDead          = string(facts.NodeDeadOrMissing)
)

// ExplainedNode has what is known of a node.
type ExplainedNode struct {
	Name string `json:"name"`
	// InAPI is true where the node has a Node object that may be read.
	InAPI bool `json:"inAPI" text:"in the API"`
	Ready bool `json:"ready"`
	// Unknown is true where Nodes could not be read: then inAPI, ready and outOfService say nothing.
	Unknown bool `json:"unknown,omitempty" text:"-"`
	// NotReadySince is absent where the node is Ready or the time is unknown.
	NotReadySince *time.Time `json:"notReadySince,omitempty"`
	OutOfService  bool       `json:"outOfService"`
	// Agent is Fresh, NoFreshReport or Dead; absent where no agent is expected.
	Agent string `json:"agent,omitempty" text:"-"`
	// Awaited is true where the node has not reported since an etcd restore.
	Awaited bool `json:"awaited" text:"-"`
	// Report is absent where the node has none.
	Report *NodeReport `json:"report,omitempty"`
}

// NodeReport is the state of a node's SandboxReport.
type NodeReport struct {
	Fresh bool `json:"fresh"`
	// LeaseRenewed is by the API server's clock; absent where the Lease was never renewed.
	LeaseRenewed *time.Time `json:"leaseRenewed,omitempty"`
	// ObservedAt is by the node's clock.
	ObservedAt  *time.Time `json:"observedAt,omitempty"`
	Runtime     string     `json:"runtime"`
	BootIDKnown bool       `json:"bootIDKnown" text:"boot id known"`
	Sandboxes   int        `json:"sandboxes"`
	Attachments int        `json:"attachments"`
}

// AddressReport is the document of explain for a list of addresses.
type AddressReport struct {
	Header
	Limits
	// Addresses are in the order of the list, one for each pool that has the address in its range.
	Addresses []AddressState `json:"addresses"`
}

// Free returns the addresses that are free.
func (d *AddressReport) Free() []string {
	free := lists.Filter(d.Addresses, func(a AddressState) bool { return a.State == "Free" })
	return lists.Map(free, func(a AddressState) string { return a.IP })
}

// AddressState is the state of an address in a pool.
type AddressState struct {
	IP string `json:"ip"`
	// State is Free, InUse, Held, Stale, Reserved, Excluded (no definition assigns the address), Unknown, NoPool (a
	// definition has it in its range, and an ADD may create the pool) or OutsideEveryPool. Unknown may be free: no
	// definition of the pool can be read, or a source is unknown that may show a use, see unknown. It is InUse, too, where
	// no definition of the pool assigns the address and something carries it.
	State  string `json:"state"`
	Pool   string `json:"pool,omitempty"`
	PodRef string `json:"podRef,omitempty"`
	// ReservedBy is the pod of the address's reservation in the network of the pool; absent for none.
	ReservedBy string `json:"reservedBy,omitempty"`
	// CarriedBy are what has the address, whatever assigned it: pods and Nodes as explain takes them, guests as
	// vmi/NAMESPACE/NAME, unless the pod of the guest has the address, too, and definitions whose gateway it is as
	// gateway/NAMESPACE/NAME. At most 20 are listed.
	CarriedBy []string `json:"carriedBy,omitempty"`
}

// Carrier is a pod, a guest, a gateway or a Node that has an address by its object, whatever assigned it.
type Carrier struct {
	// Kind is Pod, Guest, Gateway or Node.
	Kind string `json:"kind" text:"-"`
	// Name is that of the definition for a gateway.
	Name string `json:"name"`
	// Node is the node of the pod, or the Node; "" for a guest and for a gateway.
	Node string `json:"node"`
	// Network and Interface are those of the pod's network-status or the guest's status; absent for an address of its
	// podIPs.
	Network   string `json:"network,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Doubt is why the pod may not have the address that its network-status names; absent for no doubt.
	Doubt string `json:"doubt,omitempty"`
}

// Conflict is an address that several pods or sandboxes carry in one network.
type Conflict struct {
	IP string `json:"ip" text:"-"`
	// Pool is absent where it is unknown. Several pools are separated by commas.
	Pool string `json:"pool,omitempty"`
	// Recorded is the pod that the allocation names; absent where the address has no allocation.
	Recorded string `json:"recorded,omitempty" text:"recorded pod"`
	// Carriers are those that carry the address, the recorded one first, then the oldest. At most ten are listed.
	Carriers []ConflictCarrier `json:"carriers" text:"carried by"`
}

// ConflictCarrier is a pod or sandbox that carries the address of a conflict.
type ConflictCarrier struct {
	Pod string `json:"pod"`
	// InAPI is false for a phantom: a sandbox that runs without its pod in the API.
	InAPI bool   `json:"inAPI" text:"in the API"`
	Node  string `json:"node"`
	// Since is when the sandbox was created, or the pod where its sandbox is unknown; absent where both are.
	Since *time.Time `json:"since,omitempty"`
	// Owner is the controller of the pod, as kind and name; absent where the pod has none, or is not in the API.
	Owner string `json:"owner,omitempty" text:"owned by"`
	// ContainerID is the id of the sandbox; absent where no report has it.
	ContainerID string `json:"containerID,omitempty" text:"container id"`
	// Recorded is true where the allocation names this carrier.
	Recorded bool `json:"recorded"`
}

// String returns the carrier as in the carriedBy of an AddressState.
func (c Carrier) String() string { return usage.Carrier{Kind: c.Kind, Name: c.Name}.String() }

// CSV returns a row for each address, after one with the names of the columns. Several carriers are separated by
// spaces.
func (d *AddressReport) CSV() [][]string {
	rows := [][]string{{"address", "state", "pool", "pod", "reserved_by", "carried_by"}}
	for _, a := range d.Addresses {
		rows = append(rows, []string{a.IP, a.State, a.Pool, a.PodRef, a.ReservedBy, strings.Join(a.CarriedBy, " ")})
	}
	return rows
}

// AddressRun is a range of addresses of a pool that have the same state.
type AddressRun struct {
	First netip.Addr `json:"first"`
	// Last is absent for an allocation.
	Last netip.Addr `json:"last,omitzero"`
	// State is as in AddressState.
	State  string `json:"state"`
	PodRef string `json:"podRef,omitempty"`
	// Reason is that of the verdict; absent without one.
	Reason string `json:"reason,omitempty"`
}

// RecentReleases are the unconfirmed releases within the last hour, which the breaker counts.
type RecentReleases struct {
	Releases int `json:"releases"`
	// Of is the number of allocations before them; 0 where none was released.
	Of int `json:"of" text:"of allocations"`
	// IsShared is true where the releases of all processes are counted.
	IsShared bool `json:"shared" text:"of all processes"`
}

// NewRecentReleases is what the breaker counts.
func NewRecentReleases(s plan.BreakerState) RecentReleases {
	return RecentReleases{s.Releases, s.Of, s.IsShared}
}
