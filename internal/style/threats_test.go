package style

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each row of the threat model has a test, and each test exists.
func TestThreats_HaveTests(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/explain/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := declaredTests(t)
	shown := threats()
	row := regexp.MustCompile(`(?m)^(?:\| (.*?) \| .* \||- \*\*(.*)\*\*.*)$`)
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		delete(shown[title], "")
		for _, m := range row.FindAllStringSubmatch(rest, -1) {
			effect := m[1] + m[2]
			if effect == "effect" || effect == "mistake" {
				continue
			}
			if len(shown[title][effect]) == 0 {
				t.Errorf("no test shows %q of %q", effect, title)
			}
			delete(shown[title], effect)
		}
		for _, effect := range slices.Sorted(maps.Keys(shown[title])) {
			t.Errorf("the page has no row %q under %q", effect, title)
		}
		delete(shown, title)
	}
	for title := range shown {
		t.Errorf("the page has no section %q", title)
	}
	for title, effects := range threats() {
		for effect, tests := range effects {
			for _, name := range tests {
				if !exists[name] {
					t.Errorf("%q of %q is to be shown by %s, which does not exist", effect, title, name)
				}
			}
		}
	}
}

// Each rule that is listed is on its page, and the tests that show it exist.
func TestRules_HaveTests(t *testing.T) {
	exists, pages := declaredTests(t), markdown(t)
	for heading, tests := range rules() {
		page, anchor, _ := strings.Cut(heading, "#")
		if !slices.Contains(anchors(pages[page]), anchor) {
			t.Errorf("%s has no heading %s", page, anchor)
		}
		for _, name := range tests {
			if !exists[name] {
				t.Errorf("%s is to be shown by %s, which does not exist", heading, name)
			}
		}
	}
}

// rules are headings of pages, with the tests that show what follows them.
func rules() map[string][]string {
	return map[string][]string{
		"docs/explain/safety.md#why-each-race-is-closed": {
			"TestCluster_NoReleaseDuringCreation", "TestVerdict_PendingWithItsNetwork", "TestVerdict_NeverBound",
			"TestRace_PodComesBack", "TestRace_TwoRunsAtOnce", "TestRelease_InterleavedWithAnADD",
			"TestRelease_WhatHappensInBetween", "TestRelease_ReservationAdoptedWhileItIsDeleted",
			"TestRelease_ReservationOfAnotherPoolAppears", "TestRelease_Holds", "TestPlan_ByHand",
		},
		"docs/explain/safety.md#complete-or-unknown": {
			"TestCheck_EmptyListOfPods", "TestList_IncompletePages", "TestRefuse_WhatIsNotWhole",
			"TestReports_FreshByTheirLeases", "TestAPodThatProvesNothingKeepsAddresses", "TestExpectedNodes",
			"TestHistory_LostNodeRestartsTheWait", "TestHistory_UnknownSourceRestartsTheWait",
		},
		"docs/explain/design.md#what-is-known-of-a-sandbox": {
			"TestScenarios", "TestNothingIsStaleThatMayBeInUse", "TestDeadNodes", "TestMissingNodes",
			"TestALyingAgentEndsNoSandboxWhoseNodeIsSilent", "TestADeadNodeDoesNotSpeakForAnother",
		},
		"docs/explain/design.md#how-the-verdict-is-found": {"TestTheAllocationOfAnotherNetworkDoesNotSetACarrierApart"},
		"docs/explain/design.md#restores-of-etcd": {
			"TestRestore_PausesReleases", "TestRestore_NoPodGetsAPhantomsAddress", "TestRestore_TaintOfTheBackup",
			"TestRestore_StatusOfTheBackup", "TestRestore_LostWrite", "TestRestore_OlderObject",
			"TestObserve_MissingReports", "TestShareLost", "TestRestore_DetectingPassAwaitsEveryNode",
			"TestRestore_ReportedByAgent", "TestRestore_OneAgentReports", "TestState_SinceIsOfTheNextRead",
			"TestState_StoredStateRanBackwards", "TestState_ReadBeforeTheRestoreWasKnown",
			"TestRestoreStore_CannotBeWritten", "TestState_TwoDetectARestore",
		},
	}
}

