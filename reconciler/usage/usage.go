// Package usage calculates how full pools are: how many addresses whereabouts can assign from each, which are taken, by
// whom, and which pods wait for one. It does no I/O: it reads a judgement.
package usage

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Pool is a pool with how full it is.
type Pool struct {
	*ippool.Pool
	// Definitions are the NetworkAttachmentDefinitions that assign addresses of the pool, by name.
	Definitions []*Definition
	// Unknown is why Usable and Free are unknown, "" if they are known.
	Unknown string
	// Usable is how many addresses the definitions together can assign from an empty pool. Free is how many of them have
	// no allocation, no reservation and no pod that carries them. Both are nil where the definitions are unknown.
	Usable, Free *big.Int
	// FreeUnknown is why Free is only the most that it may be: reservations keep addresses from ADDs, and could not be
	// read. It is "" where Free is known, or nil.
	FreeUnknown string
	// Blocked is how many of the usable addresses are not free although they have no allocation: they have a reservation,
	// for example of another pool, or a pod carries them; nil where Usable is nil.
	Blocked *big.Int
	// Outside is how many of Used are of no usable address, 0 where Usable is nil. Usable is Used - Outside + Blocked +
	// Free.
	Outside int
	// Used counts all allocations, including those of addresses that are not usable or cannot be parsed.
	Used, InUse, Held, Stale int
	// Stopped is how many of Held are kept by IPAMClaims of stopped machines.
	Stopped int
	// Waiting are the pods that cannot start because the pool is full, by name.
	Waiting []types.NamespacedName
	// StaleEntries are the Stale items, by address.
	StaleEntries []*judge.Item
	// FreeAddresses are the addresses that Free counts; nil if unknown.
	FreeAddresses *netipx.IPSet

	entries map[types.NamespacedName]int // cache of entriesOf
}

// Definition is a NetworkAttachmentDefinition that assigns addresses of a pool.
type Definition struct {
	types.NamespacedName
	Network ippool.Network
	Node    string        // whose slice the pool is, "" for none
	Usable  *netipx.IPSet // of this pool
	pool    *Pool
	section *Definition // the same for all pools of one IPAM section
	next    netip.Addr  // the first free address; invalid for none
	// skipped is how many reserved addresses an ADD tries before the first free ones, of this pool and then of all pools
	// of the section.
	skipped *big.Int
}

// Fill is which part of the usable addresses is taken, 0 to 1; with FreeUnknown the least that may be. ok is false if
// that is unknown or no address is usable.
func (p *Pool) Fill() (fill float64, ok bool) {
	if p.Usable == nil || p.Usable.Sign() == 0 {
		return 0, false
	}
	taken := new(big.Rat).SetFrac(new(big.Int).Sub(p.Usable, p.Free), p.Usable)
	fill, _ = taken.Float64()
	return fill, true
}

// Pools are all pools of a judgement, the fullest first and the unknown last.
type Pools struct {
	All []*Pool
	// Notes has a sentence for each thing that makes the numbers unknown or incomplete.
	Notes []string

	o *facts.Observation
}

