package main

// releaseArea is the way from the plan to what is written.
func releaseArea() Area {
	const attempt, write, rollback, hold, live, release = "reconciler/attempt.go", "reconciler/write.go", "reconciler/rollback.go", "reconciler/hold.go", "reconciler/liveindex.go", "reconciler/release.go"
	const held = "reconciler/heldrelease.go"
	return Area{"The release: second check, order of writes, putting back", []Mutant{
		{Fault: "A reservation that a finalizer keeps is deleted at every pass", File: "reconciler/history.go", Tests: "TestRelease_ReservationThatStays",
			Old: `s.released = o.Now.UnixNano()`, New: `s.released = 0`},
		{Fault: "A denial that is told as a conflict is tried again and again", File: "reconciler/write.go", Tests: "TestRelease_ConflictWithoutAChange",
			Old: `if b.conflicted[w.pool.Ref()] == at {`, New: `if b.conflicted[w.pool.Ref()] == "" {`},
		{Fault: "A run that was ended promises releases", File: "reconciler/reconciler.go", Tests: "TestRun_EndedWhileItWaits",
			Old: `g.At, g.Detail = time.Time{}, "it was`, New: `g.At, g.Detail = g.At, "it was`},
		{Fault: "Nothing is read live under the Lease", File: attempt, Tests: "TestAPodThatAppearsDuringTheRecheckIsSeen",
			Old: `	live, err := b.read(ctx, need)
	if err != nil {
		return todo, nil, err
	}
`, New: `	live := &judge.Live{}
`},
		{Fault: "The live read that contradicts is not heeded", File: attempt, Tests: "TestAPodThatAppearsDuringTheRecheckIsSeen",
			Old: `case it.Verdict != judge.Stale:`, New: `case it.Verdict != judge.Stale && false:`},
		{Fault: "What is refused by the second check is released", File: attempt, Tests: "TestAnEtcdRestoreBeforeTheRecheckReleasesNothing",
			Old: `			b.out.refuse(refused[t.ID()])
`, New: `			b.out.refuse(refused[t.ID()])
			still = append(still, t)
`},
		{Fault: "An entry that is gone, or was rewritten, is released", File: attempt, Tests: "TestAnEntryThatWasRewrittenKeepsItsReservation",
			Old: `b.Log.Info("not released: it is gone or was rewritten since the first check", t.Attrs()...)`, New: `still = append(still, t)`},
		{Fault: "A reservation is deleted alone for which an entry has appeared", File: attempt, Tests: "TestAReservationForWhichAnEntryHasAppearedStays",
			Old: `case it.Reservation != nil && len(it.Related()) > 0:`, New: `case false:`},
		{Fault: "The pool is not read again", File: attempt, Tests: "TestAnEntryThatWasRewrittenKeepsItsReservation",
			Old: `		n.Pools = append(n.Pools, t.poolNames()...)
`, New: ``},
		{Fault: "A pool that has changed is judged by what it was", File: attempt, Tests: "TestAnEntryThatWasRewrittenKeepsItsReservation",
			Old: `			changed = append(changed, t)
			continue
`, New: `			changed = append(changed, t)
`},
		{Fault: "A pause in between is not honoured", File: attempt, Tests: "TestAPauseEndsARelease",
			Old: `	if b.observation().Paused { // then ADDs need not wait for us
		b.abandon(ctx, todo, Paused, everythingPaused())
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
		{Fault: "What was read before the wait for the Lease does for the work under it", File: held, Tests: "TestASandboxThatAppearsWhileTheLeaseIsWaitedForIsSeen",
			Old: `	if err := w.refresh(ctx); err != nil { // the wait for the Lease may have been long
		return err
	}
`, New: ``},

		{Fault: "The entry is removed although its reservation was not deleted", File: write, Tests: "TestAnEntryStaysWhileItsReservationCannotBeDeleted",
			Old: `if t.noteDeletes(t.reservations(leaving), of); t.failed == nil {`, New: `if t.noteDeletes(t.reservations(leaving), of); true {`},
		{Fault: "The entry is removed before its reservation is deleted", File: write, Tests: "TestAReservationGoesBeforeItsEntryUnderTheLease",
			Old: `	w.failed, w.done, w.err = b.deleteReservations(ctx, h, w.items, leaving, slots)
	if w.pool == nil || len(w.done) == 0 {
		return
	}
	if err := b.removeEntries(ctx, h, w); err != nil {
		if errors.Is(err, ErrConflict) {
			w.conflicted = w.done
		}
		w.failed, w.done, w.err = append(w.failed, w.done...), nil, moreSevere(w.err, err)
	}
`, New: `	if w.pool != nil {
		w.done = w.items
		if err := b.removeEntries(ctx, h, w); err != nil {
			w.failed, w.done, w.err = append(w.failed, w.done...), nil, moreSevere(w.err, err)
			return
		}
	}
	w.failed, w.done, w.err = b.deleteReservations(ctx, h, w.items, leaving, slots)
`},
		{Fault: "A reservation is deleted that another entry needs", File: write, Tests: "TestAReservationOfTwoEntriesStaysUntilBothAreReleased",
			Old: `if r.Verdict == judge.Stale && !slices.ContainsFunc(r.Related(), func(a *judge.Item) bool { return !leaving[a.ID()] }) {`,
			New: `if r.Verdict == judge.Stale {`},
		{Fault: "A write begins although the hold is over", File: write, Tests: "TestNothingIsWrittenWhenTheSecondCheckHasTakenAllOfTheHold",
			Old: `	if !h.mayWrite(ctx) {
		return ErrHoldSpent
	}
`, New: ``},
		{Fault: "A reservation whose delete was not answered is not put back", File: write, Tests: "TestALostAnswerIsNeitherAReleaseNorAFailureUntilReadAgain",
			Old: `if t.Allocation != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrHoldSpent) {`, New: `if t.Allocation != nil && err == nil {`},
		{Fault: "A patch that was not answered is taken for one that was not sent", File: write, Tests: "TestALostAnswerIsNeitherAReleaseNorAFailureUntilReadAgain",
			Old: `t.sent = t.sent || err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrHoldSpent)`, New: `t.sent = false`},
		{Fault: "A reservation that two entries share is not put back for the other", File: write, Tests: "TestAReservationDeletedForOneOfTwoEntriesIsPutBackForTheOther",
			Old: `	noteShared(parts, leaving)
`, New: ``},

		{Fault: "No reservation is put back for what proves live", File: attempt, Tests: "TestWhatProvesLiveAfterAFailedPatchHasItsReservationBackAtOnce",
			Old: `	b.rollback(ctx, todo, still, j)
`, New: ``},
		{Fault: "A reservation that an entry of another id needs is not put back", File: rollback, Tests: "TestAReservationIsPutBackUnlessWhatIsRecordedThereIsProvenStale",
			Old: `(it.Verdict != judge.Stale || !it.Proven || it.ID() == t.ID()) {`, New: `it.ID() == t.ID() {`},
		{Fault: "What is given up does not have its reservations back", File: rollback, Tests: "TestAPatchThatFailsForGoodPutsTheReservationsBack",
			Old: `	b.recreateAll(items)
}

// recreateAll`, New: `}

// recreateAll`},
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
