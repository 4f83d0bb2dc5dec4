package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// HashAnnotation on a node's Lease carries the podstate.Hash of the report that the
	// Lease confirms.
	HashAnnotation = "ip-reconcile.dev/report-hash"
	// RestoreAnnotation on a report or its Lease says that the agent noticed that
	// etcd had been restored, as an RFC 3339 time of the API server: reports that
	// were written at that time or later were written since. It stays for a day.
	RestoreAnnotation = "ip-reconcile.dev/etcd-restored"
)

// SandboxState is the CRI state of a sandbox.
// +kubebuilder:validation:Enum=Ready;NotReady
type SandboxState string

const (
	SandboxReady    SandboxState = "Ready"
	SandboxNotReady SandboxState = "NotReady"
)

// SandboxReport is what one node's container runtime and CNI caches hold. It is
// cluster-scoped and named after the node; like an EndpointSlice it has neither
// spec nor status. Left out are sandboxes on the host network and those that
// surely have no whereabouts address.
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

	// BootID is /proc/sys/kernel/random/boot_id; left out unless it is the
	// Node's own at the time.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	BootID string `json:"bootID,omitempty"`
	// Machine is which machine the node is; left out, like BootID, unless the
	// Node object is known to be this machine's.
	// +optional
	Machine Machine `json:"machine,omitzero"`
	// Runtime is the container runtime that was asked.
	// +optional
	Runtime Runtime `json:"runtime,omitzero"`
	// ObservedAt is when this content was read from the runtime, by the node's clock.
	ObservedAt metav1.Time `json:"observedAt"`
	// Summary counts what follows, for people: a printer column cannot.
	// +optional
	Summary Summary `json:"summary,omitzero"`
	// Sandboxes are those that the runtime lists.
	// +optional
	// +kubebuilder:validation:MaxItems=4000
	Sandboxes []Sandbox `json:"sandboxes,omitempty"`
	// Attachments are in a CNI cache and not listed by the runtime.
	// +optional
	// +kubebuilder:validation:MaxItems=4000
	Attachments []Attachment `json:"attachments,omitempty"`
	// Gone were listed or attached and are not any more; 24 h, at most 500.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	Gone []Gone `json:"gone,omitempty"`
}

// Machine identifies a machine beyond its boots, by its Node's nodeInfo: another
// machine under the same name has another boot id, and so has the same one after a
// reboot.
type Machine struct {
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SystemUUID string `json:"systemUUID,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=256
	MachineID string `json:"machineID,omitempty"`
}

// Same reports whether both are known to be one machine. Either id alone does not
// tell: a cloned disk brings its machine id along, and some vendors give one system
// UUID to every board.
func (m Machine) Same(other Machine) bool { return m.Known() && m == other }

// Known reports whether both ids are there.
func (m Machine) Known() bool { return m.SystemUUID != "" && m.MachineID != "" }

// Runtime names a container runtime.
type Runtime struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	Version string `json:"version,omitempty"`
}

// Summary counts the entries of a report. No rule reads it.
type Summary struct {
	Sandboxes   int32 `json:"sandboxes"`
	NotReady    int32 `json:"notReady"`
	Attachments int32 `json:"attachments"`
}

// Sandbox is a pod sandbox as the CRI lists it.
type Sandbox struct {
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	UID     string       `json:"uid,omitempty"`
	Attempt uint32       `json:"attempt,omitempty"`
	State   SandboxState `json:"state"`
	// NetworkClosed reports whether the network namespace is gone; left out when
	// nothing tells.
	// +optional
	NetworkClosed *bool `json:"networkClosed,omitempty"`
	// NetNS is the path of its network namespace, for an agent that starts again.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	NetNS string `json:"netns,omitempty"`
	// +optional
	CreatedAt metav1.Time `json:"createdAt,omitzero"`
	// +optional
	// +kubebuilder:validation:MaxItems=128
	Addresses []Address `json:"addresses,omitempty"`
	// AddressesUnread: it is on a pod network that is not known to be closed, and
	// nothing tells all of its addresses: it may carry others, of MayCarry, or where that
	// is left out, of its pod's networks.
	// +optional
	AddressesUnread bool `json:"addressesUnread,omitempty"`
	// MayCarry are the ranges of whereabouts that its CNI caches name, with AddressesUnread;
	// left out where the caches do not name all of its networks.
	// +optional
	// +kubebuilder:validation:MaxItems=128
	MayCarry []Network `json:"mayCarry,omitempty"`
}

// Network is a range of one of whereabouts' networks.
type Network struct {
	// Range is left out where it is not known: then it is any of the network.
	// +kubebuilder:validation:MaxLength=253
	Range string `json:"range,omitempty"`
	// NetworkName is whereabouts' network_name, "" for the unnamed network.
	// +kubebuilder:validation:MaxLength=253
	NetworkName string `json:"networkName,omitempty"`
}

// Attachment is a container id that the runtime does not list: one in a CNI cache,
// or one that was listed and whose network namespace is still there.
type Attachment struct {
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`
	// Since is when the cache entry appeared.
	Since metav1.Time `json:"since"`
	// +optional
	NetworkClosed *bool `json:"networkClosed,omitempty"`
	// NetNS is the path of its network namespace, for an agent that starts again.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	NetNS string `json:"netns,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	UID string `json:"uid,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=128
	Addresses []Address `json:"addresses,omitempty"`
}

// Gone is an id that was listed or attached and is not any more.
type Gone struct {
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id"`
	// +kubebuilder:validation:MaxLength=253
	UID   string      `json:"uid,omitempty"`
	Since metav1.Time `json:"since"`
}

// Address is a whereabouts address as it is configured in a sandbox.
type Address struct {
	// +kubebuilder:validation:MaxLength=253
	IP string `json:"ip"`
	// +kubebuilder:validation:MaxLength=253
	IfName string `json:"ifName,omitempty"`
	// Network is the name of the CNI network.
	// +kubebuilder:validation:MaxLength=253
	Network string `json:"network,omitempty"`
	// Range is the ipam range that the address came from.
	// +kubebuilder:validation:MaxLength=253
	Range string `json:"range,omitempty"`
	// NetworkName is whereabouts' network_name, "" for the unnamed network.
	// +kubebuilder:validation:MaxLength=253
	NetworkName string `json:"networkName,omitempty"`
}

// SandboxReportList is a list of reports.
//
// +kubebuilder:object:root=true
type SandboxReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxReport `json:"items"`
}
