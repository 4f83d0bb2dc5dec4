package main

// releaseArea is the way from the plan to what is written.
func releaseArea() Area {
	const executor, change, release, write = "reconciler/executor.go", "reconciler/change.go", "reconciler/release.go", "reconciler/write.go"
	const rollback, hold, live = "reconciler/rollback.go", "reconciler/hold.go", "reconciler/liveindex.go"
	return Area{"The release: second check, order of writes, putting back", []Mutant{
		{Fault: "A reservation that a finalizer keeps is deleted at every pass", File: "reconciler/history.go", Tests: "TestRelease_ReservationThatStays",
			Old: `s.released = o.Now.UnixNano()`, New: `s.released = 0`},
		{Fault: "A denial that looks like a conflict is tried again and again", File: write, Tests: "TestRelease_ConflictWithoutAChange",
			Old: `if known && before == p.ResourceVersion {`, New: `if known && before == "" {`},
		{Fault: "A run that was ended promises releases", File: "reconciler/reconciler.go", Tests: "TestRun_EndedWhileItWaits",
			Old: `g.At, g.Detail = time.Time{}, "it was`, New: `g.At, g.Detail = g.At, "it was`},
		{Fault: "Nothing is read live under the Lease", File: executor, Tests: "TestAPodThatAppearsDuringTheRecheckIsSeen",
			Old: `	live, err := e.read(ctx, need)
	if err != nil {
		return nil, nil, err
	}
`, New: `	live := &judge.Live{}
`},
		{Fault: "The live read that contradicts is not heeded", File: release, Tests: "TestAPodThatAppearsDuringTheRecheckIsSeen",
			Old: `case it.Verdict != judge.Stale:`, New: `case it.Verdict != judge.Stale && false:`},
		{Fault: "What is refused by the second check is released", File: release, Tests: "TestAnEtcdRestoreBeforeTheRecheckReleasesNothing",
			Old: `			e.out.refuse(refused[c.ID()])
`, New: `			e.out.refuse(refused[c.ID()])
			still = append(still, c)
`},
		{Fault: "An entry that is gone, or was rewritten, is released", File: release, Tests: "TestAnEntryThatWasRewrittenKeepsItsReservation",
			Old: `e.Log.Info("not released: it is gone or was rewritten since the first check", c.Attrs()...)`, New: `still = append(still, c)`},
		{Fault: "A reservation is deleted alone for which an entry has appeared", File: release, Tests: "TestAReservationForWhichAnEntryHasAppearedStays",
			Old: `case it.Reservation != nil && len(it.Related()) > 0:`, New: `case false:`},
		{Fault: "The pool is not read again", File: release, Tests: "TestAnEntryThatWasRewrittenKeepsItsReservation",
			Old: `		need.Pools = append(need.Pools, c.poolNames()...)
`, New: ``},
		{Fault: "A pool that has changed is judged by what it was", File: executor, Tests: "TestAnEntryThatWasRewrittenKeepsItsReservation",
			Old: `judged, changed = judged[:len(judged)-1], append(changed, c)`, New: `changed = append(changed, c)`},
		{Fault: "A pause in between is not honoured", File: executor, Tests: "TestAPauseEndsARelease",
			Old: `	if e.observation().Paused { // then ADDs need not wait for us
		e.giveUp(todo, errAllPaused, try)
		return nil, nil
	}
`, New: ``},
		{Fault: "A restore that the live read shows is not noted", File: live, Tests: "TestARestoreThatOnlyTheSecondCheckShowedIsNotForgotten",
			Old: `		b.History.noteRestore(b.observation())
	}
	return live`, New: `	}
	return live`},
		{Fault: "Reports and Nodes of long ago do for the second check", File: live, Tests: "TestASandboxThatAppearsWhileTheLeaseIsWaitedForIsSeen",
			Old: `b.Clock.Since(b.refreshed) < refreshEvery {`, New: `true {`},
		{Fault: "What was read before the wait for the Lease does for the work under it", File: executor, Tests: "TestASandboxThatAppearsWhileTheLeaseIsWaitedForIsSeen",
			Old: `	if err := e.refresh(ctx); err != nil { // the wait for the Lease may have been long
		return left, err
	}
`, New: ``},

		{Fault: "The entry is removed although its reservation was not deleted", File: write, Tests: "TestAnEntryStaysWhileItsReservationCannotBeDeleted",
			Old: `p != nil && c.err == nil {`, New: `p != nil {`},
		{Fault: "The entry is removed before its reservation is deleted", File: write, Tests: "TestAReservationGoesBeforeItsEntryUnderTheLease",
			Old: `	e.deleteReservations(ctx, h, changes, wrote)
	e.patchPools(ctx, h, changes, wrote)
`, New: `	e.patchPools(ctx, h, changes, wrote)
	e.deleteReservations(ctx, h, changes, wrote)
`},
		{Fault: "A reservation is deleted that another entry needs", File: release, Tests: "TestAReservationOfTwoEntriesStaysUntilBothAreReleased",
			Old: `if r.Verdict == judge.Stale && !slices.ContainsFunc(r.Related(), func(a *judge.Item) bool { return !leaving[a.ID()] }) {`, New: `if r.Verdict == judge.Stale {`},
		{Fault: "A write begins although the hold is over", File: write, Tests: "TestNothingIsWrittenWhenTheSecondCheckHasTakenAllOfTheHold",
			Old: `	if !h.mayWrite(ctx) {
		return ErrHoldSpent
	}
`, New: ``},
		{Fault: "A reservation whose delete was not answered is not put back", File: change, Tests: "TestALostAnswerIsNeitherAReleaseNorAFailureUntilReadAgain",
			Old: `if outcomeOf(err) != notWritten {`, New: `if outcomeOf(err) == succeeded {`},
		{Fault: "A patch that was not answered is taken for one that was not sent", File: change, Tests: "TestALostAnswerIsNeitherAReleaseNorAFailureUntilReadAgain",
			Old: `	return patchSent
`, New: `	return s
`},
		{Fault: "No reservation is put back for what proves live", File: release, Tests: "TestWhatProvesLiveAfterAFailedPatchHasItsReservationBackAtOnce",
			Old: `	e.rollback(todo, still, j)
`, New: ``},
		{Fault: "A reservation that an entry of another id needs is not put back", File: rollback, Tests: "TestAReservationIsPutBackUnlessWhatIsRecordedThereIsProvenStale",
			Old: `(it.Verdict != judge.Stale || !it.Proven || it.ID() == c.ID()) {`, New: `it.ID() == c.ID() {`},
		{Fault: "What is given up does not have its reservations back", File: executor, Tests: "TestAPatchThatFailsForGoodPutsTheReservationsBack",
			Old: `	e.refuse(changes, err, try)
	e.putBack(changes)
`, New: `	e.refuse(changes, err, try)
`},
		{Fault: "A reservation whose delete may yet arrive stays the same object", File: rollback, Tests: "TestADeleteThatArrivesLateFindsAnotherReservation",
			Old: `	if errors.Is(err, ErrConflict) {
		deleting`, New: `	if false {
		deleting`},

		{Fault: "A late answer does not end the hold", File: hold, Tests: "TestALateAnswerEndsTheHoldAndNotTheRun",
			Old: `		h.late.Store(true)
`, New: ``},
		{Fault: "What needs a Lease that is not held is written", File: hold, Tests: "TestASliceWhoseLeaseIsBusyDoesNotKeepTheOthersWaiting",
			Old: `return h.Leases == nil || !slices.ContainsFunc(`, New: `return h.Leases == nil || true || !slices.ContainsFunc(`},
		{Fault: "A write begins although the Lease was not renewed", File: hold, Tests: "TestNothingIsWrittenWhenTheSecondCheckHasTakenAllOfTheHold",
			Old: ` && (h.MayWrite == nil || h.MayWrite())`, New: ``},
	}}
}
