package findings

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Assessment is what follows from an observation: a verdict on each item, and the findings.
type Assessment struct {
	*judge.Judgement
	Findings []Finding
	unlisted []findingPlace // of the findings beyond mostFindings of a kind
}

// Assess finds the defects in a judgement of everything that was observed.
func Assess(j *judge.Judgement) *Assessment {
	a := &Assessment{Judgement: j}
	a.Findings, a.unlisted = findings(j)
	return a
}

// About is the part of the assessment that is about one address.
func (a *Assessment) About(addr netip.Addr) *Assessment {
	about, unlisted := *a, a.UnlistedAt(addr)
	about.Judgement = a.Judgement.About(addr)
	about.Findings = slices.DeleteFunc(slices.Clone(a.Findings), func(f Finding) bool {
		switch {
		case f.IsRest():
			return !slices.Contains(unlisted, f.Kind)
		case f.Kind == UnsupportedRangeFinding:
			return !a.Facts().PoolNamed(f.Pool).Range.Contains(addr)
		}
		return !slices.Contains(strings.Split(f.IP, ","), addr.String())
	})
	return &about
}

// Summary counts the items and the findings.
func (a *Assessment) Summary() judge.Summary {
	s := a.Judgement.Summary()
	for _, f := range a.Findings {
		s.Findings += f.Count()
	}
	return s
}

// UnlistedAt are the kinds of the findings that are not listed and may be on an address.
func (a *Assessment) UnlistedAt(addr netip.Addr) []Kind {
	kinds := map[Kind]bool{}
	for _, p := range a.unlisted {
		if p.addr == addr || !p.addr.IsValid() {
			kinds[p.kind] = true
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// Unrecorded are the addresses of all findings Unrecorded, by pool, whether they are listed or not.
func (a *Assessment) Unrecorded() map[string][]netip.Addr {
	byPool := map[string][]netip.Addr{}
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Kind == Unrecorded && !f.IsRest() {
			addr, _ := netip.ParseAddr(f.IP)
			byPool[f.Pool] = append(byPool[f.Pool], addr)
		}
	}
	for _, p := range a.unlisted {
		if p.kind == Unrecorded {
			byPool[p.pool] = append(byPool[p.pool], p.addr)
		}
	}
	return byPool
}

// FindingsOn are the findings about a pool, with those that stand for others that are not listed and of which one is
// about it.
func (a *Assessment) FindingsOn(pool string) []Finding {
	unlisted := map[Kind]bool{}
	for _, p := range a.unlisted {
		unlisted[p.kind] = unlisted[p.kind] || slices.Contains(strings.Split(p.pool, ","), pool)
	}
	return slices.DeleteFunc(slices.Clone(a.Findings), func(f Finding) bool {
		if f.IsRest() {
			return !unlisted[f.Kind]
		}
		return !slices.Contains(strings.Split(f.Pool, ","), pool)
	})
}

// HasFindingOn reports whether any finding is about a pool, listed or not.
func (a *Assessment) HasFindingOn(pool string) bool {
	names := func(pools string) bool { return slices.Contains(strings.Split(pools, ","), pool) }
	return slices.ContainsFunc(a.Findings, func(f Finding) bool { return names(f.Pool) }) ||
		slices.ContainsFunc(a.unlisted, func(p findingPlace) bool { return names(p.pool) })
}
