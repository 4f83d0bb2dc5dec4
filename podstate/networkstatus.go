package podstate

import (
	"encoding/json"
	"net/netip"
	"strings"
)

// NetworkStatus says what became of reading a pod's network-status annotation.
type NetworkStatus int

const (
	StatusMissing    NetworkStatus = iota // no annotation, or an empty one
	StatusUnreadable                      // not JSON, or one entry or address that cannot be parsed
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
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return StatusUnreadable, nil
	}
	if len(raw) == 0 {
		return StatusMissing, nil
	}
	status := StatusReadable
	var interfaces []Interface
	for _, r := range raw {
		var entry *struct {
			Name      string   `json:"name"`
			Interface string   `json:"interface"`
			Default   bool     `json:"default"`
			IPs       []string `json:"ips"`
		}
		if err := json.Unmarshal(r, &entry); err != nil || entry == nil {
			status = StatusUnreadable
			continue
		}
		i := Interface{Network: entry.Name, Name: entry.Interface, Default: entry.Default}
		for _, text := range entry.IPs {
			a, err := parseAddr(text)
			if err != nil {
				status = StatusUnreadable
				continue
			}
			i.Addresses = append(i.Addresses, a)
		}
		interfaces = append(interfaces, i)
	}
	return status, interfaces
}

// parseAddr reads an address in any spelling, with or without a prefix length:
// addresses are compared as addresses, never as strings.
func parseAddr(text string) (netip.Addr, error) {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err
}
