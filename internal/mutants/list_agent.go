package main

// agent is what a node's agent reports and confirms.
func agent() []Mutant {
	return []Mutant{
		{Fault: "An inspection without the agent's own sandbox succeeds", Decl: "NodeInspector.inspectOnce",
			Tests: "TestInspect_OwnSandboxMissing",
			Old:   `return nil, ErrOwnSandboxMissing`, New: `_ = ErrOwnSandboxMissing`},
		{Fault: "A list that fails is an empty one", Decl: "NodeInspector.inspectOnce",
			Tests: "TestInspect_FailureIsNotEmpty",
			Old: `listed, err := ni.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}`, New: `listed, _ := ni.Runtime.List(ctx)`},
		{Fault: "Caches that cannot be read are empty", Decl: "NodeInspector.inspectOnce",
			Tests: "TestInspect_FailureIsNotEmpty",
			Old: `entries, err := ni.Caches.Read()
	if err != nil {
		return nil, err
	}`, New: `entries, _ := ni.Caches.Read()`},
		{Fault: "The caches are read before the runtime", Decl: "NodeInspector.inspectOnce",
			Tests: "TestInspect_ReadsRuntimeBeforeCaches",
			Old: `listed, err := ni.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	if ni.OwnUID != "" && !slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && s.UID == ni.OwnUID }) {
		return nil, ErrOwnSandboxMissing
	}
	entries, err := ni.Caches.Read()
	if err != nil {
		return nil, err
	}`, New: `entries, err := ni.Caches.Read()
	if err != nil {
		return nil, err
	}
	listed, err := ni.Runtime.List(ctx)
	if err != nil {
		return nil, err
	}
	if ni.OwnUID != "" && !slices.ContainsFunc(listed, func(s cri.Sandbox) bool { return s.Ready && s.UID == ni.OwnUID }) {
		return nil, ErrOwnSandboxMissing
	}`},
		{Fault: "What is listed no more is gone whatever its network is", Decl: "goneIDs",
			Tests: "TestNextReport_OnlyRebootEndsUnknownNetworks",
			Old:   `if podstate.IsClosed(s.NetworkClosed) || rebooted || inspection.NamespaceGone[s.ID] {`, New: `if true {`},
		{Fault: "What another machine's report had is closed here", Decl: "trackedSandbox.trustedState",
			Tests: "TestInspect_OtherMachinesSandboxesAreNeverClosed",
			Old: `if t.isOtherMachine && podstate.IsClosed(closed) {
		return nil
	}`, New: ``},
		{Fault: "The Lease is renewed after an inspection that failed", Decl: "Agent.inspectAndPublish",
			Tests: "TestAgent_FailedInspectionPublishesNothing",
			Old: `a.Health.recordInspectFailure(err)
		return inspectRetryDelay`, New: `a.Health.recordInspectFailure(err)
		_ = a.Store.Renew(ctx)
		return inspectRetryDelay`},
		{Fault: "The Lease confirms a report before it is written", Decl: "APIStore.Publish",
			Tests: "TestStore_PartlyStoredReportIsNotConfirmed",
			Old:   `stored, err := a.report.write(`, New: `a.hash = podstate.Hash(report)
	_ = a.Renew(ctx)
	stored, err := a.report.write(`},
		{Fault: "A report that is stored in part is confirmed", Decl: "APIStore.Publish",
			Tests: "TestStore_PartlyStoredReportIsNotConfirmed",
			Old:   `if podstate.Hash(stored) != hash {`, New: `if stored == nil {`},
		{Fault: "A proxy's 404 makes an agent forget its report", Decl: "object.reread",
			Tests: "TestLoad_404OfAProxy", Old: `if isAbsent(err) {`, New: `if apierrors.IsNotFound(err) {`},
		{Fault: "One denial decides who a machine is until its agent ends", Decl: "Confirmer.Identity",
			Tests: "TestConfirmer_Identity",
			Old:   `return Identity{BootID: before.BootID, Machine: before.Machine}, nil`,
			New: `c.identity = &Identity{BootID: before.BootID, Machine: before.Machine}
		return *c.identity, nil`},
		{Fault: "A watch that is forbidden once has missed nothing", Decl: "Watcher.Watch",
			Tests: "TestWatcher_DetectsInterruption",
			Old:   `!w.isForbidden || !wasForbidden`, New: `!w.isForbidden || false && !wasForbidden`},
		{Fault: "A Node of another boot is this machine's", Decl: "Confirmer.Identity",
			Tests: "TestConfirmer_Identity",
			Old:   `case err == nil && node.BootID == c.BootID:`, New: `case err == nil:`},
		{Fault: "A resourceVersion that ran backwards is no restore to an agent", Decl: "object.advance",
			Tests: "TestStore_DetectsRestore",
			Old:   `case isOlder(now.resourceVersion, before.resourceVersion):`, New: `case false:`},
		{Fault: "The API server may drop fields of a report", Decl: "object.put",
			Tests: "TestStore_PartlyStoredReportIsNotConfirmed",
			Old:   `metav1.FieldValidationStrict`, New: `metav1.FieldValidationIgnore`},
		{Fault: "The result of another network stands for one that is lost", Decl: "entryBuilder.hasAllResults",
			Tests: "TestEntry_ResultOfEachNetwork",
			Old:   `if d.ifName != "" && !others.Has(d) {`, New: `if d.ifName == "-" {`},
		{Fault: "Any result stands for the one of a pod's first network", Decl: "entryBuilder.hasAllResults",
			Tests: "TestEntry_ResultOfEachNetwork",
			Old:   `!networks.Has(d.network)`, New: `len(networks) == 0`},
		{Fault: "A network of Multus is on any interface", Decl: "parsedFile.parseDelegates",
			Tests: "TestEntry_ResultOfEachNetwork",
			Old:   `if d.IfName == "" && i > 0 {`, New: `if i < 0 {`},
		{Fault: "A sandbox of which addresses are left out has all of them", Decl: "Fit",
			Tests: "TestFit",
			Old:   `s.AddressesUnread = s.AddressesUnread || isCut`, New: ``},
		{Fault: "What is left out of a sandbox is of no network", Decl: "Fit",
			Tests: "TestFit",
			Old:   `networks = append(networks, networksOf(byOrigin[len(addresses):])...)`, New: ``},
		{Fault: "A sandbox of unknown networks may carry only what is left out", Decl: "Fit",
			Tests: "TestFit",
			Old:   `if areNetworksKnown {`, New: `if areNetworksKnown || true {`},
		{Fault: "Addresses of other plugins are kept before those of whereabouts", Decl: "Fit",
			Tests: "TestFit",
			Old:   `case b.Unattributed:`, New: `case a.Unattributed:`},
		{Fault: "A tenant fills the report of a node with one pod's addresses", Decl: "entryBuilder.build",
			Tests: "TestEntry_PodsOfATenantFitIntoAReport",
			Old:   `Fit(&s, MaxBytes)`, New: `Fit(&s, 64*MaxBytes)`},
		{Fault: "A sandbox of which addresses are left out has those that were known before",
			Decl: "trackedSandbox.addresses", Tests: "TestInspect_MoreAddressesThanAReportHas",
			Old: `&& !entry.IsCut`, New: ``},
		{Fault: "An attachment of which addresses are left out has all of them", Decl: "NodeInspector.inspectCached",
			Tests: "TestInspect_MoreAddressesThanAReportHas",
			Old:   `entry.IsCut || before`, New: `before`},
		{Fault: "A sandbox that the runtime has lost has no address that its cache file lacks",
			Decl: "NodeInspector.inspectCached", Tests: "TestInspect_CachedAttachmentKeepsWhatWasUnread",
			Old: `id, t.addresses(entry)`, New: `id, entry.Addresses`},
		{Fault: "A sandbox that the runtime has lost has all of its addresses", Decl: "NodeInspector.inspectCached",
			Tests: "TestInspect_CachedAttachmentKeepsWhatWasUnread",
			Old:   `entry.IsCut || before.AddressesUnread && !entry.HasAllAddresses`, New: `entry.IsCut`},
		{Fault: "One of several network namespaces proves the end of a sandbox", Decl: "NodeInspector.inspectVanished",
			Tests: "TestInspect_VanishedKeepsEachNamespaceOfItsCache",
			Old:   `networkClosed(t.netns, false)`, New: `networkClosed(t.netns[:min(1, len(t.netns))], false)`},
		{Fault: "Last known addresses that are left out are forgotten", Decl: "NodeInspector.describeSandbox",
			Tests: "TestInspect_LastKnownAddressesThatAreLeftOut",
			Old:   `slices.Concat(entry.MayCarry, t.sandbox.MayCarry)`, New: `slices.Clone(entry.MayCarry)`},
		{Fault: "Many pods of a tenant make a report too large to be written", Decl: "NextReport",
			Tests: "TestNextReport_FitsIntoWhatThePolicyAllows",
			Old:   `fitReport(next)`, New: ``},
		{Fault: "A running sandbox whose result file is lost never had an address", Decl: "NodeInspector.updateTracked",
			Tests: "TestInspect_LostResultOfAPluggedNetwork",
			Old:   `entry.HasNoWhereabouts && !t.hadAddresses`, New: `entry.HasNoWhereabouts`},
		{Fault: "A new agent does not know that a sandbox had addresses", Decl: "NodeInspector.Resume",
			Tests: "TestInspect_LostResultOfAPluggedNetwork",
			Old:   `len(t.sandbox.Addresses) > 0 || t.sandbox.AddressesUnread`, New: `false`},
		{Fault: "A Lease confirms what a slow inspection read long ago", Decl: "Agent.publishInTime",
			Tests: "TestAgent_ConfirmsNothingAfterASlowInspection",
			Old:   `took := time.Since(a.inspectedAt)`, New: `took := 0 * time.Since(a.inspectedAt)`},
		{Fault: "A cache folder that was deleted under its mount is one that does not exist yet", Decl: "Cache.readFolder",
			Tests: "TestInspect_FolderIsReplacedUnderItsMount",
			Old:   `&& !errors.Is(err, hostdir.ErrReplaced)`, New: ``},
		{Fault: "A sandbox that may still run is left out of a large report", Decl: "dropEnded",
			Tests: "TestNextReport_NeverDropsWhatMayRun",
			Old:   `s.State == v1alpha1.SandboxNotReady && podstate.IsClosed(s.NetworkClosed)`,
			New:   `s.State == v1alpha1.SandboxNotReady`},
		{Fault: "An attachment whose addresses a report has no room for has none", Decl: "fitReport",
			Tests: "TestNextReport_FitsIntoWhatThePolicyAllows",
			Old:   `a.Addresses, a.AddressesUnread, a.MayCarry = s.Addresses, s.AddressesUnread, s.MayCarry`,
			New:   `a.Addresses = s.Addresses`},
	}
}
