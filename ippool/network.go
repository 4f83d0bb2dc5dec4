package ippool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"

	"github.com/ip-reconcile/ip-reconcile/internal/cniconf"
)

// NADResource is the resource of NetworkAttachmentDefinitions.
var NADResource = schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1",
	Resource: "network-attachment-definitions"}

// NAD is the part of a NetworkAttachmentDefinition about whereabouts. Networks is empty for another IPAM. With a
// Problem the definition cannot be parsed and says nothing about any pool.
type NAD struct {
	types.NamespacedName
	ResourceVersion string
	Networks        []Network
	Problem         string
}

const whereabouts = "whereabouts"

const onNodes = "the network is configured on the nodes"

// IsOnNodes reports whether the definition has a Problem only because its network is configured on the nodes.
func (n *NAD) IsOnNodes() bool { return strings.HasSuffix(n.Problem, onNodes) }

// Network is one whereabouts IPAM section.
type Network struct {
	Name        string // network_name, "" for the unnamed network
	Ranges      []netip.Prefix
	Overlapping bool // enable_overlapping_ranges, true by default
	Slices      bool // node_slice_size is set: the pools are parts of the range
	SliceBits   int  // the length of those parts' prefixes; 0 where it cannot be read
	// SliceSize is node_slice_size as it is written: whereabouts' node controller compares the texts of definitions.
	SliceSize string
	// SlicePool is the NodeSlicePool whose slices they are; "" without Slices. It has the network_name, or else the name
	// of the CNI configuration (whereabouts v0.9.4, pkg/node-controller/controller.go, getSliceName).
	SlicePool string
	// Bounds are those of the Ranges, in their order.
	Bounds []Bounds
	// Gateway is the address that pods get as their gateway, invalid without one. whereabouts assigns it to a pod as any
	// other address, unless it is excluded (v0.9.4, pkg/allocate/allocate.go, IterateForAssignment).
	Gateway netip.Addr
	// Segment is that of the plugin which has the section.
	Segment Segment
	// Refused is why every ADD by this section fails, "" for no reason. Addresses assigned before an edit remain valid.
	Refused string
}

// MaxRanges is how many ranges of a definition are read. A definition with more cannot be read: tenants write
// definitions, and each range is compared with every pool.
const MaxRanges = 256

// maxConfig limits the text that is decoded. An object of an API server has less; one in a file may have more.
const maxConfig = 2 << 20

// read reads a definition as whereabouts does (v0.9.4, pkg/config/config.go, LoadIPAMConfig).
func (n *NAD) read(o *object) {
	n.NamespacedName, n.ResourceVersion = o.name(), o.ResourceVersion
	config, isText := o.Spec["config"].(string)
	err := errors.New("spec.config is not a string")
	if isText || o.Spec["config"] == nil {
		n.Networks, err = readConfig(config)
	}
	if err != nil {
		n.Problem = err.Error()
	}
}

func readConfig(config string) ([]Network, error) {
	if len(config) > maxConfig {
		return nil, fmt.Errorf("spec.config has more than %d bytes", maxConfig)
	}
	if strings.TrimSpace(config) == "" {
		return nil, errors.New("spec.config is empty: " + onNodes)
	}
	type plugin struct {
		IPAM json.RawMessage `json:"ipam"`
	}
	var list struct {
		plugin
		Name    json.RawMessage `json:"name"`
		Plugins []plugin        `json:"plugins"`
	}
	if err := json.Unmarshal([]byte(config), &list); err != nil {
		return nil, fmt.Errorf("spec.config is not JSON: %w", err)
	}
	var networks []Network
	var name string
	_ = json.Unmarshal(list.Name, &name) // a config without a name is refused elsewhere
	ranges, read := 0, cniconf.Mentions(list.Name, whereabouts)
	var sections []int // the plugin of each network
	for i, p := range append(list.Plugins, list.plugin) {
		if len(p.IPAM) == 0 {
			continue
		}
		n, ok, err := readIPAM(p.IPAM)
		if err != nil {
			return nil, err
		}
		if ranges += len(n.Ranges); ranges > MaxRanges {
			return nil, fmt.Errorf("spec.config has more than %d ranges", MaxRanges)
		}
		if ok {
			if n.Slices {
				n.SlicePool = cmp.Or(n.Name, name)
			}
			networks, sections = append(networks, n), append(sections, i)
			read += cniconf.Mentions(p.IPAM, whereabouts)
		}
	}
	switch {
	case cniconf.Mentions([]byte(config), whereabouts) > read:
		return nil, errors.New("spec.config mentions whereabouts outside of an ipam section: its ranges are unknown")
	case runsMultus(config):
		return nil, errors.New("spec.config runs Multus, whose networks are unknown")
	}
	readSegments(config, sections, networks)
	return networks, nil
}

