package main

// storedArea is how pools, pods, nodes and reports are read, and patches are built.
func storedArea() Area {
	const patch, name, report, node, pod, status = "ippool/patch.go", "ippool/name.go", "podstate/report.go", "podstate/node.go", "podstate/pod.go", "podstate/networkstatus.go"
	return Area{"What is read, and the patch that proves", []Mutant{
		{Fault: "A clock that is ahead keeps sandboxes young", File: report, Tests: "TestANodesClockThatIsAheadDoesNotKeepItsSandboxesYoung",
			Old: ` || !r.Written.IsZero() && now.Sub(r.Written) > settledAfter
`, New: `
`},
		{Fault: "A patch does not test the resourceVersion", File: patch, Tests: "TestAPatchFailsOnAnyOtherVersionOfAnyPool",
			Old: `	ops := []any{versionTest(p)}
	gone`, New: `	ops := []any{}
	gone`},
		{Fault: "A patch does not test the entry that it removes", File: patch, Tests: "TestAnEntryIsNotRemovedTwiceAndNotOnceItIsGone",
			Old: `ops = append(ops, operation{"test", entryPath(a.Key), a.Entry()}, removal`, New: `ops = append(ops, removal`},
		{Fault: "An entry that cannot be judged is removed", File: patch, Tests: "TestWhatCannotBeJudgedIsNeverRemoved",
			Old: `			return nil, fmt.Errorf("pool %s: entry %q is %s and is never removed", p.Ref(), a.Key, a.Problem)
`, New: ``},
		{Fault: "A patch that would change more is sent", File: patch, Tests: "TestAPatchThatRemovesTheWrongEntryOrMoreDoesNotPass",
			Old: `if !bytes.Equal(got, after) {`, New: `if !bytes.Equal(got, after) && false {`},
		{Fault: "An entry is written into a slot without a test that it is empty", File: patch, Tests: "TestWritingBackIntoATakenSlotFails",
			Old: `ops = append(ops, test, operation{write, entryPath(e.Key), entry})`, New: `ops = append(ops, operation{write, entryPath(e.Key), entry})`},
		{Fault: "A reservation's name is read that whereabouts would not give", File: name, Tests: "TestANameWithAZoneIsNoReservedAddress",
			Old: ` || a.Zone() != "" || ReservationName(network, a) != name {`, New: ` {`},
		{Fault: "The Lease of a node slice is not taken", File: name, Tests: "TestAPoolsNetworksNodesAndLeasesByItsName",
			Old: `return []string{p.Name, SharedLease}`, New: `return []string{SharedLease}`},

		{Fault: "A report is fresh for five minutes", File: report, Tests: "TestAReportIsFreshFor60SecondsAfterItsRenewal",
			Old: `freshFor = 60 * time.Second`, New: `freshFor = 300 * time.Second`},
		{Fault: "A report that was renewed in the future is fresh", File: report, Tests: "TestAReportIsFreshFor60SecondsAfterItsRenewal",
			Old: `now.Sub(r.Renewed).Abs() <= freshFor`, New: `now.Sub(r.Renewed) <= freshFor`},
		{Fault: "A report that was never renewed is fresh", File: report, Tests: "TestAReportWithoutALeaseWasNeverRenewed",
			Old: `return !r.Renewed.IsZero() && now`, New: `return r.Renewed.IsZero() || now`},
		{Fault: "A Lease that confirms other content confirms a report", File: report, Tests: "TestALeaseForOtherContentIsRenewedAndConfirmsNothing",
			Old: `hash != "" && hash == r.hash {`, New: `hash != "" {`},
		{Fault: "The age of a renewal is by the node's clock", File: report, Tests: "TestAReportIsRenewedByItsLeaseAtTheAPIServersTime",
			Old: `return fieldTime(lease.ManagedFields, ` + "`\"f:renewTime\"`" + `)`, New: `return lease.Spec.RenewTime.Time`},
		{Fault: "The hash leaves out what the report says of networks", File: report, Tests: "TestTheHashChangesWithEveryFieldOfTheContent",
			Old: `	text, err := json.Marshal(&content)
`, New: `	content.Attachments = nil
	text, err := json.Marshal(&content)
`},
		{Fault: "An attachment counts for five minutes", File: report, Tests: "TestAgesCountToTheYoungerOfNowAndTheReport",
			Old: `attachedFor = 15 * time.Minute`, New: `attachedFor = 5 * time.Minute`},
		{Fault: "An attachment whose network is there is too old to count", File: report, Tests: "TestAnAttachmentCountsByItsNamespaceElseByItsAge",
			Old: `	if a.NetworkClosed != nil {
		return !*a.NetworkClosed
	}
`, New: ``},

		{Fault: "The out-of-service taint is proof although the node is Ready", File: node, Tests: "TestANodeIsDeadOnlyOutOfServiceAndNotReady",
			Old: `return n.OutOfService && !n.Ready }`, New: `return n.OutOfService }`},
		{Fault: "A node whose readiness is not known is Ready", File: node, Tests: "TestANodeIsReadyOnlyWhereTheConditionSaysTrue",
			Old: `n.Ready = c.Status == corev1.ConditionTrue`, New: `n.Ready = c.Status != corev1.ConditionFalse`},
		{Fault: "A container that runs does not keep a pod from being stopped", File: pod, Tests: "TestOnlyAPodThatKubeletHasStoppedIsStopped",
			Old: `				all = false
			} else`, New: `				some = true
			} else`},
		{Fault: "A sandbox without a UID is every pod's", File: pod, Tests: "TestASandboxWithoutAUIDIsNobodys",
			Old: `return uid != "" && (uid == p.UID || uid == p.RuntimeUID) }`, New: `return uid == "" || uid == p.UID || uid == p.RuntimeUID }`},
		{Fault: "A static pod's sandbox is not its own", File: pod, Tests: "TestAMirrorPodHasTheRuntimesUIDInItsAnnotation|TestASandboxWithoutAUIDIsNobodys",
			Old: `		p.RuntimeUID = uid
`, New: ``},
		{Fault: "Addresses are compared as texts", File: status, Tests: "TestA7AnAddressIsReadInAnySpelling",
			Old: `return a.Unmap().WithZone(""), err`, New: `return a, err`},
		{Fault: "More than 128 addresses of a network-status are read", File: status, In: "reconciler/judge", Tests: "TestAtMost128AddressesOfANetworkStatusAreRead",
			Old: `const maxAddresses = 128`, New: `const maxAddresses = 6400`},
		{Fault: "A network-status with an address that cannot be parsed is readable", File: status, Tests: "TestANetworkStatusSaysWhatBecameOfReadingIt",
			Old: `					i.Addresses = append(i.Addresses, a)
				} else {
					readable = false
				}`, New: `					i.Addresses = append(i.Addresses, a)
				}`},
	}}
}
