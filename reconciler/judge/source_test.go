package judge_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Nodes that cannot be listed, or whose list is empty beside pods that are bound, hold what any node may run.
func TestNodesUnknown(t *testing.T) {
	other := Pod("web-1", Carrying("10.0.0.6"))
	for says, unknown := range map[string]Part{
		"forbidden":                        NodesUnknown,
		"empty, and a pod is bound to one": NoNodes,
	} {
		for cluster, c := range map[string]struct {
			parts  Part
			reason judge.Reason
		}{
			"without agents":               {Nothing, judge.NodesUnknown},
			"with agents":                  {FreshReport("worker-1"), judge.NodesUnknown},
			"a fresh report names the end": {FreshReport("worker-1", gone1), judge.PodGone},
			"kubelet stopped the pod":      {UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Hour)), judge.PodFinished},
			"kubelet stopped it, and there are agents": {All(UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Hour)),
				StaleReport("worker-1")), judge.NodesUnknown},
		} {
			t.Run(says+", "+cluster, func(t *testing.T) {
				j := Judged(Observe(UsualPool, other, c.parts, unknown), facts.Policy{UnreachableNodeTimeout: time.Second})
				it := AllocationOf(t, j, "10.0.0.5")
				if it.Reason != c.reason || (it.Verdict == judge.Held) != (c.reason == judge.NodesUnknown) {
					t.Error(Wrong(it, c.reason))
				}
				if it.Verdict == judge.Held && (it.IsUndetermined() || !it.CanBeOverridden()) {
					t.Error("it counts as waiting, or a person cannot override it")
				}
				if !strings.Contains(strings.Join(j.Notes(), " "), "nodes") {
					t.Errorf("no note names the source: %q", j.Notes())
				}
			})
		}
	}
}

// A node that had to report leaves by evidence only.
func TestExpectedNodes(t *testing.T) {
	both := All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1"))
	before := afterPassOver(UsualPool, both)
	for says, c := range map[string]struct {
		now  Part
		want judge.Reason
	}{
		"its Node object is gone": {Node("worker-1"), judge.NodeMissingReason},
		"its label for the system is gone": {All(Node("worker-1"), Node("worker-2", WithoutLabel("kubernetes.io/os"))),
			judge.NoFreshReportReason},
		"its label names another system": {All(Node("worker-1"), Node("worker-2", Label("kubernetes.io/os", "windows"))),
			judge.PodGone},
		"it is there, and does not report": {both, judge.NoFreshReportReason},
		"it reports":                       {All(Node("worker-1"), ReportingNode("worker-2")), judge.PodGone},
	} {
		t.Run(says, func(t *testing.T) {
			it := usualIn(t, UsualPool, before, FreshReport("worker-1"), c.now)
			if it.Reason != c.want {
				t.Error(Wrong(it, c.want))
			}
		})
	}
}

// A virt-launcher pod whose machine was not read may have any address of its networks.
func TestGuestUnknown(t *testing.T) {
	launcher := Pod("launcher-2", UID("uid-b"), Launcher("vmi-1", ""), Carrying("10.0.0.9"))
	unread := func(g *podstate.Guest) { g.IsUnread = true }
	for says, c := range map[string]struct {
		parts Part
		want  judge.Reason
	}{
		"forbidden":                     {GuestsUnknown, judge.GuestUnknown},
		"it is not among those read":    {Guest("other", "default/wb", "10.0.0.7"), judge.GuestUnknown},
		"none was read":                 {Nothing, judge.GuestUnknown},
		"it does not report interfaces": {GuestOf("vmi-1", "10.0.0.9", unread), judge.GuestUnknown},
		"its guest has another address": {GuestOf("vmi-1", "10.0.0.9"), judge.PodGone},
		"its guest has the address":     {GuestOf("vmi-1", "10.0.0.5"), judge.GuestAddress},
		"another namespace's machine": {All(GuestsUnknown, Pod("launcher-3", InNamespace("tenant"), UID("uid-c"),
			Launcher("vmi-2", ""), Carrying("10.0.0.8"))), judge.PodGone},
		"the machine's pod has finished": {All(GuestsUnknown,
			Pod("launcher-2", Launcher("vmi-1", ""), Phase("Succeeded"))), judge.PodGone},
	} {
		t.Run(says, func(t *testing.T) {
			parts := []Part{UsualSandboxGone, wb, launcher, c.parts}
			if strings.Contains(says, "namespace") {
				parts = []Part{UsualSandboxGone, wb, c.parts}
			}
			it := usualIn(t, parts...)
			if it.Reason != c.want || (it.Verdict == judge.Stale) != (c.want == judge.PodGone) {
				t.Error(Wrong(it, c.want))
			}
		})
	}
}

