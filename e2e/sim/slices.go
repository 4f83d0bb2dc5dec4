package sim

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/iphelpers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// slicedAgain is the step that only plans with slices have.
const slicedAgain = "node slices are assigned again"

// wakeSlicer lets whereabouts' node-slice controller act on all definitions in a moment, as it does after a change of
// one, and when a Node is created or deleted.
func (s *Simulation) wakeSlicer() {
	if s.slicing || s.plan.Sliced == 0 {
		return
	}
	s.slicing = true
	var act func()
	act = func() {
		if s.away {
			s.after(time.Second, act)
			return
		}
		s.slicing = false
		s.sliceAll()
	}
	s.after(s.between(0, 2*time.Second), act)
}

// sliceAll does what the node-slice controller does for each definition (v0.9.4, pkg/node-controller/controller.go,
// syncHandler).
func (s *Simulation) sliceAll() {
	for _, n := range s.nets {
		ipam, isDefined := s.ipamOf(n.nad)
		switch {
		case !isDefined:
			s.deleteSlices(n.nad)
		case ipam.SliceSize != "" && !s.isMismatched(ipam):
			now, _ := s.asDefined(n)
			s.slice(now, ipam)
		}
	}
}

// ipam is what the controller reads from a definition.
type ipam struct {
	nad         string
	Range       string   `json:"range"`
	NetworkName string   `json:"network_name"`
	SliceSize   string   `json:"node_slice_size"`
	Exclude     []string `json:"exclude"`
	Start       string   `json:"range_start"`
	End         string   `json:"range_end"`
	Overlapping *bool    `json:"enable_overlapping_ranges"`
}

func (s *Simulation) ipamOf(nad string) (ipam, bool) {
	o := s.api.Get(fakeapi.At(fakeapi.NADs, podNamespace, nad))
	if o == nil {
		return ipam{}, false
	}
	var spec struct {
		Spec struct {
			Config string `json:"config"`
		} `json:"spec"`
	}
	var config struct {
		IPAM ipam `json:"ipam"`
	}
	_ = json.Unmarshal(o.JSON, &spec)
	_ = json.Unmarshal([]byte(spec.Spec.Config), &config)
	config.IPAM.nad = nad
	return config.IPAM, true
}

// isMismatched reports whether definitions of one network_name differ, with which the controller does nothing.
func (s *Simulation) isMismatched(x ipam) bool {
	return slices.ContainsFunc(s.nets, func(n *network) bool {
		y, isDefined := s.ipamOf(n.nad)
		return isDefined && y.NetworkName == x.NetworkName && (y.Range != x.Range || y.SliceSize != x.SliceSize)
	})
}

// poolKey is the NodeSlicePool of a definition.
func (x ipam) poolKey() key {
	if x.NetworkName != "" {
		return fakeapi.At(fakeapi.NodeSlicePools, kubeSystem, x.NetworkName)
	}
	return fakeapi.At(fakeapi.NodeSlicePools, kubeSystem, x.nad)
}

// deleteSlices deletes what only a deleted definition owns: by the definition's name, whatever the NodeSlicePool's is.
func (s *Simulation) deleteSlices(nad string) {
	for _, k := range fakeapi.ListOf(s.api.Objects, fakeapi.NodeSlicePools, "", "") {
		p := s.slicePool(k)
		if len(p.OwnerReferences) == 1 && p.OwnerReferences[0].Name == nad {
			s.api.Delete(fakeapi.At(fakeapi.NodeSlicePools, kubeSystem, nad))
		}
	}
}

// slicePool is a NodeSlicePool, nil for none.
func (s *Simulation) slicePool(k key) *v1alpha1.NodeSlicePool {
	o := s.api.Get(k)
	if o == nil {
		return nil
	}
	p := &v1alpha1.NodeSlicePool{}
	if err := json.Unmarshal(o.JSON, p); err != nil {
		s.fail("read %s: %v", k, err)
	}
	return p
}

// slice creates or updates the NodeSlicePool of a definition: nodes that have no slice get the first free one, and
// slices of missing nodes become free. A new range or size begins without slices.
func (s *Simulation) slice(n *network, x ipam) {
	p := s.slicePool(x.poolKey())
	if p == nil {
		p = &v1alpha1.NodeSlicePool{TypeMeta: metav1.TypeMeta{Kind: "NodeSlicePool",
			APIVersion: "whereabouts.cni.cncf.io/v1alpha1"}}
	}
	if !slices.ContainsFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Name == x.nad }) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Name: x.nad})
	}
	if p.Spec.Range != x.Range || p.Spec.SliceSize != x.SliceSize {
		p.Spec = v1alpha1.NodeSlicePoolSpec{Range: x.Range, SliceSize: x.SliceSize}
		ranges, err := iphelpers.DivideRangeBySize(x.Range, x.SliceSize)
		if err != nil {
			s.fail("divide %s: %v", x.Range, err)
		}
		p.Status.Allocations = nil
		for _, r := range ranges {
			p.Status.Allocations = append(p.Status.Allocations, v1alpha1.NodeSliceAllocation{SliceRange: r})
		}
	}
	slots, known := p.Status.Allocations, map[string]bool{}
	slotOf := func(node string) int {
		return slices.IndexFunc(slots, func(a v1alpha1.NodeSliceAllocation) bool { return a.NodeName == node })
	}
	all := fakeapi.ListOf(s.api.Objects, fakeapi.Nodes, "", "")
	s.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // as the order of its cache is any
	for _, k := range all {
		known[k.Name] = true
		if free := slotOf(""); slotOf(k.Name) < 0 && free >= 0 {
			slots[free].NodeName = k.Name
			s.assigned(n, k.Name, slots[free].SliceRange)
		}
	}
	for i := range slots {
		if !known[slots[i].NodeName] {
			slots[i].NodeName = ""
		}
	}
	text, _ := json.Marshal(p) //nolint:errchkjson // it was read from JSON
	if o := s.api.Get(x.poolKey()); o == nil || string(fakeapi.Encode(fakeapi.Decode(text)).JSON) != string(o.JSON) {
		s.api.Put(x.poolKey(), fakeapi.Decode(text), s.api.Now(), "node-slice-controller")
	}
}

