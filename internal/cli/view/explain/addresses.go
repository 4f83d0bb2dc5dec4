package explain

import (
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// NewAddressReport returns the document of a list of addresses.
func NewAddressReport(out *reconciler.Result, asked []netip.Addr) *view.AddressReport {
	j := out.Assessment
	return &view.AddressReport{Header: view.NewHeader(view.KindAddresses, "", view.Cluster{}, j.Observation.Now),
		Limits: view.NewLimits(out), Addresses: addresses(j, usage.Of(j), asked)}
}

// addresses returns the state of each address, in each pool of the judgement that has it in its range. An address that
// a pod or Node has is not Free, whatever assigned it.
func addresses(j *findings.Assessment, pools *usage.Pools, asked []netip.Addr) (rows []view.AddressState) {
	runs := map[*usage.Pool][]view.AddressRun{}
	isAsked := make(map[netip.Addr]bool, len(asked))
	for _, addr := range asked {
		isAsked[addr] = true
	}
	carriers := usage.CarriersOf(j.Observation, func(addr netip.Addr) bool { return isAsked[addr] },
		j.Facts().HasStopped)
	for _, addr := range asked {
		outside := true
		for _, p := range pools.All {
			if p.Problem != "" || !p.Range.Contains(addr) {
				continue
			}
			outside = false
			if runs[p] == nil {
				runs[p] = Runs(j, p)
			}
			i, isFirst := slices.BinarySearchFunc(runs[p], addr, func(r view.AddressRun, a netip.Addr) int {
				return r.First.Compare(a)
			})
			if !isFirst {
				i--
			}
			run := runs[p][i]
			row := view.AddressState{IP: addr.String(), State: run.State, Pool: p.Ref(), PodRef: run.PodRef}
			row.CarriedBy, row.ReservedBy = in(p, carriers[addr]), reservedBy(j.Facts(), p, addr)
			mayBeFree := row.State == "Free" || row.State == "Unknown" && p.Unknown == ""
			if mayBeFree && len(row.CarriedBy) > 0 {
				row.State = "InUse"
			}
			rows = append(rows, row)
		}
		if outside {
			rows = append(rows, view.AddressState{IP: addr.String(), State: stateOfOutside(j.Observation, addr),
				CarriedBy: in(nil, carriers[addr])})
		}
	}
	return rows
}

// maxCarriers is how many carriers of one address are listed.
const maxCarriers = 20

// in returns the carriers that may have the address on a pool's network; nil stands for no pool.
func in(p *usage.Pool, all []usage.Carrier) (names []string) {
	for _, c := range all {
		mayBeOn := p == nil || c.MayBeOn(p)
		if name := c.String(); mayBeOn && len(names) < maxCarriers && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// reservedBy is the podref of the reservation of an address in the network of a pool, "" for none.
func reservedBy(f *facts.Facts, p *usage.Pool, addr netip.Addr) string {
	networks := p.Pool.Networks(f.NodeNames())
	if len(p.Definitions) > 0 {
		networks = []string{p.Definitions[0].Network.Name} // the same for all definitions
	}
	for _, name := range networks {
		if r := f.ReservationNamed(p.Namespace, ippool.ReservationName(name, addr)); r != nil {
			return r.PodRef
		}
	}
	return ""
}

// stateOfOutside is the state of an address that no pool has in its range. An ADD creates a pool of a definition, or of
// the next node's slice, where there is none.
func stateOfOutside(o *facts.Observation, addr netip.Addr) string {
	definitions, isKnown := o.NADs.Get()
	if !isKnown {
		return "Unknown"
	}
	for _, nad := range definitions {
		for _, n := range nad.Networks {
			if slices.ContainsFunc(n.Ranges, func(r netip.Prefix) bool { return r.Contains(addr) }) {
				return "NoPool"
			}
		}
	}
	return "OutsideEveryPool"
}

// stateOfFree is the state of addresses of which nothing shows a use: Free, or Unknown while a source is unknown that
// may show one. Reservations keep addresses from ADDs, and findings show what pods and sandboxes carry unrecorded.
func stateOfFree(o *facts.Observation, p *usage.Pool) string {
	usesOverlaps := slices.ContainsFunc(p.Definitions, func(d *usage.Definition) bool { return d.Network.Overlapping })
	if slices.ContainsFunc(o.UnknownSources(), func(s facts.SourceState) bool {
		return slices.Contains(findings.KindsOf(s.Name), findings.Unrecorded) &&
			(usesOverlaps || s.Name != facts.SourceReservations)
	}) {
		return "Unknown"
	}
	return "Free"
}

// Runs returns the states of all addresses in the range of a pool, in their order.
func Runs(j *findings.Assessment, p *usage.Pool) (runs []view.AddressRun) {
	if p.Problem != "" {
		return nil
	}
	recorded := map[netip.Addr]view.AddressRun{}
	for _, addr := range j.Unrecorded()[p.Ref()] {
		recorded[addr] = view.AddressRun{State: "InUse"}
	}
	for _, f := range j.Findings {
		if addr, err := netip.ParseAddr(f.IP); f.Kind == findings.Unrecorded && f.Pool == p.Ref() && err == nil {
			recorded[addr] = view.AddressRun{State: "InUse", PodRef: f.Pods[0]}
		}
	}
	for _, it := range j.Allocations {
		if it.Pool == p.Pool {
			recorded[it.Address()] = view.AddressRun{State: it.Verdict.String(), PodRef: it.PodRef(),
				Reason: it.Reason.String()}
		}
	}
	var rest netipx.IPSetBuilder
	rest.AddPrefix(p.Range.Prefix())
	for addr, run := range recorded {
		if p.Range.Contains(addr) {
			run.First = addr
			runs = append(runs, run)
			rest.Remove(addr)
		}
	}
	// take moves the addresses of a set from rest to the runs.
	take := func(set *netipx.IPSet, state string) {
		of, _ := rest.IPSet() // of valid sets, which give no error
		var both netipx.IPSetBuilder
		both.AddSet(of)
		both.Intersect(set)
		found, _ := both.IPSet()
		for _, r := range found.Ranges() {
			runs = append(runs, view.AddressRun{First: r.From(), Last: r.To(), State: state})
		}
		rest.RemoveSet(found)
	}
	all, _ := rest.IPSet()
	if p.Unknown != "" {
		take(all, "Unknown")
	} else {
		take(p.FreeAddresses, stateOfFree(j.Observation, p))
		for _, d := range p.Definitions {
			take(d.Usable, "Reserved")
		}
		take(all, "Excluded")
	}
	slices.SortFunc(runs, func(a, b view.AddressRun) int { return a.First.Compare(b.First) })
	return runs
}
