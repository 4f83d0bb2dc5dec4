package explanation

import (
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Addresses returns the state of each address, in each pool that has it in its range. What no definition assigns may be
// in use all the same, by a pod from before an edit.
func Addresses(j *judge.Judgement, asked []netip.Addr) (rows []document.AddressState) {
	runs := map[*usage.Pool][]document.AddressRun{}
	pools, carriers := usage.Of(j).All, carriersOf(j.Observation)
	inUse := func(row document.AddressState, addr netip.Addr) document.AddressState {
		if carrier := carriers[addr]; len(carrier) > 0 && slices.Contains(unassigned, row.State) {
			row.State, row.PodRef = "InUse", carrier[0].pod
		}
		return row
	}
	for _, addr := range asked {
		outside := true
		for _, p := range pools {
			if p.Problem != "" || !p.Range.Contains(addr) {
				continue
			}
			outside = false
			if runs[p] == nil {
				runs[p] = Runs(j, p)
			}
			i, isFirst := slices.BinarySearchFunc(runs[p], addr, func(r document.AddressRun, a netip.Addr) int {
				return r.First.Compare(a)
			})
			if !isFirst {
				i--
			}
			run := runs[p][i]
			rows = append(rows, inUse(document.AddressState{IP: addr.String(), State: run.State, Pool: p.Ref(),
				PodRef: run.PodRef}, addr))
		}
		if outside {
			rows = append(rows, inUse(document.AddressState{IP: addr.String(), State: "OutsideEveryPool"}, addr))
		}
	}
	return rows
}

// unassigned are the states of addresses that no definition assigns, as far as it is known.
var unassigned = []string{"Excluded", "Unknown", "OutsideEveryPool"}

// carrier is a pod that carries an address, and what shows that.
type carrier struct{ pod, source string }

// carriersOf are the pods that carry each address, by name: by their network-status, except on a network with another
// IPAM, or by the report of their READY sandbox.
func carriersOf(o *judge.Observation) map[netip.Addr][]carrier {
	found := map[netip.Addr][]carrier{}
	add := func(addr netip.Addr, c carrier) {
		if !slices.ContainsFunc(found[addr], func(known carrier) bool { return known.pod == c.pod }) {
			found[addr] = append(found[addr], c)
		}
	}
	for _, p := range o.Pods {
		for _, i := range p.Interfaces {
			namespace, name, isNamed := i.NAD()
			nad := o.NADs.Or(nil)[types.NamespacedName{Namespace: namespace, Name: name}]
			if !isNamed || p.Node == "" || nad != nil && nad.Problem == "" && len(nad.Networks) == 0 {
				continue
			}
			for _, addr := range i.Addresses {
				add(addr, carrier{p.String(), "its network-status"})
			}
		}
	}
	for _, b := range sandboxes(o) {
		if b.State != string(v1alpha1.SandboxReady) {
			continue
		}
		for _, text := range b.Addresses {
			if addr, err := netip.ParseAddr(text); err == nil {
				add(addr, carrier{b.Pod.String(), "the report of " + b.Node})
			}
		}
	}
	for _, all := range found {
		slices.SortFunc(all, func(a, b carrier) int { return strings.Compare(a.pod, b.pod) })
	}
	return found
}

// Runs returns the states of all addresses in the range of a pool, in their order.
func Runs(j *judge.Judgement, p *usage.Pool) (runs []document.AddressRun) {
	if p.Problem != "" {
		return nil
	}
	recorded := map[netip.Addr]document.AddressRun{}
	for _, f := range j.Findings {
		if addr, err := netip.ParseAddr(f.IP); f.Kind == judge.Unrecorded && f.Pool == p.Ref() && err == nil {
			recorded[addr] = document.AddressRun{State: "InUse", PodRef: f.Pods[0]}
		}
	}
	for _, it := range j.Allocations {
		if it.Pool == p.Pool {
			recorded[it.Address()] = document.AddressRun{State: it.Verdict.String(), PodRef: it.PodRef(),
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
			runs = append(runs, document.AddressRun{First: r.From(), Last: r.To(), State: state})
		}
		rest.RemoveSet(found)
	}
	all, _ := rest.IPSet()
	if p.Unknown != "" {
		take(all, "Unknown")
	} else {
		take(p.FreeAddresses, "Free")
		for _, d := range p.Definitions {
			take(d.Usable, "Reserved")
		}
		take(all, "Excluded")
	}
	slices.SortFunc(runs, func(a, b document.AddressRun) int { return a.First.Compare(b.First) })
	return runs
}
