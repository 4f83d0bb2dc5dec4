package main

// transport is reading and writing the API, whereabouts' Lease and the fence.
func transport() []Mutant {
	return []Mutant{
		{Fault: "Pods are read before what they may own", Decl: "Cluster.List",
			Tests: "TestList_PodsLast",
			Old:   `if err := c.readOtherKinds(gctx, g, o, &facts.Observation{}); err != nil {`,
			New: `if _, err := c.listPods(ctx, "", metav1.ListOptions{}); err != nil {
		return nil, err
	}
	if err := c.readOtherKinds(gctx, g, o, &facts.Observation{}); err != nil {`},
		{Fault: "A Lease that an ADD took in the pause is taken again at once",
			Decl: "Cluster.usedByOthers", Tests: "TestHold_YieldsAfterwards",
			Old: `l.ResourceVersion != y.version`, New: `false`},
		{Fault: "Half a list is a list", Decl: "list", Tests: "TestList_Pages",
			Old: `if opts.Continue = meta.Continue; opts.Continue == "" {`, New: `if opts.Continue = meta.Continue; true {`},
		{Fault: "An answer that is no API server's is an empty list", Decl: "checkPage",
			Tests: "TestAnswer_NotAList",
			Old:   `case page.ResourceVersion == "": //`, New: `case false: //`},
		{Fault: "A list of which objects remain is complete", Decl: "checkPage",
			Tests: "TestList_IncompletePages",
			Old:   `remaining != nil && *remaining != 0`, New: `false && *remaining != 0`},
		{Fault: "A namespace that RBAC forbids is not paused", Decl: "Cluster.readPause",
			Tests: "TestList_Pause",
			Old:   `if o.Paused = !c.WithoutPause; c.WithoutPause {`, New: `if c.WithoutPause {`},
		{Fault: "A 404 of something in between says that there are no agents", Decl: "Cluster.Serves",
			Tests: "TestAnswer_404OfAProxy|TestList_NodeAgents",
			Old: `if err == nil && served || err != nil && !apierrors.IsNotFound(err) {
		return served, err
	}`, New: `if err == nil || apierrors.IsNotFound(err) {
		return err == nil && served, nil
	}`},
		{Fault: "What is served in another version only counts as not served",
			Decl: "Cluster.unlessNotServed", Tests: "TestServed_InAnotherVersion",
			Old: `case errors.As(why, new(*OtherVersionError)):
		return why
	case why == nil && !served:`, New: `case why != nil && !served, !served:`},
		{Fault: "This machine's clock replaces the API server's", Decl: "Cluster.Now",
			Tests: "TestList_WithoutDate",
			Old:   `return time.Time{}`, New: `return time.Now()`},
		{Fault: "The Date of an earlier pass replaces a missing one", Decl: "Cluster.date",
			Tests: "TestList_WithoutDate",
			Old:   `last == nil || last.arrivedAt.Before(since)`, New: `last == nil`},
		{Fault: "An error of a live read says that there is no pod", Decl: "Cluster.livePod",
			Tests: "TestGetLive_NotFound",
			Old: `case !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("get pod %s: %w", name, err)
		}`, New: `case !apierrors.IsForbidden(err):
			return nil, nil
		}`},
		{Fault: "A 404 of something in between says that there is no object", Decl: "isAbsent",
			Tests: "TestAnswer_404OfAProxy",
			Old:   `return apierrors.IsNotFound(err) && !isForeign(err)`, New: `return apierrors.IsNotFound(err)`},
		{Fault: "A write goes out again when its hold is over", Decl: "guard.RoundTrip",
			Tests: "TestHold_LateRetry",
			Old: `if !g.may(r) {
		return nil, errNotSent
	}`, New: ``},
		{Fault: "A write is asked for before its credentials are, which may take long", Decl: "Cluster.httpClient",
			Tests: "TestSession_CredentialsThatTakeLong",
			Old: `config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return guard{next, may} }
	transport, err := rest.HTTPWrappersForConfig(config, c.direct)`,
			New: `config.WrapTransport = nil
	below, err := rest.HTTPWrappersForConfig(config, c.direct)
	transport := guard{below, may}`},
		{Fault: "A queued write is sent after the run is stopped and the Lease cleared", Decl: "session.IsOpen",
			Tests: "TestSession_QueuedWritesEndWithTheHold",
			Old:   `s.held.Err() == nil && `, New: ``},
		{Fault: "A session that is kept writes after its work", Decl: "Cluster.inSession",
			Tests: "TestSession_EndsWithItsWork",
			Old:   `defer s.hasEnded.Store(true)`, New: ``},
		{Fault: "A late create that completes a change is not sent", Decl: "session.maySend",
			Tests: "TestSession_LateWrites",
			Old:   `s.IsOpen() || r.Method == http.MethodPost && !s.hasEnded.Load()`, New: `s.IsOpen() && r != nil`},
		{Fault: "The client that reads writes pools, too", Decl: "isNoWrite",
			Tests: "TestOrdinaryClient_WritesNoPools",
			Old:   `return r.Method == http.MethodGet ||`, New: `return true ||`},
		{Fault: "The client of a rollback deletes any reservation", Decl: "undoes",
			Tests: "TestUndoes",
			Old:   `strings.HasSuffix(q.URL.Path, all+"/"+r.Name)`, New: `strings.Contains(q.URL.Path, all+"/")`},
		{Fault: "A web page is the success of a delete", Decl: "checkAnswer",
			Tests: "TestWrite_Answers",
			Old:   `if answer.StatusCode/100 != 2 || kind`, New: `if true || kind`},
		{Fault: "A policy that denies is taken for a lost race", Decl: "testFailed",
			Tests: "TestWrite_Answers",
			Old:   `return details == nil || details.Name == ""`, New: `return details == nil || details.Name != "-"`},
		{Fault: "A reservation is deleted whatever its UID", Decl: "Cluster.deleteReservation",
			Tests: "TestWrite_Answers",
			Old:   `uid := types.UID(r.UID)`, New: `uid := types.UID("")`},
		{Fault: "A reservation is deleted whatever its version", Decl: "Cluster.deleteReservation",
			Tests: "TestWrite_Answers",
			Old:   `UID: &uid, ResourceVersion: &r.ResourceVersion}`, New: `UID: &uid}`},
		{Fault: "The Lease is not taken", Decl: "Cluster.Hold",
			Tests: "TestHold_LeaseThatCannotBeTaken",
			Old:   `if c.WithoutLease {`, New: `if true {`},
		{Fault: "A Lease that somebody else holds is taken", Decl: "leases.take",
			Tests: "TestHold_ExpiredLease",
			Old:   `return fmt.Errorf("%w: %s", errHeldByOther, holder)`, New: `_ = errHeldByOther`},
		{Fault: "A Lease is expired as soon as it is seen", Decl: "Cluster.isExpired",
			Tests: "TestHold_ExpiredLease",
			Old:   `return c.unchangedFor(l) > max`, New: `return true || c.unchangedFor(l) > max`},
		{Fault: "A write begins after the time for writes", Decl: "leases.mayWrite",
			Tests: "TestHold_Ends",
			Old: `if time.Since(h.start) >= writeFor {
		return false
	}`, New: ``},
		{Fault: "A write begins long after the last renewal", Decl: "leases.mayWrite",
			Tests: "TestHold_Ends",
			Old:   `return time.Since(l.renewedAt) >= writeWithin })`, New: `return false })`},
		{Fault: "A Lease that is somebody else's by now does not end the hold", Decl: "leases.renew",
			Tests: "TestHold_Ends",
			Old:   `l.renewedAt = time.Time{}`, New: ``},
		{Fault: "A fence that was not renewed for a while begins again", Decl: "Fence.updateSince",
			Tests: "TestFence_StandsOnAfterAGap",
			Old:   `if now := f.c.Now()`, New: `if !f.stands() {
		f.standingSince = time.Time{}
	}
	if now := f.c.Now()`},
		{Fault: "A fence whose Lease another had in between stands on", Decl: "fencedLease.renewOrTake",
			Tests: "TestFence_StandsOnAfterAGap",
			Old:   `transitionsOf(before) != transitionsOf(now)`, New: `transitionsOf(before) == -1`},
		{Fault: "A fence has no end", Decl: "fencedLease.renewOrTake", Tests: "TestFence_EndsAfter90Seconds",
			Old: `s.Age >= restore.LongestFence`, New: `false`},
		{Fault: "The fence takes a Lease that somebody holds", Decl: "fencedLease.renewOrTake",
			Tests: "TestFence_WaitsForHolders",
			Old:   `case holderOf(now) == FenceHolder, holderOf(now) == "", l.c.isExpired(now):`, New: `case true:`},
		{Fault: "A new leader waits for the fence of another replica", Decl: "leases.take",
			Tests: "TestFence_HoldUnderThatOfAPeer",
			Old:   `h.c.OnPeerFence != nil && isAlive`, New: `h.c.OnPeerFence != nil && false && isAlive`},
		{Fault: "A fence that has ended is joined", Decl: "leases.take", Tests: "TestFence_HoldUnderThatOfAPeer",
			Old: `isAlive && age < restore.LongestFence`, New: `isAlive && age < 2*restore.LongestFence`},
		{Fault: "A joined fence is the fence of the next restore", Decl: "Guard.Join",
			Tests: "TestGuard_JoinsTheFenceOfAPeer",
			Old:   `"another replica has raised the fence", true`, New: `"another replica has raised the fence", false`},
		{Fault: "A new leader raises no fence for a restore that nodes have yet to report",
			Decl: "Server.handleRestore", Tests: "TestServer_NewLeaderReportsTheRestore",
			Old: `out.Restore.Complete()`, New: `true`},
		{Fault: "A new leader raises the fence for a restore that is settled",
			Decl: "Server.handleRestore", Tests: "TestServer_NewLeaderReportsTheRestore",
			Old: `out.Restore.Complete()`, New: `false`},
		{Fault: "A revision that runs backwards raises no fence", Decl: "restoreEvidence",
			Tests: "TestGuard_RestoreEvidence",
			Old:   `case now.Revision < was.Revision:`, New: `case false:`},
		{Fault: "An Event that is forbidden for a moment is lost", Decl: "notYet", Tests: "TestEvents_RefusedForAMoment",
			Old: `if isForbidden ||`, New: `if isForbidden && false ||`},
		{Fault: "A fence for a restore is lowered before all is settled", Decl: "Guard.lowerIfDue",
			Tests: "TestGuard_LowersTheFenceWhenNoWorkRemains",
			Old: `case was.isRecovered:
		e.Outcome`, New: `case true:
		e.Outcome`},
		{Fault: "Time without the API server counts as time behind the fence",
			Decl: "Guard.handleAnswer", Tests: "TestGuard_OutageDuringAFence",
			Old: `was != nil && hasExpired {`, New: `was != nil && false && hasExpired {`},
		{Fault: "A change is lost that comes while a cache pass rests", Decl: "Server.work",
			Tests: "TestRequests_ChangeDuringAPass",
			Old:   `s.Requests.AddAfter(cachePass, rest)`, New: ``},
	}
}
