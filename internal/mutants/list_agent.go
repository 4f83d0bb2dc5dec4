package main

// agentArea is what a node's agent reports, and confirms.
func agentArea() Area {
	const guard, inspect, report, tracked, netns, agent, store, identity, object = "agent/guard.go", "agent/inspect.go", "agent/report.go", "agent/tracked.go", "agent/netns.go", "agent/agent.go", "agent/store.go", "agent/identity.go", "agent/object.go"
	return Area{"The node agent: what is gone, closed, confirmed", []Mutant{
		{Fault: "A plain file is no namespace where mounts do not reach the agent", File: "agent/netns.go", Tests: "TestAPlainFileIsNoNamespaceBesideMounts",
			Old: ` && seesMounts(filepath.Dir(path))`, New: ``},
		{Fault: "A plain file is no namespace beside other plain files of sandboxes that run", File: "agent/netns.go", Tests: "TestAPlainFileIsNoNamespaceBesideMounts",
			Old: `contains(n.mounts, dir) && !contains(n.plain, dir)`, New: `contains(n.mounts, dir)`},
		{Fault: "An inspection without the agent's own sandbox succeeds", File: inspect, Tests: "TestAnInspectionWithoutTheAgentsOwnSandboxFails",
			Old: `		return nil, ErrOwnSandboxMissing
`, New: `		_ = ErrOwnSandboxMissing
`},
		{Fault: "A list that fails is an empty one", File: inspect, Tests: "TestAFailureIsNoEmptyAnswerWhereNothingElseShowsIt",
			Old: `	listed, err := ni.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}`, New: `	listed, _ := ni.Runtime.List(ctx)`},
		{Fault: "Caches that cannot be read are empty", File: inspect, Tests: "TestAFailureIsNoEmptyAnswerWhereNothingElseShowsIt",
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
			Old: `		inspection.Attachments = append(inspection.Attachments, t.attachment(t.closedHere(netns.closed(entry.NetNS, false))))
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

		{Fault: "What is listed no more is gone whatever its network is", File: report, Tests: "TestOnlyAnotherBootOfTheSameMachineEndsWhatIsNotKnownToBeClosed",
			Old: `		if podstate.Closed(s.NetworkClosed) || rebooted || inspection.Closed[s.ID] {`, New: `		if true {`},
		{Fault: "An attachment that is not there any more is gone whatever its network is", File: report, Tests: "TestAnIDIsGoneWhenItWasListedOrClosedAndIsNotInspectedAnyMore",
			Old: `a := &before.Attachments[i]; podstate.Closed(a.NetworkClosed) || rebooted || inspection.Closed[a.ID] {`, New: `a := &before.Attachments[i]; true {`},
		{Fault: "What is listed is gone, too", File: report, Tests: "TestAnIDIsGoneWhenItWasListedOrClosedAndIsNotInspectedAnyMore",
			Old: `		if !seen[g.ID] {`, New: `		if true {`},
		{Fault: "Another machine under the name is a reboot to its agent", File: report, Tests: "TestOnlyAnotherBootOfTheSameMachineEndsWhatIsNotKnownToBeClosed",
			Old: ` && before.Machine.Same(inspection.Machine)
`, New: `
`},
		{Fault: "The same boot is a reboot to its agent", File: report, Tests: "TestOnlyAnotherBootOfTheSameMachineEndsWhatIsNotKnownToBeClosed",
			Old: `inspection.BootID != "" && before.BootID != inspection.BootID && `, New: `inspection.BootID != "" && `},
		{Fault: "Attachments that count are left out where there are many", File: report, Tests: "TestBeyondAThousandAttachmentsTheOldestClosedOnesAreLeftOut",
			Old: `		if !seen.Counts(&a, observed) {
			idle`, New: `		if seen != nil {
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
			Old: `out.AddressesUnread = !t.addressesComplete && !out.Irrelevant; out`, New: `out`},
		{Fault: "A path that is missing in a folder that may not be the node's is proof", File: netns, Tests: "TestANetworkIsClosedByItsPathOnlyInTheNodesOwnFolder",
			Old: `case !errors.Is(err, fs.ErrNotExist) || !n.isNodeDir(dir):`, New: `case !errors.Is(err, fs.ErrNotExist):`},
		{Fault: "A folder that lacks the namespace of a sandbox that runs is the node's", File: netns, Tests: "TestANetworkThatClosesOrAFolderThatGoesIsSeenAtTheNextInspection",
			Old: `			incomplete = append(incomplete, dir)
			continue`, New: `			incomplete = nil
			continue`},

		{Fault: "The Lease is renewed after an inspection that failed", File: agent, Tests: "TestAFailedInspectionPublishesAndRenewsNothingUntilOneSucceeds",
			Old: `		a.Health.inspectFailed(err)
		return retryAfter`, New: `		a.Health.inspectFailed(err)
		_ = a.Store.Renew(ctx)
		return retryAfter`},
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
		{Fault: "The Lease confirms a report before it is written", File: store, Tests: "TestNoLeaseConfirmsAReportThatIsNotStoredInFull",
			Old: `	stored, err := a.report.write(`, New: `	a.hash = podstate.Hash(report)
	_ = a.Renew(ctx)
	stored, err := a.report.write(`},
		{Fault: "A report that is stored in part is confirmed", File: store, Tests: "TestNoLeaseConfirmsAReportThatIsNotStoredInFull",
			Old: `	if podstate.Hash(stored) != hash {`, New: `	if stored == nil {`},
		{Fault: "A Node of another boot is this machine's", File: identity, Tests: "TestWhichMachineItIsIsKnownOnceTheNodeObjectHasItsBootID",
			Old: `	case node.BootID == c.BootID:
		c.confirmed = &node`, New: `	case node.BootID != "":
		c.confirmed = &node`},
		{Fault: "A resourceVersion that ran backwards is no restore to an agent", File: object, Tests: "TestARestoreOfEtcdIsNoticedAndNoted",
			Old: `	case older(now.resourceVersion, before.resourceVersion):`, New: `	case false:`},
		{Fault: "The API server may drop fields of a report", File: object, Tests: "TestNoLeaseConfirmsAReportThatIsNotStoredInFull",
			Old: `metav1.FieldValidationStrict`, New: `metav1.FieldValidationIgnore`},
		{Fault: "An agent publishes although nothing keeps it to its own report", File: guard, Tests: "TestNothingIsPublishedBeforeThePolicyIsSeenToBeEnforced",
			Old: `		a.guarded = time.Time{}
		return err
`, New: `		a.guarded = time.Time{}
		return nil
`},
		{Fault: "An agent checks its admission policy once", File: guard, Tests: "TestAPolicyThatIsNotEnforcedAnyMoreEndsRenewals",
			Old: `!a.guarded.IsZero() && time.Since(a.guarded) < guardEvery`, New: `!a.guarded.IsZero()`},
	}}
}
