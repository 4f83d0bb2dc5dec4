// Package v1alpha1 has the SandboxReport API. The agent of a node (package agent) reports there what its container
// runtime runs, and the reconciler reads it (podstate.Report). The CRD in deploy/crds is generated.
//
// +kubebuilder:object:generate=true
// +groupName=ip-reconcile.dev
package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource returns the resource of SandboxReports.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "ip-reconcile.dev", Version: "v1alpha1", Resource: "sandboxreports"}
}

// MaxClockDifference is how far the clocks of two API servers may be apart.
const MaxClockDifference = 10 * time.Second

const (
	// HashAnnotation on a node's Lease has the podstate.Hash of the report that the Lease confirms.
	HashAnnotation = "ip-reconcile.dev/report-hash"
	// RestoreAnnotation on a node's Lease means that the agent detected a restore of etcd. The value is random, and
	// another one after each restore that it detects. Earlier versions write a date, on the report, too.
	RestoreAnnotation = "ip-reconcile.dev/etcd-restored"
)

// SandboxState is the CRI state of a sandbox.
// +kubebuilder:validation:Enum=Ready;NotReady
type SandboxState string

const (
	SandboxReady    SandboxState = "Ready"
	SandboxNotReady SandboxState = "NotReady"
)

// text is at most 253 characters long, as names are.

// +kubebuilder:validation:MaxLength=253
type text = string

// SandboxReport lists the pod sandboxes in a node's container runtime and CNI caches. It is cluster-scoped and has
// the name of the node. It does not list sandboxes on the host network, or sandboxes that certainly have no
// whereabouts address.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=sbr
// +kubebuilder:printcolumn:name="Runtime",type=string,JSONPath=`.runtime.name`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.runtime.version`,priority=1
// +kubebuilder:printcolumn:name="Sandboxes",type=integer,JSONPath=`.summary.sandboxes`
// +kubebuilder:printcolumn:name="NotReady",type=integer,JSONPath=`.summary.notReady`
// +kubebuilder:printcolumn:name="Attachments",type=integer,JSONPath=`.summary.attachments`,priority=1
// +kubebuilder:printcolumn:name="Observed",type=date,JSONPath=`.observedAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SandboxReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// BootID is the content of /proc/sys/kernel/random/boot_id. It is missing if the Node object does not confirm it.
	// +kubebuilder:validation:MaxLength=128
	BootID string `json:"bootID,omitempty"`
	// Machine identifies the machine of the node. It is missing if the Node object does not confirm it.
	Machine Machine `json:"machine,omitzero"`
	// Runtime is the node's container runtime.
	Runtime Runtime `json:"runtime,omitzero"`
	// ObservedAt is the time at which this content was read, by the node's clock.
	ObservedAt metav1.Time `json:"observedAt"`
	// Summary counts the items of this report, for printer columns.
	Summary Summary `json:"summary,omitzero"`
	// Sandboxes are the sandboxes that the runtime lists.
	// +kubebuilder:validation:MaxItems=4000
	Sandboxes []Sandbox `json:"sandboxes,omitempty"`
	// Attachments are container IDs in a CNI cache that the runtime does not list.
	// +kubebuilder:validation:MaxItems=4000
	Attachments []Attachment `json:"attachments,omitempty"`
	// Gone are IDs that ended within 24 hours, at most 500.
	// +kubebuilder:validation:MaxItems=500
	Gone []Gone `json:"gone,omitempty"`
}

// Machine identifies a machine across reboots, by the nodeInfo of its Node.
type Machine struct {
	// +kubebuilder:validation:MaxLength=256
	SystemUUID string `json:"systemUUID,omitempty"`
	// +kubebuilder:validation:MaxLength=256
	MachineID string `json:"machineID,omitempty"`
}

// Same reports whether both are certainly one machine. One ID is not enough: a cloned disk keeps its machine ID,
// and some vendors give the same system UUID to all boards.
func (m Machine) Same(other Machine) bool { return m.IsKnown() && m == other }

// Differs reports whether an ID that both have differs, so that they are two machines.
func (m Machine) Differs(other Machine) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return differ(m.SystemUUID, other.SystemUUID) || differ(m.MachineID, other.MachineID)
}

// IsKnown reports whether both IDs are set.
func (m Machine) IsKnown() bool { return m.SystemUUID != "" && m.MachineID != "" }

