package podstate

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"strings"
)

// NetworkStatus is the outcome of reading a pod's network-status annotation.
type NetworkStatus int

const (
	StatusMissing    NetworkStatus = iota // no annotation, or an empty one
	StatusUnreadable                      // not JSON, one entry or address that cannot be parsed, more than 128 addresses, or more than 64 entries without any
	StatusReadable
)

const (
	statusAnnotation = "k8s.v1.cni.cncf.io/network-status"
	// oldStatusAnnotation was written beside the present one by Multus before v4.
	oldStatusAnnotation = "k8s.v1.cni.cncf.io/networks-status"
)

// Interface is one entry of a pod's network-status.
type Interface struct {
	Network   string // as the status names it: "<namespace>/<NAD>", or a plain CNI network name
	Name      string // net1, eth0
	Default   bool   // the cluster's default network
	Addresses []netip.Addr
}

// NAD is the NetworkAttachmentDefinition that the interface's network names.
// A name without a namespace is a CNI network's own and names none.
func (i Interface) NAD() (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(i.Network, "/")
	return namespace, name, ok && namespace != "" && name != ""
}

// readNetworkStatus takes the addresses that can be read even where others
// cannot: one that is there counts as use, and the status as a whole is then
// no proof that another is not.
func readNetworkStatus(annotations map[string]string) (NetworkStatus, []Interface) {
	text := cmp.Or(strings.TrimSpace(annotations[statusAnnotation]), strings.TrimSpace(annotations[oldStatusAnnotation]))
	if text == "" {
		return StatusMissing, nil
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
	left, empty := maxAddresses, 0
	for _, entry := range entries {
		i, readable := entry.read(left)
		if i != nil && len(i.Addresses) == 0 {
			if empty++; empty > maxEmpty {
				i = nil
			}
		}
		if i != nil {
			interfaces = append(interfaces, *i)
			left -= len(i.Addresses)
		}
		if i == nil || !readable {
			status = StatusUnreadable
		}
	}
	return status, interfaces
}

// maxAddresses is how many addresses of a network-status are read: a tenant writes as
// many into its own as fit, and each would be looked up.
const maxAddresses = 128

// maxEmpty is how many entries without an address are kept: "{}" would take twenty times
// its length in memory, and be gone through for each of the addresses.
const maxEmpty = 64

// statusEntry is an entry of the annotation. As for Multus, names are the same in any case.
type statusEntry struct {
	Name, Interface string
	Default         bool
	IPs             []*string
}

// readEntries reads the list. An entry that cannot be read is nil.
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

// read reads the entry and at most so many of its addresses. The result is nil for an entry that cannot be read, and
// isReadable is false where an address cannot.
func (e *statusEntry) read(most int) (i *Interface, isReadable bool) {
	if e == nil {
		return nil, false
	}
	i, isReadable = &Interface{Network: intern(e.Name), Name: intern(e.Interface), Default: e.Default}, true
	for _, ip := range e.IPs {
		if ip == nil {
			isReadable = false
		} else if a, err := parseAddr(*ip); err == nil && len(i.Addresses) < most {
			i.Addresses = append(i.Addresses, a)
		} else {
			isReadable = false
		}
	}
	return i, isReadable
}

// parseAddr reads an address in any spelling, with or without a prefix length:
// addresses are compared as addresses, never as strings.
func parseAddr(text string) (netip.Addr, error) {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err
}
