package explanation

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Addresses returns the state of each address, in each pool that has it in its range.
func Addresses(j *judge.Judgement, asked []netip.Addr) (rows []document.AddressState) {
	recorded := map[document.AddressState]document.AddressState{} // by address and pool
	for _, f := range j.Findings {
		if f.Kind == judge.Unrecorded {
			recorded[document.AddressState{IP: f.IP, Pool: f.Pool}] = document.AddressState{State: "InUse", PodRef: f.Pods[0]}
		}
	}
	for _, it := range j.Allocations {
		recorded[document.AddressState{IP: it.Text(), Pool: it.Object()}] =
			document.AddressState{State: it.Verdict.String(), PodRef: it.PodRef()}
	}
	pools := usage.Of(j).All
	for _, addr := range asked {
		outside := true
		for _, p := range pools {
			if p.Problem != "" || !p.Range.Contains(addr) {
				continue
			}
			outside = false
			at := document.AddressState{IP: addr.String(), Pool: p.Ref()}
			found := recorded[at]
			switch isUsable := func(d *usage.Definition) bool { return d.Usable.Contains(addr) }; {
			case found.State != "":
			case p.Unknown != "":
				found.State = "Unknown"
			case p.FreeAddresses.Contains(addr):
				found.State = "Free"
			case slices.ContainsFunc(p.Definitions, isUsable):
				found.State = "Reserved"
			default:
				found.State = "Excluded"
			}
			found.IP, found.Pool = at.IP, at.Pool
			rows = append(rows, found)
		}
		if outside {
			rows = append(rows, document.AddressState{IP: addr.String(), State: "OutsideEveryPool"})
		}
	}
	return rows
}
