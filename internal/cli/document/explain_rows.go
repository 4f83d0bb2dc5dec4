package document

import (
	"net/netip"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// ExplainedItem is an allocation or reservation with its evidence.
type ExplainedItem struct {
	// Pool and Key are of an allocation, Reservation and Network of a reservation; the
	// others are left out.
	Pool        string `json:"pool,omitempty"`
	Key         string `json:"key,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	Network     string `json:"network,omitempty"`
	IP          string `json:"ip"`
	PodRef      string `json:"podRef"`
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	Judged
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

func explainedItem(e *explanation.Explanation, it explanation.Item) ExplainedItem {
	d := ExplainedItem{
		Key: it.Key(), Network: it.Network(), IP: it.Text(), PodRef: it.PodRef(), ContainerID: it.ContainerID(), IfName: it.IfName(),
		Judged: judged(e.Report, it.Item), RuleText: it.Rule(), SharesVerdictOf: sharedWith(it.Item), Gates: explainedGates(it), Advice: adviceRows(it.Advice),
		KnownForSeconds: int64(it.Age(e.Observation.Now).Seconds()),
	}
	if it.Allocation != nil {
		d.Pool = it.Object()
	} else {
		d.Reservation = it.Object()
	}
	if ev := it.Evidence(); ev != nil {
		d.Evidence = evidence(ev)
	}
	return d
}

func evidence(ev *judge.Evidence) *Evidence {
	d := &Evidence{Problem: string(ev.Problem), Detail: ev.Detail, Claimant: ev.Claimant, ClaimantNode: ev.ClaimantNode,
		Sandbox: EvidenceSandbox{State: ev.Sandbox.String(), UID: ev.SandboxUID, Nodes: names(ev.Nodes), WithoutReport: names(ev.WithoutReport)}}
	if ev.Pod != nil {
		d.Pod = &EvidencePod{Name: ev.Pod.String(), UID: ev.Pod.UID, Node: ev.Pod.Node, Phase: ev.Phase.String(), OnPod: ev.OnPod, NetworkStatus: explanation.NetworkStatus(ev.Pod),
			Ownership: [...]string{judge.OwnerUnknown: "Unknown", judge.ItsPod: "ItsPod", judge.NotItsPod: "NotItsPod"}[ev.Ownership]}
	}
	return d
}

func explainedPod(e *explanation.Explanation, p explanation.PodState) ExplainedPod {
	d := ExplainedPod{Name: e.Subject.Namespace + "/" + e.Subject.Name, Carries: texts(p.Carries), Waits: p.Waits, Sandboxes: make([]ExplainedSandbox, 0, len(p.Sandboxes))}
	if p.Pod != nil {
		d.InAPI, d.UID, d.Node, d.Phase, d.NetworkStatus = true, p.Pod.UID, p.Pod.Node, p.Pod.Phase.String(), explanation.NetworkStatus(p.Pod)
	}
	for _, s := range p.Sandboxes {
		d.Sandboxes = append(d.Sandboxes, ExplainedSandbox{s.ID, s.UID, s.Node, s.State, s.Fresh, when(s.Created), texts(s.Addresses)})
	}
	return d
}

func explainedNode(n explanation.NodeState) ExplainedNode {
	d := ExplainedNode{Name: n.Name, InAPI: n.Node != nil, Agent: string(n.State), Awaited: n.Awaited}
	if n.Node != nil {
		d.Ready, d.NotReadySince, d.OutOfService = n.Node.Ready, when(n.Node.NotReadySince), n.Node.OutOfService
	}
	if r := n.Report; r != nil {
		d.Report = &NodeReport{Fresh: n.Fresh, LeaseRenewed: when(r.LeaseRenewed), ObservedAt: when(r.ObservedAt.Time), Runtime: r.Runtime.Name + " " + r.Runtime.Version,
			BootIDKnown: r.BootID != "", Sandboxes: len(r.Sandboxes), Attachments: len(r.Attachments)}
	}
	return d
}

func texts(all []netip.Addr) []string {
	list := make([]string, 0, len(all))
	for _, addr := range all {
		list = append(list, addr.String())
	}
	return list
}
