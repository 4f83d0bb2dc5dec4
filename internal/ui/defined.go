package ui

import (
	"net/netip"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// What a pool has of these at most.
const (
	maxOutside  = 100
	maxDefined  = 100
	maxExcluded = 20
)

// DefinedRange is a range of a definition that assigns from a pool, with the fields that the definition has.
type DefinedRange struct {
	Definition string `json:"definition"`
	// Network is the network_name; "" for none.
	Network string `json:"network"`
	Range   string `json:"range"`
	Start   string `json:"start,omitempty"`
	End     string `json:"end,omitempty"`
	// Exclude are at most maxExcluded ranges, and MoreExcluded counts the others.
	Exclude           []string `json:"exclude"`
	MoreExcluded      int      `json:"moreExcluded"`
	OverlappingRanges bool     `json:"overlappingRanges"`
	// Node is the one whose slice of the range the pool is; "" for none.
	Node string `json:"node,omitempty"`
}

// definedRanges are the ranges of a pool's definitions that contain the pool's range, at most maxDefined, and how many
// others there are.
func definedRanges(p *usage.Pool) (found []DefinedRange, more int) {
	found = []DefinedRange{}
	for _, d := range p.Definitions {
		for i, r := range d.Network.Ranges {
			if !r.Contains(p.Range.Prefix().Addr()) {
				continue
			}
			if len(found) == maxDefined {
				more++
				continue
			}
			x := DefinedRange{Definition: d.String(), Network: d.Network.Name, Range: r.String(), Exclude: []string{},
				OverlappingRanges: d.Network.Overlapping, Node: d.Node}
			if i < len(d.Network.Bounds) {
				b := d.Network.Bounds[i]
				x.Start, x.End = bound(b.Start), bound(b.End)
				shown := b.Exclude[:min(len(b.Exclude), maxExcluded)]
				x.Exclude, x.MoreExcluded = lists.Map(shown, netip.Prefix.String), len(b.Exclude)-len(shown)
			}
			found = append(found, x)
		}
	}
	return found, more
}

func bound(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}

// outside are the findings OutsideDefinition on a pool: those that name it, and those on an address of its range that
// no pool records. What the list of findings counts only is among them, since it may be of any pool.
func (v *View) outside(p *usage.Pool) (found []view.Finding, more int) {
	found = []view.Finding{}
	for i := range v.Result.Assessment.Findings {
		f := &v.Result.Assessment.Findings[i]
		if f.Kind != findings.OutsideDefinition || f.Pool != p.Ref() && !f.IsRest() && (f.Pool != "" || !isIn(p, f.IP)) {
			continue
		}
		if len(found) == maxOutside {
			more++
			continue
		}
		found = append(found, view.NewFinding(*f))
	}
	return found, more
}

func isIn(p *usage.Pool, ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err == nil && p.Range.Prefix().Contains(addr)
}