// declaredTests are the names of all tests and fuzz targets.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, s := range sources(t) {
		for _, m := range function.FindAllSubmatch(s.text, -1) {
			all[string(bytes.Clone(m[1]))] = true
		}
	}
	return all
}

// threats are the sections and rows of docs/explain/threat-model.md, with the tests that show them. A row "" is for the
// text of a section.
func threats() map[string]map[string][]string {
	return map[string]map[string][]string{
		"What the reconciler enforces": {
			"One node does not speak for another": {"TestOneNodeDoesNotSpeakForAnother",
				"TestOneNodeDoesNotSpeakForThePodOfAnother"},
			"What a user writes never proves an end": {"TestWhatAUserWritesReleasesNothingThatAFreshReportHas",
				"TestPodsAndDefinitionsOfOthersReleaseNothing"},
			"Missing information proves nothing": {"TestCheck_EmptyListOfPods", "TestFreshness"},
			"Every write has preconditions":      {"TestAPatchFailsOnAnyOtherVersionOfAnyPool"},
		},
		"Who may write pods in a namespace": {
			"": {"TestRBAC_RoleEdit"}, // what the role edit allows
			"its own address released in use": {"TestWithoutAgentsWhatAUserWritesIntoItsPodReleasesNothing",
				"TestTrustNetworkStatus", "TestWhatAUserWritesReleasesNothingWithoutAFreshReport",
				"TestFinishedWithoutAFreshReport", "TestNoPodAndNoAgents"},
			"another's address released": {"TestPodsAndDefinitionsOfOthersReleaseNothing"},
			"releases blocked": {"TestATenantChangesNothingForOthers", "TestFindings_UnreadOfOtherNetworks",
				"TestCache_LargestFilesOfAPod", "TestCache_FileBeyondTheLimit", "TestAnotherPodCarriesTheAddress",
				"TestAnUnreadSandboxMayCarryWhatItsCachesOrItsPodName",
				"TestAtMost128AddressesOfANetworkStatusAreRead", "TestAPodThatWasNeverBoundToANodeClaimsNothing",
				"TestEntry_PodsOfATenantFitIntoAReport", "TestNextReport_FitsIntoWhatThePolicyAllows",
				"TestAnAttachmentMayCarryWhatIsLeftOutOfIt"},
			"an operator paged":             {"TestAnAddressThatOnlyANetworkStatusNames"},
			"findings hidden among its own": {"TestFindings_AtMost1000OfAKind", "TestFindings_RepairsAreNotLimited"},
			"ADDs delayed":                  {"TestHold_YieldsAfterwards"},
			"pool filled":                   {"TestUnrecorded", "TestRepairLimit_ReportDoesNotRaiseIt"},
			"memory, CPU": {"TestInspect_LargeAnnotations", "TestCache_MemoryOfLargeFiles",
				"TestAtMost128AddressesOfANetworkStatusAreRead", "TestPod_RequestedNetworks", "TestNetworkStatus_LongNames",
				"TestList_PagesAreBoundedByBytes", "TestList_OfLargeObjects"},
			"disclosed": {"TestEvents_Objects"},
		},
		"Who may write NetworkAttachmentDefinitions": {
			"an address released in use": {"TestAnInterfaceOfAnotherPool", "TestWithAgentsATenantCannotMakeItsAddressLookFree",
				"TestANameNeverNarrows", "TestPodsAndDefinitionsOfOthersReleaseNothing"},
			"its own pod's address released in use": {"TestEntry_WhereaboutsInAnUnreadPlace", "TestEntry_Interfaces",
				"TestInspect_InterfaceOfUnknownNetwork"},
			"releases blocked": {"TestAnotherPodCarriesTheAddress"},
			"ADDs delayed, pool filled": {"TestMissingReservation", "TestAddresses_Unattributed",
				"TestAnUnattributedAddressIsClaimedAndNeverRecorded"},
			"memory, CPU": {"TestANADThatCannotBeReadSaysWhyAndNamesNoNetwork", "TestDefinedFor_Cost",
				"TestList_PagesAreBoundedByBytes", "TestFindings_OneForAnAddress"},
		},
		"Root on a node": {
			"its own pods' addresses released in use": {"TestWhatAFreshReportSays", "TestDeadNodes"},
			"another's": {"TestALyingAgentReleasesNothingThatAnotherNodeReports",
				"TestANodeThatDeselectsItselfReleasesNothingOfAnother", "TestOneNodeDoesNotSpeakForThePodOfAnother"},
			"an expired report of a node made fresh": {"TestAgent_WritesForItsOwnNodeOnly"},
		},
		"A compromised agent process": {
			"the way in":           {"TestDeploy_Rendered", "FuzzCacheFile"},
			"the token taken away": {"TestDeploy_Rendered"},
		},
		"An agent's token outside of its node": {
			"": {"TestAgent_WritesForItsOwnNodeOnly", "TestAgent_PublishesNothingWithoutPolicy",
				"TestAgent_StopsRenewingWithoutPolicy", "TestStore_CheckPolicy", "TestStatus_Situations",
				"TestDeploy_ChartNamesTheWrongValue", "TestDeploy_WarnsWithoutAdmissionPolicy"},
			"its own node's addresses released in use": {"TestWhatAFreshReportSays"},
			"its own report kept fresh after its end":  {"TestReports_LeaseFromTheFuture"},
			"another's address released in use": {"TestALyingAgentReleasesNothingThatAnotherNodeReports",
				"TestALyingAgentEndsNoSandboxWhoseNodeIsSilent", "TestTheEndOfAnIDThatNoOtherNodeReportsIsBelieved",
				"TestHash_EveryField", "TestReport_LeaseForOtherContent"},
			"releases blocked": {"TestASandboxThatWasNotReadMayCarryTheAddressesOfItsPod",
				"TestRestore_OneAgentReports", "TestANodeWithoutAFreshReportIsAFinding"},
			"ADDs delayed": {"TestGuard_LowersTheFenceAtItsTimeout", "TestServer_AgentReportsRestore",
				"TestServe_ChecksTheFenceTimeout"},
			"pool filled": {"TestRepairLimit_ReportDoesNotRaiseIt", "TestRepairLimit_AfterRestore",
				"TestRepairLimit_AllNodes", "TestRepairLimit_Pool", "TestRepairLimit_Node"},
			"an allocation rewritten": {"TestALyingAgentReleasesNothingThatAnotherNodeReports", "TestMisrecorded"},
			"etcd filled":             {"TestAgent_WritesForItsOwnNodeOnly", "TestEntry_LongNames"},
			"memory, CPU": {"TestReports_BoundedByTheAPIServer",
				"TestAReportTakesNoMoreMemoryThanAMultipleOfItsLength"},
			"disclosed": {"TestText_CannotForgeALineOrAColour"},
		},
		"A cloned machine": {
			"another's address released in use": {"TestOneNodeDoesNotSpeakForAnother", "TestAgent_OtherMachineIsNoReboot",
				"TestInspect_OtherMachinesSandboxesAreNeverClosed", "TestAMachineThatReplacedAnotherMayRunWhatNoReportHas"},
			"releases blocked": {"TestOneNodeDoesNotSpeakForAnother"},
		},
		"Who may write IPPools and reservations": {
			"any address released in use": {"TestAnotherSandboxRecordsTheAddress", "TestWhatCannotBeReadIsHeld"},
			"releases blocked":            {"TestPlan_Paused", "TestMalformedIsAFindingAndStopsNothing", "TestRelease_Holds"},
			"memory, CPU":                 {"TestJudgingTwiceAsMuchAllocatesTwiceAsMuch"},
		},
		"Who may edit Leases": {
			"another's address released in use": {"TestRestore_StaysSettled", "TestRBAC_RoleEdit",
				"TestDeploy_Rendered", "TestAgent_WritesForItsOwnNodeOnly"},
			"the breaker":      {"TestBreaker_Store", "TestStateStore"},
			"releases blocked": {"TestRelease_StepsAndFaults", "TestHold_LeaseThatCannotBeTaken", "TestHold_DurationOfTheLease"},
			"ADDs delayed":     {"TestHold_PoolsOwnLeases", "TestHold_Ends"},
		},
		"The reconciler's credentials": {
			"any address released in use, pools filled, ADDs delayed": {"TestRBAC_ReconcilerHasNoMore", "TestDeploy_Rendered"},
			"beyond that": {"TestRBAC_ReconcilerHasNoMore"},
			"disclosed":   {"TestServe_SecureMetrics"},
		},
		"Who can reach the metrics, or answer in their place": {
			"disclosed":               {"TestDeploy_Rendered", "TestServe_SecureMetrics"},
			"Prometheus' token taken": {"TestDeploy_Rendered"},
		},
		"Who can reach the page": {
			"any address released in use": {"TestPage_IsReadOnly"},
			"disclosed, from `ip-reconcile ui`": {"TestPage_WithToken", "TestLoopbackOnly",
				"TestOpenBrowser_TheTokenIsInNoArgument"},
			"disclosed, from `serve --ui` without `metrics.secure`": {"TestLoopbackOnly",
				"TestUI_ServeAsksForAToken"},
			"disclosed, with `metrics.secure`": {"TestUI_ServeAsksForAToken"},
		},
		"Who has a role for people": {
			"any address released in use": {"TestRBAC_ClusterRolesForPeople", "TestRBAC_ViewMayRunCheck"},
			"a pool deleted": {"TestRBAC_PeopleRetirePools", "TestRetire_OnlyWhatWasAskedFor",
				"TestRemoval_OfAnEmptyPoolOnly"},
			"disclosed": {"TestRBAC_ViewMayRunCheck"},
		},
		"Who hands over a snapshot": {
			"any address released in use": {"TestExplain_CommandsOfASnapshotNameNoContext"},
			"memory, CPU": {"TestAFewKilobytesDoNotTakeAllMemory", "TestLimits_YAMLNodes", "TestLimits_Kept",
				"TestLimits_Archive", "TestLimits_FarFromAClusters",
				"TestLimits_ValuesAreCountedBeforeDecoding", "TestReadFile_TooLarge", "TestNewLine_TooLarge"},
			"disclosed": {"FuzzNothingOutsideOfAFolderIsRead", "FuzzNothingOutsideOfAnArchiveIsRead",
				"TestArchive_LinksAndPathsOutside"},
		},
		"The operator's mistake": {
			"`--agent-nodes` excludes nodes that run such pods": {"TestThePodsOwnNodeIsAlwaysAsked",
				"TestANodeThatDeselectsItselfReleasesNothingOfAnother"},
			"`--trust-network-status` where tenants may edit pods": {"TestTrustNetworkStatus"},
			"the wrong kubeconfig": {"TestCheck_EmptyListOfPods",
				"TestExplain_CommandsNameTheClusterAndTheNamespace"},
			"two installations, or whereabouts' own reconciler beside it": {"TestRace_TwoRunsAtOnce", "TestWorkloads"},
			"an out-of-service taint on a running node":                   {"TestDeadNodes"},
			"such a taint brought back by an etcd restore": {"TestRestore_TaintOfTheBackup",
				"TestRestore_TaintOnRunningNode", "TestRestore_TaintWithoutAgents"},
			"a restore acknowledged while a named node runs": {"TestRestore_LostNode"},
		},
	}
}
