package judge

import (
	"iter"
	"net/netip"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Now is the time of the observation, or of a live read since.
func (x *Index) Now() time.Time { return x.now }

// Policy is what the operator configured.
func (x *Index) Policy() Policy { return x.policy }

// HasAgents reports whether node agents are deployed.
func (x *Index) HasAgents() bool { return x.hasAgents }

// Nodes are the Node objects by name, empty if they are unknown. Callers do not write into it.
func (x *Index) Nodes() map[string]*podstate.Node { return x.nodes }

// Node is a Node object, nil if it does not exist or nodes are unknown.
func (x *Index) Node(name string) *podstate.Node { return x.nodes[name] }

// HasNodes reports whether the Node objects are known.
func (x *Index) HasNodes() bool { return x.hasNodes }

// NodeNames are the names of nodes: of the Node objects, or if they are unknown, those in reports and pods. Callers do
// not write into it.
func (x *Index) NodeNames() map[string]bool { return x.nodeNames }

// AgentNodes are the nodes, sorted, that may run a sandbox and so must report. They include those whose Node object is
// missing since a moment. Callers do not write into it.
func (x *Index) AgentNodes() []string { return x.agentNodes }

// MissingNodes are those of AgentNodes without a Node object, with the time since when each was known. Callers do not
// write into it.
func (x *Index) MissingNodes() map[string]time.Time { return x.missingNodes }

// SelectsNodes reports whether the policy selects a node, or there is none. Otherwise it is not known which nodes must
// report.
func (x *Index) SelectsNodes() bool { return x.selectsNodes }

// NodeStates are the states of the nodes that should have an agent or have a report; empty without agents. Callers do
// not write into it.
func (x *Index) NodeStates() map[string]NodeState { return x.states }

// Reports are the reports, by name. Callers do not write into it.
func (x *Index) Reports() []*report { return x.reports }

// Report is the report of a node, nil for none.
func (x *Index) Report(node string) *report { return x.byNode[node] }

// Mentions are the entries of reports about a container ID.
func (x *Index) Mentions(containerID string) []mention { return x.byContainerID[containerID] }

// SandboxesAt are the sandboxes with an address, by reports.
func (x *Index) SandboxesAt(addr netip.Addr) []sandboxAddress { return x.sandboxesByAddress[addr] }

// GuestsAt are the guests of machines with an address.
func (x *Index) GuestsAt(addr netip.Addr) []guestAddress { return x.guests[addr] }

// UnreadSandboxes are the sandboxes whose addresses are unknown.
func (x *Index) UnreadSandboxes() []unreadSandbox { return x.unreadSandboxes }

// UnreadPods are the pods whose addresses are unknown, in a stable order.
func (x *Index) UnreadPods() []unreadPod { return x.unreadPods }

// CarriedAddresses are the addresses that reports or pods' statuses have, each once, in no order.
func (x *Index) CarriedAddresses() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for addr := range x.sandboxesByAddress {
			if !yield(addr) {
				return
			}
		}
		for addr := range x.podsByAddress {
			if x.sandboxesByAddress[addr] == nil && !yield(addr) {
				return
			}
		}
	}
}

// NAD is a readable definition, by "<namespace>/<name>"; nil for none.
func (x *Index) NAD(name string) *ippool.NAD { return x.nads[name] }

// Defines reports whether a readable definition has a range.
func (x *Index) Defines(at definedRange) bool { return x.defined[at] != nil }

// Pools are the pools, by name. Callers do not write into it.
func (x *Index) Pools() []*pool { return x.pools }

// Namespace is that of a pool which an ADD creates, "" if it is unknown.
func (x *Index) Namespace() string { return x.namespace }
