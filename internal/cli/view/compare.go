package view

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
)

// Comparison is the document of check with two snapshots: what two clusters have in common.
type Comparison struct {
	Header
	// Answer is Shared (something is in both clusters on one network), Unknown (something may be) or Apart.
	Answer string `json:"answer"`
	// Clusters are the first and the second one.
	Clusters []ComparedCluster `json:"clusters"`
	// SameNetworks are what --same-network says.
	SameNetworks []string `json:"sameNetworks"`
	// Addresses are those that both clusters record, reserve or carry on one network, or may. They are ordered by network.
	Addresses []SharedAddress `json:"addresses"`
	// Ranges are those that definitions of both clusters assign, at most 1000, also on networks that are not one.
	Ranges []SharedRange `json:"ranges"`
	// MoreUnknown has a sentence for each thing because of which more may be in both clusters than is listed.
	MoreUnknown []string `json:"moreUnknown"`
}

// ComparedCluster is one of two clusters.
type ComparedCluster struct {
	// Label is the name of the snapshot's file or folder, or the path where both have one name.
	Label      string    `json:"label"`
	Cluster    Cluster   `json:"cluster"`
	ObservedAt time.Time `json:"observedAt"`
	Agents     Agents    `json:"agents"`
	Limits
	Pools       int `json:"pools"`
	Allocations int `json:"allocations"`
}

// SharedAddress is an address that both clusters have.
type SharedAddress struct {
	IP string `json:"ip"`
	// Same is Yes if it is on one network in both clusters, and Unknown if it may be; why says why.
	Same string `json:"same"`
	Why  string `json:"why,omitempty"`
	// Network names the network: master, VLAN and network_name.
	Network string `json:"network"`
	// Holders are who has it, in the first cluster and then in the second one.
	Holders []AddressHolder `json:"holders"`
}

