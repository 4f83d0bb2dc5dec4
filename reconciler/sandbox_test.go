package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"k8s.io/apimachinery/pkg/labels"
)

// stateIn judges the usual allocation, with no pod by its name, and returns what
// is known of its sandbox.
func stateIn(t *testing.T, policy judge.Policy, parts ...part) judge.Sandbox {
	t.Helper()
	return allocation(t, judged(observe(append([]part{usualPool}, parts...)...), policy), "10.0.0.5").Evidence().Sandbox
}

type stateCase struct {
	says  string
	want  judge.Sandbox
	parts []part
}

func expectStates(t *testing.T, cases []stateCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.says+": "+c.want.String(), func(t *testing.T) {
			if got := stateIn(t, judge.Policy{}, c.parts...); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestWhatAFreshReportSays(t *testing.T) {
	report := func(c ...content) []part { return []part{aNode("worker-1"), freshReport("worker-1", c...)} }
	rebooted := func(p part) []part { return []part{aNode("worker-1", booted("boot-2")), p} }
	dead := func(p part) []part { return []part{aNode("worker-1", notReadyFor(time.Hour), outOfService), p} }
	expectStates(t, []stateCase{
		{"listed as READY", judge.Ready, report(box("box-1", its1))},
		{"listed as READY, whatever is said of its namespace", judge.Ready, report(box("box-1", its1, func(b *reportedBox) { b.NetworkClosed = closed }))},
		{"listed as NOTREADY with its namespace open", judge.NotReady, report(box("box-1", its1, notReady(open)))},
		{"listed as NOTREADY with nothing known of its namespace", judge.NotReady, report(box("box-1", its1, notReady(nil)))},
		{"listed as NOTREADY with its namespace closed", judge.Stopped, report(box("box-1", its1, notReady(closed)))},
		{"listed with a state that is neither", judge.NotReady, report(box("box-1", its1, func(b *reportedBox) { b.State, b.NetworkClosed = "Unknown", closed }))},
		{"gone", judge.Gone, report(gone("box-1", its1))},
		{"listed, and named as gone too", judge.Ready, report(gone("box-1", its1), box("box-1", its1))},
		{"attached, and named as gone too", judge.Attached, report(gone("box-1", its1), attachment("box-1", its1, time.Minute, nil))},
		{"gone, on a node that was rebooted", judge.Gone, rebooted(freshReport("worker-1", gone("box-1", its1)))},
		{"READY in a fresh report of a node that is out of service", judge.Ready, dead(freshReport("worker-1", box("box-1", its1)))},
		{"READY in a fresh report of a node that was rebooted", judge.Ready, rebooted(freshReport("worker-1", box("box-1", its1)))},
		{"NOTREADY in a fresh report of a node that is out of service", judge.NotReady, dead(freshReport("worker-1", box("box-1", its1, notReady(nil))))},
		{"gone on one node and running on another", judge.Ready,
			[]part{aNode("worker-1"), aNode("worker-2"), freshReport("worker-1", gone("box-1", its1)), freshReport("worker-2", box("box-1", its1))}},
		{"READY in a fresh report of a node whose object is missing", judge.Ready, []part{aNode("worker-2"), freshReport("worker-1", box("box-1", its1))}},
	})
}

func TestAttachments(t *testing.T) {
	report := func(c ...content) []part { return []part{aNode("worker-1"), freshReport("worker-1", c...)} }
	old, young := 16*time.Minute, 14*time.Minute
	expectStates(t, []stateCase{
		{"younger than 15 min, nothing known of its namespace", judge.Attached, report(attachment("box-1", its1, young, nil))},
		{"older than 15 min, nothing known of its namespace", judge.Absent, report(attachment("box-1", its1, old, nil))},
		{"younger than 15 min, its namespace there", judge.Attached, report(attachment("box-1", its1, young, open))},
		{"months old, its namespace there", judge.Attached, report(attachment("box-1", its1, 2000*time.Hour, open))},
		{"younger than 15 min, its namespace known to be closed", judge.Absent, report(attachment("box-1", its1, young, closed))},
		{"older than 15 min, its namespace known to be closed", judge.Absent, report(attachment("box-1", its1, old, closed))},
		{"from the future by the node's clock", judge.Attached, report(attachment("box-1", its1, -time.Hour, nil))},
		// The age counts to when it was seen: a report that has been vouched for
		// since then has not looked at it again.
		{"younger than 15 min when it was observed", judge.Attached, report(attachment("box-1", its1, 20*time.Minute, nil), observedAgo(10*time.Minute))},
		{"older than 15 min when it was observed", judge.Absent, report(attachment("box-1", its1, 30*time.Minute, nil), observedAgo(10*time.Minute))},
		{"younger than 15 min by this clock, observed in the future by the node's", judge.Attached, report(attachment("box-1", its1, young, nil), observedAgo(-time.Hour))},
		{"in a stale report, young", judge.NoFreshReport, []part{aNode("worker-1"), staleReport("worker-1", attachment("box-1", its1, time.Minute, nil))}},
		// One that does not count is evidence of the node all the same.
		{"closed, on the one node that is heard", judge.Absent, []part{aNode("worker-1"), aNode("worker-2"),
			freshReport("worker-1", attachment("box-1", its1, young, closed)), staleReport("worker-2")}},
		{"closed, on a node that is not heard, while the others are", judge.NoFreshReport, []part{aNode("worker-1"), aNode("worker-2"),
			staleReport("worker-1", attachment("box-1", its1, old, closed)), freshReport("worker-2")}},
		{"too old, in the last report of a node that was rebooted", judge.NodeDead, []part{aNode("worker-1", booted("boot-2")),
			staleReport("worker-1", attachment("box-1", its1, old, nil))}},
		{"too old, in a fresh report of a node that is out of service", judge.Absent, []part{aNode("worker-1", notReadyFor(time.Hour), outOfService),
			freshReport("worker-1", attachment("box-1", its1, old, nil))}},
	})
}

func TestFreshness(t *testing.T) {
	worker := aNode("worker-1")
	at := func(ago time.Duration) []part { return []part{worker, reportFrom("worker-1", ago, box("box-1", its1))} }
	expectStates(t, []stateCase{
		{"renewed 59 s ago", judge.Ready, at(59 * time.Second)},
		{"renewed 60 s ago", judge.Ready, at(60 * time.Second)},
		{"renewed 61 s ago", judge.NoFreshReport, at(61 * time.Second)},
		{"never vouched for with this content", judge.NoFreshReport, []part{worker, reportFrom("worker-1", 0, box("box-1", its1), unvouched)}},
		{"renewed hours from now, so that the clocks tell nothing", judge.NoFreshReport, at(-5 * time.Hour)},
		{"gone in a stale report", judge.NoFreshReport, []part{worker, staleReport("worker-1", gone("box-1", its1))}},
		{"stopped in a stale report", judge.NoFreshReport, []part{worker, staleReport("worker-1", box("box-1", its1, notReady(closed)))}},
	})
}

func TestDeadNodes(t *testing.T) {
	last := staleReport("worker-1", box("box-1", its1))
	expectStates(t, []stateCase{
		{"out of service and not Ready", judge.NodeDead, []part{aNode("worker-1", notReadyFor(time.Hour), outOfService), last}},
		{"out of service and Ready", judge.NoFreshReport, []part{aNode("worker-1", outOfService), last}},
		{"not Ready for weeks, and no taint", judge.NoFreshReport, []part{aNode("worker-1", notReadyFor(500*time.Hour)), last}},
		{"rebooted since the last report that has the id", judge.NodeDead, []part{aNode("worker-1", booted("boot-2")), last}},
		{"still of the same boot", judge.NoFreshReport, []part{aNode("worker-1", booted("boot-1")), last}},
		{"the report carries no bootID", judge.NoFreshReport, []part{aNode("worker-1", booted("boot-2")), staleReport("worker-1", box("box-1", its1), bootID(""))}},
		{"the Node carries no bootID", judge.NoFreshReport, []part{aNode("worker-1", booted("")), last}},
		// The id was not there any more before the reboot: that the node has
		// rebooted says nothing about where it runs.
		{"rebooted since a report that names the id as gone", judge.NoFreshReport, []part{aNode("worker-1", booted("boot-2")), staleReport("worker-1", gone("box-1", its1))}},
		{"rebooted since a report that does not have the id", judge.NoFreshReport, []part{aNode("worker-1", booted("boot-2")), staleReport("worker-1")}},
		{"without agents, the pod's node out of service", judge.NodeDead, []part{aNode("worker-1", notReadyFor(time.Hour), outOfService), terminating.pod}},
	})
}

func TestMissingNodes(t *testing.T) {
	last := staleReport("worker-1", box("box-1", its1))
	expectStates(t, []stateCase{
		{"no Node object of the node whose last report has the id", judge.NodeMissing, []part{aNode("worker-2"), freshReport("worker-2"), last}},
		{"no Node objects at all: nothing is known of nodes", judge.NoFreshReport, []part{freshReport("worker-2"), last}},
		{"no Node object, and the report names the id as gone", judge.Absent,
			[]part{aNode("worker-2"), freshReport("worker-2"), staleReport("worker-1", gone("box-1", its1))}},
		{"without agents, no Node object of the pod's node", judge.NodeMissing, []part{aNode("worker-2"), terminating.pod}},
		{"without agents and Node objects", judge.NoSource, []part{terminating.pod}},
	})
}

func TestWhetherThereAreAgents(t *testing.T) {
	sawReports := func(o *observed) {
		h := NewHistory()
		h.Remember(judged(observe(freshReport("worker-1")), judge.Policy{}))
		o.past = h
	}
	unreadable := func(o *observed) { o.ReportsUnreadable = true }
	sawNone := func(o *observed) {
		h := NewHistory()
		h.Remember(judged(observe(), judge.Policy{}))
		o.past = h
	}
	worker := aNode("worker-1")
	expectStates(t, []stateCase{
		{"no report, and none was ever seen", judge.NoSource, []part{worker}},
		{"no report, and earlier looks saw none", judge.NoSource, []part{worker, sawNone}},
		{"no report any more", judge.NoFreshReport, []part{worker, sawReports}},
		{"reports that could not be read", judge.NoFreshReport, []part{worker, unreadable}},
		{"reports that could not be read, and no nodes known", judge.NoFreshReport, []part{unreadable}},
		{"reports of other nodes only", judge.NoFreshReport, []part{worker, aNode("worker-2"), freshReport("worker-2")}},
	})
	t.Run("agents are required and none reports: NoFreshReport", func(t *testing.T) {
		if got := stateIn(t, judge.Policy{AgentsRequired: true}, worker); got != judge.NoFreshReport {
			t.Errorf("got %s", got)
		}
	})
	for says, c := range map[string]struct {
		policy judge.Policy
		parts  []part
		want   bool
	}{
		"no agents":               {judge.Policy{}, nil, true},
		"agents are required":     {judge.Policy{AgentsRequired: true}, nil, false},
		"reports":                 {judge.Policy{}, []part{staleReport("worker-1")}, false},
		"unreadable reports":      {judge.Policy{}, []part{unreadable}, false},
		"reports that were there": {judge.Policy{}, []part{sawReports}, false},
	} {
		t.Run(says+": whether the summary says that phantoms cannot be told", func(t *testing.T) {
			j := judged(observe(append([]part{worker}, c.parts...)...), c.policy)
			if j.WithoutAgents != c.want || (strings.Join(j.Notes(), " ") != "") != c.want {
				t.Errorf("WithoutAgents %v, advice %q; want %v", j.WithoutAgents, strings.Join(j.Notes(), " "), c.want)
			}
		})
	}
}

// --agent-nodes says which nodes run an agent; on no other is one waited for.
func TestAgentNodes(t *testing.T) {
	windows := label("kubernetes.io/os", "windows")
	selector, err := labels.Parse("agent=yes")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says   string
		policy judge.Policy
		want   judge.Sandbox
		parts  []part
	}{
		{"a Windows node is not waited for", judge.Policy{}, judge.Absent, []part{aNode("worker-1"), aNode("win", windows), freshReport("worker-1")}},
		{"a Linux node without a report is", judge.Policy{}, judge.NoFreshReport, []part{aNode("worker-1"), aNode("worker-2"), freshReport("worker-1")}},
		{"a selector of one's own leaves out a Linux node", judge.Policy{AgentNodes: selector}, judge.Absent,
			[]part{aNode("worker-1", label("agent", "yes")), aNode("worker-2"), freshReport("worker-1")}},
		{"a selector of one's own takes in a Windows node", judge.Policy{AgentNodes: selector}, judge.NoFreshReport,
			[]part{aNode("worker-1", label("agent", "yes")), aNode("win", windows, label("agent", "yes")), freshReport("worker-1")}},
		{"a node that is not selected counts where its report has the id", judge.Policy{}, judge.NoFreshReport,
			[]part{aNode("worker-1"), aNode("win", windows), freshReport("worker-1"), staleReport("win", box("box-1", its1))}},
		{"none is selected, and none has a report, so none could run it", judge.Policy{AgentNodes: selector, AgentsRequired: true}, judge.NoFreshReport, []part{aNode("worker-1")}},
		{"a node that is not selected counts where it has a report", judge.Policy{AgentNodes: selector}, judge.Absent, []part{aNode("worker-1"), freshReport("worker-1")}},
	} {
		t.Run(c.says+": "+c.want.String(), func(t *testing.T) {
			if got := stateIn(t, c.policy, c.parts...); got != c.want {
				t.Errorf("got %s", got)
			}
		})
	}
}