// A running pod without a readable network-status may carry an address of the networks that it requests.
func TestUnreadPods(t *testing.T) {
	nad := All(wb, NAD("red", WhereaboutsConfig("10.0.0.0/24", "red")), NAD("far", WhereaboutsConfig("10.9.0.0/24", "")))
	asks := func(networks string) PodEdit {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": networks}
		}
	}
	for says, c := range map[string]struct {
		parts Part
		want  judge.Reason
	}{
		"it requests the network":       {Pod("web-1", asks("wb")), judge.ClaimedByOther},
		"its definition does not exist": {Pod("web-1", asks("gone")), judge.PodGone},
		"it requests another network":   {Pod("web-1", asks("red")), judge.PodGone},
		"it requests another range":     {Pod("web-1", asks("far")), judge.PodGone},
		"it requests none":              {Pod("web-1", NoNetworkStatus), judge.PodGone},
		"it has not started":            {Pod("web-1", asks("wb"), Phase("Pending")), judge.PodGone},
		"it has finished":               {Pod("web-1", asks("wb"), Phase("Failed")), judge.PodGone},
		"a fresh report has all its addresses": {All(Pod("web-1", UID("uid-9"), asks("wb")), FreshReport("worker-1",
			Sandbox("box-9", "uid-9", OfPod("web-1"), WithAddress("10.0.0.9", "")), gone1)), judge.PodGone},
		"a fresh report does not have it": {All(Pod("web-1", UID("uid-9"), asks("wb")), FreshReport("worker-1",
			gone1)), judge.PodGone},
	} {
		t.Run(says, func(t *testing.T) {
			it := usualIn(t, UsualPool, nad, Node("worker-1"), c.parts)
			if it.Reason != c.want {
				t.Error(Wrong(it, c.want))
			}
		})
	}
}

// A pod whose node is missing from the files may run: what it may carry, or its guest, is held.
func TestUnreadPodWithoutItsNode(t *testing.T) {
	lacksNode := func(o *Observed) {
		p := o.Pods[PodName("web-1")]
		p.Node, p.Contradiction = "", "spec.nodeName is missing"
	}
	for says, c := range map[string]struct {
		pod  Part
		want judge.Reason
	}{
		"no network-status": {Pod("web-1", NoNetworkStatus, Requesting("wb")), judge.ClaimedByOther},
		"unknown guest":     {Pod("web-1", Launcher("vmi-1", ""), Carrying("10.0.0.9")), judge.GuestUnknown},
	} {
		t.Run(says, func(t *testing.T) {
			j := Judged(Observe(UsualPool, wb, Node("worker-1"), c.pod, lacksNode), facts.Policy{})
			it := AllocationOf(t, j, "10.0.0.5")
			if it.Reason != c.want {
				t.Error(Wrong(it, c.want))
			}
		})
	}
}

// One pod with several unknown networks does not hide the others.
func TestUnreadPods_SeveralUnknownNetworksOfOne(t *testing.T) {
	own := UsualPod(UID("uid-2"), NoNetworkStatus, Requesting("gone,lost"), DeletedAgo(time.Hour))
	other := Pod("web-1", NoNetworkStatus, Requesting("gone"))
	gone := FreshReport("worker-2", gone1)
	dead := Node("worker-1", OutOfService, NotReadyFor(time.Hour))
	broken := All(NAD("gone", `{"plugins":`), NAD("lost", `{"plugins":`))
	o := Observe(UsualPool, broken, dead, Node("worker-2"), own, other, gone)
	it := AllocationOf(t, Judged(o, facts.Policy{}), "10.0.0.5")
	if it.Reason != judge.ClaimedByOther {
		t.Error(Wrong(it, judge.ClaimedByOther))
	}
}

