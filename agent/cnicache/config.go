package cnicache

import (
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	netutils "k8s.io/utils/net"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// config is the part of a CNI network's config that determines its whereabouts addresses.
type config struct {
	multus   bool     // Multus is one of the plugins
	cniDir   string   // of Multus, if its config has one
	loopback bool     // loopback is the only plugin
	sources  []source // of whereabouts addresses
	ranges   int      // number of ranges that were read
}

// maxRanges limits the ranges of a config. A tenant may write any number, and each is compared with every address.
// The ranges of an ipam section beyond the limit are unknown.
const maxRanges = 256

// source is a range from which whereabouts assigns one address to a result. ipNet is nil if the range is unknown,
// because the section may take its ranges from whereabouts' own file on the node.
type source struct {
	v1alpha1.Network
	ipNet  *net.IPNet
	isUsed bool
}

type plugin struct {
	Type   string          `json:"type"`
	IPAM   json.RawMessage `json:"ipam"`
	CNIDir string          `json:"cniDir"`
}

// readConfig reads the config of a plugin or a chain. With an error it also returns what could be read.
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
		problem = cmp.Or(c.add(p), problem)
	}
	if !named {
		// libcni v1.3.0 also loads plugins from a folder that it does not cache (libcni/conf.go, NetworkConfFromFile).
		problem = errors.New("no plugins")
	}
	c.loopback = named && !others
	return c, problem
}

func (c *config) add(p plugin) error {
	if strings.HasPrefix(p.Type, "multus") {
		// Multus returns the result of its first delegate, which has a file of its own.
		c.multus = true
		if filepath.IsAbs(p.CNIDir) {
			c.cniDir = filepath.Clean(p.CNIDir)
		}
		return nil
	}
	sources, err := readIPAM(p.IPAM)
	if c.ranges += len(sources); c.ranges > maxRanges && len(sources) > 0 {
		sources = []source{{Network: v1alpha1.Network{NetworkName: sources[0].NetworkName}}}
	}
	c.sources = append(c.sources, sources...)
	return err
}

// readIPAM returns the sources of an ipam section in whereabouts' order, none for another plugin.
func readIPAM(raw json.RawMessage) ([]source, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var conf struct {
		Type        string `json:"type"`
		Range       string `json:"range"`
		NetworkName string `json:"network_name"`
		Ranges      []struct {
			Range string `json:"range"`
		} `json:"ipRanges"`
	}
	err := json.Unmarshal(raw, &conf) // a field of a wrong type does not prevent the others
	switch {
	case conf.Type == "":
		return nil, err
	case conf.Type != whereabouts:
		return nil, nil
	}
	if err == nil && len(conf.NetworkName) > maxName {
		err = errors.New("network_name is too long")
	}
	if err != nil {
		return []source{{}}, err
	}
	var sources []source
	add := func(text string) {
		// As in whereabouts: the network with its host bits cleared. In "10.0.0.10-10.0.0.20/24" the prefix length
		// follows the last address (v0.9.4, pkg/config/config.go, LoadIPAMConfig).
		if _, last, ok := strings.Cut(text, "-"); ok {
			text = last
		}
		if _, network, err := netutils.ParseCIDRSloppy(text); err == nil {
			named := v1alpha1.Network{Range: network.String(), NetworkName: conf.NetworkName}
			sources = append(sources, source{Network: named, ipNet: network})
		}
	}
	add(conf.Range)
	for _, r := range conf.Ranges {
		add(r.Range)
	}
	if len(sources) == 0 {
		sources = []source{{Network: v1alpha1.Network{NetworkName: conf.NetworkName}}}
	}
	return sources, nil
}

// addresses returns the addresses of a result that whereabouts assigned. whereabouts assigns one of each range, in
// their order (v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagement), which resolves overlapping ranges. Other
// addresses come from other plugins of the chain, or are static.
func (c config) addresses(ips []net.IP, ifName, network string) []v1alpha1.Address {
	sources := slices.Clone(c.sources)
	var found []v1alpha1.Address
	for _, ip := range ips {
		addr, ok := netip.AddrFromSlice(ip)
		from := slices.IndexFunc(sources, func(s source) bool { return s.ipNet != nil && !s.isUsed && s.ipNet.Contains(ip) })
		if from < 0 {
			from = slices.IndexFunc(sources, func(s source) bool { return s.ipNet == nil })
		}
		if !ok || from < 0 {
			continue
		}
		sources[from].isUsed = true
		n := sources[from].Network
		found = append(found, v1alpha1.Address{
			IP: addr.Unmap().String(), IfName: ifName, Network: network, NetworkName: n.NetworkName, Range: n.Range,
		})
	}
	return found
}
