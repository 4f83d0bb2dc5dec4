package main

// ranges is what is said of definitions that are edited.
func ranges() []Mutant {
	return []Mutant{
		{Fault: "An unreadable definition assigns from no pool", Decl: "finder.outsideAllocation",
			Tests: "TestOutsideDefinition_Allocations",
			Old:   `case a.hasUnread || len(today.definitions) == 0:`,
			New:   `case len(today.definitions) == 0:`},
		{Fault: "A definition that shares the pool does not count", Decl: "finder.outsideAllocation",
			Tests: "TestOutsideDefinition_Allocations",
			Old:   `today.usable.Contains(addr)`, New: `false`},
		{Fault: "An address beside the assigned one is outside of the definition", Decl: "finder.outsideCarriers",
			Tests: "TestOutsideDefinition_Carriers",
			Old:   `mayBeStatic(pod, c)`, New: `false`},
		{Fault: "A definition assigns what it excludes", Decl: "Bounds.whyNot",
			Tests: "TestNetwork_MayAssignWhatIsUsable",
			Old:   `e.Contains(addr)`, New: `false`},
		{Fault: "A stale reservation keeps an address", Decl: "holders.reserved", Tests: "TestCheck_StaleReservations",
			Old: `!r.Deleting && it.Verdict != judge.Stale`, New: `!r.Deleting`},
		{Fault: "Reservations keep addresses without overlapping ranges", Decl: "holders.reserved",
			Tests: "TestCheck_Twice",
			Old:   `if !n.Overlapping {`, New: `if false {`},
		{Fault: "What other IPAM assigned is free", Decl: "holders.mayHave", Tests: "TestCheck_Twice",
			Old: `if c.Definition == nil {
		return true`, New: `if c.Definition == nil {
		return false`},
		{Fault: "A silent node carries nothing unknown", Decl: "unknown", Tests: "TestCheck_Unknown",
			Old: `len(silent) > 0 && !j.WithoutAgents`, New: `false`},
		{Fault: "A definition without a master is on another segment", Decl: "relate", Tests: "TestCompare_Networks",
			Old: `case !isStated && !b.Segment.IsKnown():`, New: `case false:`},
		{Fault: "A pool without a definition is on another segment", Decl: "relateAll", Tests: "TestCompare_UnknownNetworks",
			Old: `return Unknown, why`, New: `return Other, why`},
		{Fault: "What the second cluster carries is not compared", Decl: "side.hasAny", Tests: "TestCompare_WhoHasAnAddress",
			Old: `+len(x.carriers[addr])`, New: ``},
		{Fault: "What is stale in a cluster is not recorded", Decl: "holders.addItems", Tests: "TestCompare_WhoHasAnAddress",
			Old: `it.Verdict == judge.Stale && x.p != nil`, New: `it.Verdict == judge.Stale`},
		{Fault: "A cluster without reports hides nothing", Decl: "side.unknown", Tests: "TestCompare_Incomplete",
			Old: `if x.WithoutAgents {`, New: `if false {`},
		{Fault: "A trunk of VLANs is a segment", Decl: "segmentFields.segment", Tests: "TestANADSaysOnWhichSegmentItIs",
			Old: `isGiven(p.VLANTrunk) ||`, New: ``},
	}
}