// Without a definition the pool's name says which node's slice it may be: one node does not speak for that node.
func TestASliceWithoutItsDefinition(t *testing.T) {
	pool := Pool("worker-2-10.0.0.0-28", "10.0.0.0/28", Alloc("5", "default/web-0", "box-1", "net1"))
	lies := All(pool, Node("worker-1"), Node("worker-2"), FreshReport("worker-1", gone1))
	for says, c := range map[string]struct {
		parts  Part
		proven bool
		want   judge.Verdict
	}{
		"defined":               {Sliced(""), false, judge.Held},
		"not defined":           {Nothing, false, judge.Held},
		"its definition broken": {NAD("sliced", `{"plugins":`), false, judge.Held},
		"its node reports, too": {FreshReport("worker-2"), false, judge.Stale},
		"all of a network named like the node": {NAD("named", WhereaboutsConfig("10.0.0.0/28", "worker-2")),
			true, judge.Stale},
	} {
		t.Run(says, func(t *testing.T) {
			it := usualIn(t, lies, c.parts)
			if it.Verdict != c.want || it.Proven != c.proven {
				t.Error(Wrong(it, c.want))
			}
		})
	}
}

// Agents exist if one has a Lease, also where no report can be listed any more.
func TestAgentLeasesShowThatThereAreAgents(t *testing.T) {
	hasLease := func(o *Observed) { o.AgentLeases = facts.Complete(true, "1") }
	Expect(t, unreported, UsualPool, Node("worker-1"), hasLease)
}

func TestUnknownSources_OnlyThoseThatSomethingDependsOn(t *testing.T) {
	none := &facts.Observation{}
	names := func(o *facts.Observation) (all []facts.SourceName) {
		for _, s := range o.UnknownSources() {
			all = append(all, s.Name)
		}
		return all
	}
	if got := names(none); len(got) != 4 {
		t.Errorf("nothing was read: %v, want nodes, definitions, reports and reservations", got)
	}
	if got := names(Observe(UsualPool).Observation); len(got) != 0 {
		t.Errorf("all was read: %v", got)
	}
	o := Observe(ClaimedPool, IPAMClaimsUnread("forbidden"), GuestsUnknown, Pod("launcher", Launcher("vmi-1", "")))
	if got := names(o.Observation); len(got) != 2 {
		t.Errorf("claims and guests that something depends on: %v", got)
	}
}

// Each kind of findings but those that rest on what must be read is of a source.
func TestUnknownKinds(t *testing.T) {
	if kinds := findings.UnknownKinds(Observe(UsualPool).Observation); len(kinds) > 0 {
		t.Errorf("all sources are known, but not %v", kinds)
	}
	found := map[findings.Kind]bool{}
	for _, s := range Observe().Sources() {
		for _, kind := range findings.KindsOf(s.Name) {
			found[kind] = true
		}
	}
	for _, kind := range findings.Kinds() {
		if !found[kind] && kind != findings.UnsupportedRangeFinding { // it rests on IPPools alone
			t.Errorf("%s is of no source", kind)
		}
	}
	o := Observe(UsualPool)
	o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden"))
	if kinds := findings.UnknownKinds(o.Observation); !slices.Equal(kinds, []findings.Kind{findings.Unrecorded,
		findings.MissingReservation}) {
		t.Errorf("reservations are unknown, and so are %v", kinds)
	}
}

// A node without a Node object may run on and report. While it is unknown who reports, its end is unknown, too.
func TestSources_MissingNodeWhileReportsAreUnknown(t *testing.T) {
	runs := Sandbox("box-1", UsualUID, with5)
	cluster := All(Node("worker-2"), FreshReport("worker-2"))
	reporting, expired := FreshReport("worker-1", runs), StaleReport("worker-1", runs, RenewedAt(Now.Add(-time.Hour)))
	leasesUnknown := func(o *Observed) {
		o.AgentLeases = facts.Unknown[bool](errors.New("forbidden"))
		var reports []*podstate.Report
		for _, r := range o.Reports.Or(nil) {
			r = r.WithLease(nil)
			r.WrittenAt = Now.Add(-time.Hour)
			reports = append(reports, r)
		}
		o.Reports = o.Reports.With(reports)
	}
	Expect(t, Want(judge.Held, judge.PhantomPod, false, judge.Ready), UsualPool, cluster, reporting)
	Expect(t, Want(judge.Stale, judge.NodeMissingReason, false, judge.NodeMissing), UsualPool, cluster, expired)
	Expect(t, unreported, UsualPool, cluster, reporting, leasesUnknown)
	Expect(t, unreported, UsualPool, cluster, reporting, UsualPod(DeletedAgo(0)), ReportsUnknown("forbidden"))
	// The allocation names another sandbox, and the one that carries the address is on the missing node.
	it := usualIn(t, Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-9", "box-9", "net1")),
		cluster, expired, leasesUnknown)
	if e := it.Evidence(); it.Verdict != judge.Held || e.Rival == "" {
		t.Errorf("%v, by %+v", RulingOf(it), e)
	}
}
