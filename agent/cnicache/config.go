package cnicache

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	netutils "k8s.io/utils/net"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// config is the part of a CNI network's config that tells its whereabouts addresses.
type config struct {
	multus        bool   // Multus is one of its plugins
	cniDir        string // Multus', where its config names one
	loopback      bool   // loopback is its only plugin
	unknownPlugin bool   // one of the plugins may run others, see selfContained
	ipams         []ipam
	ranges        int // in all of them
}

// maxRanges is how many ranges of a config are read: a tenant writes as many into a definition
// as fit, and each would be compared with every address. What has more is not read in full.
const maxRanges = 256

// ipam is one ipam section. One of whereabouts without ranges may take them from
// whereabouts' own file on the node: they are unknown then.
type ipam struct {
	kind        string
	ranges      []*net.IPNet
	networkName string
}

type plugin struct {
	Type   string          `json:"type"`
	IPAM   json.RawMessage `json:"ipam"`
	CNIDir string          `json:"cniDir"`
}

// selfContained reports whether an interface or IPAM plugin is known to be configured
// by its own config alone and to delegate to no config from elsewhere. Flannel and others
// delegate to plugins whose config is embedded in their own.
func selfContained(plugin string) bool {
	switch plugin {
	// github.com/containernetworking/plugins
	case "bandwidth", "bridge", "dummy", "firewall", "flannel", "host-device", "ipvlan", "loopback", "macvlan", "portmap", "ptp",
		"sbr", "tap", "tuning", "vlan", "vrf", "dhcp", "host-local", "static":
		return true
	// Of clusters
	case "antrea", "aws-cni", "azure-cns", "azure-ipam", "azure-vnet", "azure-vnet-ipam", "calico", "calico-ipam", "cilium-cni",
		"egress-cni", "egress-v4-cni", "istio-cni", "kube-ovn", "linkerd-cni", "openshift-sdn", "ovn-k8s-cni-overlay", "weave-ipam", "weave-net":
		return true
	// Of secondary networks
	case "accelerated-bridge", "bond", "cnv-bridge", "cnv-tuning", "ib-sriov", "ib-sriov-cni", "ipoib", "macvtap", "nv-ipam", "ovs",
		"rdma", "route-override", "spiderpool", "sriov", whereabouts:
		return true
	}
	return false
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
	c.unknownPlugin = c.unknownPlugin || p.Type != "" && !selfContained(p.Type)
	i, err := readIPAM(p.IPAM)
	if c.ranges += len(i.ranges); c.ranges > maxRanges {
		i.ranges, err = nil, fmt.Errorf("has more than %d ranges", maxRanges)
	}
	switch {
	case i.kind == whereabouts:
		c.ipams = append(c.ipams, i)
	case i.kind != "" && !selfContained(i.kind):
		c.unknownPlugin = true
	}
	return err
}

func readIPAM(raw json.RawMessage) (ipam, error) {
	if len(raw) == 0 {
		return ipam{}, nil
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil || kind.Type != whereabouts {
		return ipam{kind: kind.Type}, err
	}
	var conf struct {
		Range       string `json:"range"`
		NetworkName string `json:"network_name"`
		Ranges      []struct {
			Range string `json:"range"`
		} `json:"ipRanges"`
	}
	if err := json.Unmarshal(raw, &conf); err != nil {
		return ipam{kind: kind.Type}, err
	}
	i := ipam{kind: kind.Type, networkName: conf.NetworkName}
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

// addresses are those of a result's that whereabouts gave. It gives one of each
// range, in their order (v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagement),
// which tells ranges that overlap apart. One in none of the ranges came from
// elsewhere in the chain, or is a static one of the config.
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
			if s.ipNet.Contains(ip) && (from == unknown || from.taken && !s.taken) {
				from = s
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
