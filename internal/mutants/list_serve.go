package main

// serveArea is the long-running form: its passes, caches and guard.
func serveArea() Area {
	const passes, guard, run, remaining, gc, server = "reconciler/serve/passes.go", "reconciler/serve/guard.go", "reconciler/serve/guardrun.go", "reconciler/serve/remaining.go", "reconciler/serve/reportgc.go", "reconciler/serve/server.go"
	const watches, verify, restore = "reconciler/informers/watches.go", "reconciler/informers/verify.go", "reconciler/informers/restore.go"
	return Area{"The Deployment: passes, caches, the guard", []Mutant{
		{Fault: "Caches count before they were compared with a full pass", File: watches, Tests: "TestCachesAreReliedUponSinceAFullPassThatAgreed",
			Old: `	if !t.isVerified {`, New: `	if false {`},
		{Fault: "Caches count after a watch was opened again", File: verify, Tests: "TestARevisionThatRanBackwardsIsSeenWhenAWatchIsReopened",
			Old: `if current.watches.isCompared(opens) {`, New: `if true {`},
		{Fault: "A watch that has told of more than there is shows no restore", File: restore, Tests: "TestWhatShowsThatEtcdRanBackwards",
			Old: `		if now < seen {`, New: `		if false {`},
		{Fault: "An object that is older than before shows no restore", File: restore, Tests: "TestWhatShowsThatEtcdRanBackwards",
			Old: `is.UID == was.UID && kube.Older(is.ResourceVersion, was.ResourceVersion) {`, New: `false {`},
		{Fault: "An object that comes and goes while everything is read has caches rebuilt", File: "reconciler/informers/differences.go", Tests: "TestFull_ObjectThatComesAndGoesWhileItIsRead",
			Old: `cached != listed && !v.changedSince[objectKey{resource, name}] {`, New: `cached != listed {`},

		{Fault: "What waits for a retry is released by the next pass", File: passes, Tests: "TestAPoolWhoseWritesFailIsLeftAloneWhileOthersAreFreed",
			Old: `return !s.retryAt[it.Object()].After(began) })`, New: `return true })`},
		{Fault: "A restore does not have the caches thrown away", File: passes, Tests: "TestRestore_DetectedByTheSecondCheckThrowsTheCachesAway",
			Old: `	s.Caches.Rebuild(why)
`, New: ``},
		{Fault: "The guard is not told of a restore that a pass shows", File: passes, Tests: "TestARestoreThatAnAgentTellsOfRaisesTheFenceWhileThatIsNew",
			Old: `		s.Guard.RestoreReported(sign, when)
`, New: ``},
		{Fault: "What is unconfirmed is never judged again", File: passes, Tests: "TestWhatIsNotConfirmedIsJudgedAgainWhenItIsDue",
			Old: `		s.Requests.AddAfter(cachePass, wait)
`, New: ``},
		{Fault: "Cache passes follow each other without a rest", File: passes, Tests: "TestRest_ChangesThatGoOnTakeAFifthOfACore",
			Old: `min(restFactor*worked, maxRest)`, New: `0 * min(restFactor*worked, maxRest)`},
		{Fault: "A change is lost that comes while a cache pass rests", File: server, Tests: "TestRequests_ChangeDuringAPass",
			Old: `			s.Requests.AddAfter(cachePass, rest)
`, New: ``},

		{Fault: "No fence is raised after a time without the API server", File: run, Tests: "TestTheFenceIsRaisedAfterAnOutageAndLoweredWhereNothingWasRestored",
			Old: `	if restoring || time.Now().After(g.noRaiseBefore) {`, New: `	if restoring {`},
		{Fault: "A revision that runs backwards raises no fence", File: run, Tests: "TestAPingThatShowsARestoreRaisesTheFence",
			Old: `case now.Revision < was.Revision:`, New: `case false:`},
		{Fault: "A Lease that runs backwards raises no fence", File: run, Tests: "TestAPingThatShowsARestoreRaisesTheFence",
			Old: `case now.Lease.UID == was.Lease.UID && `, New: `case false && `},
		{Fault: "A revision that leaps raises no fence", File: run, Tests: "TestAPingThatShowsARestoreRaisesTheFence",
			Old: `case float64(now.Revision-was.Revision) > max(`, New: `case 0 > max(`},
		{Fault: "A connection that has ended raises no fence", File: run, Tests: "TestAConnectionThatEndsRaisesTheFenceUntilTheNextPing",
			Old: `g.serverAway || answer.Reconnected && g.last.Revision != 0`, New: `g.serverAway`},
		{Fault: "ADDs wait for a comparison", File: run, Tests: "TestAFenceDoesNotWaitForAComparison",
			Old: `case why == "" && (taken && g.answered`, New: `case why == "" && (taken && g.answered && !g.comparing`},
		{Fault: "A fence for a restore is lowered before all is settled", File: run, Tests: "TestAFenceForARestoreStandsUntilNothingRemains",
			Old: `	case recovered:
		outcome`, New: `	case recovered || why != "" && taken:
		outcome`},
		{Fault: "A fence is not lowered when its time is up", File: run, Tests: "TestAFenceForARestoreIsLoweredWhenItsTimeIsUp",
			Old: `case why != "" && g.age() >= g.Timeout:`, New: `case false:`},
		{Fault: "Time without the API server counts as time behind the fence", File: run, Tests: "TestATimeWithoutTheAPIServerIsNoTimeBehindTheFence",
			Old: `if !g.raisedAt.IsZero() && time.Since(g.awaySince) > leaseExpiry {`, New: `if false {`},
		{Fault: "A replica that ends lowers the fence of a restore", File: run, Tests: "TestAProcessThatEndsLeavesTheFenceOfARestoreToTheOther",
			Old: `	if g.Restoring() {
		g.Fence.Leave()
		return
	}
`, New: ``},
		{Fault: "What another replica says of a restore is not heard", File: run, Tests: "TestAReplicaThatKnowsOfNoRestoreLearnsItFromTheOne",
			Old: `case peer != "" && !g.Restoring():`, New: `case false:`},
		{Fault: "A pass that began before the fence stood settles a restore", File: guard, Tests: "TestAFenceForARestoreStandsUntilNothingRemains",
			Old: ` && began.After(g.standingSince) {`, New: ` {`},
		{Fault: "A restore is settled while nodes have yet to write", File: remaining, Tests: "TestWhatRemainsToBeDoneAfterARestore",
			Old: `	case !out.Restore.Complete():`, New: `	case false:`},
		{Fault: "A restore is settled while reports are of before the fence", File: remaining, Tests: "TestWhatRemainsToBeDoneAfterARestore",
			Old: `len(nodes) > 0 {`, New: `false && len(nodes) > 0 {`},
		{Fault: "A restore is settled while entries are still to be written", File: remaining, Tests: "TestWhatRemainsToBeDoneAfterARestore",
			Old: `	if out.ToRepair > 0 {`, New: `	if false {`},
		{Fault: "The report of a node that is missing is removed at once", File: gc, Tests: "TestTheReportOfANodeThatIsGoneIsRemovedAfterAnHour",
			Old: `const missingFor = time.Hour`, New: `const missingFor = 0 * time.Hour`},
		{Fault: "The report of a node is removed that a held allocation needs", File: gc, Tests: "TestTheReportOfANodeIsKept",
			Old: `		if out.Needs(r) {
			continue // another pass follows when that has changed
		}
`, New: ``},
		{Fault: "The report of a node is removed without asking for its object", File: gc, Tests: "TestTheReportOfANodeIsKept",
			Old: `	if err != nil || there {
		return err
	}
`, New: `	_, _ = err, there
`},
		{Fault: "Where nothing happens nothing is observed until the next full pass", File: passes, Tests: "TestAnObservationIsNeverOldUnlessThePassesFail",
			Old: `now.Add(observeEvery)`, New: `now.Add(300 * observeEvery)`},
	}}
}
