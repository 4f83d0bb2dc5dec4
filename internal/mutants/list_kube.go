package main

// kubeArea is the live API: what is read when, the Leases, the writes.
func kubeArea() Area {
	const observe, other, live, lease, renew, write, cluster = "reconciler/kube/observe.go", "reconciler/kube/otherkinds.go", "reconciler/kube/live.go", "reconciler/kube/lease.go", "reconciler/kube/renew.go", "reconciler/kube/write.go", "reconciler/kube/cluster.go"
	const list, window, fence, fenced = "reconciler/kube/list.go", "reconciler/kube/window.go", "reconciler/kube/fence.go", "reconciler/kube/fencedlease.go"
	return Area{"The live API: order of reads, Leases, writes, the fence", []Mutant{
		{Fault: "Pods are read before what they may own", File: observe, Tests: "TestAnObservationReadsPodsLast",
			Old: `	put := c.readOtherKinds(gctx, g, &judge.Observation{})
`, New: `	o.Pods = map[types.NamespacedName]*podstate.Pod{}
	if err := c.listPods(ctx, "", metav1.ListOptions{}, o.Pods); err != nil {
		return nil, err
	}
	put := c.readOtherKinds(gctx, g, &judge.Observation{})
`},
		{Fault: "Pools are read before reservations", File: observe, Tests: "TestAnObservationReadsPodsLast",
			Old: `		var err error
		reservations, _,`, New: `		var err error
		if err := c.readPools(gctx, o); err != nil {
			return err
		}
		reservations, _,`},
		{Fault: "Half a list is a list", File: list, Tests: "TestAListIsReadPageByPage",
			Old: `		if opts.Continue = meta.Continue; opts.Continue == "" {`, New: `		if opts.Continue = meta.Continue; true {`},
		{Fault: "An answer that is no API server's is an empty list", File: list, Tests: "TestAnAnswerThatIsNoListIsNoEmptyList",
			Old: `if meta.ResourceVersion == "" { //`, New: `if false { //`},
		{Fault: "A namespace that RBAC forbids is not paused", File: other, Tests: "TestANamespaceThatRBACForbidsPausesUnlessThatIsOverruled",
			Old: `if o.Paused = !c.WithoutPause; c.WithoutPause {`, New: `if c.WithoutPause {`},
		{Fault: "A namespace that cannot be read is not paused", File: other, Tests: "TestANamespaceThatCannotBeReadIsPaused",
			Old: `		o.Paused = true
`, New: ``},
		{Fault: "Reports that could not be read count as none", File: other, Tests: "TestWhetherThereAreNodeAgents",
			Old: `	if err != nil {
		o.ReportsUnreadable = true
`, New: `	if err != nil {
`},
		{Fault: "A 404 of something in between says that there are no agents", File: other, Tests: "TestA404ThatIsNoAnswerOfAnAPIServerIsNone|TestWhetherThereAreNodeAgents",
			Old: `	if !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	groups`, New: `	if err == nil || apierrors.IsNotFound(err) {
		return err == nil, nil
	}
	groups`},
		{Fault: "A report is fresh by this machine's clock", File: other, Tests: "TestFreshnessIsCountedByTheAPIServersClock",
			Old: `		o.Now = date()
	}
	heard`, New: `		o.Now, _ = metav1.Now().Time, date
	}
	heard`},
		{Fault: "The Node is read before its report", File: other, Tests: "TestNodesAreReadAfterTheReportsOfTheirAgents",
			Old: `		if err := c.readReports(ctx, &agents, before.Reports); err != nil {
			return err
		}
		return c.readNodes(ctx, &agents, before.Nodes)`, New: `		if err := c.readNodes(ctx, &agents, before.Nodes); err != nil {
			return err
		}
		return c.readReports(ctx, &agents, before.Reports)`},

		{Fault: "A pool at another version is what it was", File: live, Tests: "TestARefreshReadsInFullOnlyWhatHasChanged|TestAPoolThatIsOlderThanBeforeMeansARestore",
			Old: `known == nil || m.ResourceVersion != known.ResourceVersion || string(m.UID) != known.UID)`, New: `known == nil)`},
		{Fault: "A pool that was made again at the same version is what it was", File: live, Tests: "TestAPoolThatWasMadeAgainHasChangedWhateverItsVersion",
			Old: ` || string(m.UID) != known.UID)`, New: `)`},
		{Fault: "A pool that is older than before is no restore", File: live, Tests: "TestAPoolThatIsOlderThanBeforeMeansARestore",
			Old: `known != nil && Older(m.ResourceVersion, known.ResourceVersion) {`, New: `known != nil && false {`},
		{Fault: "An error of a live read says that there is no pod", File: live, Tests: "TestALiveReadTakesNotFoundForAnAnswerAndNothingElse",
			Old: `		case !apierrors.IsForbidden(err):
			return nil, err
		}`, New: `		case !apierrors.IsForbidden(err):
			return nil, nil
		}`},
		{Fault: "A 404 of something in between says that there is no object", File: cluster, Tests: "TestA404ThatIsNoAnswerOfAnAPIServerIsNone",
			Old: `return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)`, New: `return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)`},
		{Fault: "A write goes out again when its hold is over", File: cluster, Tests: "TestAWriteThatTheServerHadNoTimeForDoesNotBeginAgainByItself",
			Old: `	if !maySend(r) {
		return nil, errNotSent
	}
`, New: ``},

		{Fault: "A policy that denies is taken for a lost race", File: write, Tests: "TestWhatAWriteIsAnsweredWith",
			Old: `return details == nil || details.Name == ""`, New: `return details == nil || details.Name != "-"`},
		{Fault: "A reservation is deleted whatever its UID", File: write, Tests: "TestWhatAWriteIsAnsweredWith",
			Old: `uid := types.UID(r.UID)`, New: `uid := types.UID("")`},
		{Fault: "A reservation is deleted whatever its version", File: write, Tests: "TestWhatAWriteIsAnsweredWith",
			Old: `UID: &uid, ResourceVersion: &r.ResourceVersion}`, New: `UID: &uid}`},
		{Fault: "A 404 of something in between says that a Node is gone", File: "reconciler/kube/reportgc.go", Tests: "TestANodeIsGoneOnlyByTheAnswerOfAnAPIServer",
			Old: `	if absent(err) {
		return false, nil`, New: `	if apierrors.IsNotFound(err) {
		return false, nil`},

		{Fault: "The Lease is not taken", File: lease, Tests: "TestWithoutTheRightToALeaseNothingIsDoneUnderIt",
			Old: `if c.WithoutLease {`, New: `if true {`},
		{Fault: "A Lease that somebody else holds is taken", File: lease, Tests: "TestALeaseOfAnotherIsTakenOnceNobodyRenewsIt",
			Old: `			return fmt.Errorf("%w: %s", errHeld, holder)
`, New: `			_ = errHeld
`},
		{Fault: "A Lease is expired as soon as it is seen", File: lease, Tests: "TestALeaseOfAnotherIsTakenOnceNobodyRenewsIt",
			Old: `return time.Since(seen.since) > after`, New: `return true || time.Since(seen.since) > after`},
		{Fault: "Without the right to the Lease it is written", File: lease, Tests: "TestWithoutTheRightToALeaseNothingIsDoneUnderIt",
			Old: `	h, err := c.take(ctx, namespace, names)
	if err != nil {
		return err
	}
`, New: `	h, err := c.take(ctx, namespace, names)
	if errors.Is(err, reconciler.ErrLeaseForbidden) {
		return work(ctx, &reconciler.Hold{})
	}
	if err != nil {
		return err
	}
`},
		{Fault: "A hold does not end", File: lease, Tests: "TestNoWriteBeginsInTheLastSecondOfAHold",
			Old: `holdFor   = 5 * time.Second`, New: `holdFor   = 500 * time.Second`},
		{Fault: "A write begins after the time for writes", File: lease, Tests: "TestNoWriteBeginsInTheLastSecondOfAHold",
			Old: `	if time.Since(h.began) >= writeFor {
		return false
	}
`, New: ``},
		{Fault: "A write begins long after the last renewal", File: lease, Tests: "TestNoWriteBeginsLongAfterTheLastRenewal",
			Old: `return time.Since(l.renewed) >= writeWithin })
}`, New: `return false })
}`},
		{Fault: "A write begins although the Lease was lost", File: lease, Tests: "TestALeaseThatSomebodyElseTookEndsTheHold",
			Old: `return !h.lost && !slices`, New: `return !slices`},
		{Fault: "The Lease is not left to others after a hold", File: lease, Tests: "TestALeaseIsLeftToOthersForAsLongAsItWasHeld",
			Old: `		h.c.notBefore[h.namespace+"/"+l.Name] = time.Now().Add(off)
`, New: `		_, _ = l, off
`},
		{Fault: "The Lease is left alone for a moment however long it was held", File: lease, Tests: "TestALeaseIsLeftToOthersForAsLongAsItWasHeld",
			Old: `off := max(time.Since(h.began), stayOff)`, New: `off := stayOff`},
		{Fault: "The age of another's hold does not begin again when it renews", File: lease, Tests: "TestALeaseOfAnotherIsTakenOnceNobodyRenewsIt",
			Old: `if seen := c.foreignHolds[key]; seen.version == l.ResourceVersion {`, New: `if seen := c.foreignHolds[key]; seen.version != "" {`},
		{Fault: "The Lease is not given back", File: lease, Tests: "TestAHoldIsRenewedAndGivenBack",
			Old: `		wg.Go(func() { h.clear(ctx, l) })
`, New: `		_ = l
`},
		{Fault: "The Lease is not renewed", File: renew, Tests: "TestAHoldIsRenewedAndGivenBack",
			Old: `				if !h.renew(l) {`, New: `				if false && !h.renew(l) {`},
		{Fault: "A Lease that is somebody else's by now does not end the hold", File: renew, Tests: "TestALeaseThatSomebodyElseTookEndsTheHold",
			Old: `		h.lost = true
`, New: ``},

		{Fault: "A fence stands without one of the Leases", File: fence, Tests: "TestTheFenceWaitsForWhoHoldsALeaseAndStandsOnlyWithAllOfThem",
			Old: `		case !l.forbidden:
			return false
`, New: ``},
		{Fault: "A fence has no end", File: fence, Tests: "TestAFenceThatNobodyLowersIsNotRenewedAfter90Seconds",
			Old: `const LongestFence = 90 * time.Second`, New: `const LongestFence = 900 * time.Second`},
		{Fault: "The fence takes a Lease that somebody holds", File: fenced, Tests: "TestTheFenceWaitsForWhoHoldsALeaseAndStandsOnlyWithAllOfThem",
			Old: `case holder == "" || fl.fence.c.expired(l):`, New: `case true:`},
		{Fault: "The remnant of a fence is a fence", File: fence, Tests: "TestARemnantOfAFenceCountsForNothing",
			Old: `if since > aliveFor {`, New: `if false {`},
	}}
}
