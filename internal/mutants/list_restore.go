package main

// restoreArea is what a restore of etcd asks for, and repairs.
func restoreArea() Area {
	const restored, state, kept = "reconciler/restored.go", "reconciler/restorestate.go", "reconciler/restorekept.go"
	const plan, bound, limit, misrecorded, reservation, unrecorded = "reconciler/repairplan.go", "reconciler/repairbound.go", "reconciler/judge/repairlimit.go", "reconciler/judge/misrecorded.go", "reconciler/judge/reservation.go", "reconciler/judge/unrecorded.go"
	const taints, missing = "reconciler/taints.go", "reconciler/judge/missingpool.go"
	return Area{"After a restore of etcd: the gate, the dating, repairs", []Mutant{
		{Fault: "A taint that a restore brought back is believed", File: taints, Tests: "TestATaintThatARestoreBroughtBackProvesNothing",
			Old: `	return t.all || doubted && as == n.OutOfServiceAs`, New: `	_, _ = as, doubted
	return false`},
		{Fault: "A boot that a restore brought back is believed", File: taints, Tests: "TestABootThatARestoreBroughtBackProvesNothing",
			Old: `	return t.all || doubted && boot == n.BootID`, New: `	_, _ = boot, doubted
	return false`},
		{Fault: "The next process does not know which boots are doubted", File: kept, Tests: "TestABootThatARestoreBroughtBackProvesNothing",
			Old: `, boots: d.DoubtedBoots}`, New: `}`},
		{Fault: "What others keep of restores is read once", File: kept, Tests: "TestWhatIsKeptOfRestores",
			Old: `k.read && o.Watched || o.Now`, New: `k.read || o.Now`},
		{Fault: "A Lease that was not renewed since counts", File: state, Tests: "TestAnAgentThatBeganAfterARestoreIsHeardByItsRenewals",
			Old: `return err == nil && order > 0`, New: `return err == nil && order >= 0`},
		{Fault: "A Lease that somebody else writes, or that confirms another report, counts", File: state, Tests: "TestAnAgentThatBeganAfterARestoreIsHeardByItsRenewals",
			Old: `!known || report.Renewed.Before(r.at.Add(-clocksDiffer))`, New: `!known`},
		{Fault: "What a watch told first is what a Lease is compared with", File: state, Tests: "TestAnAgentThatBeganAfterARestoreIsHeardByItsRenewals",
			Old: `r.settled || o.Watched`, New: `r.settled`},
		{Fault: "Agents that began after a restore are waited for", File: state, Tests: "TestAnAgentThatBeganAfterARestoreIsHeardByItsRenewals",
			Old: ` || r.renewedSince(report) {`, New: ` {`},
		{Fault: "The next process does not know what Leases there were", File: kept, Tests: "TestAnAgentThatBeganAfterARestoreIsHeardByItsRenewals",
			Old: `	r.leases = d.Leases
`, New: ``},
		{Fault: "A boot proves the address of a pod free that may be back on its node", File: "reconciler/judge/nodeset.go", Tests: "TestDeadNodes",
			Old: `&& s.mayBeBackOn(node):`, New: `&& false:`},
		{Fault: "Any report believes a Node's boot", File: taints, Tests: "TestABootThatARestoreBroughtBackProvesNothing",
			Old: `report.BootID == boot && r.wroteSince(report)`, New: `r.wroteSince(report)`},
		{Fault: "A report of before the restore believes a Node's boot", File: taints, Tests: "TestABootThatANodeReportsAfterARestoreIsBelieved",
			Old: `report.BootID == boot && r.wroteSince(report)`, New: `report.BootID == boot`},
		{Fault: "A report whose agent noticed a restore counts, whichever that was", File: state, Tests: "TestARestoreThatAnAgentSaw",
			Old: ` && r.at.Sub(report.RestoreSeen) <= sameRestore`, New: ``},
		{Fault: "A report of before its agent noticed the restore counts", File: state, Tests: "TestARestoreThatAnAgentSaw",
			Old: `noticed := there && note == report.RestoreNote`, New: `_, _ = there, note
	noticed := report.RestoreNote != ""`},
		{Fault: "A pool that no definition asks for is made", File: missing, Tests: "TestAnAddressOfAPoolThatIsNotThereIsUnrecorded",
			Old: `err != nil || !defined ||`, New: `err != nil || false && !defined ||`},
		{Fault: "A pool that cannot be read is missing", File: missing, Tests: "TestAnAddressOfAPoolThatIsNotThereIsUnrecorded",
			Old: `x.poolNamed(p.Ref()) != nil {`, New: `false {`},
		{Fault: "A pool is made in one of several namespaces", File: missing, Tests: "TestAnAddressOfAPoolThatIsNotThereIsUnrecorded",
			Old: `		if only != "" && p.Namespace != only {
			return ""
		}
`, New: ``},
		{Fault: "A slice's range is taken for a pool's", File: missing, Tests: "TestAnAddressOfAPoolThatIsNotThereIsUnrecorded",
			Old: `sliced[at] || n.Slices`, New: `sliced[at] && n.Slices`},
		{Fault: "An address outside of its range is a pool's", File: missing, Tests: "TestAnAddressOfAPoolThatIsNotThereIsUnrecorded",
			Old: ` || !r.Contains(addr)`, New: ``},
		{Fault: "An address that another pool records for the sandbox is unrecorded", File: missing, Tests: "TestAnAddressOfAPoolThatIsNotThereIsUnrecorded",
			Old: `return e.ContainerID == id`, New: `return e.ContainerID == id && false`},
		{Fault: "A pool of another range of the network is taken for the missing one", File: missing, Tests: "TestAnAddressOfAPoolThatIsNotThereIsUnrecorded",
			Old: `p.isOfNetwork(a.NetworkName) && x.isRangeOf(p, a.Range)`, New: `p.isOfNetwork(a.NetworkName)`},
		{Fault: "A machine that joined after a restore, and has gone again, is waited for for an hour", File: restored, Tests: "TestMachinesThatNeverStartedDoNotKeepEverythingAfterARestore",
			Old: `return !known.Has(name) && node != nil`, New: `return known.Has("") && node != nil`},
		{Fault: "A Node that the backup may have counts as one that joined after the restore", File: restored, Tests: "TestOfMachinesThatJoinOneAfterTheOtherNoneKeepsEverything",
			Old: `(!first || !node.Created.Before(r.at))`, New: `(!first || node.Created.Before(r.at))`},
		{Fault: "Of a node that a restore has lost, and that registers again, nothing is waited for", File: restored, Tests: "TestMachinesThatNeverStartedDoNotKeepEverythingAfterARestore",
			Old: `return !known.Has(name) && node != nil`, New: `return !known.Has("") && node != nil`},
		{Fault: "In a small pool what pods ask for is bounded as all else", File: limit, In: "reconciler", Tests: "TestWhatTheAPIConfirmsIsWrittenBackInSmallPools",
			Old: `case bound && room[at] > 0:`, New: `case false:`},
		{Fault: "What the report gives a pod beyond its interfaces is bounded by nothing", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport|TestWhatTheAPIConfirmsIsWrittenBackInSmallPools",
			Old: `			room[at]--
`, New: ``},
		{Fault: "An entry that a pod has leaves room for another", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `			room[podPool{a.PodRef, w.Pool}]--
`, New: ``},
		{Fault: "The entry of a pod's last sandbox is not rewritten as the pod's", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `			room[podPool{w.Instead.PodRef, w.Pool}]++
`, New: ``},
		{Fault: "A sandbox that is made up asks once more for its pod", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `if bound && !asked[at] {`, New: `if bound {`},
		{Fault: "A pod asks for the networks of other nodes' reports", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `pod != nil && pod.Node == w.Node && pod.Phase`, New: `pod != nil && pod.Phase`},
		{Fault: "A pod that has finished asks for networks", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `bound := pod != nil && pod.Node == w.Node && pod.Phase != podstate.Finished`, New: `bound := pod != nil && pod.Node == w.Node`},
		{Fault: "A pod asks for every pool", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `nad != nil && p.mapped(nad) {`, New: `nad != nil {`},
		{Fault: "A pod that is being deleted asks for nothing", File: "podstate/pod.go", In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `	} else {
		p.Selects`, New: `	} else if p.Phase == Live {
		p.Selects`},
		{Fault: "A network-status asks for more than its pod", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `	n = min(n, pod.Selects)
`, New: ``},
		{Fault: "What nobody asks for is not bounded over all nodes", File: limit, In: "reconciler", Tests: "TestRepairsForAllNodesTogetherAreBounded",
			Old: `case inAll > maxUnaskedInAll && !restored:`, New: `case false:`},
		{Fault: "After a restore a node's pods are not written back", File: limit, In: "reconciler", Tests: "TestAfterARestoreMoreIsWrittenBackThanNoPodAsksFor",
			Old: `		limit = maxUnaskedRestored
`, New: ``},
		{Fault: "The address of a pod in its default network is one that nobody asks for", File: limit, In: "reconciler", Tests: "TestTheBoundOnRepairsIsNotSetByTheReport",
			Old: `case bound && slices.Contains(pod.IPs, w.Address):`, New: `case bound && false && slices.Contains(pod.IPs, w.Address):`},
		{Fault: "One agent's report of a restore raises its bound", File: bound, Tests: "TestAfterARestoreMoreIsWrittenBackThanNoPodAsksFor",
			Old: `2*reporters > len(j.Nodes)`, New: `reporters > 0`},
		{Fault: "One agent's report of a restore raises its bound in the other replica", File: bound, Tests: "TestAfterARestoreMoreIsWrittenBackThanNoPodAsksFor",
			Old: ` && !strings.Contains(r.why, byAgentOf)`, New: ` && (true || strings.Contains(r.why, byAgentOf))`},
		{Fault: "A restore of last week raises the bound", File: bound, Tests: "TestAfterARestoreMoreIsWrittenBackThanNoPodAsksFor",
			Old: `now.Sub(report.RestoreSeen) <= restoredFor {`, New: `!report.RestoreSeen.IsZero() {`},
		{Fault: "A pool that is not there waits for a slice's Lease", File: "ippool/name.go", In: "reconciler", Tests: "TestAMissingPoolOfANetworkNeedsTheSharedLeaseAlone",
			Old: `p.unsliced || ok`, New: `ok`},
		{Fault: "The fence does not hold the Lease of a pool that is not there", File: "reconciler/serve/guard.go", Tests: "TestTheFenceHoldsTheLeaseOfAPoolThatIsNotThere",
			Old: `r != nil && r.NewPool {`, New: `r != nil && false {`},
		{Fault: "A write of its own that is lost shows no restore", File: restored, Tests: "TestAWriteOfThisProcessThatIsLostShowsARestore",
			Old: `	h.versions[objectName{"IPPool", p.Ref()}] = p.ResourceVersion`, New: `	_ = p.ResourceVersion`},
		{Fault: "An object whose version runs backwards is no restore", File: restored, Tests: "TestAnObjectThatIsOlderThanBeforeShowsARestore",
			Old: `		o.Restored = older`, New: `		_ = older`},
		{Fault: "A watch that lags behind is a restore", File: restored, Tests: "TestAnObjectThatIsOlderThanBeforeShowsARestore",
			Old: `	if o.Watched {
		return ""
	}
`, New: ``},
		{Fault: "A revision that runs backwards is no restore", File: restored, Tests: "TestNothingIsReleasedAfterARestore",
			Old: `o.Revision != 0 && o.Revision < h.revision && o.Restored == "" {`, New: `false {`},
		{Fault: "What was seen before a restore confirms after it", File: restored, Tests: "TestWhatWasUnconfirmedBeforeAnEtcdRestoreIsConfirmedAgain",
			Old: `	for _, s := range h.candidates {
		s.confirmation.reset()
	}
`, New: ``},
		{Fault: "A restore that another process tells of has lost nothing that only this one knew", File: kept, Tests: "TestWhoLearnsOfARestoreRemembersWhatItHasLost",
			Old: `maps.Copy(r.lost, lost); len(lost) > 0`, New: `false && len(lost) > 0`},
		{Fault: "That a restore is settled counts where a node is lost", File: kept, Tests: "TestWhoLearnsOfARestoreRemembersWhatItHasLost",
			Old: ` && d.Settled && len(r.lost) == 0:`, New: ` && d.Settled:`},
		{Fault: "A restore that the second check shows is not kept", File: "reconciler/reconciler.go", Tests: "TestARestoreThatOnlyTheSecondCheckShowedIsNotForgotten",
			Old: `	r.saveRestore(ctx, j.Observation) // a second check may have shown one
`, New: ``},
		{Fault: "Nodes that were known before are not waited for", File: restored, Tests: "TestReportsThatARestoreHasTakenAreWaitedFor|TestANodeThatTheRestoreHasLostIsWaitedFor",
			Old: `	for name := range r.nodes {
		lost[name] = true
	}
`, New: ``},
		{Fault: "What one agent says of a restore counts again and again", File: restored, Tests: "TestTheRestoreThatOneAgentReportsCountsOnce",
			Old: `known && before == report.RestoreNote {`, New: `false && known && before == report.RestoreNote {`},
		{Fault: "An agent's word of a restore counts for nothing", File: restored, Tests: "TestARestoreThatAnAgentSaw",
			Old: `		r.begin(last, byAgentOf`, New: `		return
		r.begin(last, byAgentOf`},
		{Fault: "A restore is settled before every node has written", File: restored, Tests: "TestForWhichNodesARestoreWaits|TestNothingIsReleasedAfterARestore|TestANodeThatTheRestoreHasLostIsWaitedFor",
			Old: `	if !state.Complete() || excused`, New: `	if excused`},
		{Fault: "The pass that shows a restore releases", File: state, Tests: "TestNothingIsReleasedAfterARestore",
			Old: `	if o.Restored != "" {
		return restoreSeen(o.Restored)
	}
`, New: `	_ = o
`},
		{Fault: "What is kept of restores and cannot be read counts for nothing", File: state, Tests: "TestWhatIsKeptOfRestores",
			Old: `	if h.storedRestore.unread != nil {
		return restoresUnread(h.storedRestore.unread)
	}
`, New: ``},
		{Fault: "A report of before the restore is one of since", File: state, Tests: "TestNothingIsReleasedAfterARestore|TestForWhichNodesARestoreWaits",
			Old: `if !report.Written.Before(r.at) ||`, New: `if true ||`},
		{Fault: "A report that was not renewed since the restore is enough", File: state, Tests: "TestNothingIsReleasedAfterARestore",
			Old: ` && !report.Renewed.Before(r.at)`, New: ``},
		{Fault: "A node whose object is gone is not waited for", File: state, Tests: "TestANodeThatIsGoneIsNotWaitedForAnHourAfterItsObjectWas",
			Old: `return !gone || o.Now.Sub(since) < goneFor`, New: `_, _ = since, gone
	return false`},
		{Fault: "A node that the restore has lost is not waited for after an hour", File: restored, Tests: "TestANodeThatTheRestoreHasLostIsWaitedFor",
			Old: `case r.lost[name] || len(o.Nodes) == 0:`, New: `case len(o.Nodes) == 0:`},
		{Fault: "Every acknowledgement is of this restore", File: state, Tests: "TestANodeThatTheRestoreHasLostIsWaitedFor",
			Old: `return !o.Acknowledged.Before(r.at.Truncate(time.Second)) && `, New: `return !o.Acknowledged.IsZero() && `},
		{Fault: "A restore that is not settled is forgotten with the process", File: kept, Tests: "TestWhatIsKeptOfRestores",
			Old: `		r.History.loadRestore(d)
`, New: `		_ = d
`},
		{Fault: "What is kept of the backup replaces what was noticed", File: kept, Tests: "TestARestoreThatWasNoticedBeforeWhatIsKeptCouldBeReadStaysNoticed",
			Old: `	if !r.at.After(d.At) {
		h.adoptRestore(d)`, New: `	if true {
		h.adoptRestore(d)`},

		{Fault: "What is missing is written at once", File: plan, Tests: "TestRepairWritesAfterTwoPassesAMinuteApart",
			Old: `if !waited && !f.Repair.Fenced {`, New: `if false {`},
		{Fault: "A paused pool is repaired", File: plan, Tests: "TestRepairHoldsNoLeaseForAPausedPool",
			Old: `if f.Repair == nil || o.Paused || f.Repair.Pool.Paused {`, New: `if f.Repair == nil || o.Paused {`},
		{Fault: "Everything is paused, and repaired", File: plan, Tests: "TestWhileEverythingIsPausedNothingIsToBeRepaired",
			Old: `if f.Repair == nil || o.Paused || f.Repair.Pool.Paused {`, New: `if f.Repair == nil || f.Repair.Pool.Paused {`},
		{Fault: "Repairs are not bounded", File: plan, Tests: "TestRepairsByTheReportOfOneNodeAreBounded",
			Old: `	if opts.AllowMassRepair {`, New: `	if true {`},
		{Fault: "What was written by a node's report within the hour is not counted", File: bound, Tests: "TestTheReportOfOneNodeDoesNotFillAPool|TestRepairsByTheReportOfOneNodeAreBounded",
			Old: `x, inPool := j.Index(), h.repairedWithin(j.Observation.Now)`, New: `x, inPool := j.Index(), map[judge.NodePool]int{}`},
		{Fault: "A node's report may write what it likes", File: limit, In: "reconciler", Tests: "TestRepairsByTheReportOfOneNodeAreBounded",
			Old: `case byNode > limit:`, New: `case false:`},
		{Fault: "A node's report may fill a pool that others use", File: limit, In: "reconciler", Tests: "TestTheReportOfOneNodeDoesNotFillAPool",
			Old: `size > 0 && 2*inPool > size {`, New: `false {`},
		{Fault: "An entry is rewritten while its own sandbox may run", File: misrecorded, In: "reconciler/judge", Tests: "TestARecheckFindsNothingMisrecordedWhoseSandboxMayRun",
			Old: `		if !e.ended() {
			continue
		}
`, New: ``},
		{Fault: "A DEL that was under way when the fence came to stand counts as ended", File: misrecorded, Tests: "TestBehindTheFenceFindingsRestOnReportsOfAfterItStood",
			Old: `const DELTimeout = 10 * time.Second`, New: `const DELTimeout = 0 * time.Second`},
		{Fault: "A report that was renewed before the fence stood is one of behind it", File: misrecorded, Tests: "TestBehindTheFenceFindingsRestOnReportsOfAfterItStood",
			Old: `|| r.Renewed.Before(since) {`, New: `|| r.Renewed.Before(since.Add(-time.Hour)) {`},
		{Fault: "A sandbox whose ADD is under way is repaired", File: unrecorded, Tests: "TestBehindTheFenceFindingsRestOnReportsOfAfterItStood",
			Old: `|| !fenced && !x.doneWithADD(&b) {`, New: `{`},
		{Fault: "A reservation is replaced that an entry needs", File: reservation, In: "reconciler", Tests: "TestAReservationThatAnotherEntryNeedsIsNotReplaced",
			Old: `return e.pool.Namespace == r.Namespace && e.pool.isOfNetwork(w.Network) && e.PodRef == r.PodRef && !rewritten
	})`, New: `return rewritten && false
	})`},
		{Fault: "The reservation of an entry that will be rewritten is not announced", File: reservation, In: "cmd/ip-reconcile", Tests: "TestRecoverPrintsWhatItWouldWrite",
			Old: `e.PodRef == r.PodRef && !rewritten
`, New: `e.PodRef == r.PodRef && (!rewritten || true)
`},
		{Fault: "A phantom's entry is written so that its successor takes it over", File: misrecorded, Tests: "TestWhatARepairWrites",
			Old: `	ref.UID = b.uid()
	return ref.String(), ref.UID != ""`, New: `	return ref.String(), true`},
	}}
}