// Of calculates how full the pools of a judgement are.
func Of(j *findings.Assessment) *Pools {
	u := &Pools{o: j.Observation}
	definitions := u.definitions()
	reserved := reservedAddresses(u.o.Reservations.Or(nil), definitions)
	unrecorded := j.Unrecorded()
	known := map[*ippool.Pool]*Pool{}
	for _, stored := range j.Observation.Pools {
		p := &Pool{Pool: stored, Used: len(stored.Allocations)}
		p.define(definitions, u.o)
		p.count(reserved, unrecorded[stored.Ref()])
		if why := u.o.Reservations.Why(); why != "" && p.readsReservations() {
			p.FreeUnknown = "reservations, which keep addresses from ADDs, are unknown: " + why
		}
		known[stored], u.All = p, append(u.All, p)
	}
	for _, it := range j.Allocations {
		p := known[it.Pool]
		switch {
		case p == nil:
		case it.Verdict == judge.InUse:
			p.InUse++
		case it.Verdict == judge.Held:
			p.Held++
			if it.Reason == judge.Claimed {
				p.Stopped++
			}
		case it.Verdict == judge.Stale:
			p.Stale++
			p.StaleEntries = append(p.StaleEntries, it)
		}
	}
	slices.SortFunc(u.All, byFill)
	u.addWaiting()
	for _, pool := range slices.Sorted(maps.Keys(unrecorded)) {
		if pool == "" {
			u.Notes = append(u.Notes, fmt.Sprintf("addresses that pods carry and whose pools do not exist: %d. The next ADDs "+
				"create the pools and may assign them: 'ip-reconcile check --reason Unrecorded' lists them",
				len(unrecorded[pool])))
			continue
		}
		u.Notes = append(u.Notes, fmt.Sprintf("addresses of pool %s that pods carry without an allocation: %d. "+
			"They are not counted as free, but the next ADDs may assign them: "+
			"'ip-reconcile check --reason Unrecorded' lists them", pool, len(unrecorded[pool])))
	}
	u.sumSkipped()
	for _, p := range u.All {
		p.noteBlocked(u)
	}
	return u
}

func byFill(a, b *Pool) int {
	rank := func(p *Pool) float64 {
		fill, ok := p.Fill()
		switch {
		case p.Unknown != "":
			return -1
		case !ok: // no address is usable
			return 1
		}
		return fill
	}
	return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(b.Used, a.Used), cmp.Compare(a.Ref(), b.Ref()))
}

// definitions are the whereabouts sections of all definitions, by name. It notes which cannot be counted.
func (u *Pools) definitions() []*Definition {
	var all []*Definition
	var unreadable []string
	for name, nad := range u.o.NADs.Or(nil) {
		if nad.Problem != "" {
			unreadable = append(unreadable, name.String())
		}
		for _, n := range nad.Networks {
			all = append(all, &Definition{NamespacedName: name, Network: n})
			if n.Refused != "" {
				u.Notes = append(u.Notes, refusal(name, n))
			}
		}
	}
	slices.Sort(u.Notes)
	if len(unreadable) > 0 {
		slices.Sort(unreadable)
		u.Notes = append(u.Notes, "addresses of these NetworkAttachmentDefinitions are not counted as usable, because they "+
			"cannot be parsed: "+facts.AtMost(unreadable, 5))
	}
	slices.SortStableFunc(all, func(a, b *Definition) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

func refusal(name types.NamespacedName, n ippool.Network) string {
	return fmt.Sprintf("whereabouts refuses NetworkAttachmentDefinition %s, so no pod gets an address by it: %s",
		name, n.Refused)
}

// define finds the pool's definitions, or why they are unknown.
func (p *Pool) define(all []*Definition, o *facts.Observation) {
	if p.Problem != "" {
		p.Unknown = p.Problem
		return
	}
	if p.Unsupported != "" {
		p.Unknown = "its " + p.Unsupported
		return
	}
	why := "no readable NetworkAttachmentDefinition assigns from it"
	for _, d := range all {
		node, ok := d.Network.Assigns(p.Pool)
		switch {
		case !ok:
		case d.Network.Refused != "":
			why = refusal(d.NamespacedName, d.Network)
		case node != "" && o.Nodes.IsKnown() && o.Nodes.Or(nil)[node] == nil:
			why = fmt.Sprintf("it is a slice of node %s, which does not exist: no address is assigned from it", node)
		default:
			p.Definitions = append(p.Definitions, &Definition{
				NamespacedName: d.NamespacedName, Network: d.Network, Node: node, Usable: d.Network.Usable(p.Pool), pool: p,
				section: d})
		}
	}
	if len(p.Definitions) == 0 {
		p.Unknown = why
	}
}
