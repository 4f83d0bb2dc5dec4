package main

// planArea is what may be released when.
func planArea() Area {
	const plan, history, window, emptyPods = "reconciler/plan.go", "reconciler/history.go", "reconciler/window.go", "reconciler/judge/observation.go"
	return Area{"The plan: confirmation, pauses, the breaker", []Mutant{
		{Fault: "The forecast leaves out what awaited confirmation before", File: "reconciler/forecast.go", Tests: "TestForecast_BreakerOfWhatAwaitsConfirmation",
			Old: `if text := w.breaker(at, behind+n, j.Total); text != "" {`, New: `if text := w.breaker(at, 0, j.Total); text != "" {`},
		{Fault: "A dry run confirms what it has", File: plan, Tests: "TestUnconfirmedIsConfirmedByWaiting",
			Old: `	if it.Proven {
		return gates`, New: `	if it.Proven || opts.DryRun {
		return gates`},
		{Fault: "What is unconfirmed is released at once", File: plan, Tests: "TestUnconfirmedIsConfirmedByWaiting",
			Old: `opts.ConfirmAfter); at.After(o.Now) {`, New: `opts.ConfirmAfter); false && at.After(o.Now) {`},
		{Fault: "The pause of everything is not honoured", File: plan, Tests: "TestPaused",
			Old: `if j.Observation.Paused {`, New: `if false && j.Observation.Paused {`},
		{Fault: "The pause of a pool is not honoured", File: plan, Tests: "TestPaused",
			Old: `		if p.Paused {
			gates`, New: `		if false && p.Paused {
			gates`},
		{Fault: "A restore stands against no release", File: plan, Tests: "TestNothingIsReleasedAfterARestore",
			Old: `text := h.restoreGate(j); text != "" {`, New: `text := h.restoreGate(j); text == "-" {`},
		{Fault: "The breaker is not asked", File: plan, Tests: "TestBreaker",
			Old: `text != "" && !opts.AllowMassRelease {`, New: `text == "-" && !opts.AllowMassRelease {`},
		{Fault: "An empty list of pods is believed", File: emptyPods, In: "reconciler", Tests: "TestAnEmptyAnswerForPodsProvesNothing",
			Old: `if n == 0 || len(o.Pods) > 0 {`, New: `if true {`},

		{Fault: "A verdict that was contradicted in between goes on counting", File: history, Tests: "TestAContradictionRestartsTheWait",
			Old: `	if it.Verdict != judge.Stale && !it.NotKnown() {
		return nil`, New: `	if it.Verdict != judge.Stale && !it.NotKnown() {
		return c`},
		{Fault: "What a kubelet says counts from before it did", File: history, Tests: "TestUnconfirmedIsConfirmedByWaiting",
			Old: `e != nil && e.Sandbox == judge.Absent {
			since`, New: `e != nil {
			since`},
		{Fault: "That a node is not known begins the wait again", File: history, Tests: "TestUnconfirmedIsConfirmedByWaiting|TestLiveness_NodesThatJoin",
			Old: `e != nil && e.Sandbox == judge.Absent {
			since`, New: `false {
			since`},
		{Fault: "A reservation has stood alone for as long as it had an entry", File: history, Tests: "TestUnconfirmedIsConfirmedByWaiting",
			Old: `		c.uncontradicted = moment{}
	}`, New: `	}`},
		{Fault: "What was not in a pass is remembered as if it had been", File: history, Tests: "TestHistoryKeepsNothingOfWhatIsGone",
			Old: `		return s.pass != h.passes
`, New: `		return false
`},
		{Fault: "An entry that was rewritten for another sandbox goes on counting", File: "reconciler/judge/observation.go", In: "reconciler", Tests: "TestUnconfirmedIsConfirmedByWaiting",
			Old: `Key: a.Key, ContainerID: a.ContainerID, PodRef`, New: `Key: a.Key, PodRef`},
		{Fault: "--confirm-after counts for nothing", File: history, Tests: "TestUnconfirmedIsConfirmedByWaiting",
			Old: `at := since.after(confirmAfter, o)`, New: `at := since.after(0, o)`},
		{Fault: "The time of an API server that jumped confirms", File: history, Tests: "TestAnUnconfirmedVerdictMustHoldByOurOwnClockToo",
			Old: `at := since.after(confirmAfter, o)`, New: `at := since.at.Add(confirmAfter)`},
		{Fault: "What is unconfirmed of a Pending pod does not wait its minute", File: history, Tests: "TestUnconfirmedIsConfirmedByWaiting",
			Old: `		confirmAfter = max(confirmAfter, judge.HeardSince)
`, New: ``},
		{Fault: "A long grace period does not lengthen the wait", File: history, Tests: "TestALongGracePeriodLengthensTheWait",
			Old: `	if s.deleted > confirmAfter {`, New: `	if false && s.deleted > confirmAfter {`},
		{Fault: "A Node object that is gone counts at once", File: history, Tests: "TestNodeMissingIsConfirmedByWaiting",
			Old: `const quarantine = 40 * time.Second`, New: `const quarantine = 0 * time.Second`},
		{Fault: "NodeMissing is confirmed by one process' clock alone", File: history, Tests: "TestNodeMissingIsConfirmedByThisProcessOwnClockToo",
			Old: `return later(at, missing.orNow(o).after(quarantine, o))`, New: `return later(at, missing.orNow(o).at.Add(quarantine))`},
		{Fault: "The nodes of earlier pods of the name are forgotten", File: history, In: "reconciler/judge", Tests: "TestTheNodesOfAllEarlierPodsOfTheNameAreAsked",
			Old: `		s.others = append(s.others, s.node)
`, New: ``},
		{Fault: "That there were reports is forgotten", File: history, In: "reconciler/judge", Tests: "TestWhetherThereAreAgents",
			Old: `	h.reports = h.reports || len(j.Observation.Reports) > 0
`, New: `	h.reports = len(j.Observation.Reports) > 0
`},

		{Fault: "The breaker has no lower limit but a high one", File: plan, Tests: "TestBreaker",
			Old: `const breakerFloor = 20`, New: `const breakerFloor = 200`},
		{Fault: "The breaker lets all go but one", File: window, Tests: "TestBreaker",
			Old: `2*n <= total {`, New: `n < total {`},
		{Fault: "The breaker counts each pass by itself", File: window, Tests: "TestTheBreakerCountsTheLastHour",
			Old: `	n += w.made()
	if`, New: `	if`},
		{Fault: "The breaker compares with what is left, not with what there was", File: window, Tests: "TestTheBreakerCountsTheLastHour",
			Old: `		total = w[0].Of
	}
	if n`, New: `		_ = w[0].Of
	}
	if n`},
		{Fault: "The breaker forgets after minutes", File: window, Tests: "TestTheBreakerCountsTheLastHour",
			Old: `if now.Sub(r.At) <= time.Hour {`, New: `if now.Sub(r.At) <= 5*time.Minute {`},
		{Fault: "What others have released does not trip the breaker", File: window, Tests: "TestTheBreakersWindowOutlivesTheProcess",
			Old: `text != "" && !r.Options.AllowMassRelease {`, New: `text == "-" && !r.Options.AllowMassRelease {`},
		{Fault: "Releases are not counted before they are made", File: window, Tests: "TestWhatIsAboutToBeReleasedIsCountedBefore",
			Old: `		return w.and(now, n, j.Total)
	})
	if err`, New: `		return w
	})
	if err`},
		{Fault: "What cannot be counted is released", File: window, Tests: "TestNothingUnconfirmedIsReleasedThatCannotBeCounted",
			Old: `		why, text = WriteFailed, notCounted(err)
`, New: `		_ = err
`},
		{Fault: "A window that cannot be read counts as empty", File: window, Tests: "TestNothingUnconfirmedIsReleasedThatCannotBeCounted",
			Old: `		return nil, false, fmt.Errorf("what is kept of the releases of the last hour`, New: `		return nil, false, nil
		return nil, false, fmt.Errorf("what is kept of the releases of the last hour`},
	}}
}
