package main

// evidenceArea is what is concluded of the sandbox and of the pod.
func evidenceArea() Area {
	const evidence, sandbox, nodes, claims = "reconciler/judge/evidence.go", "reconciler/judge/sandbox.go", "reconciler/judge/nodeset.go", "reconciler/judge/claims.go"
	const index, pods, judge = "reconciler/judge/index.go", "reconciler/judge/index_pods.go", "reconciler/judge/judge.go"
	const with = "reconciler/judge/with.go"
	return Area{"The evidence: sandboxes, nodes, claims, reservations", []Mutant{
		{Fault: "A pod's podIPs do not count as its addresses", File: evidence, Tests: "TestTheAddressIsOnASuccessor",
			Old: `	for _, ip := range s.pod.IPs {
		if s.mayBeAbout(ip) {
			return true
		}
	}
`, New: ``},
		{Fault: "Without agents an edited definition makes an address look free", File: evidence, Tests: "TestAnEditedDefinitionBesideALeftoverEntryCountsForBothWithoutAgents",
			Old: `nad == nil || s.mapped(nad) || !x.inUse {`, New: `nad == nil || s.mapped(nad) {`},
		{Fault: "A key of a wide range stands for one address alone", File: evidence, Tests: "TestTheAddressIsOnThePod",
			Old: `return s.pool.Range.HasKey(ip, s.alloc.Offset)`, New: `return ip == s.alloc.Address`},
		{Fault: "What is Stale counts as confirmed within the minute of a Pending pod's ADD", File: evidence, Tests: "TestASuccessorThatIsPendingIsNotProvenWithinItsFirstMinute",
			Old: `const HeardSince = time.Minute`, New: `const HeardSince = time.Millisecond`},
		{Fault: "One node that is Ready does not keep others from being unreachable", File: evidence, Tests: "TestANameNeverNarrows",
			Old: `			return false, false
		}
		since`, New: `			continue
		}
		since`},

		{Fault: "A report that is not fresh is believed", File: sandbox, Tests: "TestFreshness",
			Old: `	case !x.isFresh(g.report):
`, New: ``},
		{Fault: "A sandbox whose network may be open has stopped", File: sandbox, Tests: "TestStuckTerminatingBeginsFiveMinutesAfterTheDeletionTimestamp",
			Old: `g.sandbox.State == v1alpha1.SandboxNotReady && podstate.Closed(g.sandbox.NetworkClosed):`, New: `g.sandbox.State == v1alpha1.SandboxNotReady:`},
		{Fault: "An attachment proves nothing", File: sandbox, Tests: "TestAttachments",
			Old: `	case g.att != nil && g.report.Counts(g.att, x.now):
		return Attached, true
	case g.gone`, New: `	case g.gone`},
		{Fault: "The end of a sandbox on one node is the end everywhere", File: sandbox, Tests: "TestTheRowNamesTheCauseWhereSeveralHoldForOneReason",
			Old: `			x.checkOtherNodes(s, e)
`, New: ``},
		{Fault: "The node of the pod by the name is not asked about a sandbox that ended elsewhere", File: sandbox, Tests: "TestWithAgentsATenantCannotMakeItsAddressLookFree",
			Old: `		others = append(others, s.pod.Node)
`, New: ``},
		{Fault: "The end on another node is proven", File: sandbox, Tests: "TestOneNodeDoesNotSpeakForThePodOfAnother",
			Old: `e.MissingNode, e.Unproven = e.MissingNode || n.missing, true`, New: `e.MissingNode = e.MissingNode || n.missing`},
		{Fault: "A dead node frees what another node's report has", File: sandbox, Tests: "TestOneNodeDoesNotSpeakForAnother",
			Old: `	if n.state == NodeDead {
		x.contradictedElsewhere(s, e)
	}
`, New: ``},

		{Fault: "One dead node of several is enough", File: nodes, Tests: "TestSeveralNodesThatCouldRunIt",
			Old: `case len(names) > 0 && count[provenDead] == len(names):`, New: `case count[provenDead] > 0:`},
		{Fault: "One missing node of several is enough", File: nodes, Tests: "TestNoPodAndNoAgents",
			Old: `case len(names) > 0 && count[provenDead]+count[nodeObjectMissing] == len(names):`, New: `case count[provenDead]+count[nodeObjectMissing] > 0:`},
		{Fault: "A node without a fresh report does not keep a sandbox from being absent", File: nodes, Tests: "TestThePodsOwnNodeIsAlwaysAsked",
			Old: `case len(names) == 0 || count[notReporting] > 0:`, New: `case len(names) == 0:`},
		{Fault: "A dead node counts although its agent reports", File: nodes, Tests: "TestDeadNodes",
			Old: `	case x.hasFreshReport(name) && !x.ofAnotherMachine(x.byNode[name]): // of another it says what it lists, and no more
		return reporting
	case x.dead(name):
		return provenDead
`, New: `	case x.dead(name):
		return provenDead
	case x.hasFreshReport(name):
		return reporting
`},
		{Fault: "The nodes of pods that were observed to carry the address are not asked", File: nodes, Tests: "TestThePodsOwnNodeIsAlwaysAsked",
			Old: `	nodes := append(seen.ranOn(), seen.CarriedOn...)
`, New: `	nodes := seen.ranOn()
`},
		{Fault: "The nodes that a pod of the name ran on before are not asked", File: nodes, Tests: "TestThePodsOwnNodeIsAlwaysAsked",
			Old: `	nodes := append(seen.ranOn(), seen.CarriedOn...)
`, New: `	nodes := slices.Clone(seen.CarriedOn)
`},
		{Fault: "The pod's own node is not asked", File: nodes, Tests: "TestThePodsOwnNodeIsAlwaysAsked",
			Old: `		nodes = append(nodes, s.pod.Node)
	}
	for _, addr`, New: `	}
	for _, addr`},
		{Fault: "Only the node of the pod's name is asked where no report has the id", File: nodes, Tests: "TestTheNodeThatCouldRunIt",
			Old: `	return x.agentNodesAnd(s, sortedUnique(all)), false
}

// reportedOn`, New: `	return x.nodeSet(s, sortedUnique(all)), false
}

// reportedOn`},
		{Fault: "A pool of another size than a definition's slices is a node's slice", File: nodes, Tests: "TestANameNeverNarrows",
			Old: `if node, ok := n.SliceOf(p.Pool); ok && n.SliceBits == p.Range.Prefix().Bits() && x.nodeNames[node] {`,
			New: `if node, ok := n.SliceOf(p.Pool); ok && x.nodeNames[node] {`},
		{Fault: "What a machine ran is held for ever where another one has taken its name", File: nodes, Tests: "TestMissingNodes",
			Old: `		case x.replaced(g.report):
			return nodeObjectMissing
`, New: ``},

		{Fault: "An address that a user writes into a network-status is in conflict", File: pods, Tests: "TestAnAddressThatOnlyANetworkStatusNames",
			Old: `return r != nil && x.isFresh(r) && x.now.Sub(p.Created) > HeardSince &&`, New: `return false && r != nil && x.isFresh(r) && x.now.Sub(p.Created) > HeardSince &&`},
		{Fault: "A report that lacks addresses of a pod contradicts its network-status", File: pods, Tests: "TestAnAddressThatOnlyANetworkStatusNames",
			Old: ` && !r.lacks(p.String()) && !r.lacks("/")`, New: ``},
		{Fault: "A report that may be older than a pod contradicts its network-status", File: pods, Tests: "TestAnAddressThatOnlyANetworkStatusNames",
			Old: `x.isFresh(r) && x.now.Sub(p.Created) > HeardSince && !r.lacks`, New: `x.isFresh(r) && !r.lacks`},

		{Fault: "An address on a successor that starts is freed", File: claims, Tests: "TestTheAddressIsOnASuccessor",
			Old: `	if x.onSuccessor(s, e) {
`, New: `	if false && x.onSuccessor(s, e) {
`},
		{Fault: "A pod of another name that carries the address claims nothing", File: claims, Tests: "TestAnotherPodCarriesTheAddress",
			Old: `				return "pod " + c.pod.String(), ""
`, New: ``},
		{Fault: "A sandbox that carries the address claims nothing", File: claims, Tests: "TestAnotherSandboxRecordsTheAddress",
			Old: `			return "sandbox " + b.containerID() + " on node " + b.report.Name, b.report.Name
		}
	}
	return "", ""`, New: `		}
	}
	return "", ""`},
		{Fault: "A network that cannot be told is another one", File: claims, Tests: "TestAnotherPodCarriesTheAddress",
			Old: `return nad == nil || slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
		if s.alloc`, New: `return nad != nil && slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
		if s.alloc`},
		{Fault: "What a dead node's report has claims its addresses for ever", File: claims, Tests: "TestAnotherSandboxRecordsTheAddress",
			Old: `	if x.endedWithNode(g.report) {
		return false
	}
	return x.mayRun(g)`, New: `	return x.mayRun(g)`},
		{Fault: "The claim of a missing node never ends", File: claims, Tests: "TestTheClaimsOfAMissingNodeEndWhenNodeMissingIsConfirmed",
			Old: `			if x.expired(b.report) {
				e.MissingNode, e.Unproven = true, true
				continue
			}
			return`, New: `			return`},
		{Fault: "A sandbox whose addresses were not read claims nothing", File: claims, Tests: "TestTheRowNamesTheCauseWhereSeveralHoldForOneReason",
			Old: `		e.Claimant, e.ClaimantNode = x.unreadClaim(s, e)
`, New: ``},

		{Fault: "Reports that cannot be read mean that there are no agents", File: index, Tests: "TestWhetherThereAreAgents",
			Old: `len(o.Reports) > 0 || o.ReportsUnreadable || policy`, New: `len(o.Reports) > 0 || policy`},
		{Fault: "Reports that were there and are gone mean that there are no agents", File: index, Tests: "TestWhetherThereAreAgents",
			Old: ` || past != nil && past.SawReports(),`, New: `,`},
		{Fault: "Another machine under the name is a reboot", File: index, Tests: "TestMissingNodes",
			Old: `return heard && x.anotherBoot(n, r) && n.Machine.Same(r.Machine)`, New: `return heard && x.anotherBoot(n, r)`},
		{Fault: "A boot counts while no agent is heard", File: index, Tests: "TestDeadNodes",
			Old: `heard := !x.heardSince.IsZero() && x.heardSince.Before(r.lastRenewed())`, New: `heard := true`},
		{Fault: "A second check does not notice that the last agent is silent", File: with, Tests: "TestABootCountsFromTheFirstAgentThatIsHeardToTheLast",
			Old: `	y.heardSince = findHeardSince(o.Reports, o.Now)
`, New: ``},
		{Fault: "A boot counts although no agent was there before it", File: index, Tests: "TestABootCountsOnlyByAgentsThatWereThereBefore",
			Old: `!x.heardSince.IsZero() && x.heardSince.Before(r.lastRenewed())`, New: `!x.heardSince.IsZero()`},
		{Fault: "A fresh report of another machine than the Node's says what that one does not run", File: "reconciler/judge/nodeset.go", Tests: "TestAReportOfAnotherMachineSaysWhatItListsAndNoMore",
			Old: ` && !x.ofAnotherMachine(x.byNode[name])`, New: ``},
		{Fault: "What a fresh report says has ended with its node", File: index, Tests: "TestDeadNodes|TestAnotherSandboxRecordsTheAddress",
			Old: `return !x.isFresh(r) && (x.dead(r.Name) || x.rebooted(r))`, New: `return x.dead(r.Name) || x.rebooted(r)`},
		{Fault: "The claims of a missing node end at once", File: index, Tests: "TestTheClaimsOfAMissingNodeEndWhenNodeMissingIsConfirmed",
			Old: `return renewed.Add(x.policy.missingAfter()), `, New: `return renewed, `},

		{Fault: "A pod that was never bound to a node claims addresses", File: pods, Tests: "TestAPodThatWasNeverBoundToANodeClaimsNothing",
			Old: `if p == nil || p.Node == "" {`, New: `if p == nil {`},
		{Fault: "An annotation counts although the report tells the sandbox's addresses", File: pods, Tests: "TestWhereThePodsSandboxIsListedItsAddressesCountAndNotTheAnnotation",
			Old: `if !x.reported(c.pod) {`, New: `if true {`},
		{Fault: "A podref that a repair wrote is that of a pod which lives", File: pods, Tests: "TestAnEntryWrittenForAPhantom",
			Old: `	if owner.UID != "" {`, New: `	if false {`},

		{Fault: "What its CNI caches name is not held for an unread sandbox", File: claims, Tests: "TestAnUnreadSandboxMayCarryWhatItsCachesOrItsPodName",
			Old: `|| slices.ContainsFunc(u.ranges, func(n v1alpha1.Network) bool { return x.mayCarry(s, n) })) && claims`, New: `) && claims`},
		{Fault: "What its pod asks for is not held for an unread sandbox", File: claims, Tests: "TestAnUnreadSandboxMayCarryWhatItsCachesOrItsPodName",
			Old: `range pod.Selected {`, New: `range pod.Selected[:0] {`},
		{Fault: "An unread sandbox without caches and pod holds nothing", File: claims, Tests: "TestAnUnreadSandboxMayCarryWhatItsCachesOrItsPodName",
			Old: `u.any = another(same{any: true}, b.ID)`, New: `u.any = false`},
		{Fault: "A reservation of yesterday is not waited for", File: judge, Tests: "TestUnconfirmedIsConfirmedByWaiting", In: "reconciler",
			Old: `>= longAlone`, New: `>= 0`},
		{Fault: "A reservation of several entries shares the least cautious verdict", File: judge, Tests: "TestAReservationOfSeveralAllocationsIsAsSafeAsTheSafest",
			Old: `return slices.MinFunc(items,`, New: `return slices.MaxFunc(items,`},
		{Fault: "A reservation of another pod is the allocation's", File: judge, Tests: "TestAReservationOfAnotherIsNotTheAllocations",
			Old: `e.pool.Namespace == r.Namespace && e.PodRef == r.PodRef && `, New: `e.pool.Namespace == r.Namespace && `},
		{Fault: "A reservation of another network is the allocation's", File: judge, Tests: "TestAReservationOfAnotherIsNotTheAllocations",
			Old: `e.PodRef == r.PodRef && e.pool.isOfNetwork(read.network)`, New: `e.PodRef == r.PodRef`},
		{Fault: "An ADD may keep its reservation for no time", File: judge, Tests: "TestARecentReservation",
			Old: `const addTimeLimit = 2 * time.Minute`, New: `const addTimeLimit = time.Second`},
		{Fault: "A reservation whose name is ambiguous is judged", File: judge, Tests: "TestAReservationMustBeUnambiguous",
			Old: `	case len(readings) > 1:
		e.Problem, `, New: `	case len(readings) > 1 && false:
		e.Problem, `},
	}}
}
