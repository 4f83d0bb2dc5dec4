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
	}
}
