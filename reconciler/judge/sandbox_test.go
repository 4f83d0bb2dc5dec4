package judge_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// stateIn judges the usual allocation, with no pod by its name, and returns what is known of its sandbox.
func stateIn(t *testing.T, policy facts.Policy, parts ...Part) judge.Sandbox {
	t.Helper()
	return AllocationOf(t, Judged(Observe(append([]Part{UsualPool}, parts...)...), policy), "10.0.0.5").Evidence().Sandbox
}

type stateCase struct {
	says  string
	want  judge.Sandbox
	parts []Part
}

func expectStates(t *testing.T, cases []stateCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.says+": "+c.want.String(), func(t *testing.T) {
			if got := stateIn(t, facts.Policy{}, c.parts...); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// What TestVerdictTable has of each state is not repeated here.
func TestWhatAFreshReportSays(t *testing.T) {
	report := func(c ...ReportEdit) []Part { return []Part{Node("worker-1"), FreshReport("worker-1", c...)} }
	rebooted := func(p Part) []Part { return []Part{Node("worker-1", Booted("boot-2")), p} }
	dead := func(p Part) []Part { return []Part{dead1, p} }
	expectStates(t, []stateCase{
		{"listed as READY, whatever the report has about its namespace", judge.Ready,
			report(Sandbox("box-1", UsualUID, func(b *v1alpha1.Sandbox) { b.NetworkClosed = Closed }))},
		{"listed as NOTREADY with its namespace open", judge.NotReady, report(Sandbox("box-1", UsualUID, NotReady(Open)))},
		{"listed with a state that is neither", judge.NotReady,
			report(Sandbox("box-1", UsualUID, func(b *v1alpha1.Sandbox) { b.State, b.NetworkClosed = "Unknown", Closed }))},
		{"listed, and named as gone too", judge.Ready, report(gone1, box1)},
		{"attached, and named as gone too", judge.Attached, report(gone1, Attachment("box-1", UsualUID, time.Minute, nil))},
		{"gone, on a node that was rebooted", judge.Gone, rebooted(FreshReport("worker-1", gone1))},
		{"READY in a fresh report of a node that is out of service", judge.Ready, dead(FreshReport("worker-1", box1))},
		{"READY in a fresh report of a node that was rebooted", judge.Ready, rebooted(FreshReport("worker-1", box1))},
		{"NOTREADY in a fresh report of a node that is out of service", judge.NotReady,
			dead(FreshReport("worker-1", Sandbox("box-1", UsualUID, NotReady(nil))))},
		{"gone on one node and running on another", judge.Ready, []Part{Node("worker-1"), Node("worker-2"),
			FreshReport("worker-1", gone1), FreshReport("worker-2", box1)}},
		{"READY in a fresh report of a node whose object is missing", judge.Ready, []Part{Node("worker-2"),
			FreshReport("worker-1", box1)}},
	})
}

func TestAttachments(t *testing.T) {
	report := func(c ...ReportEdit) []Part { return []Part{Node("worker-1"), FreshReport("worker-1", c...)} }
	old, young := 16*time.Minute, 14*time.Minute
	expectStates(t, []stateCase{
		{"younger than 15 min, nothing known of its namespace", judge.Attached,
			report(Attachment("box-1", UsualUID, young, nil))},
		{"months old, nothing known of its namespace", judge.Attached,
			report(Attachment("box-1", UsualUID, 2000*time.Hour, nil))},
		{"younger than 15 min, its namespace there", judge.Attached, report(Attachment("box-1", UsualUID, young, Open))},
		{"months old, its namespace there", judge.Attached, report(Attachment("box-1", UsualUID, 2000*time.Hour, Open))},
		{"younger than 15 min, its namespace known to be closed", judge.Absent,
			report(Attachment("box-1", UsualUID, young, Closed))},
		{"older than 15 min, its namespace known to be closed", judge.Absent,
			report(Attachment("box-1", UsualUID, old, Closed))},
		{"from the future by the node's clock", judge.Attached, report(Attachment("box-1", UsualUID, -time.Hour, nil))},
		{"in a stale report, young", judge.NoFreshReport, []Part{Node("worker-1"), StaleReport("worker-1",
			Attachment("box-1", UsualUID, time.Minute, nil))}},
		// One that does not count is evidence of the node all the same.
		{"closed, on the one node with a fresh report", judge.Absent, []Part{Node("worker-1"), Node("worker-2"),
			FreshReport("worker-1", Attachment("box-1", UsualUID, young, Closed)), StaleReport("worker-2")}},
		{"closed, on a node without a fresh report, while the others are", judge.NoFreshReport, []Part{Node("worker-1"),
			Node("worker-2"),
			StaleReport("worker-1", Attachment("box-1", UsualUID, old, Closed)), FreshReport("worker-2")}},
		{"old, in the last report of a node that is out of service", judge.NodeDead, []Part{dead1,
			StaleReport("worker-1", Attachment("box-1", UsualUID, old, nil)), Node("worker-2"), FreshReport("worker-2"),
			UsualPod(OnNode("worker-2"))}},
		{"old, in a fresh report of a node that is out of service", judge.Attached,
			[]Part{dead1, FreshReport("worker-1", Attachment("box-1", UsualUID, old, nil))}},
	})
}

func TestFreshness(t *testing.T) {
	worker := Node("worker-1")
	at := func(ago time.Duration) []Part {
		return []Part{worker, ReportRenewed("worker-1", ago, box1)}
	}
	expectStates(t, []stateCase{
		{"renewed 59 s ago", judge.Ready, at(59 * time.Second)},
		{"renewed 60 s ago", judge.Ready, at(60 * time.Second)},
		{"renewed 61 s ago", judge.NoFreshReport, at(61 * time.Second)},
		{"its Lease never had the hash of this content", judge.NoFreshReport,
			[]Part{worker, ReportRenewed("worker-1", 0, box1, WithoutMatchingLease)}},
		{"renewed hours from now, so that the clocks tell nothing", judge.NoFreshReport, at(-5 * time.Hour)},
		{"gone in a stale report", judge.NoFreshReport, []Part{worker, StaleReport("worker-1", gone1)}},
		{"stopped in a stale report", judge.NoFreshReport, []Part{worker, StaleReport("worker-1", stopped1)}},
	})
}

func TestDeadNodes(t *testing.T) {
	last, another := StaleReport("worker-1", box1), All(Node("worker-2"), FreshReport("worker-2"))
	expectStates(t, []stateCase{
		{"out of service and Ready", judge.NoFreshReport, []Part{Node("worker-1", OutOfService), last}},
		{"not Ready for weeks, and no taint", judge.NoFreshReport, []Part{Node("worker-1", NotReadyFor(500*time.Hour)),
			last}},
		// A restore of etcd that nobody has detected may have lost a pod of the new boot that has the address.
		{"rebooted, and the API has no such pod", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-2")), last,
			another}},
		{"rebooted, and no agent has a fresh report, as when etcd has just been restored", judge.NoFreshReport,
			[]Part{Node("worker-1", Booted("boot-2")), last, Node("worker-2"), StaleReport("worker-2"),
				UsualPod(OnNode("worker-2"))}},
		{"rebooted, and its pod may be back there", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-2")), last,
			another, terminating.pod}},
		{"rebooted, and another pod of its name may be", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-2")), last,
			another, UsualPod(UID(OtherUID))}},
		{"still of the same boot", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-1")), last, another}},
		{"the report carries no bootID", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-2")),
			StaleReport("worker-1", box1, FromBoot("")), another}},
		{"the Node carries no bootID", judge.NoFreshReport, []Part{Node("worker-1", Booted("")), last, another}},
		{"rebooted, and its pod is bound to another node", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-2")),
			Node("worker-2"), FreshReport("worker-2"), last, UsualPod(OnNode("worker-2"))}},
		{"rebooted, and its pod has finished there", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-2")), last,
			another, finished.pod}},
		// The id was not there any more before the reboot: that the node has rebooted says nothing about where it runs.
		{"rebooted since a report that names the id as gone", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-2")),
			StaleReport("worker-1", gone1), another}},
		{"rebooted since a report that does not have the id", judge.NoFreshReport, []Part{Node("worker-1", Booted("boot-2")),
			StaleReport("worker-1"), another}},
		{"out of service and not Ready, and its agent reports all the same", judge.Absent,
			[]Part{dead1, FreshReport("worker-1"), terminating.pod}},
		{"without agents, the pod's node out of service", judge.NodeDead, []Part{dead1, terminating.pod}},
	})
}

