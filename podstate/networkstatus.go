package podstate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NetworkStatus is the result of reading a pod's network-status annotation.
type NetworkStatus int

const (
	StatusMissing    NetworkStatus = iota // no annotation, or an empty one
	StatusUnreadable                      // not JSON, a bad entry or address, or more of them than the limits below
	StatusReadable
)

func (s NetworkStatus) String() string { return [...]string{"Missing", "Unreadable", "Readable"}[s] }

const (
	statusAnnotation = "k8s.v1.cni.cncf.io/network-status"
	// oldStatusAnnotation is the annotation of Multus before v4.
	oldStatusAnnotation = "k8s.v1.cni.cncf.io/networks-status"
)

// Interface is one entry of a pod's network-status.
type Interface struct {
	Network   string // "<namespace>/<NAD>", or a plain CNI network name
	Name      string // net1, eth0
	Default   bool   // the cluster's default network
	Addresses []netip.Addr
}

// NAD returns the NetworkAttachmentDefinition of the interface. A network name without a namespace is that of a CNI
// network and has none.
func (i Interface) NAD() (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(i.Network, "/")
	return namespace, name, ok && namespace != "" && name != ""
}

// readNetworkStatus returns all addresses that can be read, even if others cannot. Each is in use, but an
// unreadable status is no proof that another address is not.
func readNetworkStatus(annotations map[string]string) (NetworkStatus, []Interface) {
	text := cmp.Or(strings.TrimSpace(annotations[statusAnnotation]), strings.TrimSpace(annotations[oldStatusAnnotation]))
	if text == "" {
		return StatusMissing, nil
	}
	if len(text) > maxAnnotation {
		return StatusUnreadable, nil
	}
	entries, err := readEntries([]byte(text))
	if err != nil {
		return StatusUnreadable, nil
	}
	if len(entries) == 0 {
		return StatusMissing, nil
	}
	status := StatusReadable
	var interfaces []Interface
	limit, empty := maxAddresses, 0
	for _, entry := range entries {
		i, isReadable := entry.read(limit)
		if i != nil && len(i.Addresses) == 0 {
			if empty++; empty > maxEmpty {
				i = nil
			}
		}
		if i != nil {
			interfaces = append(interfaces, *i)
			limit -= len(i.Addresses)
		}
		if i == nil || !isReadable {
			status = StatusUnreadable
		}
	}
	return status, interfaces
}

// mayBeCopied reports whether a pod has a network-status and nothing shows that it had a sandbox yet. So does a pod
// between CNI ADD and kubelet's next write of its status.
func mayBeCopied(o *corev1.Pod) bool {
	return phase(o) == Pending && o.Annotations[statusAnnotation]+o.Annotations[oldStatusAnnotation] != "" &&
		o.Status.PodIP == "" && len(o.Status.PodIPs) == 0 &&
		!slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
		})
}

// isCopied reports whether the network-status of a pod is of another pod: the pod was created with it, and nobody has
// written it since. Backup tools restore pods so. managedFields prove it: the only manager of the annotation is that of
// the containers, which is who created the pod, and it wrote nothing after the creation. Multus would be a second one.
// Without managedFields the answer is false.
func isCopied(o *corev1.Pod) bool {
	isProven := false
	for _, f := range o.ManagedFields {
		has := func(field string) bool {
			return f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:`+field+`"`))
		}
		if !has(statusAnnotation) && !has(oldStatusAnnotation) {
			continue
		}
		isProven = f.Subresource == "" && has("containers") && f.Time != nil && f.Time.Equal(&o.CreationTimestamp)
		if !isProven {
			return false
		}
	}
	return isProven && mayBeCopied(o)
}

// ManagedFields are the fields that isCopied finds in managedFields.
var ManagedFields = []string{"f:" + statusAnnotation, "f:" + oldStatusAnnotation, "f:containers"}

// maxAddresses limits the addresses of a network-status, because a tenant may write any number.
const maxAddresses = 128

// maxEmpty limits the entries without an address, because "{}" needs twenty times its length in memory.
const maxEmpty = 64

// maxAnnotation is the size in bytes of all annotations that an API server accepts. Objects in files may have more.
const maxAnnotation = 256 << 10

// maxName limits the names that are kept of a network-status: "<namespace>/<name>" of a definition is shorter.
const maxName = 512

// statusEntry is an entry of the annotation. Names of fields match in any case, as in Multus.
type statusEntry struct {
	Name, Interface string
	Default         bool
	IPs             []*string
}

// readEntries decodes the list. An entry that cannot be decoded is nil.
func readEntries(text []byte) (entries []*statusEntry, err error) {
	if json.Unmarshal(text, &entries) == nil {
		return entries, nil
	}
	var each []json.RawMessage
	if err := json.Unmarshal(text, &each); err != nil {
		return nil, err
	}
	entries = make([]*statusEntry, len(each))
	for i, text := range each {
		if json.Unmarshal(text, &entries[i]) != nil {
			entries[i] = nil
		}
	}
	return entries, nil
}

// read returns the interface with at most limit addresses, nil for a nil entry. isReadable is false if an address could
// not be read.
func (e *statusEntry) read(limit int) (i *Interface, isReadable bool) {
	if e == nil {
		return nil, false
	}
	isReadable = len(e.Name) <= maxName && len(e.Interface) <= maxName
	if !isReadable { // its addresses are in use
		e.Name, e.Interface = "", ""
	}
	i = &Interface{Network: intern(e.Name), Name: intern(e.Interface), Default: e.Default}
	for _, ip := range e.IPs {
		if ip == nil {
			isReadable = false
		} else if a, err := parseAddr(*ip); err == nil && len(i.Addresses) < limit {
			i.Addresses = append(i.Addresses, a)
		} else {
			isReadable = false
		}
	}
	return i, isReadable
}

// parseAddr parses an address in any spelling, with or without a prefix length. Addresses are compared as addresses,
// never as strings.
func parseAddr(text string) (netip.Addr, error) {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err
}
