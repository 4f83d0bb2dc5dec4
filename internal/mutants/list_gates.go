package main

// gates decide what may be released when: confirmation, pauses, the breaker, restores.
func gates() []Mutant {
	return []Mutant{
		{Fault: "What is unconfirmed is released at once", In: "reconciler", Decl: "History.gatesOf",
			Tests: "TestPlan_Confirmation",
			Old:   `opts.confirmAfter(it)); at.After(o.Now) {`, New: `opts.confirmAfter(it)); false && at.After(o.Now) {`},
		{Fault: "By hand a report from before an ADD in progress is enough", In: "reconciler", Decl: "Options.confirmAfter",
			Tests: "TestPlan_ByHand",
			Old:   `return judge.MinAbsenceWhilePending`, New: `return 0`},
		{Fault: "The pause of everything is not honoured", In: "reconciler", Decl: "History.commonGates",
			Tests: "TestPlan_Paused",
			Old:   `if j.Observation.Paused {`, New: `if false && j.Observation.Paused {`},
		{Fault: "The pause of a pool is not honoured", In: "reconciler", Decl: "History.commonGates",
			Tests: "TestPlan_Paused",
			Old: `if p.Paused {
			gates`, New: `if false && p.Paused {
			gates`},
		{Fault: "A restore stands against no release", In: "reconciler", Decl: "History.commonGates",
			Tests: "TestRestore_PausesReleases",
			Old:   `text := h.restoreGate(j); text != "" {`, New: `text := h.restoreGate(j); text == "-" {`},
		{Fault: "The breaker is not asked", In: "reconciler", Decl: "History.plan", Tests: "TestBreaker",
			Old: `text != "" && !opts.AllowMassRelease {`, New: `text == "-" && !opts.AllowMassRelease {`},
		{Fault: "An empty list of pods is believed", In: "reconciler/judge", Decl: "Observation.PodsMissing",
			Tests: "TestCheck_EmptyListOfPods", TestsIn: "reconciler",
			Old: `if n == 0 || len(o.Pods) > 0 {`, New: `if true {`},
		{Fault: "A verdict that was contradicted in between goes on counting", In: "reconciler", Decl: "confirmation.next",
			Tests: "TestPlan_Confirmation",
			Old: `if it.Verdict != judge.Stale && !it.IsUndetermined() {
		return nil`, New: `if it.Verdict != judge.Stale && !it.IsUndetermined() {
		return c`},
		{Fault: "An entry that was rewritten for another sandbox goes on counting", In: "reconciler/judge", Decl: "Item.ID",
			Tests: "TestPlan_Confirmation", TestsIn: "reconciler",
			Old: `Key: a.Key, ContainerID: a.ContainerID, PodRef`, New: `Key: a.Key, PodRef`},
		{Fault: "--confirm-after counts for nothing", In: "reconciler", Decl: "History.confirmedAt",
			Tests: "TestPlan_Confirmation",
			Old:   `at := since.deadline(confirmAfter, o)`, New: `at := since.deadline(0, o)`},
		{Fault: "The time of an API server that jumped confirms", In: "reconciler", Decl: "History.confirmedAt",
			Tests: "TestPlan_OwnClock",
			Old:   `at := since.deadline(confirmAfter, o)`, New: `at := since.at.Add(confirmAfter)`},
		{Fault: "What is unconfirmed of a Pending pod does not wait its minute", In: "reconciler",
			Decl: "History.confirmedAt", Tests: "TestPlan_Confirmation",
			Old: `confirmAfter = max(confirmAfter, judge.MinAbsenceWhilePending)`, New: ``},
		{Fault: "A long grace period does not lengthen the wait", In: "reconciler", Decl: "History.confirmedAt",
			Tests: "TestPlan_GracePeriod",
			Old:   `if s.past != nil && s.past.longestGrace > confirmAfter {`, New: `if false && s.past.longestGrace > 0 {`},
		{Fault: "A Node object that is gone counts at once", In: "reconciler", Decl: "NodeQuarantine",
			Tests: "TestPlan_NodeMissing",
			Old:   `40 * time.Second`, New: `0 * time.Second`},
		{Fault: "NodeMissing is confirmed by one process' clock alone", In: "reconciler", Decl: "History.confirmedAt",
			Tests: "TestPlan_NodeMissingOwnClock",
			Old:   `return maxTime(at, missing.orNow(o).deadline(NodeQuarantine, o))`,
			New:   `return maxTime(at, missing.orNow(o).at.Add(NodeQuarantine))`},
		{Fault: "The breaker lets all go but one", In: "reconciler", Decl: "window.breaker", Tests: "TestBreaker",
			Old: `2*n <= total {`, New: `n < total {`},
		{Fault: "The breaker counts each pass by itself", In: "reconciler", Decl: "window.breaker",
			Tests: "TestBreaker_LastHour",
			Old: `n += w.total()
	if`, New: `if`},
		{Fault: "Releases are not counted before they are made", In: "reconciler", Decl: "Reconciler.countInWindow",
			Tests: "TestBreaker_Store",
			Old: `return w.add(now, n, j.Total)
	})
	if err`, New: `return w
	})
	if err`},
		{Fault: "What cannot be counted is released", In: "reconciler", Decl: "Reconciler.countInWindow",
			Tests: "TestBreaker_Store",
			Old:   `text = fmt.Sprintf("cannot count releases for the breaker, so nothing unconfirmed is released: %v", err)`,
			New:   `_ = err`},
		{Fault: "A window that cannot be read counts as empty", In: "reconciler", Decl: "readWindow",
			Tests: "TestBreaker_Store",
			Old:   `return nil, fmt.Errorf(`, New: `return nil, nil; _ = fmt.Errorf(`},
		{Fault: "An object whose version runs backwards is no restore", In: "reconciler", Decl: "History.checkRevision",
			Tests: "TestRestore_OlderObject",
			Old:   `o.Restored = older`, New: `_ = older`},
		{Fault: "A revision that runs backwards is no restore", In: "reconciler", Decl: "History.checkRevision",
			Tests: "TestRestore_PausesReleases",
			Old:   `o.Revision != 0 && o.Revision < h.revision && o.Restored == "" {`, New: `false {`},
		{Fault: "What was seen before a restore confirms after it", In: "reconciler", Decl: "History.resetConfirmations",
			Tests: "TestRestore_ConfirmationStartsAgain",
			Old: `for _, s := range h.candidates {
		s.confirmation.reset()
	}`, New: ``},
		{Fault: "Nodes that were known before are not waited for", In: "reconciler", Decl: "History.beginRestore",
			Tests: "TestRestore_LostReports|TestRestore_LostNode",
			Old:   `if missing.IsZero() || missing.After(since) {`, New: `if missing.After(since) && false {`},
		{Fault: "A restore is settled before every node has written", In: "reconciler", Decl: "History.notePendingNodes",
			Tests: "TestRestore_PendingNodes|TestRestore_PausesReleases|TestRestore_LostNode",
			Old:   `state.Complete() {`, New: `true {`},
		{Fault: "The pass that shows a restore releases", In: "reconciler", Decl: "History.restoreGate",
			Tests: "TestRestore_PausesReleases",
			Old:   `return "etcd was restored (" + o.Restored + "): a pass that began before releases nothing"`, New: ``},
		{Fault: "A report that was not renewed since the restore is enough", In: "reconciler", Decl: "restore.isAfterRestore",
			Tests: "TestRestore_PausesReleases",
			Old:   `!report.ConfirmedAt.Before(r.DetectedAt.Add(maxClockDifference))`, New: `true`},
		{Fault: "A dry run confirms what it has", In: "reconciler", Decl: "History.gatesOf", Tests: "TestPlan_Confirmation",
			Old: `if it.Proven {
		return gates`, New: `if it.Proven || opts.DryRun {
		return gates`},
	}
}
