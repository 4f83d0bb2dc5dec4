package podstate

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
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
	text := strings.TrimSpace(annotations[statusAnnotation])
	if text == "" {
		text = strings.TrimSpace(annotations[oldStatusAnnotation])
	}
	if text == "" {
		return StatusMissing, nil
	}
	r := lean.New([]byte(text))
	if r.Null() && r.End() == nil {
		return StatusMissing, nil
	}
	status := StatusReadable
	var interfaces []Interface
	left, empty := maxAddresses, 0
	list := r.Array(func() {
		i, readable := readInterface(r, left)
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
	})
	switch {
	case !list || r.End() != nil:
		return StatusUnreadable, nil
	case interfaces == nil && status == StatusReadable: // an empty list
		return StatusMissing, nil
	}
	return status, interfaces
}

// maxAddresses is how many addresses of a network-status are read: a tenant writes as
// many into its own as fit, and each would be looked up.
const maxAddresses = 128

// maxEmpty is how many entries without an address are kept: "{}" would take twenty times
// its length in memory, and be gone through for each of the addresses.
const maxEmpty = 64

// readInterface reads an entry and at most so many of its addresses, nil if it is
// none; readable is whether all of its addresses are. As for Multus, names are the
// same in any case.
func readInterface(r *lean.Reader, most int) (i *Interface, readable bool) {
	i, readable = &Interface{}, true
	typed := true // every field has the type that it must have
	object := r.Object(func(name []byte) {
		switch {
		case bytes.EqualFold(name, []byte("name")):
			typed = readText(r, &i.Network) && typed
		case bytes.EqualFold(name, []byte("interface")):
			typed = readText(r, &i.Name) && typed
		case bytes.EqualFold(name, []byte("default")):
			typed = readBool(r, &i.Default) && typed
		case bytes.EqualFold(name, []byte("ips")):
			if i.Addresses, readable = nil, true; r.Null() {
				return
			}
			typed = r.Array(func() {
				if r.Null() {
					readable = false
					return
				}
				text, ok := r.String()
				typed = ok && typed
				if a, err := parseAddr(string(text)); err == nil && len(i.Addresses) < most {
					i.Addresses = append(i.Addresses, a)
				} else {
					readable = false
				}
			}) && typed
		}
	})
	if !object || !typed {
		return nil, false
	}
	return i, readable
}

// readText reads a text; null leaves what is there. It reports whether the value
// was one of them.
func readText(r *lean.Reader, into *string) bool {
	if r.Null() {
		return true
	}
	text, ok := r.String()
	if ok {
		*into = intern(string(text))
	}
	return ok
}

func readBool(r *lean.Reader, into *bool) bool {
	if r.Null() {
		return true
	}
	switch text := string(r.Raw()); text {
	case "true", "false":
		*into = text == "true"
		return true
	}
	return false
}

// parseAddr reads an address in any spelling, with or without a prefix length:
// addresses are compared as addresses, never as strings.
func parseAddr(text string) (netip.Addr, error) {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err
}
