package main

// executor is the way from the plan to the writes: second check, order of writes, rollback.
func executor() []Mutant {
	return []Mutant{
		{Fault: "The second check does not read IPAMClaims", In: "reconciler", Decl: "releases.keys",
			Tests: "TestRelease_MachineInBetween",
			Old:   `need.IPAMClaims = append(need.IPAMClaims, *claim)`, New: `_ = claim`},
		{Fault: "Nothing is read live under the Lease", In: "reconciler", Decl: "executor.check",
			Tests: "TestRelease_WhatHappensInBetween",
			Old: `if err := e.read(ctx, e.keys(todo)); err != nil {
		return nil, err
	}`, New: ``},
		{Fault: "The live read that contradicts is not heeded", In: "reconciler", Decl: "releases.judge",
			Tests: "TestRelease_WhatHappensInBetween",
			Old:   `case it.Verdict != judge.Stale:`, New: `case it.Verdict != judge.Stale && false:`},
		{Fault: "What is refused by the second check is released", In: "reconciler", Decl: "releases.judge",
			Tests: "TestRelease_WhatHappensInBetween",
			Old:   `e.out.refuse(refused[c.ID()])`, New: `e.out.refuse(refused[c.ID()])
			still = append(still, c)`},
		{Fault: "An entry that is gone, or was rewritten, is released", In: "reconciler", Decl: "releases.judge",
			Tests: "TestRelease_WhatHappensInBetween",
			Old:   `e.Log.Info("Not released: deleted or rewritten since the first check", c.Attrs()...)`,
			New:   `still = append(still, c)`},
		{Fault: "A reservation is deleted alone for which an entry has appeared", In: "reconciler", Decl: "releases.judge",
			Tests: "TestRelease_ReservationForWhichAnEntryAppears",
			Old:   `case it.Reservation != nil && len(it.Related()) > 0:`, New: `case false:`},
		{Fault: "The pool is not read again", In: "reconciler", Decl: "releases.keys",
			Tests: "TestRelease_WhatHappensInBetween",
			Old:   `need.Pools = append(need.Pools, c.poolNames()...)`, New: ``},
		{Fault: "A restore that the live read shows is not noted", In: "reconciler", Decl: "liveIndex.read",
			Tests: "TestRun_SecondCheckDetectsRestore",
			Old: `b.History.noteRestore(b.observation())
	}
	return nil`, New: `}
	return nil`},
		{Fault: "Reports and Nodes of long ago do for the second check", In: "reconciler", Decl: "liveIndex.refresh",
			Tests: "TestRelease_WhatHappensInBetween",
			Old:   `b.Clock.Since(b.refreshedAt) < refreshEvery {`, New: `true {`},
		{Fault: "What was read before the wait for the Lease does for the work under it", In: "reconciler",
			Decl: "executor.underHold", Tests: "TestRelease_WhatHappensInBetween",
			Old: `if err := e.refresh(ctx); err != nil { // the wait for the Lease may have been long
		return todo, err
	}`, New: ``},
		{Fault: "The entry is removed although its reservation was not deleted", In: "reconciler",
			Decl: "executor.patchPools", Tests: "TestRelease_StepsAndFaults",
			Old: `p != nil && c.err == nil {`, New: `p != nil {`},
		{Fault: "The entry is removed before its reservation is deleted", In: "reconciler", Decl: "executor.write",
			Tests: "TestRelease_StepsAndFaults",
			Old: `e.deleteReservations(ctx, h, changes, written)
	e.patchPools(ctx, h, changes, written)`, New: `e.patchPools(ctx, h, changes, written)
	e.deleteReservations(ctx, h, changes, written)`},
		{Fault: "A reservation is deleted that another entry needs", In: "reconciler", Decl: "change.reservations",
			Tests: "TestRelease_SharedReservation",
			Old:   `if r.Verdict == judge.Stale && !isNeeded {`, New: `if _ = isNeeded; r.Verdict == judge.Stale {`},
		{Fault: "A delete without answer is not sent again", In: "reconciler", Decl: "executor.deleteReservations",
			Tests: "TestRelease_StepsAndFaults",
			Old:   `if outcomeOf(err) == uncertain &&`, New: `if false &&`},
		{Fault: "A reservation that an ADD may have adopted after the hold counts as released", In: "reconciler",
			Decl: "executor.deleteReservations", Tests: "TestRelease_ReservationAdoptedWhileItIsDeleted",
			Old: `if err == nil && !h.mayWrite(ctx) {`, New: `if false {`},
		{Fault: "Reservations are recreated after the hold", In: "reconciler", Decl: "executor.attempt",
			Tests: "TestRelease_WritesThatArriveLate",
			Old:   `remaining, isSettled = e.settle(ctx, remaining)`, New: ``},
		{Fault: "A write begins although the hold is over", In: "reconciler", Decl: "executor.writeUnderHold",
			Tests: "TestRelease_StepsAndFaults",
			Old: `if !h.mayWrite(ctx) {
		return ErrHoldSpent
	}`, New: ``},
		{Fault: "A reservation whose delete was not answered is not put back", In: "reconciler", Decl: "change.noteDelete",
			Tests: "TestRelease_StepsAndFaults",
			Old:   `if outcomeOf(err) != notWritten {`, New: `if outcomeOf(err) == succeeded {`},
		{Fault: "A patch that was not answered is taken for one that was not sent", In: "reconciler", Decl: "state.next",
			Tests: "TestRelease_StepsAndFaults",
			Old:   `return patchSent`, New: `return s`},
		{Fault: "No reservation is put back for what proves live", In: "reconciler", Decl: "releases.judge",
			Tests: "TestRelease_WhatHappensInBetween",
			Old:   `e.rollback(todo, still, j)`, New: ``},
		{Fault: "A reservation that an entry of another id needs is not put back", In: "reconciler",
			Decl: "executor.rollback", Tests: "TestRelease_WhatHappensInBetween",
			Old: `(it.Verdict != judge.Stale || !it.Proven || it.ID() == c.ID()) {`, New: `it.ID() == c.ID() {`},
		{Fault: "What is given up does not have its reservations back", In: "reconciler", Decl: "executor.giveUp",
			Tests: "TestRelease_StepsAndFaults",
			Old: `e.refuse(changes, err)
	e.recreateReservations(changes)`, New: `e.refuse(changes, err)`},
		{Fault: "A reservation whose delete may yet arrive stays the same object", In: "reconciler",
			Decl: "executor.recreateReservation", Tests: "TestRelease_WritesThatArriveLate",
			Old: `if errors.Is(err, ErrConflict) {
		deleting`, New: `if false {
		deleting`},
		{Fault: "A late answer does not end the hold", In: "reconciler", Decl: "Hold.noteLatency", Tests: "TestRelease_Holds",
			Old: `h.isSlow.Store(true)`, New: ``},
		{Fault: "What needs a Lease that is not held is written", In: "reconciler", Decl: "Hold.covers",
			Tests: "TestRelease_Holds",
			Old:   `return h.Leases == nil || !slices.ContainsFunc(`,
			New:   `return h.Leases == nil || true || !slices.ContainsFunc(`},
		{Fault: "A write begins although the Lease was not renewed", In: "reconciler", Decl: "Hold.mayWrite",
			Tests: "TestRelease_Holds",
			Old:   `&& (h.MayWrite == nil || h.MayWrite())`, New: ``},
		{Fault: "A patch does not test the resourceVersion", In: "ippool", Decl: "RemovePatch",
			Tests: "TestAPatchFailsOnAnyOtherVersionOfAnyPool",
			Old: `ops := []any{versionTest(p)}
	gone`, New: `ops := []any{}
	gone`},
		{Fault: "A patch does not test the entry that it removes", In: "ippool", Decl: "RemovePatch",
			Tests: "TestAnEntryIsNotRemovedTwiceAndNotOnceItIsGone",
			Old:   `ops = append(ops, operation{"test", entryPath(a.Key), a.Entry()}, remove)`,
			New:   `ops = append(ops, remove)`},
		{Fault: "An entry that cannot be judged is removed", In: "ippool", Decl: "RemovePatch",
			Tests: "TestWhatCannotBeJudgedIsNeverRemoved",
			Old:   `return nil, fmt.Errorf("pool %s: entry %q is %s and is never removed", p.Ref(), a.Key, a.Problem)`, New: ``},
		{Fault: "A patch that would change more is sent", In: "ippool", Decl: "check",
			Tests: "TestAPatchThatRemovesTheWrongEntryOrMoreDoesNotPass",
			Old:   `if !bytes.Equal(got, after) {`, New: `if !bytes.Equal(got, after) && false {`},
		{Fault: "An entry is written into a slot without a test that it is empty", In: "ippool", Decl: "WritePatch",
			Tests: "TestWritingBackIntoATakenSlotFails",
			Old:   `ops = append(ops, test, operation{write, entryPath(e.Key), entry})`,
			New:   `ops = append(ops, operation{write, entryPath(e.Key), entry})`},
		{Fault: "A denial that looks like a conflict is tried again and again", In: "reconciler",
			Decl: "executor.deniedOrConflict", Tests: "TestRelease_StepsAndFaults",
			Old: `if known && before == p.ResourceVersion {`, New: `if known && before == "" {`},
	}
}