// sliceAgain deletes a definition and recreates it, or deletes its NodeSlicePool while the controller restarts. Then
// the nodes get any slices.
func (s *Simulation) sliceAgain(a, how int) {
	n := s.nets[a%len(s.nets)]
	if n.sliceBits == 0 || s.away {
		return
	}
	if how%2 == 0 {
		now, _ := s.asDefined(n)
		s.say("the definition %s is deleted", n.nad)
		s.api.Delete(fakeapi.At(fakeapi.NADs, podNamespace, n.nad))
		s.unlessQuiet(s.between(0, 20*time.Second), func() {
			if !s.away {
				s.defineNetwork(now)
			}
		})
		return
	}
	s.say("the NodeSlicePool of %s is deleted", n.nad)
	s.api.Delete(n.slicePoolKey())
	s.unlessQuiet(s.between(0, 5*time.Second), s.wakeSlicer)
}

// slicePoolKey is the NodeSlicePool that whereabouts' ADD reads.
func (n *network) slicePoolKey() key { return ipam{nad: n.nad, NetworkName: n.name}.poolKey() }

// assigned notes the pool of a slice that a node gets.
func (s *Simulation) assigned(n *network, node, slice string) {
	s.say("%s has the slice %s of %s", node, slice, n.nad)
	made := newNetwork(n.nad, n.name, netip.MustParsePrefix(slice), n.unchecked)
	name := node + "-" + newNetwork("", "", made.cidr, false).pool.Name
	if n.name != "" {
		name = n.name + "-" + name
	}
	made.pool.Name, made.of, made.node = name, n, node
	if s.netOf(made.pool) == nil {
		if slices.ContainsFunc(s.ranges, func(r *network) bool { return r.of == n && r.node == node }) {
			s.count("another slice for a node")
		}
		s.ranges = append(s.ranges, made)
	}
}

// isOf reports whether a pool is of a definition: its own, or a slice of its range.
func (n *network) isOf(definition *network) bool {
	return n.pool == definition.pool || n.of != nil && definition.sliceBits > 0 && n.of.name == definition.name &&
		n.of.cidr == definition.cidr
}

// poolFor is the pool from which an ADD on a node took an address of a definition.
func (s *Simulation) poolFor(definition *network, node *node, ip netip.Addr) *network {
	if definition.sliceBits == 0 {
		return definition
	}
	for _, r := range s.ranges {
		if r.isOf(definition) && r.node == node.name && r.cidr.Contains(ip) {
			return r
		}
	}
	s.fail("%s of %s is in no slice of %s", ip, definition.nad, node.name)
	return definition
}

// currentPool is the pool from which an ADD on a node takes an address of a definition now: with slices that of the
// node's, or if it has none the definition.
func (s *Simulation) currentPool(definition *network, node *node) *network {
	if definition.sliceBits == 0 {
		return definition
	}
	p := s.slicePool(definition.slicePoolKey())
	if p == nil {
		return definition
	}
	for _, slot := range p.Status.Allocations {
		if slot.NodeName == node.name {
			return s.poolFor(definition, node, netip.MustParsePrefix(slot.SliceRange).Addr())
		}
	}
	return definition
}

// sliceSize is the node_slice_size.
func (n *network) sliceSize() string { return fmt.Sprint("/", n.sliceBits) }

// poolAt is one of the pools that exist, or the pool of a definition without slices.
func (s *Simulation) poolAt(i int) *network {
	var all []*network
	for _, n := range s.ranges {
		if n.of == nil || s.api.Get(n.pool) != nil {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return s.ranges[i%len(s.ranges)]
	}
	return all[i%len(all)]
}

// top is the highest slot that leaks, near the end of the pool. Those around it are for what is kept or odd.
func (n *network) top() int     { return 1<<min(6, n.cidr.Addr().BitLen()-n.cidr.Bits()) - 4 }
func (n *network) kept() string { return fmt.Sprint(n.top() - 1) }
func (n *network) odd() string  { return fmt.Sprint(n.top() + 1) }

// isInTwoSlices reports whether sandboxes have the address from slices of one network: the nodes' slices were assigned
// again, and without reservations an ADD takes what is in use by an earlier slice.
func (s *Simulation) isInTwoSlices(ip string) bool {
	var pools []key
	for a := range s.attachments() {
		if a.inUse() && a.of.sliceBits > 0 && a.ip.String() == ip && !slices.Contains(pools, a.net.pool) {
			pools = append(pools, a.net.pool)
		}
	}
	return len(pools) > 1
}

// isOfAnotherSlice reports whether the sandbox of an entry uses the address by another slice of the network: a repair
// wrote it where the node's own pool was lost, or rewrote what an earlier sandbox of the pod had there.
func (s *Simulation) isOfAnotherSlice(l leaked) bool {
	for a := range s.attachments() {
		if a.inUse() && a.id == l.entry.ID && a.ip == l.address() && l.net.of != nil && l.net.isOf(a.of) {
			return true
		}
	}
	return false
}

// mayNameSlice reports whether a definition's slices may have the name of another network's pool: "red-10.0.0.0-26" may
// be of a node "red".
func (n *network) mayNameSlice(other *network) bool {
	return n.sliceBits > 0 && n.name == "" && other.name != "" && n.cidr.Contains(other.cidr.Addr())
}
