package reconciler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

type findingCase struct {
	says  string
	want  int
	parts []part
}

func expectFindings(t *testing.T, kind judge.Kind, cases []findingCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.says, func(t *testing.T) {
			found := findingsIn(kind, c.parts...)
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
	worker := aNode("worker-1")
	box7 := func(uid string, edits ...boxEdit) content { return box("box-7", uid, edits...) }
	expectFindings(t, judge.Phantom, []findingCase{
		{"a running sandbox whose pod the API does not have", 1, []part{worker, freshReport("worker-1", box7(its1))}},
		{"a running sandbox of an earlier pod of that name", 1, []part{worker, web(), freshReport("worker-1", box7(others))}},
		{"its pod is there", 0, []part{worker, web(), freshReport("worker-1", box7(its1))}},
		{"its pod is there, finished", 0, []part{worker, succeeded.pod, freshReport("worker-1", box7(its1))}},
		{"its pod is there, as a mirror", 0, []part{worker, web(uid("mirror"), mirrorOf(its1)), freshReport("worker-1", box7(its1))}},
		{"a pod of that name in another namespace", 1, []part{worker, web(inNamespace("blue")), freshReport("worker-1", box7(its1))}},
		{"no UID, and a pod of that name", 0, []part{worker, web(), freshReport("worker-1", box7(""))}},
		{"not ready", 0, []part{worker, freshReport("worker-1", box7(its1, notReady(nil)))}},
		{"in a stale report", 0, []part{worker, staleReport("worker-1", box7(its1))}},
		{"an attachment", 0, []part{worker, freshReport("worker-1", attachment("box-7", its1, time.Hour, open))}},
		{"59 s old", 0, []part{worker, freshReport("worker-1", box7(its1, createdAgo(59*time.Second)), observedAgo(0))}},
		{"61 s old", 1, []part{worker, freshReport("worker-1", box7(its1, createdAgo(61*time.Second)), observedAgo(0))}},
		{"30 s old when it was observed", 0, []part{worker, freshReport("worker-1", box7(its1, createdAgo(90*time.Second)), observedAgo(time.Minute))}},
	})
	t.Run("it says the node, the addresses and that no pool records them", func(t *testing.T) {
		f := findingsIn(judge.Phantom, worker, aPool("10.0.0.0-24", "10.0.0.0/24"), freshReport("worker-1", box7(its1, holding("10.0.0.5", ""))))[0]
		if f.Node != "worker-1" || f.IP != "10.0.0.5" || f.Pool != "" || !slices.Equal(f.Pods, []string{"default/web-0"}) || !slices.Equal(f.ContainerIDs, []string{"box-7"}) {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("it says which pool records its address", func(t *testing.T) {
		f := findingsIn(judge.Phantom, worker, usualPool, freshReport("worker-1", box("box-1", its1, holding("10.0.0.5", ""))))[0]
		if f.Pool != "kube-system/10.0.0.0-24" || strings.Contains(f.Message, "no pool records") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a pool records it, in an entry with a field that is not known", func(t *testing.T) {
		f := findingsIn(judge.Phantom, worker, freshReport("worker-1", box("box-1", its1, holding("10.0.0.5", ""))),
			rawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
				"5": map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1", "ipamclaimref": "claim"}}}))[0]
		if f.Pool != "kube-system/10.0.0.0-24" {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a successor of its name took the entry over: no pool records it", func(t *testing.T) {
		f := findingsIn(judge.Phantom, worker, web(), usualPool, freshReport("worker-1", box("box-1", its1, holding("10.0.0.5", "")), box("box-0", others, holding("10.0.0.5", ""))))
		if len(f) != 1 || f[0].Pool != "" || f[0].ContainerIDs[0] != "box-0" {
			t.Errorf("got %+v", f)
		}
	})
}

func TestConflict(t *testing.T) {
	here := aNAD("wb", whereabouts("10.0.0.0/24", ""))
	a, b := aPod("a", carrying("10.0.0.5")), aPod("b", carrying("10.0.0.5"))
	bBy := func(nad string, edits ...podEdit) part {
		return aPod("b", append([]podEdit{attached(nad, "net1", "10.0.0.5")}, edits...)...)
	}
	worker := all(aNode("worker-1"), aNode("worker-2"))
	one := freshReport("worker-1", box("box-1", "uid-a", of("a"), holding("10.0.0.5", "")))
	wb := here
	here = all(usualPool, here)
	expectFindings(t, judge.Conflict, []findingCase{
		{"two pods carry one address in one network", 1, []part{here, a, b}},
		{"two definitions of one network", 1, []part{here, aNAD("wb2", whereabouts("10.0.0.0/16", "")), a, bBy("default/wb2")}},
		{"two spellings of one address", 1, []part{here, a, aPod("b", carrying("::ffff:a00:5"))}},
		{"one of them is terminating", 1, []part{here, a, bBy("default/wb", deletedAgo(time.Hour))}},
		{"one of them is finished", 0, []part{here, a, bBy("default/wb", phaseIs("Failed"))}},
		{"two networks", 0, []part{here, aNAD("red", whereabouts("10.0.0.0/24", "red")), a, bBy("default/red")}},
		{"a definition that is gone", 0, []part{a, b}},
		{"one definition that cannot be read", 0, []part{here, aNAD("bad", "{"), a, bBy("default/bad")}},
		{"a definition of another IPAM", 0, []part{aNAD("wb", `{"ipam":{"type":"host-local"}}`), a, b}},
		{"two addresses", 0, []part{here, a, aPod("b", carrying("10.0.0.6"))}},
		{"two interfaces of one pod", 0, []part{here, aPod("a", status(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]},{"name":"default/wb","interface":"net2","ips":["10.0.0.5"]}]`))}},
		{"only podIPs", 0, []part{here, aPod("a", podIPs("10.0.0.5")), aPod("b", podIPs("10.0.0.5"))}},
		{"the definition was edited to another range since", 1, []part{usualPool, aNAD("wb", whereabouts("10.9.0.0/24", "")), a, b}},
		{"two running sandboxes", 1, []part{worker, one, freshReport("worker-2", box("box-2", "uid-b", of("b"), holding("10.0.0.5", "")))}},
		{"two running sandboxes of one node", 1, []part{worker, freshReport("worker-1",
			box("box-1", "uid-a", of("a"), holding("10.0.0.5", "")), box("box-2", "uid-b", of("b"), holding("10.0.0.5", "")))}},
		{"two running sandboxes of one pod", 1, []part{worker, one, freshReport("worker-2", box("box-2", "uid-a", of("a"), holding("10.0.0.5", "")))}},
		{"one of the sandboxes is not ready", 0, []part{worker, one, freshReport("worker-2", box("box-2", "uid-b", of("b"), holding("10.0.0.5", ""), notReady(nil)))}},
		{"one of the reports is stale", 0, []part{worker, one, staleReport("worker-2", box("box-2", "uid-b", of("b"), holding("10.0.0.5", "")))}},
		{"two networks of sandboxes", 0, []part{worker, one, freshReport("worker-2", box("box-2", "uid-b", of("b"), holding("10.0.0.5", "red")))}},
		{"one sandbox that has it twice", 0, []part{worker, freshReport("worker-1", box("box-1", "uid-a", of("a"), holding("10.0.0.5", ""), holding("10.0.0.5", "")))}},
	})
	t.Run("it names both, and nothing is freed because of it", func(t *testing.T) {
		pool := aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/a", "box-1", "net1"})
		j := judged(observe(pool, wb, a, b), judge.Policy{})
		if it := allocation(t, j, "10.0.0.5"); it.Verdict != judge.InUse {
			t.Errorf("got %v", outcomeOf(it))
		}
		f := findingsIn(judge.Conflict, pool, wb, a, b)[0]
		if f.IP != "10.0.0.5" || !slices.Equal(f.Pods, []string{"default/a", "default/b"}) || f.Pool != "kube-system/10.0.0.0-24" {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("it names both sandboxes", func(t *testing.T) {
		f := findingsIn(judge.Conflict, worker, one, freshReport("worker-2", box("box-2", "uid-b", of("b"), holding("10.0.0.5", ""))))[0]
		slices.Sort(f.ContainerIDs)
		if !slices.Equal(f.ContainerIDs, []string{"box-1", "box-2"}) || !slices.Equal(f.Pods, []string{"default/a", "default/b"}) {
			t.Errorf("got %+v", f)
		}
	})
}

func TestMissingReservation(t *testing.T) {
	use := all(usualPool, carrier.pod, onWorker())
	here := aNAD("wb", whereabouts("10.0.0.0/24", ""))
	// Another allocation of the network, that has its reservation.
	neighbour := all(aPool("10.0.0.0-16", "10.0.0.0/16", alloc{"9", "default/n", "box-9", "net1"}), aReservation("10.0.0.9", "default/n", old))
	expectFindings(t, judge.MissingReservation, []findingCase{
		{"its network uses overlapping ranges by default", 1, []part{use, here}},
		{"its network says that it uses them", 1, []part{use, aNAD("wb", whereabouts("10.0.0.0/24", "", `"enable_overlapping_ranges":true`))}},
		{"its network says that it does not", 0, []part{use, aNAD("wb", whereabouts("10.0.0.0/24", "", `"enable_overlapping_ranges":false`))}},
		{"its network says that it does not, whatever others have", 0, []part{use, neighbour, aNAD("wb", whereabouts("10.0.0.0/24", "", `"enable_overlapping_ranges":false`))}},
		{"no definition, and other allocations have theirs", 1, []part{use, neighbour}},
		{"an unreadable definition, and other allocations have theirs", 1, []part{use, neighbour, aNAD("wb", "{")}},
		{"no definition, and no other allocation has one", 0, []part{use}},
		{"no definition, and only those of another network have theirs", 0, []part{use,
			aPool("red-10.0.0.0-16", "10.0.0.0/16", alloc{"9", "default/n", "box-9", "net1"}), aReservation("red-10.0.0.9", "default/n", old)}},
		{"it has its reservation", 0, []part{use, here, aReservation("10.0.0.5", "default/web-0", old)}},
		{"another pod has the reservation", 1, []part{use, here, aReservation("10.0.0.5", "default/web-9", old)}},
		{"the reservation is another network's", 1, []part{use, here, aReservation("red-10.0.0.5", "default/web-0", old)}},
		{"the allocation is held", 0, []part{usualPool, here, onWorker(box("box-1", its1))}},
		{"the allocation is stale", 0, []part{goneBox, here}},
	})
}

func TestSilentNode(t *testing.T) {
	expectFindings(t, judge.NoFreshReportFinding, []findingCase{
		{"a node without a fresh report", 1, []part{usualPool, aNode("worker-1"), staleReport("worker-1")}},
		{"a node without any report", 1, []part{usualPool, onWorker(), aNode("worker-2")}},
		{"two nodes", 2, []part{usualPool, aNode("worker-1"), aNode("worker-2"), staleReport("worker-1")}},
		{"all are heard", 0, []part{usualPool, onWorker()}},
		{"no agents", 0, []part{usualPool, aNode("worker-1")}},
		{"a silent node that keeps nothing", 0, []part{usualPool, onWorker(box("box-1", its1)), aNode("worker-2"), staleReport("worker-2")}},
		{"no allocations", 0, []part{aNode("worker-1"), staleReport("worker-1")}},
	})
	t.Run("it says how many", func(t *testing.T) {
		f := findingsIn(judge.NoFreshReportFinding, aNode("worker-1"), staleReport("worker-1"), aPool("10.0.0.0-24", "10.0.0.0/24",
			usual, alloc{"6", "default/web-1", "box-2", "net1"}, alloc{"7", "default/web-2", "box-3", "net1"}))[0]
		if f.Node != "worker-1" || !strings.Contains(f.Message, "3 allocations") {
			t.Errorf("got %+v", f)
		}
	})
}

func TestMalformedIsAFindingAndStopsNothing(t *testing.T) {
	good := all(usualPool, onWorker(box("box-1", its1)), web())
	bad := aPool("bad", "10.0.0.0", alloc{"1", "default/x", "box-x", "net1"})
	expectFindings(t, judge.MalformedFinding, []findingCase{
		{"a pool without a range that can be read", 1, []part{good, bad}},
		{"an entry without podref", 1, []part{good, aPool("10.1.0.0-24", "10.1.0.0/24", alloc{"1", "", "box-x", "net1"})}},
		{"an entry with a key outside of the range", 1, []part{good, aPool("10.1.0.0-24", "10.1.0.0/24", alloc{"999", "default/x", "box-x", "net1"})}},
		{"a reservation without podref", 1, []part{good, aReservation("10.0.0.7", "", old)}},
		{"a reservation under no pool", 1, []part{good, aReservation("10.77.0.7", "default/x", old)}},
		{"an object that could not be read", 1, []part{good, func(o *observed) { o.Unreadable = []string{"Pod x: not an object"} }}},
		{"a field that is not known", 0, []part{good, rawPool("10.1.0.0-24", map[string]any{"range": "10.1.0.0/24", "allocations": map[string]any{
			"1": map[string]any{"id": "x", "podref": "default/x", "ifname": "net1", "ipamclaimref": "c"}}})}},
		{"nothing", 0, []part{good}},
	})
	for _, order := range [][]part{{bad, good}, {good, bad}} {
		if it := allocation(t, judged(observe(order...), judge.Policy{}), "10.0.0.5"); it.Reason != judge.SandboxReady {
			t.Errorf("a pool that cannot be read stops another: %v", outcomeOf(it))
		}
	}
}