func TestMissingNodes(t *testing.T) {
	last := StaleReport("worker-1", box1)
	expectStates(t, []stateCase{
		{"another machine under the name of the node whose last report has the id", judge.NoFreshReport,
			[]Part{Node("worker-1", Booted("boot-2"), OnMachine(v1alpha1.Machine{SystemUUID: "another board",
				MachineID: "another disk"})), last, Node("worker-2"), FreshReport("worker-2")}},
		{"no Node objects at all: nothing is known of nodes", judge.NoFreshReport, []Part{FreshReport("worker-2"), last,
			NodesUnknown}},
		{"no Node object, and the report names the id as gone", judge.Absent,
			[]Part{Node("worker-2"), FreshReport("worker-2"), StaleReport("worker-1", gone1)}},
		{"without agents, no Node object of the pod's node", judge.NodeMissing, []Part{Node("worker-2"), terminating.pod}},
		{"without agents and Node objects", judge.NoSource, []Part{terminating.pod}},
	})
}

func TestWhetherThereAreAgents(t *testing.T) {
	sawReports := func(o *Observed) {
		o.Past = reconciler.Known{}.After(Judged(Observe(FreshReport("worker-1")), facts.Policy{}).Judgement)
	}
	sawReportsOnce := func(o *Observed) {
		sawReports(o)
		for range 2 {
			none := Observe()
			none.Past = o.Past
			o.Past = o.Past.(reconciler.Known).After(Judged(none, facts.Policy{}).Judgement)
		}
	}
	unreadable := ReportsUnknown("forbidden")
	sawNone := func(o *Observed) {
		o.Past = reconciler.Known{}.After(Judged(Observe(), facts.Policy{}).Judgement)
	}
	worker := Node("worker-1")
	expectStates(t, []stateCase{
		{"no report, and none was ever seen", judge.NoSource, []Part{worker}},
		{"no report, and earlier passes saw none", judge.NoSource, []Part{worker, sawNone}},
		{"no report any more", judge.NoFreshReport, []Part{worker, sawReports}},
		{"no report for several passes", judge.NoFreshReport, []Part{worker, sawReportsOnce}},
		{"reports that could not be read", judge.NoFreshReport, []Part{worker, unreadable}},
		{"reports that could not be read, and no nodes known", judge.NoFreshReport, []Part{unreadable}},
		{"reports of other nodes only", judge.NoFreshReport, []Part{worker, Node("worker-2"), FreshReport("worker-2")}},
	})
	t.Run("agents are required and none reports: NoFreshReport", func(t *testing.T) {
		if got := stateIn(t, facts.Policy{AgentsRequired: true}, worker); got != judge.NoFreshReport {
			t.Errorf("got %s", got)
		}
	})
	for says, c := range map[string]struct {
		policy facts.Policy
		parts  []Part
		want   bool
	}{
		"no agents":               {facts.Policy{}, nil, true},
		"agents are required":     {facts.Policy{AgentsRequired: true}, nil, false},
		"reports":                 {facts.Policy{}, []Part{StaleReport("worker-1")}, false},
		"unreadable reports":      {facts.Policy{}, []Part{unreadable}, false},
		"reports that were there": {facts.Policy{}, []Part{sawReports}, false},
	} {
		t.Run(says+": whether the summary says that phantoms cannot be distinguished", func(t *testing.T) {
			j := Judged(Observe(append([]Part{worker}, c.parts...)...), c.policy)
			isSaid := strings.Contains(strings.Join(j.Notes(), " "), "phantom pod on a Ready node")
			if j.WithoutAgents != c.want || isSaid != c.want {
				t.Errorf("WithoutAgents %v, advice %q; want %v", j.WithoutAgents, strings.Join(j.Notes(), " "), c.want)
			}
		})
	}
}

