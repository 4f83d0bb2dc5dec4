package main

// agentArea is what a node's agent reports, and confirms.
func agentArea() Area {
	const inspect, report, tracked, netns, agent, store, identity, restore, verify, details = "agent/inspect.go", "agent/report.go", "agent/tracked.go", "agent/netns.go", "agent/agent.go", "agent/store.go", "agent/identity.go", "agent/restore.go", "agent/verify.go", "agent/details.go"
	return Area{"The node agent: what is gone, closed, confirmed", []Mutant{
		{Fault: "An inspection without the agent's own sandbox succeeds", File: inspect, Tests: "TestAnInspectionWithoutTheAgentsOwnSandboxFails",
			Old: `		return nil, ErrOwnSandboxMissing
`, New: `		_ = ErrOwnSandboxMissing
`},
		{Fault: "The agent's own sandbox need not be READY", File: inspect, Tests: "TestAnInspectionWithoutTheAgentsOwnSandboxFails",
			Old: `return s.Ready && s.UID == ni.OwnUID }`, New: `return s.UID == ni.OwnUID }`},
		{Fault: "A list that fails is an empty one", File: inspect, Tests: "TestNothingIsSeenWhenOneThingCannotBeSeen",
			Old: `	listed, err := ni.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}`, New: `	listed, _ := ni.Runtime.List(ctx)`},
		{Fault: "Caches that cannot be read are empty", File: inspect, Tests: "TestNothingIsSeenWhenOneThingCannotBeSeen",
			Old: `	entries, err := ni.Caches.Read()
	if err != nil {
		return nil, err
	}`, New: `	entries, _ := ni.Caches.Read()`},
		{Fault: "The caches are read before the runtime", File: inspect, Tests: "TestASandboxThatIsSetUpDuringAnInspectionIsSeenInTheCache",
			Old: `	listed, err := ni.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	if ni.OwnUID != "" && !slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && s.UID == ni.OwnUID }) {
		return nil, ErrOwnSandboxMissing
	}
	entries, err := ni.Caches.Read()
	if err != nil {
		return nil, err
	}
`, New: `	entries, err := ni.Caches.Read()
	if err != nil {
		return nil, err
	}
	listed, err := ni.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	if ni.OwnUID != "" && !slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && s.UID == ni.OwnUID }) {
		return nil, ErrOwnSandboxMissing
	}
`},
		{Fault: "Caches in which none of the pods is are believed", File: inspect, Tests: "TestAnInspectionFailsWhereNoneOfThePodsIsInTheCaches",
			Old: `	if err := ni.checkCaches(listed, entries); err != nil {
		return nil, err
	}
`, New: ``},
		{Fault: "What is in a cache alone is no attachment", File: inspect, Tests: "TestAnIDInACacheThatIsNotListedIsAnAttachment",
			Old: `		inspection.Attachments = append(inspection.Attachments, t.attachment(t.closedHere(netns.closed(entry.NetNS))))
`, New: `		_ = netns
`},
		{Fault: "What is listed no more is closed although its network is there", File: inspect, Tests: "TestASandboxThatIsListedNoMoreIsGoneOnlyWhereItsNetworkIs",
			Old: `		if !knownOpen(closed) {
			delete(ni.tracked, id)
			inspection.Closed[id] = closed != nil
			continue
		}
`, New: `		if true {
			delete(ni.tracked, id)
			inspection.Closed[id] = true
			continue
		}
`},
		{Fault: "What is listed no more is closed although nothing is known of its network", File: inspect, Tests: "TestASandboxThatIsListedNoMoreIsGoneOnlyWhereItsNetworkIs",
			Old: `inspection.Closed[id] = closed != nil`, New: `inspection.Closed[id] = true`},

		{Fault: "What is listed no more is gone whatever its network is", File: report, Tests: "TestAnIDIsGoneWhenItWasListedOrClosedAndIsNotInspectedAnyMore",
			Old: `		if podstate.Closed(s.NetworkClosed) || rebooted || inspection.Closed[s.ID] {`, New: `		if true {`},
		{Fault: "An attachment that is not there any more is gone whatever its network is", File: report, Tests: "TestAnIDIsGoneWhenItWasListedOrClosedAndIsNotInspectedAnyMore",
			Old: `a := &before.Attachments[i]; podstate.Closed(a.NetworkClosed) || rebooted || inspection.Closed[a.ID] {`, New: `a := &before.Attachments[i]; true {`},
		{Fault: "What is listed is gone, too", File: report, Tests: "TestAnIDIsGoneWhenItWasListedOrClosedAndIsNotInspectedAnyMore",
			Old: `		if !seen[g.ID] {`, New: `		if true {`},
		{Fault: "Another machine under the name is a reboot to its agent", File: report, Tests: "TestAnotherMachineUnderTheSameNameIsNoReboot",
			Old: ` && before.Machine.Same(inspection.Machine)
`, New: `
`},
		{Fault: "The same boot is a reboot to its agent", File: report, Tests: "TestAnIDIsGoneWhenItWasListedOrClosedAndIsNotInspectedAnyMore",
			Old: `inspection.BootID != "" && before.BootID != inspection.BootID && `, New: `inspection.BootID != "" && `},
		{Fault: "What is gone is forgotten at the next report", File: report, Tests: "TestGoneIDsAreForgottenAfterADayByAReportThatIsWrittenAnyway",
			Old: `	for _, g := range before.Gone {
		add(g)
	}
`, New: ``},
		{Fault: "A sandbox that may have a whereabouts address is left out", File: report, Tests: "TestTheFirstReportIsWhatWasSeen",
			Old: `!s.Irrelevant {
			next`, New: `s.State == v1alpha1.SandboxReady {
			next`},
		{Fault: "The newest attachments are left out, not the oldest", File: report, Tests: "TestBeyondAThousandAttachmentsTheOldestClosedOnesAreLeftOut",
			Old: `cmp.Or(cmp.Compare(first(a), first(b)), a.Since.Compare(b.Since.Time))`, New: `cmp.Or(cmp.Compare(first(a), first(b)), b.Since.Compare(a.Since.Time))`},
		{Fault: "Attachments that count are left out where there are many", File: report, Tests: "TestBeyondAThousandAttachmentsTheOldestClosedOnesAreLeftOut",
			Old: `		if !seen.Counts(&a, observed) {
			idle`, New: `		if true {
			idle`},

		{Fault: "What another machine's report had is closed here", File: tracked, Tests: "TestWhatAnotherMachinesReportHadIsNeverClosedHere",
			Old: `	if t.otherMachine && podstate.Closed(closed) {
		return nil
	}
`, New: ``},
		{Fault: "A sandbox whose entry is incomplete loses its addresses", File: tracked, Tests: "TestASandboxKeepsItsLastKnownAddressesUntilItsNetworkCloses",
			Old: `	for _, a := range t.last.Addresses {
		if !slices`, New: `	for _, a := range t.last.Addresses[:0] {
		if !slices`},
		{Fault: "A sandbox whose addresses are not known is said to have none", File: tracked, Tests: "TestASandboxOfWhichNothingTellsTheAddressesMayHaveAny",
			Old: `		out.AddressesUnread = !t.addressesComplete && !out.Irrelevant
`, New: ``},
		{Fault: "A sandbox that runs on is forgotten when the agent starts again", File: tracked, Tests: "TestASandboxThatLivesOnIsKeptWithItsAddressesUntilItsNetworkCloses|TestAReportContinuesTheOneBefore",
			Old: `	if ni.tracked == nil {
		ni.tracked = resumed
	}
`, New: ``},
		{Fault: "A path that is missing in a folder that may not be the node's is proof", File: netns, Tests: "TestANetworkIsClosedByItsPathOnlyInTheNodesOwnFolder",
			Old: `case !errors.Is(err, fs.ErrNotExist) || !n.isNodeDir(dir):`, New: `case !errors.Is(err, fs.ErrNotExist):`},
		{Fault: "A path in a folder that is not mounted is closed", File: netns, Tests: "TestANetworkIsClosedByItsPathOnlyInTheNodesOwnFolder",
			Old: `		if dir == nil {
			closed = false
			continue
		}
`, New: `		if dir == nil {
			continue
		}
`},
		{Fault: "A path that cannot be looked at is closed", File: netns, Tests: "TestANetworkIsClosedByItsPathOnlyInTheNodesOwnFolder",
			Old: `case !errors.Is(err, fs.ErrNotExist) || !n.isNodeDir(dir):`, New: `case !n.isNodeDir(dir):`},
		{Fault: "A folder that lacks the namespace of a sandbox that runs is the node's", File: netns, Tests: "TestANetworkIsClosedByItsPathOnlyInTheNodesOwnFolder",
			Old: `			incomplete = append(incomplete, dir)
		} else`, New: `			incomplete = nil
		} else`},
		{Fault: "A status that was not to be had leaves the network closed", File: details, Tests: "TestASandboxWhoseStatusIsNotToBeHadCostsOnlyItself",
			Old: `t.detailed, t.detailedReady, t.detail.NetworkClosed = true, ready, nil`, New: `t.detailed, t.detailedReady = true, ready`},

		{Fault: "The Lease is renewed after an inspection that failed", File: agent, Tests: "TestAFailedInspectionPublishesAndRenewsNothingUntilOneSucceeds",
			Old: `		a.Health.inspectFailed(err)
		return retryAfter`, New: `		a.Health.inspectFailed(err)
		_ = a.Store.Renew(ctx)
		return retryAfter`},
		{Fault: "A report that changed is renewed and not written", File: agent, Tests: "TestAChangeIsPublishedAndRenewsTheLease",
			Old: `		a.report, a.published = next, false
	}
}

func (a *Agent) publish`, New: `		a.report = next
	}
}

func (a *Agent) publish`},
		{Fault: "The report of another machine under the name is taken over as this one's", File: agent, Tests: "TestAnAgentGoesOnFromTheReportOfTheOneBefore|TestAnotherMachineUnderTheSameNameIsNoReboot|TestAnAgentThatStartsAgainOnTheSameBootGoesOn",
			Old: `		same := identity.matches(a.report)
`, New: `		same := true
`},
		{Fault: "A report of before a boot is replaced before the boot is known", File: agent, Tests: "TestAReportOfBeforeABootStandsUntilTheNodeObjectHasTheNewBootID",
			Old: `	if err != nil && a.report.BootID != "" {`, New: `	if false {`},
		{Fault: "A report that somebody changed stays so", File: agent, Tests: "TestAChangeOfTheReportIsReadBackUnlessItIsTheAgentsOwn",
			Old: `		a.Health.reportChanged()
		a.published = false
`, New: `		a.Health.reportChanged()
`},
		{Fault: "After a restore the report is not written again", File: agent, Tests: "TestASignOfARestoreRewritesTheReportByAnInspectionMadeSince",
			Old: `	a.Health.restoreNoticed(err)
	a.rewriteSoon()
`, New: `	a.Health.restoreNoticed(err)
`},
		{Fault: "The earlier agent's report is not read", File: agent, Tests: "TestAnAgentGoesOnFromTheReportOfTheOneBefore",
			Old: `	if report == nil {
		report = &v1alpha1`, New: `	if true {
		report = &v1alpha1`},
		{Fault: "The Lease confirms a report before it is written", File: store, Tests: "TestAReportAndALeaseThatConfirmsItAreWritten|TestAnOlderCRDIsNoticedAndNoLeaseConfirmsTheReport",
			Old: `		err := a.writeReport(ctx, report)
		switch {`, New: `		a.hash = podstate.Hash(report)
		_ = a.writeLease(ctx)
		err := a.writeReport(ctx, report)
		switch {`},
		{Fault: "A report that is stored in part is confirmed", File: store, Tests: "TestAnOlderCRDIsNoticedAndNoLeaseConfirmsTheReport",
			Old: `			if err := a.verifyStored(ctx, report); err != nil {
				return err
			}
`, New: ``},
		{Fault: "A report that somebody changed is intact", File: store, Tests: "?",
			Old: `return podstate.Hash(stored) == podstate.Hash(report) && `, New: `return `},
		{Fault: "Another program's Lease is written over", File: store, Tests: "TestALeaseOfAnotherProgramIsLeftAlone",
			Old: `ours || holder == nil || *holder == "" || *holder == a.node {`, New: `ours || true || holder == nil || *holder == "" || *holder == a.node {`},
		{Fault: "A Node of another boot is this machine's", File: identity, Tests: "TestWhichMachineItIsIsKnownOnceTheNodeObjectHasItsBootID",
			Old: `	case node.BootID == c.BootID:
		c.confirmed = &node`, New: `	case node.BootID != "":
		c.confirmed = &node`},
		{Fault: "A report without a boot id is of this boot", File: identity, Tests: "?",
			Old: `return i.BootID != "" && i.BootID == report.BootID || `, New: `return i.BootID == report.BootID || `},
		{Fault: "A resourceVersion that ran backwards is no restore to an agent", File: restore, Tests: "TestARestoreOfEtcdIsNoticedAndNoted",
			Old: `	if !older(m.resourceVersion, before.resourceVersion) {
		return nil
	}
`, New: `	if true {
		return nil
	}
`},
		{Fault: "Two clocks are a restore to an agent", File: restore, Tests: "TestTwoClocksAreNoRestore",
			Old: `const maxClockSkew = 10 * time.Second`, New: `const maxClockSkew = 0 * time.Second`},
		{Fault: "A restore is dated to a write that was not lost", File: restore, Tests: "TestARestoreIsDatedBeforeTheFirstWriteThatSucceededAfterIt",
			Old: `if now, err := stored(ctx); apierrors.IsNotFound(err) || err == nil && older(now, other.resourceVersion) {`, New: `if _, err := stored(ctx); err == nil || err != nil {`},
		{Fault: "A field that the API server dropped is not missed", File: verify, Tests: "TestAnOlderCRDIsNoticedAndNoLeaseConfirmsTheReport",
			Old: `	if len(dropped) > 0 {`, New: `	if false {`},
	}}
}
