// Package ranges judges a definition that does not exist yet: which addresses in use it would not assign, which ones in
// use the next ADDs would assign a second time, and whether what must move fits. An assessment and a Proposal come in,
// and a Check goes out. Of the assessments of two clusters it makes a Comparison: what both have on one segment. It
// does no I/O.
package ranges

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Proposal is a definition that is to replace one of today, or to be added.
type Proposal struct {
	// Definitions are the names of the definitions that it replaces, as "<namespace>/<name>".
	Definitions []string
	Networks    []ippool.Network
	// Pools are those from which the replaced definitions assign today.
	Pools []*usage.Pool
	// Unknown has a sentence for each thing about the proposal itself that is unknown.
	Unknown []string
}

// Bounds are the fields of a definition about one range, as they are written there.
type Bounds struct {
	Range   string   `json:"range"`
	Start   string   `json:"range_start,omitempty"`
	End     string   `json:"range_end,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// OfDefinition is the proposal of a definition that a file has. pools are all pools of today, and more are those that
// it replaces beside the pools of the definition with its name.
func OfDefinition(nad *ippool.NAD, pools *usage.Pools, more []*usage.Pool) (*Proposal, error) {
	if nad.Problem != "" {
		return nil, errors.New(nad.Problem)
	}
	p := &Proposal{Definitions: []string{nad.String()}, Networks: nad.Networks, Pools: slices.Clone(more)}
	for _, pool := range pools.All {
		isItsPool := slices.ContainsFunc(pool.Definitions, func(d *usage.Definition) bool {
			return d.NamespacedName == nad.NamespacedName
		})
		if isItsPool && !slices.Contains(p.Pools, pool) {
			p.Pools = append(p.Pools, pool)
		}
	}
	return p, p.check()
}

// OfRange is the proposal that the definitions of a pool have another range in place of its own one. They keep their
// other ranges. pools are all pools of today.
func OfRange(f *facts.Facts, pools *usage.Pools, pool *usage.Pool, b Bounds) (*Proposal, error) {
	own := f.PoolNamed(pool.Ref())
	if own == nil || pool.Problem != "" {
		return nil, fmt.Errorf("pool %s cannot be read: %s", pool.Ref(), pool.Problem)
	}
	p := &Proposal{Pools: []*usage.Pool{pool}}
	isOverlapping := true
	for _, d := range pool.Definitions {
		if d.Network.Slices {
			return nil, fmt.Errorf("pool %s is a slice of a node, and the definition %s cuts it: give the whole new "+
				"definition with --definition", pool.Ref(), d)
		}
		isOverlapping = isOverlapping && d.Network.Overlapping
		p.Definitions = append(p.Definitions, d.String())
	}
	p.Definitions = facts.SortedUnique(p.Definitions)
	network := own.Network
	if len(pool.Definitions) > 0 {
		network = &pool.Definitions[0].Network.Name // the same for all definitions
	} else {
		isOverlapping = false
		p.Unknown = append(p.Unknown, fmt.Sprintf("no readable definition assigns from pool %s, so it is unknown whether "+
			"its ADDs skip what other pools reserve; it is judged as if they did not", pool.Ref()))
	}
	if network == nil {
		return nil, fmt.Errorf("the network of pool %s is unknown: give the whole new definition with --definition",
			pool.Ref())
	}
	networks, err := b.networks(*network, isOverlapping)
	if err != nil {
		return nil, err
	}
	p.Networks = []ippool.Network{besideOthers(networks[0], pool)}
	for _, other := range pools.All {
		isTheirs := func(d *usage.Definition) bool {
			return d.Network.Name == *network && slices.Contains(p.Definitions, d.String())
		}
		if other != pool && slices.ContainsFunc(other.Definitions, isTheirs) {
			p.Pools = append(p.Pools, other)
		}
	}
	return p, p.check()
}

// besideOthers is a network of one range with the other ranges that the definitions of a pool have.
func besideOthers(n ippool.Network, pool *usage.Pool) ippool.Network {
	ranges, bounds, own := []netip.Prefix{}, []ippool.Bounds{}, pool.Range.Prefix()
	for i, d := range pool.Definitions {
		for at, r := range d.Network.Ranges {
			switch {
			case r == own && i == 0 && slices.Index(d.Network.Ranges, own) == at:
				ranges, bounds = append(ranges, n.Ranges[0]), append(bounds, n.Bounds[0])
			case r != own && (i == 0 || !slices.Contains(ranges, r)):
				ranges, bounds = append(ranges, r), append(bounds, d.Network.Bounds[at])
			}
		}
	}
	if len(ranges) > 0 {
		n.Ranges, n.Bounds = ranges, bounds
	}
	return n
}

// networks are the networks of a definition with these bounds.
func (b Bounds) networks(name string, isOverlapping bool) ([]ippool.Network, error) {
	prefix, err := ippool.ParseConfiguredRange(b.Range)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{b.Start, b.End} {
		if addr, err := netip.ParseAddr(text); text != "" && (err != nil || !prefix.Contains(addr)) {
			return nil, fmt.Errorf("%q is not an address of %s, so whereabouts would ignore it", text, prefix)
		}
	}
	config, err := json.Marshal(map[string]any{"ipam": struct {
		Type        string `json:"type"`
		Name        string `json:"network_name"`
		Overlapping bool   `json:"enable_overlapping_ranges"`
		Bounds
	}{"whereabouts", name, isOverlapping, b}})
	if err != nil {
		return nil, err
	}
	return ippool.ParseConfig(string(config))
}

// check returns why nothing can be said about the proposal.
func (p *Proposal) check() error {
	if len(p.Networks) == 0 {
		return errors.New("the definition has no ipam section of whereabouts")
	}
	for _, n := range p.Networks {
		if n.Refused != "" {
			return fmt.Errorf("whereabouts refuses the definition: %s", n.Refused)
		}
		if err := cmp.Or(checkSlices(n), checkName(n)); err != nil {
			return err
		}
		for _, r := range n.Ranges {
			parsed, err := ippool.ParseRange(r.String())
			if err != nil {
				return err
			}
			if why := parsed.Unsupported(); why != "" {
				return errors.New(why)
			}
		}
	}
	return nil
}

// checkName returns why no pool, and no NodeSlicePool, of a network can have its name, so that every ADD fails.
func checkName(n ippool.Network) error {
	for _, r := range n.Ranges {
		if name := ippool.PoolName(n.Name, r); !ippool.IsObjectName(name) {
			return fmt.Errorf("network_name %q makes %q the name of a pool, which no object can have: use lower case letters, "+
				"digits, '-' and '.'", n.Name, name)
		}
	}
	if n.SlicePool != "" && !ippool.IsObjectName(n.SlicePool) {
		return fmt.Errorf("without a network_name the NodeSlicePool has the name %q of the configuration, which no object "+
			"can have: give a network_name", n.SlicePool)
	}
	return nil
}
