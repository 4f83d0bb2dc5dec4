package findings_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

type findingCase struct {
	says  string
	want  int
	parts []Part
}

func expectFindings(t *testing.T, kind findings.Kind, cases []findingCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.says, func(t *testing.T) {
			found := FindingsOf(kind, c.parts...)
			if len(found) != c.want {
				t.Errorf("got %d %s findings, want %d: %+v", len(found), kind, c.want, found)
			}
			for _, f := range found {
				if f.Message == "" || f.Pods == nil || f.ContainerIDs == nil {
					t.Errorf("a finding without a sentence, or with a list that is null: %+v", f)
				}
			}
		})
	}
}

func TestPhantom(t *testing.T) {
	worker := Node("worker-1")
	box7 := func(uid string, edits ...SandboxEdit) ReportEdit { return Sandbox("box-7", uid, edits...) }
	expectFindings(t, findings.Phantom, []findingCase{
		{"a running sandbox whose pod the API does not have", 1, []Part{worker, FreshReport("worker-1", box7(UsualUID))}},
		{"a running sandbox of an earlier pod of that name", 1, []Part{worker, UsualPod(), FreshReport("worker-1",
			box7(OtherUID))}},
		{"its pod is there", 0, []Part{worker, UsualPod(), FreshReport("worker-1", box7(UsualUID))}},
		{"its pod is there, finished", 0, []Part{worker, succeeded, FreshReport("worker-1", box7(UsualUID))}},
		{"its pod is there, as a mirror", 0, []Part{worker, UsualPod(UID("mirror"), MirrorOf(UsualUID)),
			FreshReport("worker-1", box7(UsualUID))}},
		{"a pod of that name in another namespace", 1, []Part{worker, UsualPod(InNamespace("blue")), FreshReport("worker-1",
			box7(UsualUID))}},
		{"no UID, and a pod of that name", 0, []Part{worker, UsualPod(), FreshReport("worker-1", box7(""))}},
		{"not ready", 0, []Part{worker, FreshReport("worker-1", box7(UsualUID, NotReady(nil)))}},
		{"in a stale report", 1, []Part{worker, StaleReport("worker-1", box7(UsualUID))}},
		{"an attachment", 0, []Part{worker, FreshReport("worker-1", Attachment("box-7", UsualUID, time.Hour, Open))}},
		{"59 s old", 0, []Part{worker, FreshReport("worker-1", box7(UsualUID, CreatedAgo(59*time.Second)), ObservedAgo(0))}},
		{"61 s old", 1, []Part{worker, FreshReport("worker-1", box7(UsualUID, CreatedAgo(61*time.Second)), ObservedAgo(0))}},
		{"30 s old when it was observed", 0, []Part{worker, FreshReport("worker-1",
			box7(UsualUID, CreatedAgo(90*time.Second)), ObservedAgo(time.Minute))}},
	})
	t.Run("it says the node, the addresses and that no pool records them", func(t *testing.T) {
		f := FindingsOf(findings.Phantom, worker, empty, FreshReport("worker-1", box7(UsualUID, with5)))[0]
		if f.Node != "worker-1" || f.IP != "10.0.0.5" || f.Pool != "" || !slices.Equal(f.Pods, []string{"default/web-0"}) ||
			!slices.Equal(f.ContainerIDs, []string{"box-7"}) {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("it says which pool records its address", func(t *testing.T) {
		f := FindingsOf(findings.Phantom, worker, UsualPool, FreshReport("worker-1", box1))[0]
		if f.Pool != "kube-system/10.0.0.0-24" || strings.Contains(f.Message, "no pool records") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a pool records it, in an allocation with a field that is not known", func(t *testing.T) {
		f := FindingsOf(findings.Phantom, worker, FreshReport("worker-1", box1),
			RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
				"5": map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1", "ipamclaimref": "claim"}}}))[0]
		if f.Pool != "kube-system/10.0.0.0-24" {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a successor of its name took the allocation over: no pool records it", func(t *testing.T) {
		f := FindingsOf(findings.Phantom, worker, UsualPod(), UsualPool,
			FreshReport("worker-1", box1, Sandbox("box-0", OtherUID, with5)))
		if len(f) != 1 || f[0].Pool != "" || f[0].ContainerIDs[0] != "box-0" {
			t.Errorf("got %+v", f)
		}
	})
}

func TestConflict(t *testing.T) {
	a, b := Pod("a", Carrying("10.0.0.5")), Pod("b", Carrying("10.0.0.5"))
	bBy := func(nad string, edits ...PodEdit) Part {
		return Pod("b", append([]PodEdit{CarryingOn(nad, "net1", "10.0.0.5")}, edits...)...)
	}
	one := FreshReport("worker-1", boxA)
	network := All(UsualPool, here)
	expectFindings(t, findings.Conflict, []findingCase{
		{"two pods carry one address in one network", 1, []Part{network, a, b}},
		{"two definitions of one network", 1, []Part{network, NAD("wb2", WhereaboutsConfig("10.0.0.0/16", "")), a,
			bBy("default/wb2")}},
		{"one of them is terminating", 1, []Part{network, a, bBy("default/wb", DeletedAgo(time.Hour))}},
		{"one of them is finished", 0, []Part{network, a, bBy("default/wb", Phase("Failed"))}},
		{"two networks", 0, []Part{network, NAD("red", WhereaboutsConfig("10.0.0.0/24", "red")), a, bBy("default/red")}},
		{"a definition that is gone", 0, []Part{a, b}},
		{"one definition that cannot be read", 1, []Part{network, NAD("bad", "{"), a, bBy("default/bad")}},
		{"a definition of another IPAM", 0, []Part{NAD("wb", `{"ipam":{"type":"host-local"}}`), a, b}},
		{"two addresses", 0, []Part{network, a, Pod("b", Carrying("10.0.0.6"))}},
		{"two interfaces of one pod", 0, []Part{network,
			Pod("a", NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]},{"name":"default/wb",`+
				`"interface":"net2","ips":["10.0.0.5"]}]`))}},
		{"only podIPs", 0, []Part{network, Pod("a", PodIPs("10.0.0.5")), Pod("b", PodIPs("10.0.0.5"))}},
		{"the definition was edited to another range since", 1,
			[]Part{UsualPool, NAD("wb", WhereaboutsConfig("10.9.0.0/24", "")), a, b}},
		{"two running sandboxes", 1, []Part{nodes, one, FreshReport("worker-2", boxB)}},
		{"two running sandboxes of one node", 1, []Part{nodes, FreshReport("worker-1", boxA, boxB)}},
		{"two running sandboxes of one pod", 1, []Part{nodes, one, FreshReport("worker-2", Sandbox("box-2", "uid-a",
			OfPod("a"), with5))}},
		{"one of the sandboxes is not ready", 0, []Part{nodes, one, FreshReport("worker-2", Sandbox("box-2", "uid-b",
			OfPod("b"), with5, NotReady(nil)))}},
		{"one of the reports is stale", 1, []Part{nodes, one, StaleReport("worker-2", boxB)}},
		{"two networks of sandboxes", 0, []Part{nodes, one, FreshReport("worker-2", Sandbox("box-2", "uid-b", OfPod("b"),
			WithAddress("10.0.0.5", "red")))}},
		{"one sandbox that has it twice", 0, []Part{nodes, FreshReport("worker-1", Sandbox("box-1", "uid-a", OfPod("a"),
			with5, with5))}},
	})
	t.Run("it names both, and nothing is released because of it", func(t *testing.T) {
		pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/a", "box-1", "net1"))
		j := Judged(Observe(pool, here, a, b), facts.Policy{})
		if it := AllocationOf(t, j, "10.0.0.5"); it.Verdict != judge.InUse {
			t.Errorf("got %v", RulingOf(it))
		}
		f := FindingsOf(findings.Conflict, pool, here, a, b)[0]
		if f.IP != "10.0.0.5" || !slices.Equal(f.Pods, []string{"default/a", "default/b"}) ||
			f.Pool != "kube-system/10.0.0.0-24" {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("it names both sandboxes", func(t *testing.T) {
		f := FindingsOf(findings.Conflict, nodes, one, FreshReport("worker-2", boxB))[0]
		slices.Sort(f.ContainerIDs)
		if !slices.Equal(f.ContainerIDs, []string{"box-1", "box-2"}) ||
			!slices.Equal(f.Pods, []string{"default/a", "default/b"}) {
			t.Errorf("got %+v", f)
		}
	})
}

// What a pod's network-status names is no conflict where the fresh report of its own node shows that the pod does not
// have it. Where the report may lack something, or may be older than the pod, it is a conflict.
func TestAnAddressThatOnlyANetworkStatusNames(t *testing.T) {
	cluster := All(UsualPool, here, NAD("red", WhereaboutsConfig("10.0.0.0/24", "red")), nodes)
	owner := All(Pod("a", UID("uid-a"), Carrying("10.0.0.5")), FreshReport("worker-1", boxA))
	named := func(edits ...PodEdit) Part {
		return Pod("b", append([]PodEdit{UID("uid-b"), OnNode("worker-2"), Carrying("10.0.0.5")}, edits...)...)
	}
	its := func(edits ...SandboxEdit) ReportEdit {
		return Sandbox("box-2", "uid-b", append([]SandboxEdit{OfPod("b")}, edits...)...)
	}
	attached := func(name string, closed *bool) ReportEdit {
		return func(r *podstate.Report) {
			Attachment("box-2", "uid-b", time.Hour, closed)(r)
			r.Attachments[0].Name = name
			if name == "" {
				r.Attachments[0].Namespace, r.Attachments[0].UID = "", ""
			}
		}
	}
	reporting := func(c ...ReportEdit) Part { return FreshReport("worker-2", c...) }
	for _, c := range []struct {
		says        string
		conflicts   int
		information int
		parts       []Part
	}{
		{"the report has no sandbox of the pod", 0, 1, []Part{owner, named(), reporting()}},
		{"its sandbox has another address", 0, 1, []Part{owner, named(), reporting(its(WithAddress("10.0.0.9", "")))}},
		{"its sandbox has stopped", 0, 1, []Part{owner, named(), reporting(its(NotReady(Closed)))}},
		{"its sandbox is gone", 0, 1, []Part{owner, named(), reporting(Gone("box-2", "uid-b"))}},
		{"the pod is Pending and has no sandbox", 0, 1, []Part{owner, named(Phase("Pending")), reporting()}},
		{"the pod is 61 s old", 0, 1, []Part{owner, named(MadeAgo(61 * time.Second)), reporting()}},
		{"the owner's node has no report", 0, 1, []Part{Pod("a", UID("uid-a"), Carrying("10.0.0.5")), named(), reporting()}},
		{"a closed attachment of it", 0, 1, []Part{owner, named(), reporting(attached("b", Closed))}},
		{"two pods name it, and neither has it", 0, 1, []Part{named(), Pod("c", UID("uid-c"), OnNode("worker-2"),
			Carrying("10.0.0.5")), reporting()}},
		{"another sandbox of the node is unread", 0, 1, []Part{owner, named(), reporting(Sandbox("box-3", "uid-c", OfPod("c"),
			Unread))}},

		// pods, and sandboxes
		{"its sandbox has the address", 2, 0, []Part{owner, named(), reporting(its(with5))}},
		{"its sandbox has the address, and is not ready", 1, 0, []Part{owner, named(), reporting(its(with5, NotReady(nil)))}},
		{"its sandbox is unread", 1, 0, []Part{owner, named(), reporting(its(WithAddress("10.0.0.9", ""), Unread))}},
		{"its sandbox is listed without an address", 1, 0, []Part{owner, named(), reporting(its())}},
		{"its sandbox is not ready, and not known to be closed", 1, 0, []Part{owner, named(), reporting(its(NotReady(nil)))}},
		{"an attachment of it", 1, 0, []Part{owner, named(), reporting(attached("b", nil))}},
		{"an attachment that may be anybody's", 1, 0, []Part{owner, named(), reporting(attached("", Open))}},
		{"the pod is a minute old", 1, 0, []Part{owner, named(MadeAgo(time.Minute)), reporting()}},
		{"the pod is younger than the report", 1, 0, []Part{owner, named(MadeAgo(5 * time.Second)), reporting()}},
		{"the report of its node is stale", 1, 0, []Part{owner, named(), StaleReport("worker-2")}},
		{"its node has no report", 1, 0, []Part{owner, named()}},
		{"there are no agents", 1, 0, []Part{Pod("a", Carrying("10.0.0.5")), named()}},

		// the network-status of a terminating pod stays until it is deleted
		{"it is deleted, and its sandbox has stopped", 0, 0, []Part{owner, named(DeletedAgo(time.Hour)),
			reporting(its(NotReady(Closed)))}},
		{"it is deleted, and its sandbox is gone", 0, 0, []Part{owner, named(DeletedAgo(time.Hour)),
			reporting(Gone("box-2", "uid-b"))}},
		{"it is deleted, and nothing shows that its sandbox ended", 0, 1, []Part{owner, named(DeletedAgo(time.Hour)),
			reporting()}},

		{"no other pod names it", 0, 0, []Part{named(), reporting()}},
		{"on another network", 0, 0, []Part{owner, named(CarryingOn("default/red", "net1", "10.0.0.5")), reporting()}},
		{"one sandbox of its is complete, another is not", 0, 0, []Part{owner, named(),
			reporting(its(WithAddress("10.0.0.9", "")), Sandbox("box-3", "uid-b", OfPod("b"), Unread))}},
		{"an earlier pod of its name has it, elsewhere", 0, 0, []Part{named(), reporting(),
			FreshReport("worker-1", Sandbox("box-1", "uid-a", OfPod("b"), with5))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			parts := append([]Part{cluster}, c.parts...)
			conflicts, information := FindingsOf(findings.Conflict, parts...), FindingsOf(findings.StatusMismatch, parts...)
			if len(conflicts) != c.conflicts || len(information) != c.information {
				t.Errorf("%+v\n%+v\nwant %d and %d", conflicts, information, c.conflicts, c.information)
			}
		})
	}
	t.Run("it names the pod, and who has the address", func(t *testing.T) {
		f := FindingsOf(findings.StatusMismatch, cluster, owner, named(), reporting())[0]
		if f.IP != "10.0.0.5" || !slices.Equal(f.Pods, []string{"default/b"}) || f.Pool != "kube-system/10.0.0.0-24" ||
			!strings.HasSuffix(f.Message, "carried by default/a") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a stale entry is held because of it as before", func(t *testing.T) {
		it := AllocationOf(t, Judged(Observe(cluster, named(), reporting(), FreshReport("worker-1", Gone("box-1", UsualUID))),
			facts.Policy{}), "10.0.0.5")
		if it.Verdict != judge.Held || it.Reason != judge.ClaimedByOther {
			t.Errorf("got %v", RulingOf(it))
		}
	})
}

// A reservation is written only if it is certain that ADDs of the network reserve. Others skip what is reserved, and a
// DEL of a network without overlapping ranges removes none.
func TestMissingReservation_IsWritten(t *testing.T) {
	off, elsewhere := `"enable_overlapping_ranges":false`, WhereaboutsConfig("10.9.0.0/24", "")
	// Another unnamed network whose addresses are reserved.
	wide := All(Pool("10.0.0.0-16", "10.0.0.0/16", Alloc("9", "default/n", "box-9", "net1")),
		Reservation("10.0.0.9", "default/n", LongAgo), NAD("wide", WhereaboutsConfig("10.0.0.0/16", "")))
	phantom := All(UsualPool, ReportingWorker(Sandbox("box-1", UsualUID,
		AddressIn("10.0.0.5", "net1", "10.0.0.0/24", ""))))
	use := All(phantom, carrier)
	const unwritten, found, written = 0, 1, 2
	for _, c := range []struct {
		says  string
		want  int
		why   string
		parts []Part
	}{
		{"its definition reserves", written, "", []Part{use, here, wide}},
		{"its definition has another range by now, and reserves", written, "", []Part{use, wide, NAD("wb", elsewhere)}},
		{"its definition does not", unwritten, "", []Part{use, wide, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", off))}},
		{"its definition has another range by now, and does not", unwritten, "", []Part{use, wide,
			NAD("wb", WhereaboutsConfig("10.9.0.0/24", "", off))}},
		{"its definition does not, and somebody has written another one that does", unwritten, "", []Part{use, here,
			NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", off)), NAD("tenant", WhereaboutsConfig("10.0.0.0/24", ""))}},
		{"its definition is gone", found, "no readable definition says whether", []Part{use, wide}},
		{"its definition cannot be read", found, "no readable definition says whether", []Part{use, wide, NAD("wb", "{")}},
		{"its pod is unknown, and the definition of its range reserves", written, "", []Part{phantom, here}},
		{"its pod is unknown, and definitions of its range differ", found, "differ in enable_overlapping_ranges",
			[]Part{phantom, here, NAD("tenant", WhereaboutsConfig("10.0.0.0/24", "", off))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			got, why := unwritten, ""
			for _, f := range FindingsOf(findings.MissingReservation, c.parts...) {
				if f.IP == "10.0.0.5" {
					if got, why = found, f.Message; f.Repair != nil {
						got = written
					}
				}
			}
			if got != c.want || !strings.Contains(why, c.why) {
				t.Errorf("got %d, want %d: %s", got, c.want, why)
			}
		})
	}
}

func TestMissingReservation(t *testing.T) {
	use := All(UsualPool, carrier, ReportingWorker())
	// Another allocation of the network, that has its reservation.
	neighbour := All(Pool("10.0.0.0-16", "10.0.0.0/16", Alloc("9", "default/n", "box-9", "net1")), Reservation("10.0.0.9",
		"default/n", LongAgo))
	expectFindings(t, findings.MissingReservation, []findingCase{
		{"its network uses overlapping ranges by default", 1, []Part{use, here}},
		{"its network says that it uses them", 1,
			[]Part{use, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges":true`))}},
		{"its network says that it does not", 0,
			[]Part{use, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges":false`))}},
		{"its network says that it does not, whatever others have", 0, []Part{use, neighbour,
			NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges":false`))}},
		{"no definition, and other allocations have theirs", 1, []Part{use, neighbour}},
		{"an unreadable definition, and other allocations have theirs", 1, []Part{use, neighbour, NAD("wb", "{")}},
		{"no definition, and no other allocation has one", 0, []Part{use}},
		{"no definition, and only those of another network have theirs", 0, []Part{use,
			Pool("red-10.0.0.0-16", "10.0.0.0/16", Alloc("9", "default/n", "box-9", "net1")), Reservation("red-10.0.0.9",
				"default/n", LongAgo)}},
		{"it has its reservation", 0, []Part{use, here, Reservation("10.0.0.5", "default/web-0", LongAgo)}},
		{"another pod has the reservation", 1, []Part{use, here, Reservation("10.0.0.5", "default/web-9", LongAgo)}},
		{"the reservation is another network's", 1, []Part{use, here, Reservation("red-10.0.0.5", "default/web-0", LongAgo)}},
		{"the allocation is held", 0, []Part{UsualPool, here, ReportingWorker(Sandbox("box-1", UsualUID))}},
		{"the allocation is stale", 0, []Part{UsualSandboxGone, here}},
	})
}

// The name of a slice's pool admits two networks: "worker-1-10.0.0.0-28" may be of a network "worker-1".
func TestMissingReservation_OfANodeSlice(t *testing.T) {
	carried := All(ThreeNodes(), carrier, FreshReport("worker-1", box1))
	slice := All(sliceOf("worker-1", UsualAllocation), carried)
	for name, c := range map[string]struct {
		want  string // the reservation that is created; "" for none
		parts []Part
	}{
		"of the unnamed network": {"10.0.0.5", []Part{slice, Sliced("")}},
		"of a named network": {"red-10.0.0.5", []Part{Sliced("red"), carried,
			Pool("red-worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation)}},
		"another network has a reservation of the address": {"red-10.0.0.5", []Part{Sliced("red"), Sliced(""), carried,
			Pool("red-worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation),
			Reservation("10.0.0.5", "default/web-0", time.Hour)}},
		"no slice, in the range of a network with slices": {"red-10.0.0.5", []Part{Sliced(""), carried,
			Pool("red-10.0.0.0-26", "10.0.0.0/26", UsualAllocation), NAD("whole", WhereaboutsConfig("10.0.0.0/26", "red"))}},
		"no slice, of the size of another network's slices": {"red-10.0.0.5", []Part{Sliced(""), carried,
			Pool("red-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), NAD("whole", WhereaboutsConfig("10.0.0.0/28", "red"))}},
		"a network has the name of the node": {"", []Part{slice, Sliced(""), NAD("whole", WhereaboutsConfig("10.0.0.0/28",
			"worker-1"))}},
	} {
		found := FindingsOf(findings.MissingReservation, c.parts...)
		if len(found) != 1 || found[0].CanRepair() != (c.want != "") ||
			c.want != "" && found[0].Repair.NewReservation().Name != c.want {
			t.Errorf("%s: got %+v", name, found)
		}
	}
}

func TestANodeWithoutAFreshReportIsAFinding(t *testing.T) {
	expectFindings(t, findings.NoFreshReportFinding, []findingCase{
		{"a node without a fresh report", 1, []Part{UsualPool, Node("worker-1"), StaleReport("worker-1")}},
		{"a node without any report", 1, []Part{UsualPool, ReportingWorker(), Node("worker-2")}},
		{"two nodes", 2, []Part{UsualPool, Node("worker-1"), Node("worker-2"), StaleReport("worker-1")}},
		{"all have fresh reports", 0, []Part{UsualPool, ReportingWorker()}},
		{"a node without any report that holds nothing", 1, []Part{ReportingWorker(), Node("worker-2")}},
		{"a node that need not report", 0, []Part{ReportingWorker(), Node("worker-2", WithoutAgent)}},
		{"no agents", 0, []Part{UsualPool, Node("worker-1")}},
		{"a node without a fresh report that holds nothing", 1, []Part{UsualPool, ReportingWorker(Sandbox("box-1", UsualUID)),
			Node("worker-2"), StaleReport("worker-2")}},
		{"no allocations", 1, []Part{Node("worker-1"), StaleReport("worker-1")}},
	})
	t.Run("it says how many", func(t *testing.T) {
		f := FindingsOf(findings.NoFreshReportFinding, Node("worker-1"), StaleReport("worker-1"),
			Pool("10.0.0.0-24", "10.0.0.0/24",
				UsualAllocation, Alloc("6", "default/web-1", "box-2", "net1"), Alloc("7", "default/web-2", "box-3", "net1")))[0]
		if f.Node != "worker-1" || !strings.Contains(f.Message, "3 allocations") {
			t.Errorf("got %+v", f)
		}
	})
}

// B1, B3, B4: what cannot be read is a finding, and the rest is judged.
func TestMalformedIsAFindingAndStopsNothing(t *testing.T) {
	good := All(UsualPool, ReportingWorker(Sandbox("box-1", UsualUID)), UsualPod())
	bad := Pool("bad", "10.0.0.0", Alloc("1", "default/x", "box-x", "net1"))
	expectFindings(t, findings.MalformedFinding, []findingCase{
		{"a pool without a range that can be read", 1, []Part{good, bad}},
		{"an allocation without podref", 1, []Part{good, Pool("10.1.0.0-24", "10.1.0.0/24",
			Alloc("1", "", "box-x", "net1"))}},
		{"an allocation with a key outside of the range", 1, []Part{good, Pool("10.1.0.0-24", "10.1.0.0/24",
			Alloc("999", "default/x", "box-x", "net1"))}},
		{"a reservation without podref", 1, []Part{good, Reservation("10.0.0.7", "", LongAgo)}},
		{"a reservation under no pool", 1, []Part{good, Reservation("10.77.0.7", "default/x", LongAgo)}},
		{"an object that could not be read", 1,
			[]Part{good, func(o *Observed) { o.Unreadable = []string{"Pod x: not an object"} }}},
		{"a field that is not known", 0, []Part{good, RawPool("10.1.0.0-24", map[string]any{"range": "10.1.0.0/24",
			"allocations": map[string]any{
				"1": map[string]any{"id": "x", "podref": "default/x", "ifname": "net1", "ipamclaimref": "c"}}})}},
		{"nothing", 0, []Part{good}},
	})
	for _, order := range [][]Part{{bad, good}, {good, bad}} {
		if it := AllocationOf(t, Judged(Observe(order...), facts.Policy{}), "10.0.0.5"); it.Reason != judge.SandboxReady {
			t.Errorf("a pool that cannot be read stops another: %v", RulingOf(it))
		}
	}
}

func TestAnAllocationSharesTheVerdictOfNoOther(t *testing.T) {
	j := Judged(Observe(UsualPool, carrier, ReportingWorker(Sandbox("box-1", UsualUID)),
		Reservation("10.0.0.5", "default/web-0", LongAgo)), facts.Policy{})
	allocation, reservation := j.Allocations[0], j.Reservations[0]
	if allocation.SharesVerdictOf() != nil || reservation.SharesVerdictOf() != allocation {
		t.Errorf("the allocation shares that of %v, the reservation that of %v", allocation.SharesVerdictOf(),
			reservation.SharesVerdictOf())
	}
}

// Sandboxes on isolated networks and on unknown ones are joined in one order.
func TestConflict_TheSameAgain(t *testing.T) {
	o := Observe(NewRandom(1483, 77).Cluster()...)
	first := DescribeFindings(Judged(o, facts.Policy{}).Findings)
	for range 100 { // the order of a map differs in one of ten
		if again := DescribeFindings(Judged(o, facts.Policy{}).Findings); !slices.Equal(again, first) {
			t.Fatalf("got %s\nand %s", again, first)
		}
	}
}