// Runtime identifies a container runtime.
type Runtime struct {
	Name    text `json:"name,omitempty"`
	Version text `json:"version,omitempty"`
}

// Summary counts the items of a report. No rule reads it.
type Summary struct {
	Sandboxes   int32 `json:"sandboxes"`
	NotReady    int32 `json:"notReady"`
	Attachments int32 `json:"attachments"`
}

// Sandbox is a pod sandbox in the CRI list.
type Sandbox struct {
	// +kubebuilder:validation:MaxLength=128
	ID        string       `json:"id"`
	Namespace text         `json:"namespace,omitempty"`
	Name      text         `json:"name,omitempty"`
	UID       text         `json:"uid,omitempty"`
	Attempt   uint32       `json:"attempt,omitempty"`
	State     SandboxState `json:"state"`
	// NetworkClosed is true if the network namespace is gone, false if it exists, and missing if that is unknown.
	NetworkClosed *bool `json:"networkClosed,omitempty"`
	// NetNS is the path of the network namespace.
	// +kubebuilder:validation:MaxLength=4096
	NetNS     string      `json:"netns,omitempty"`
	CreatedAt metav1.Time `json:"createdAt,omitzero"`
	// +kubebuilder:validation:MaxItems=128
	Addresses []Address `json:"addresses,omitempty"`
	// Interfaces are the names of interfaces in the CNI caches for which Addresses has no address.
	// +kubebuilder:validation:MaxItems=128
	Interfaces []text `json:"interfaces,omitempty"`
	// AddressesUnread is true if the sandbox may have addresses that are not in this report. They are of the
	// networks in MayCarry, or if that is missing, of any network of the pod.
	AddressesUnread bool `json:"addressesUnread,omitempty"`
	// MayCarry are the whereabouts ranges in the CNI caches of a sandbox with AddressesUnread. It is missing if the
	// caches do not contain all of its networks, or if these are too many.
	// +kubebuilder:validation:MaxItems=128
	MayCarry []Network `json:"mayCarry,omitempty"`
}

// Network is a range of a whereabouts network.
type Network struct {
	// Range is missing if it is unknown. It is then any range of the network.
	Range text `json:"range,omitempty"`
	// NetworkName is whereabouts' network_name, "" for the unnamed network.
	NetworkName text `json:"networkName,omitempty"`
}

// Attachment is a container ID that the runtime does not list. It is in a CNI cache, or it was listed and its
// network namespace still exists.
type Attachment struct {
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`
	// Since is when the cache entry appeared.
	Since         metav1.Time `json:"since"`
	NetworkClosed *bool       `json:"networkClosed,omitempty"`
	// NetNS is the path of the network namespace.
	// +kubebuilder:validation:MaxLength=4096
	NetNS     string `json:"netns,omitempty"`
	Namespace text   `json:"namespace,omitempty"`
	Name      text   `json:"name,omitempty"`
	UID       text   `json:"uid,omitempty"`
	// +kubebuilder:validation:MaxItems=128
	Addresses []Address `json:"addresses,omitempty"`
	// AddressesUnread is true if there are addresses that do not fit into this report, or if the runtime listed the
	// sandbox before, with AddressesUnread. They are of the networks in MayCarry, or if that is missing, of any network
	// of the pod.
	AddressesUnread bool `json:"addressesUnread,omitempty"`
	// MayCarry are the whereabouts ranges of addresses that are not in this report. It is missing if they are unknown
	// or too many.
	// +kubebuilder:validation:MaxItems=128
	MayCarry []Network `json:"mayCarry,omitempty"`
}

// Gone is a container ID that ended.
type Gone struct {
	// +kubebuilder:validation:MaxLength=128
	ID    string      `json:"id"`
	UID   text        `json:"uid,omitempty"`
	Since metav1.Time `json:"since"`
}

// Address is an address that is configured in a sandbox, in a range of whereabouts.
type Address struct {
	IP     text `json:"ip"`
	IfName text `json:"ifName,omitempty"`
	// Network is the name of the CNI network.
	Network text `json:"network,omitempty"`
	// Range is the ipam range of the address.
	Range text `json:"range,omitempty"`
	// NetworkName is whereabouts' network_name, "" for the unnamed network.
	NetworkName text `json:"networkName,omitempty"`
	// Unattributed is true if it is not known that whereabouts assigned the address: another plugin of the network may
	// have. The address is in use, but no pool needs an allocation for it.
	Unattributed bool `json:"unattributed,omitempty"`
}
