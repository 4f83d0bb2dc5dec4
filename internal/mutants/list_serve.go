package main

// serveArea is the long-running form: when it passes, what it follows, its guard.
func serveArea() Area {
	const plan, follow, guard, run, remaining, gc, server = "reconciler/serve/plan.go", "reconciler/serve/follow.go", "reconciler/serve/guard.go", "reconciler/serve/guardrun.go", "reconciler/serve/remaining.go", "reconciler/serve/reportgc.go", "reconciler/serve/server.go"
	const consistency, restore = "reconciler/informers/consistency.go", "reconciler/informers/restore.go"
	return Area{"The Deployment: caches, following, the guard", []Mutant{
		{Fault: "Caches count before they were compared with a full pass", File: consistency, Tests: "TestCachesAreReliedUponSinceAFullPassThatAgreed",
			Old: `	if !verified {`, New: `	if !verified && false {`},
		{Fault: "Caches count after a watch was opened again", File: consistency, Tests: "TestARevisionThatRanBackwardsIsSeenWhenAWatchIsReopened",
			Old: `if opens == compared {`, New: `if opens >= compared {`},
		{Fault: "A watch that has told of more than there is shows no restore", File: consistency, Tests: "TestWhatShowsThatEtcdRanBackwards",
			Old: `		if now < seen {`, New: `		if false {`},
		{Fault: "An object that is older than before shows no restore", File: restore, Tests: "TestWhatShowsThatEtcdRanBackwards",
			Old: `is.UID == was.UID && kube.Older(is.ResourceVersion, was.ResourceVersion) {`, New: `false {`},

		{Fault: "What waits for a retry is released by the next pass", File: plan, Tests: "TestAPoolWhoseWritesFailIsLeftAloneWhileOthersAreFreed",
			Old: `	return !waits
}`, New: `	return !waits || true
}`},
		{Fault: "A restore does not have the caches thrown away", File: plan, Tests: "TestARestoreThatIsNoticedWhileFollowingThrowsTheCachesAway",
			Old: `	s.Caches.Rebuild(why)
`, New: ``},
		{Fault: "The guard is not told of a restore that a pass shows", File: plan, Tests: "TestARestoreThatAnAgentTellsOfRaisesTheFenceWhileThatIsNew",
			Old: `		s.Guard.RestoreReported(sign, when)
`, New: ``},
		{Fault: "What is unconfirmed is never judged again", File: plan, Tests: "TestWhatIsNotConfirmedIsJudgedAgainWhenItIsDue",
			Old: `	s.planPass(until, out.Observation.Now)
`, New: ``},
		{Fault: "A pool whose writes fail is followed", File: follow, Tests: "TestAPoolWhoseWritesFailIsNotFollowed",
			Old: `return s.mayRelease(it) && !released[it.ID()] })`, New: `return !released[it.ID()] })`},

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
		{Fault: "Where nothing happens nothing is observed until the next full pass", File: plan, Tests: "TestAnObservationIsNeverOldUnlessThePassesFail",
			Old: `out.Observation.Now.Add(observeEvery)`, New: `out.Observation.Now.Add(300 * observeEvery)`},
	}}
}