// --agent-nodes says which nodes run an agent; on no other is one waited for.
func TestAgentNodes(t *testing.T) {
	windows := Label("kubernetes.io/os", "windows")
	selector, err := labels.Parse("agent=yes")
	check(t, err)
	for _, c := range []struct {
		says   string
		policy facts.Policy
		want   judge.Sandbox
		parts  []Part
	}{
		{"a Windows node is not waited for", facts.Policy{}, judge.Absent, []Part{Node("worker-1"), Node("win", windows),
			FreshReport("worker-1")}},
		{"a Linux node without a report is", facts.Policy{}, judge.NoFreshReport, []Part{Node("worker-1"), Node("worker-2"),
			FreshReport("worker-1")}},
		{"a selector of one's own leaves out a Linux node", facts.Policy{AgentNodes: selector}, judge.Absent,
			[]Part{Node("worker-1", Label("agent", "yes")), Node("worker-2"), FreshReport("worker-1")}},
		{"a selector of one's own takes in a Windows node", facts.Policy{AgentNodes: selector}, judge.NoFreshReport,
			[]Part{Node("worker-1", Label("agent", "yes")), Node("win", windows, Label("agent", "yes")),
				FreshReport("worker-1")}},
		{"a node that is not selected counts where its report has the id", facts.Policy{}, judge.NoFreshReport,
			[]Part{Node("worker-1"), Node("win", windows), FreshReport("worker-1"), StaleReport("win", box1)}},
		{"none is selected, and none has a report, so none could run it", facts.Policy{AgentNodes: selector,
			AgentsRequired: true}, judge.NoFreshReport, []Part{Node("worker-1")}},
		{"a node that is not selected counts where it has a report", facts.Policy{AgentNodes: selector}, judge.Absent,
			[]Part{Node("worker-1"), FreshReport("worker-1"), Node("worker-2", Label("agent", "yes")), FreshReport("worker-2")}},
		{"none is selected, so it is unknown which nodes must report", facts.Policy{AgentNodes: selector},
			judge.NoFreshReport, []Part{Node("worker-1"), FreshReport("worker-1")}},
		{"a node whose system is unknown is waited for", facts.Policy{}, judge.NoFreshReport, []Part{Node("worker-1"),
			FreshReport("worker-1"), Node("worker-2", WithoutLabel("kubernetes.io/os"))}},
	} {
		t.Run(c.says+": "+c.want.String(), func(t *testing.T) {
			if got := stateIn(t, c.policy, c.parts...); got != c.want {
				t.Errorf("got %s", got)
			}
		})
	}
}