// AddressHolder is who has an address in a cluster.
type AddressHolder struct {
	// Cluster is its label.
	Cluster string `json:"cluster"`
	// By is a pod as "<namespace>/<name>", a Node as "node/<name>", a guest as "vmi/<namespace>/<name>", or a definition
	// whose gateway it is as "gateway/<namespace>/<name>".
	By string `json:"by"`
	// Node is absent where it is unknown.
	Node string `json:"node,omitempty"`
	// How are Recorded (in the pool), Reserved (only by the reservation) and Carried (by the pod, guest, sandbox or Node).
	How []string `json:"how"`
	// Pool is that of what is recorded, and Reservation what is only reserved by; absent for neither.
	Pool        string `json:"pool,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	// Verdict is that of check on the allocation or the reservation; absent where it has neither.
	Verdict string `json:"verdict,omitempty"`
	// Networks are those on one of which the address is; empty where that is unknown.
	Networks []SegmentNetwork `json:"networks"`
}

// SegmentNetwork is a network of one cluster.
type SegmentNetwork struct {
	// NetworkName is network_name; "" for none.
	NetworkName string `json:"networkName"`
	// Master is the interface or the bridge of the node; absent where the definition names none.
	Master string `json:"master,omitempty"`
	// VLAN is absent for none.
	VLAN int `json:"vlan,omitempty"`
	// Definitions are at most 20.
	Definitions     []string `json:"definitions"`
	MoreDefinitions int      `json:"moreDefinitions"`
}

// SharedRange are addresses that definitions of both clusters assign.
type SharedRange struct {
	// Shared are the addresses, at most 20 ranges.
	Shared     []string `json:"shared"`
	MoreShared int      `json:"moreShared"`
	// Same is Yes if the definitions are on one network, No if they are not, and Unknown if they may be; why says why.
	Same string `json:"same"`
	Why  string `json:"why,omitempty"`
	// Network names the networks.
	Network string `json:"network"`
	// Assigned are the definitions of the first cluster, then those of the second one.
	Assigned []AssignedRange `json:"assigned"`
}

// AssignedRange are the definitions of a cluster that assign a range alike.
type AssignedRange struct {
	// Cluster is its label.
	Cluster string `json:"cluster"`
	// Definitions are at most 20.
	Definitions     []string `json:"definitions"`
	MoreDefinitions int      `json:"moreDefinitions"`
	// Pool is the name of the pool, or the range that is cut into node slices.
	Pool string `json:"pool"`
}

// Compared is a cluster that is compared: its label, and what was judged.
type Compared struct {
	Label   string
	Cluster Cluster
	*reconciler.Result
}

// NewComparison returns the document of a comparison.
func NewComparison(clusters [2]Compared, statements []string, c *ranges.Comparison) *Comparison {
	at := clusters[0].Observation.Now
	if later := clusters[1].Observation.Now; later.After(at) {
		at = later
	}
	d := &Comparison{Header: headerOf(KindComparison, at), Answer: "Apart", SameNetworks: lists.Clone(statements),
		Clusters: lists.Map(clusters[:], newCompared), Addresses: lists.Map(c.Addresses, newSharedAddress),
		Ranges: lists.Map(c.Ranges, newSharedRange), MoreUnknown: lists.Clone(c.Unknown)}
	switch {
	case c.IsShared():
		d.Answer = "Shared"
	case c.IsUnknown():
		d.Answer = "Unknown"
	}
	return d
}

// IsApart reports whether nothing is in both clusters on one network, for certain.
func (d *Comparison) IsApart() bool { return d.Answer == "Apart" }

// Notes are those of both clusters.
func (d *Comparison) Notes() (notes []string) {
	for _, c := range d.Clusters {
		notes = append(notes, lists.Map(c.Notes, func(note string) string { return c.Label + ": " + note })...)
	}
	if uid := d.Clusters[0].Cluster.UID; uid != "" && uid == d.Clusters[1].Cluster.UID {
		notes = append(notes, fmt.Sprintf("both snapshots are of the cluster with the UID %s, or of a copy of it", uid))
	}
	return notes
}

func newCompared(c Compared) ComparedCluster {
	return ComparedCluster{Label: c.Label, Cluster: c.Cluster, ObservedAt: c.Observation.Now.UTC().Truncate(time.Second),
		Agents: NewAgents(c.Assessment), Limits: NewLimits(c.Result), Pools: len(c.Observation.Pools),
		Allocations: len(c.Allocations)}
}

func sameText(r ranges.Relation) string {
	return map[ranges.Relation]string{ranges.Same: "Yes", ranges.Unknown: "Unknown", ranges.Other: "No"}[r]
}

func newSharedAddress(s ranges.SharedAddress) SharedAddress {
	return SharedAddress{IP: s.Address.String(), Same: sameText(s.Relation), Why: s.Why, Network: s.Network,
		Holders: lists.Map(s.Holders, newHolder)}
}

func newHolder(h ranges.Holder) AddressHolder {
	d := AddressHolder{Cluster: h.Cluster, By: h.Who, Node: h.Node, Networks: lists.Map(h.Networks, newSegmentNetwork),
		How: lists.Map(h.How, func(how ranges.How) string { return string(how) })}
	if h.How[0] == ranges.Recorded {
		d.Pool = h.Object
	} else {
		d.Reservation = h.Object
	}
	if h.Verdict != nil {
		d.Verdict = h.Verdict.String()
	}
	return d
}

func newSegmentNetwork(n *ranges.Network) SegmentNetwork {
	d := SegmentNetwork{NetworkName: n.Name, Master: n.Segment.Master, VLAN: n.Segment.VLAN}
	d.Definitions, d.MoreDefinitions = first20(n.Definitions)
	return d
}

func newSharedRange(s ranges.SharedRange) SharedRange {
	d := SharedRange{Same: sameText(s.Relation), Why: s.Why, Network: s.Network,
		Assigned: lists.Map(s.Assigned[:], newAssigned)}
	d.Shared, d.MoreShared = rangesOf(s.Shared)
	return d
}

func newAssigned(a *ranges.Assigned) AssignedRange {
	d := AssignedRange{Cluster: a.Network.Cluster, Pool: a.Pool}
	d.Definitions, d.MoreDefinitions = first20(a.Definitions)
	return d
}

// first20 returns the first 20 names, and the number of the others.
func first20(names []string) (first []string, more int) {
	first = lists.Clone(names[:min(len(names), 20)])
	return first, len(names) - len(first)
}
