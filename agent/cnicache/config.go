package cnicache

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	netutils "k8s.io/utils/net"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// config is the part of a CNI network's config that tells its whereabouts addresses.
type config struct {
	multus   bool   // Multus is one of its plugins
	cniDir   string // Multus', where its config names one
	loopback bool   // loopback is its only plugin
	ipams    []ipam // whereabouts'
	ranges   int    // in all of them
}

// maxRanges is how many ranges of a config are read: a tenant writes as many into a definition
// as fit, and each would be compared with every address. Those of the ipam section that has
// more are unknown.
const maxRanges = 256

// ipam is one ipam section of whereabouts. One without ranges may take them from
// whereabouts' own file on the node: they are unknown then.
type ipam struct {
	ranges      []*net.IPNet
	networkName string
}

type plugin struct {
	Type   string          `json:"type"`
	IPAM   json.RawMessage `json:"ipam"`
	CNIDir string          `json:"cniDir"`
}

// readConfig reads the config of a single plugin or of a chain. With an error what
// could be read is returned all the same.
func readConfig(data []byte) (config, error) {
	var list struct {
		plugin
		Plugins []plugin `json:"plugins"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return config{}, err
	}
	var c config
	var named, others bool
	var problem error
	for _, p := range append(list.Plugins, list.plugin) {
		named = named || p.Type != ""
		others = others || p.Type != "" && p.Type != "loopback"
		if err := c.add(p); err != nil {
			problem = err
		}
	}
	if !named {
		// libcni v1.3.0 loads plugins from a folder too, and does not cache them
		// (libcni/conf.go, NetworkConfFromFile).
		problem = errors.New("names no plugin")
	}
	c.loopback = named && !others
	return c, problem
}

func (c *config) add(p plugin) error {
	if strings.HasPrefix(p.Type, "multus") {
		// What it returned is its first delegate's, which has a result of its own.
		c.multus = true
		if filepath.IsAbs(p.CNIDir) {
			c.cniDir = filepath.Clean(p.CNIDir)
		}
		return nil
	}
	i, err := readIPAM(p.IPAM)
	if i == nil {
		return err
	}
	if c.ranges += len(i.ranges); c.ranges > maxRanges {
		i.ranges = nil
	}
	c.ipams = append(c.ipams, *i)
	return err
}

// readIPAM returns nil where it is no section of whereabouts.
func readIPAM(raw json.RawMessage) (*ipam, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil || kind.Type != whereabouts {
		return nil, err
	}
	var conf struct {
		Range       string `json:"range"`
		NetworkName string `json:"network_name"`
		Ranges      []struct {
			Range string `json:"range"`
		} `json:"ipRanges"`
	}
	if err := json.Unmarshal(raw, &conf); err != nil {
		return &ipam{}, err
	}
	if len(conf.NetworkName) > maxName {
		return &ipam{}, errors.New("a longer network_name than a pool can have")
	}
	i := &ipam{networkName: conf.NetworkName}
	i.add(conf.Range)
	for _, r := range conf.Ranges {
		i.add(r.Range)
	}
	return i, nil
}

// add takes a range as whereabouts does: its network, host bits cleared, also
// of "10.0.0.10-10.0.0.20/24", where the prefix length stands at the last
// address (v0.9.4, pkg/config/config.go, LoadIPAMConfig).
func (i *ipam) add(text string) {
	if _, last, ok := strings.Cut(text, "-"); ok {
		text = last
	}
	if _, network, err := netutils.ParseCIDRSloppy(text); err == nil {
		i.ranges = append(i.ranges, network)
	}
}

// rangeSlot is a range from which whereabouts gives a result one address. ipNet is nil
// where the range is unknown.
type rangeSlot struct {
	ipNet       *net.IPNet
	networkName string
	taken       bool
}

// rangeSlots returns the ranges in whereabouts' order, and the slot of unknown ranges,
// nil where all are known.
func (c config) rangeSlots() (slots []*rangeSlot, unknown *rangeSlot) {
	for _, i := range c.ipams {
		for _, r := range i.ranges {
			slots = append(slots, &rangeSlot{ipNet: r, networkName: i.networkName})
		}
		if len(i.ranges) == 0 && unknown == nil {
			unknown = &rangeSlot{networkName: i.networkName}
		}
	}
	return slots, unknown
}

// networks are where its addresses are from.
func (c config) networks() (all []v1alpha1.Network) {
	for _, i := range c.ipams {
		for _, r := range i.ranges {
			all = append(all, v1alpha1.Network{Range: r.String(), NetworkName: i.networkName})
		}
		if len(i.ranges) == 0 {
			all = append(all, v1alpha1.Network{NetworkName: i.networkName})
		}
	}
	return all
}

// addresses are those of a result's that whereabouts gave. It gives one of each
// range, in their order (v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagement),
// which tells ranges that overlap apart. One more than there are ranges, or in none of
// them, came from elsewhere in the chain, or is a static one of the config.
func (c config) addresses(ips []net.IP, ifName, network string) []address {
	slots, unknown := c.rangeSlots()
	var found []address
	for _, ip := range ips {
		addr, ok := netip.AddrFromSlice(ip)
		if !ok {
			continue
		}
		from := unknown
		for _, s := range slots {
			if s.ipNet.Contains(ip) && !s.taken {
				from = s
				break
			}
		}
		if from == nil {
			continue
		}
		a := address{addr: addr.Unmap(), Address: v1alpha1.Address{IfName: ifName, Network: network, NetworkName: from.networkName}}
		a.IP = a.addr.String()
		if from.ipNet != nil {
			from.taken = true
			a.Range = from.ipNet.String()
		}
		found = append(found, a)
	}
	return found
}
