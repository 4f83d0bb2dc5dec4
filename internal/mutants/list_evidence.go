package main

// evidence is what is concluded about sandboxes, nodes and claims.
func evidence() []Mutant {
	return []Mutant{
		{Fault: "IPAMClaims that cannot be listed do not exist", In: "reconciler/kube", Decl: "Cluster.readIPAMClaims",
			Tests: "TestIPAMClaims",
			Old:   `return fmt.Sprintf("cannot list %s: %v", kind, innermost(err))`, New: `return ""`},
		{Fault: "Any 404 means that an IPAMClaim is gone", In: "reconciler/kube", Decl: "Cluster.liveIPAMClaim",
			Tests: "TestGetLive_IPAMClaims",
			Old:   `if d != nil && d.Name == name.Name && d.Kind == ippool.ClaimResource.Resource {`,
			New:   `if d != nil || true {`},
		{Fault: "Two machines migrate as one", In: "podstate", Decl: "AreOneMigration", TestsIn: "reconciler/judge",
			Tests: "TestConflict_LiveMigration",
			Old:   `p.Machine.UID != first.Machine.UID`, New: `false`},
		{Fault: "Nobody claims an address", In: "reconciler/judge", Decl: "table", Tests: "TestWhichNetworkAPoolIsOf",
			Old: `return e.Claimant != "" })`, New: `return false })`},
		{Fault: "A report that is not fresh is believed", In: "reconciler/judge", Decl: "Index.stateOf",
			Tests: "TestFreshness",
			Old: `case !g.report.IsFresh(x.now):
		return 0, false
	case`, New: `case`},
		{Fault: "A sandbox whose network may be open has stopped", In: "reconciler/judge", Decl: "Index.stateOf",
			Tests: "TestStuckTerminatingBeginsFiveMinutesAfterTheDeletionTimestamp",
			Old:   `g.State == v1alpha1.SandboxNotReady && podstate.IsClosed(g.NetworkClosed):`,
			New:   `g.State == v1alpha1.SandboxNotReady:`},
		{Fault: "An attachment proves nothing", In: "reconciler/judge", Decl: "Index.stateOf", Tests: "TestAttachments",
			Old: `return Attached, x.isEvidence(g)`, New: `return Attached, false`},
		{Fault: "The end of a sandbox on one node is the end everywhere", In: "reconciler/judge", Decl: "Index.findSandbox",
			Tests: "TestTheRowNamesTheCauseWhereSeveralHoldForOneReason",
			Old:   `x.checkOtherNodes(it)`, New: ``},
		{Fault: "A dead node releases what another node's report has", In: "reconciler/judge", Decl: "Index.findSandbox",
			Tests: "TestOneNodeDoesNotSpeakForAnother",
			Old: `if n.Sandbox == NodeDead {
		x.isContradicted(it)
	}`, New: ``},
		{Fault: "One dead node of several is enough", In: "reconciler/judge", Decl: "Index.newNodeSet",
			Tests: "TestSeveralNodesThatCouldRunIt",
			Old:   `case len(names) > 0 && count[provenDead] == len(names):`, New: `case count[provenDead] > 0:`},
		{Fault: "One missing node of several is enough", In: "reconciler/judge", Decl: "Index.newNodeSet",
			Tests: "TestNoPodAndNoAgents",
			Old:   `case len(names) > 0 && count[provenDead]+count[nodeObjectMissing] == len(names):`,
			New:   `case count[provenDead]+count[nodeObjectMissing] > 0:`},
		{Fault: "A node without a fresh report does not keep a sandbox from being absent", In: "reconciler/judge",
			Decl: "Index.newNodeSet", Tests: "TestThePodsOwnNodeIsAlwaysAsked",
			Old: `case len(names) == 0 || count[notReporting] > 0:`, New: `case len(names) == 0:`},
		{Fault: "A dead node counts although its agent reports", In: "reconciler/judge", Decl: "Index.nodeCondition",
			Tests: "TestDeadNodes",
			Old: `case x.hasFreshReport(name) && !x.isOfAnotherMachine(x.byNode[name]):
		return reporting
	case x.isDead(name):
		return provenDead`, New: `case x.isDead(name):
		return provenDead
	case x.hasFreshReport(name):
		return reporting`},
		{Fault: "The pod's own node is not asked", In: "reconciler/judge", Decl: "Index.knownNodes",
			Tests: "TestThePodsOwnNodeIsAlwaysAsked",
			Old: `nodes = append(nodes, pod.Node)
	}
	for _, addr`, New: `}
	for _, addr`},
		{Fault: "Only the node of the pod's name is asked where no report has the id", In: "reconciler/judge",
			Decl: "Index.couldRun", Tests: "TestTheNodeThatCouldRunIt",
			Old: `}), true), false`, New: `}), false), false`},
		{Fault: "A sandbox that carries the address claims nothing", In: "reconciler/judge", Decl: "Index.findClaimant",
			Tests: "TestAnotherSandboxRecordsTheAddress",
			Old:   `e.Claimant, e.ClaimantNode = "sandbox "+b.ID+" on node "+b.report.Name, b.report.Name`, New: ``},
		{Fault: "A sandbox whose addresses were not read claims nothing", In: "reconciler/judge", Decl: "Index.findClaims",
			Tests: "TestTheRowNamesTheCauseWhereSeveralHoldForOneReason",
			Old:   `x.findUnreadClaim(it)`, New: ``},
		{Fault: "Reports that cannot be read mean that there are no agents", In: "reconciler/judge", Decl: "NewIndex",
			Tests: "TestWhetherThereAreAgents",
			Old:   `len(o.Reports) > 0 || o.ReportsUnreadable || policy`, New: `len(o.Reports) > 0 || policy`},
		{Fault: "Reports that were there and are gone mean that there are no agents", In: "reconciler/judge",
			Decl: "NewIndex", Tests: "TestWhetherThereAreAgents",
			Old: `|| past.SawReports(),`, New: `,`},
		{Fault: "A boot since the report ends its sandboxes", In: "reconciler/judge", Decl: "Index.hasEndedWithNode",
			Tests: "TestDeadNodes",
			Old:   `x.isDead(r.Name)`,
			New:   `(x.isDead(r.Name) || x.o.Nodes[r.Name] != nil && x.o.Nodes[r.Name].BootID != r.BootID)`},
		{Fault: "A network-status of the backup is believed", In: "reconciler", Decl: "History.DoubtsStatus",
			Tests: "TestRestore_StatusOfTheBackup",
			Old:   `return !detected.IsZero() &&`, New: `return false &&`},
		{Fault: "A reservation of yesterday is not waited for", In: "reconciler/judge", Decl: "Index.gatherOnLone",
			Tests: "TestPlan_Confirmation", TestsIn: "reconciler",
			Old: `>= minTimeAlone`, New: `>= 0`},
		{Fault: "A reservation of another pod is the allocation's", In: "reconciler/judge", Decl: "Index.allocationsOf",
			Tests: "TestAReservationOfAnotherIsNotTheAllocations",
			Old:   `e.pool.Namespace == r.Namespace && e.PodRef == r.PodRef &&`, New: `e.pool.Namespace == r.Namespace &&`},
		{Fault: "Pools that may need a new reservation are not read", In: "reconciler/judge", Decl: "Item.pools",
			Tests: "TestRelease_ReservationOfAnotherPoolAppears", TestsIn: "reconciler",
			Old: `it.pool.mayShareNetwork(p)`, New: `len(it.related) > 0`},
		{Fault: "A reservation of another network is the allocation's", In: "reconciler/judge", Decl: "Index.allocationsOf",
			Tests: "TestAReservationOfAnotherIsNotTheAllocations",
			Old:   `e.PodRef == r.PodRef && e.pool.isOfNetwork(read.network)`, New: `e.PodRef == r.PodRef`},
		{Fault: "A report that was never renewed is fresh", In: "podstate", Decl: "Report.IsFresh",
			Tests: "TestReport_WithoutLease",
			Old:   `return !r.ConfirmedAt.IsZero() && now`, New: `return r.ConfirmedAt.IsZero() || now`},
		{Fault: "A Lease that confirms other content confirms a report", In: "podstate", Decl: "Report.WithLease",
			Tests: "TestReport_LeaseForOtherContent",
			Old:   `hash != "" && hash == r.hash {`, New: `hash != "" {`},
		{Fault: "The hash leaves out what the report says of networks", In: "podstate", Decl: "Hash",
			Tests: "TestHash_EveryField",
			Old:   `text, err := json.Marshal(&content)`, New: `content.Attachments = nil
	text, err := json.Marshal(&content)`},
		{Fault: "The out-of-service taint is proof although the node is Ready", In: "podstate", Decl: "Node.IsDead",
			Tests: "TestNode_IsDead",
			Old:   `return n.OutOfService && !n.Ready }`, New: `return n.OutOfService }`},
		{Fault: "A container that runs does not keep a pod from being stopped", In: "podstate", Decl: "readStop",
			Tests: "TestPod_StoppedByKubelet",
			Old: `isStopped = false
			} else`, New: `isStopped = true
			} else`},
		{Fault: "A sandbox without a UID is every pod's", In: "podstate", Decl: "Pod.HasUID",
			Tests: "TestPod_HasUID",
			Old:   `return uid != "" && (uid == p.UID || uid == p.RuntimeUID) }`,
			New:   `return uid == "" || uid == p.UID || uid == p.RuntimeUID }`},
		{Fault: "An override counts whatever it names", In: "reconciler/judge", Decl: "judge", Tests: "TestOverride_EachRow",
			Old: `r.by == assertedByPerson && r.reason == e.Override):`, New: `r.by == assertedByPerson && e.Override != ""):`},
		{Fault: "A person is believed against a fresh report", In: "reconciler/judge", Decl: "proof.holds",
			Tests: "TestAVerdictOfStaleIsRefusedWithoutItsProof",
			Old: `return e.Override != "" &&
			(noSource`, New: `return e.Override != "" &&
			(true || noSource`},
	}
}
