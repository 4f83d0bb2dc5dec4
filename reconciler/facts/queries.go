package facts

import (
	"iter"
	"net/netip"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Now is the time of the observation, or of a live read since.
func (f *Facts) Now() time.Time { return f.now }

// Policy is what the operator configured.
func (f *Facts) Policy() Policy { return f.policy }

// HasAgents reports whether node agents are deployed.
func (f *Facts) HasAgents() bool { return f.hasAgents }

// Nodes are the Node objects by name, empty if they are unknown. Callers do not write into it.
func (f *Facts) Nodes() map[string]*podstate.Node { return f.nodes }

// Node is a Node object, nil if it does not exist or nodes are unknown.
func (f *Facts) Node(name string) *podstate.Node { return f.nodes[name] }

// HasNodes reports whether the Node objects are known.
func (f *Facts) HasNodes() bool { return f.hasNodes }

// NodeNames are the names of nodes: of the Node objects, or if they are unknown, those in reports and pods. Callers do
// not write into it.
func (f *Facts) NodeNames() map[string]bool { return f.nodeNames }

// AgentNodes are the nodes, sorted, that may run a sandbox and so must report. They include those whose Node object is
// missing since a moment. Callers do not write into it.
func (f *Facts) AgentNodes() []string { return f.agentNodes }

// MissingNodes are those of AgentNodes without a Node object, with the time since when each was known. Callers do not
// write into it.
func (f *Facts) MissingNodes() map[string]time.Time { return f.missingNodes }

// SelectsNodes reports whether the policy selects a node, or there is none. Otherwise it is not known which nodes must
// report.
func (f *Facts) SelectsNodes() bool { return f.selectsNodes }

// NodeStates are the states of the nodes that should have an agent or have a report; empty without agents. Callers do
// not write into it.
func (f *Facts) NodeStates() map[string]NodeState { return f.states }

// Reports are the reports, by name. Callers do not write into it.
func (f *Facts) Reports() []*Report { return f.reports }

// Report is the report of a node, nil for none.
func (f *Facts) Report(node string) *Report { return f.byNode[node] }

// Mentions are the entries of reports about a container ID.
func (f *Facts) Mentions(containerID string) []Mention { return f.byContainerID[containerID] }

// SandboxesAt are the sandboxes with an address, by reports.
func (f *Facts) SandboxesAt(addr netip.Addr) []SandboxAddress { return f.sandboxesByAddress[addr] }

// GuestsAt are the guests of machines with an address.
func (f *Facts) GuestsAt(addr netip.Addr) []GuestAddress { return f.guests[addr] }

// UnreadSandboxes are the sandboxes whose addresses are unknown.
func (f *Facts) UnreadSandboxes() []UnreadSandbox { return f.unreadSandboxes }

// UnreadPods are the pods whose addresses are unknown, in a stable order.
func (f *Facts) UnreadPods() []UnreadPod { return f.unreadPods }

// CarriedAddresses are the addresses that reports or pods' statuses have, each once, in no order.
func (f *Facts) CarriedAddresses() iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for addr := range f.sandboxesByAddress {
			if !yield(addr) {
				return
			}
		}
		for addr := range f.podsByAddress {
			if f.sandboxesByAddress[addr] == nil && !yield(addr) {
				return
			}
		}
	}
}

// NAD is a readable definition, by "<namespace>/<name>"; nil for none.
func (f *Facts) NAD(name string) *ippool.NAD { return f.nads[name] }

// Defines reports whether a readable definition has a range.
func (f *Facts) Defines(at DefinedRange) bool { return f.defined[at] != nil }

// Pools are the pools, by name. Callers do not write into it.
func (f *Facts) Pools() []*Pool { return f.pools }

// Namespace is that of a pool which an ADD creates, "" if it is unknown.
func (f *Facts) Namespace() string { return f.namespace }
