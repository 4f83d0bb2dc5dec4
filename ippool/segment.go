package ippool

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Segment is the layer 2 on which a definition puts its interfaces, as far as its CNI config names it. The zero value
// is unknown.
type Segment struct {
	Master string // the interface, or the bridge, of the node; "" if it is unknown
	VLAN   int    // the tag on that; 0 for none
}

// IsKnown reports whether the definition names the interface or the bridge.
func (s Segment) IsKnown() bool { return s.Master != "" }

// String names the segment for a person.
func (s Segment) String() string {
	text := s.Master
	if text == "" {
		text = "unknown"
	}
	if s.VLAN != 0 {
		text += fmt.Sprintf(", VLAN %d", s.VLAN)
	}
	return text
}

// maxMaster limits the name of a master. Linux has 15 bytes for the name of an interface.
const maxMaster = 64

// segmentFields are the fields of a plugin that name its segment. They accept any JSON value: one that cannot be read
// makes the segment unknown, and nothing else.
type segmentFields struct {
	Type      json.RawMessage `json:"type"`
	Master    json.RawMessage `json:"master"`
	Bridge    json.RawMessage `json:"bridge"`
	Device    json.RawMessage `json:"device"`
	VLAN      json.RawMessage `json:"vlan"`
	VLANID    json.RawMessage `json:"vlanId"`
	Inside    json.RawMessage `json:"linkInContainer"`
	VLANTrunk json.RawMessage `json:"vlanTrunk"`
	Trunk     json.RawMessage `json:"trunk"`
}

// segmentNames are the JSON names of segmentFields, but type.
var segmentNames = []string{"master", "bridge", "device", "vlan", "vlanId", "linkInContainer", "vlanTrunk", "trunk"}

// readSegments reads the segments of networks, each of which is of a plugin by its number. The config, which can be
// parsed, is itself the plugin after those of its list.
func readSegments(config string, plugins []int, networks []Network) {
	if len(networks) == 0 { // most have none, and the fields take memory
		return
	}
	var list struct {
		Plugins []json.RawMessage `json:"plugins"`
	}
	_ = json.Unmarshal([]byte(config), &list)
	list.Plugins = append(list.Plugins, json.RawMessage(config))
	for i := range networks {
		var p segmentFields
		if json.Unmarshal(list.Plugins[plugins[i]], &p) == nil {
			networks[i].Segment = p.segment()
		}
	}
}

// segment reads the segment of a plugin: of macvlan, ipvlan, vlan, ipoib and host-device (CNI plugins v1.9.0,
// plugins/main), bridge and its copies, ovs (ovs-cni v0.39.0, pkg/types), and the VLAN of sriov. A plugin of another
// type, a link that is inside of the container, and a trunk of VLANs have an unknown one. So has a plugin without a
// master, which takes the interface of the default route, and differs from node to node.
func (p *segmentFields) segment() Segment {
	var s Segment
	isTrunk := isGiven(p.VLANTrunk) || isGiven(p.Trunk)
	isKnown := !isTrunk && !isGiven(p.Inside)
	switch kind := textOf(p.Type); kind {
	case "macvlan", "ipvlan", "ipoib":
		s.Master = textOf(p.Master)
	case "vlan":
		s.Master = textOf(p.Master)
		isKnown = isKnown && s.readVLAN(p.VLANID) && s.VLAN != 0
	case "bridge", "cnv-bridge", "ovs":
		s.Master = textOf(p.Bridge)
		isKnown = isKnown && s.readVLAN(p.VLAN)
	case "host-device":
		s.Master = textOf(p.Device)
	case "sriov", "ib-sriov": // the master is that of a device which is assigned to the pod
		isKnown = isKnown && s.readVLAN(p.VLAN)
	}
	if !isKnown || len(s.Master) > maxMaster {
		return Segment{}
	}
	s.Master = strings.Clone(s.Master)
	return s
}

// readVLAN reads a VLAN, and reports whether it can be read. None is 0.
func (s *Segment) readVLAN(raw json.RawMessage) bool {
	if !isGiven(raw) {
		return true
	}
	return json.Unmarshal(raw, &s.VLAN) == nil && s.VLAN >= 0 && s.VLAN < 4095
}

// isGiven reports whether a field has a value that is not empty: not null, false, or a list or text with nothing in it.
func isGiven(raw json.RawMessage) bool {
	switch strings.TrimSpace(string(raw)) {
	case "", "null", "false", "[]", `""`:
		return false
	}
	return true
}

func textOf(raw json.RawMessage) (text string) {
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}