// runsMultus reports whether a config that can be parsed has Multus as a plugin.
func runsMultus(config string) bool {
	if cniconf.Mentions([]byte(config), "multus") == 0 { // most have not, and types take memory
		return false
	}
	type plugin struct {
		Type string `json:"type"`
	}
	var list struct {
		plugin
		Plugins []plugin `json:"plugins"`
	}
	_ = json.Unmarshal([]byte(config), &list)
	return slices.ContainsFunc(append(list.Plugins, list.plugin), func(p plugin) bool {
		return strings.HasPrefix(p.Type, "multus")
	})
}

// ipamRange is a range of an ipam section.
type ipamRange struct {
	Range   string `json:"range"`
	Start   string `json:"range_start"`
	End     string `json:"range_end"`
	Exclude []any  `json:"exclude"`
}

func readIPAM(raw json.RawMessage) (Network, bool, error) {
	var ipam struct {
		ipamRange
		Type        string      `json:"type"`
		NetworkName string      `json:"network_name"`
		SliceSize   string      `json:"node_slice_size"`
		Gateway     any         `json:"gateway"`
		Overlapping *bool       `json:"enable_overlapping_ranges"`
		Ranges      []ipamRange `json:"ipRanges"`
	}
	if err := json.Unmarshal(raw, &ipam); err != nil {
		return Network{}, false, fmt.Errorf("ipam section: %w", err)
	}
	if ipam.Type != whereabouts {
		return Network{}, false, nil
	}
	n := Network{Name: ipam.NetworkName, Slices: ipam.SliceSize != "", SliceSize: ipam.SliceSize,
		Overlapping: ipam.Overlapping == nil || *ipam.Overlapping}
	bits, err := strconv.Atoi(strings.TrimPrefix(ipam.SliceSize, "/"))
	if err == nil && n.Slices && bits > 0 && bits <= 128 {
		n.SliceBits = bits
	}
	if text := fmt.Sprint(ipam.Gateway); ipam.Gateway != nil && ipam.Gateway != "" {
		if n.Gateway = addrOf(netutils.ParseIPSloppy(text)); !n.Gateway.IsValid() {
			n.Refused = fmt.Sprintf("gateway %q is not an address", text)
		}
	}
	n.Refused = cmp.Or(n.Refused, refusedFields(raw))
	ranges, listed := ipam.Ranges, 0 // from where on they are those of ipRanges
	if ipam.Range != "" {
		ranges, listed = append([]ipamRange{ipam.ipamRange}, ranges...), 1
	}
	if len(ranges) == 0 {
		return Network{}, false, errors.New("ipam section without a range: " + onNodes)
	}
	for i, text := range ranges {
		r, err := ParseConfiguredRange(text.Range)
		if err != nil {
			return Network{}, false, err
		}
		bounds, err := text.bounds(i >= listed)
		if err != nil {
			n.Refused = cmp.Or(n.Refused, err.Error())
		}
		n.Ranges, n.Bounds = append(n.Ranges, r), append(n.Bounds, bounds)
	}
	return n, true, nil
}

// ParseConfiguredRange parses a range of a CNI configuration, as "10.0.0.0/24" or "10.0.0.5-10.0.0.0/24". As
// whereabouts it takes leading zeros, and reads "010.0.0.0/24" as 10.0.0.0/24.
func ParseConfiguredRange(text string) (netip.Prefix, error) {
	if _, cidr, ok := strings.Cut(text, "-"); ok {
		text = cidr
	}
	r, err := ParseRange(text)
	if err != nil {
		if _, network, sloppyErr := netutils.ParseCIDRSloppy(text); sloppyErr == nil {
			r, err = ParseRange(network.String())
		}
	}
	return r.Prefix(), err
}

// Maps reports whether whereabouts would use this pool for the network: the same network_name, and the same range or a
// slice of it. names are the pool's Networks; nil admits any.
func (n Network) Maps(p *Pool, names []string) bool {
	if names != nil && !slices.Contains(names, n.Name) {
		return false
	}
	for _, r := range n.Ranges {
		if r == p.Range.Prefix() || n.Slices && r.Bits() <= p.Range.Prefix().Bits() && r.Contains(p.Range.Prefix().Addr()) {
			return true
		}
	}
	return false
}

// SliceOf is the node, known or not, whose slice of the network the pool may be, by its range and name. Another
// network's pool may have such a name, too.
func (n Network) SliceOf(p *Pool) (node string, ok bool) {
	if !n.Slices {
		return "", false
	}
	node, ok = p.namePrefix()
	if n.Name != "" {
		var named bool
		node, named = strings.CutPrefix(node, n.Name+"-")
		ok = ok && named
	}
	return node, ok && node != "" && n.Maps(p, nil)
}
