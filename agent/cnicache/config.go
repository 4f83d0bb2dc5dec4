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
	"github.com/ip-reconcile/ip-reconcile/internal/cniconf"
)

// config is the part of a CNI network's config that determines its whereabouts addresses.
type config struct {
	name     string   // "" if it is longer than maxName: no file has such a name
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
	// assigns: the plugin of the section creates the interface and runs its ipam plugin. Other plugins of a chain add to
	// its result, and most ignore an ipam section.
	assigns bool
}

// contains reports whether an address may be from the source.
func (s *source) contains(ip net.IP) bool { return s.ipNet == nil || s.ipNet.Contains(ip) }

type plugin struct {
	Type   string          `json:"type"`
	IPAM   json.RawMessage `json:"ipam"`
	CNIDir string          `json:"cniDir"`
	Args   json.RawMessage `json:"args"` // the pod's cni-args, by Multus
}

// runsNoIPAM are the plugins of the CNI project that may be the first of a network and run no ipam plugin. The first
// three are ipam plugins themselves: they read the section, whatever type it has.
func runsNoIPAM() []string {
	return []string{"static", "host-local", "dhcp", "loopback", "tuning", "portmap", "bandwidth", "firewall", "sbr", "vrf"}
}

// readConfig reads the config of a plugin or a chain, of the runtime or of a network of Multus. With an error it also
// returns what could be read. It is an error if whereabouts is mentioned in a place that is not read, because the
// network may then have addresses of whereabouts that are not known: a plugin may run others by a config of its own.
func readConfig(data []byte, ofRuntime bool) (config, error) {
	var list struct {
		Name    json.RawMessage   `json:"name"`
		Plugins []json.RawMessage `json:"plugins"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return config{}, err
	}
	var c config
	var named, others bool
	var problem error
	read := cniconf.Mentions(list.Name, whereabouts)
	for i, raw := range append(list.Plugins, data) {
		var p plugin
		problem = cmp.Or(json.Unmarshal(raw, &p), problem)
		named = named || p.Type != ""
		others = others || p.Type != "" && p.Type != "loopback"
		known, err := c.add(p, raw, ofRuntime, i == 0 && !slices.Contains(runsNoIPAM(), p.Type))
		read += known
		problem = cmp.Or(err, problem)
	}
	if !named {
		// libcni v1.3.0 also loads plugins from a folder that it does not cache (libcni/conf.go, NetworkConfFromFile).
		problem = errors.New("no plugins")
	}
	if problem == nil && cniconf.Mentions(data, whereabouts) > read {
		problem = errors.New("whereabouts outside of an ipam section: the addresses of such a network are unknown")
	}
	if json.Unmarshal(list.Name, &c.name) != nil || len(c.name) > maxName {
		c.name = ""
	}
	c.loopback = named && !others
	return c, problem
}

// add adds a plugin, and returns the mentions of whereabouts that were read.
func (c *config) add(p plugin, raw []byte, ofRuntime, assigns bool) (int, error) {
	if strings.HasPrefix(p.Type, "multus") {
		c.multus = true
		if !ofRuntime {
			// It may attach the sandbox to networks that neither this config nor Multus' own file names.
			return 0, errors.New("Multus is a plugin of one of its networks: the networks of the inner one are unknown")
		}
		// Multus returns the result of its first delegate, which has a file of its own.
		if filepath.IsAbs(p.CNIDir) {
			c.cniDir = filepath.Clean(p.CNIDir)
		}
		return cniconf.Mentions(raw, whereabouts), nil
	}
	sources, err := readIPAM(p.IPAM)
	if c.ranges += len(sources); c.ranges > maxRanges && len(sources) > 0 {
		sources = []source{{Network: v1alpha1.Network{NetworkName: sources[0].NetworkName}}}
	}
	read := cniconf.Mentions(p.Args, whereabouts) // no plugin takes another's config from there
	if len(sources) == 0 {
		return read, err
	}
	for i := range sources {
		sources[i].assigns = assigns
	}
	c.sources = append(c.sources, sources...)
	return read + cniconf.Mentions(p.IPAM, whereabouts), err
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

// addresses returns the addresses of a result that are in ranges of whereabouts. whereabouts assigns one of each range,
// in their order (v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagement), which resolves overlapping ranges. Another
// address of the ranges is static, or comes from another plugin of the chain, and is unattributed.
func (c config) addresses(ips []net.IP, ifName, network string) []v1alpha1.Address {
	sources := slices.Clone(c.sources)
	var found []v1alpha1.Address
	isKnown := map[netip.Addr]bool{}
	for _, ip := range ips {
		addr, ok := netip.AddrFromSlice(ip)
		if addr = addr.Unmap(); isKnown[addr] {
			continue
		}
		isKnown[addr] = true
		from := -1
		for _, mayBe := range []func(source) bool{
			func(s source) bool { return s.assigns && s.ipNet != nil && !s.isUsed && s.contains(ip) },
			func(s source) bool { return s.assigns && s.ipNet == nil },
			func(s source) bool { return s.contains(ip) },
		} {
			if from < 0 {
				from = slices.IndexFunc(sources, mayBe)
			}
		}
		if !ok || from < 0 {
			continue
		}
		if len(found) == maxKept {
			break
		}
		s := &sources[from]
		isOther := !s.assigns || s.isUsed && s.ipNet != nil
		s.isUsed = true
		found = append(found, v1alpha1.Address{
			IP: addr.String(), IfName: ifName, Network: network, NetworkName: s.NetworkName, Range: s.Range,
			Unattributed: isOther,
		})
	}
	return found
}
