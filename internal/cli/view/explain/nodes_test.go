package explain_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

var ofAgents = regexp.MustCompile(`(?i)\bagents?\b|SandboxReport|\b(a|no|the|last|fresh) reports?\b`)

// A node that is not Ready holds addresses without agents, one that is silent with them. The steps name each way to end
// that, with its risk.
func TestOfNodes(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/gone-1", "box-1", "net1"),
		Alloc("6", "default/gone-2", "box-2", "net1"))
	for name, c := range map[string]struct {
		parts      []Part
		want, lack []string
	}{
		"without agents": {[]Part{Node("w1"), Node("w33", NotReadyFor(4*time.Hour))},
			[]string{"kubectl --context=c describe node w33", "taint nodes w33 node.kubernetes.io/out-of-service=nodeshutdown",
				"delete node w33", "ip-reconcile run --dry-run --unreachable-node-timeout=1h --context=c"}, nil},
		"without agents, two nodes": {[]Part{Node("w1", NotReadyFor(time.Hour)), Node("w33", NotReadyFor(4*time.Hour))},
			[]string{"describe node w1", "The same for 1 more: w33."}, []string{"describe node w33"}},
		"with agents, a silent node": {[]Part{Node("w1"), FreshReport("w1"), Node("w33"), StaleReport("w33")},
			[]string{"Restart the agent of w33", "delete pods -n kube-system -l", "logs -n kube-system"},
			[]string{"out-of-service", "delete node"}},
		"with agents, a node that is down": {[]Part{Node("w1"), FreshReport("w1"), StaleReport("w33"),
			Node("w33", NotReadyFor(time.Hour))},
			[]string{"Restart the agent of w33", "out-of-service=nodeshutdown", "delete node w33"}, nil},
		"every node is healthy": {[]Part{Node("w1"), FreshReport("w1")}, nil, []string{"{"}},
	} {
		j := Judged(Observe(append(c.parts, pool)...), facts.Policy{})
		a := advice.Advisor{Program: "ip-reconcile", Namespace: "kube-system"}
		a.ClusterFlag("context", "c")
		steps := explain.NodeSteps(a, j, lists.Map(j.Findings, view.NewFinding))
		text := fmt.Sprintf("%+v", steps)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: it lacks %q: %s", name, want, text)
			}
		}
		for _, lack := range c.lack {
			if strings.Contains(text, lack) {
				t.Errorf("%s: it has %q: %s", name, lack, text)
			}
		}
		if found := ofAgents.FindString(text); j.WithoutAgents && found != "" {
			t.Errorf("%s: a cluster without agents is told of %q: %s", name, found, text)
		}
		lines := explain.CompleteStatus(a, j, []view.StatusLine{
			{ID: "nodes", Level: view.LevelWarning, Next: "kubectl get x"},
			{ID: "agents", Level: view.LevelError}, {ID: "paused", Level: view.LevelOK}})
		if got := len(lines[0].Advice) + len(lines[1].Advice); got != len(steps) || len(lines[2].Advice) > 0 ||
			lines[0].Next != "kubectl --context=c get x" {
			t.Errorf("%s: the lines of status are %+v", name, lines)
		}
	}
}

// What holds an address without agents is explained without agents.
func TestExplanation_WithoutAgents(t *testing.T) {
	deleted := Pod("web-0", DeletedAgo(time.Hour))
	for name, parts := range map[string][]Part{
		"a node that is not Ready":     {Node("worker-1", NotReadyFor(time.Hour))},
		"a pod without the annotation": {Node("worker-1"), UsualPod(NoNetworkStatus)},
		"a pod without the address":    {Node("worker-1"), UsualPod(CreatedLongAgo)},
		"a pod that does not end":      {Node("worker-1"), deleted},
		"a leak":                       {Node("worker-1")},
	} {
		d := ask(t, "10.0.0.5", nil, append(parts, UsualPool)...)
		for _, s := range d.Advice {
			if found := ofAgents.FindString(s.Why + s.Command); found != "" {
				t.Errorf("%s: it is told of %q: %+v\n%s", name, found, s, said(d))
			}
		}
		if len(d.Advice) == 0 || !d.Found || d.Agents.InUse {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// With agents, healthy nodes are one line, too, and those that decide come first.
func TestExplanation_HealthyNodesAreOneLine(t *testing.T) {
	cluster := []Part{Node("worker-9"), StaleReport("worker-9")}
	allocs := []Allocation{}
	for i := range 8 {
		name := fmt.Sprint("worker-", i)
		allocs = append(allocs, Alloc(fmt.Sprint(10+i), fmt.Sprint("default/web-", i), fmt.Sprint("sb-", i), "net1"))
		cluster = append(cluster, Node(name), FreshReport(name, Sandbox(fmt.Sprint("sb-", i), fmt.Sprint("uid-", i),
			OfPod(fmt.Sprint("web-", i)), WithAddress(fmt.Sprint("10.0.0.", 10+i), ""))))
	}
	cluster = append(cluster, Pool("10.0.0.0-24", "10.0.0.0/24", append(allocs, UsualAllocation)...))
	text := said(ask(t, "pool/10.0.0.0-24", nil, cluster...))
	if !strings.Contains(text, "node worker-9\n") || strings.Contains(text, "node worker-3\n") ||
		!strings.Contains(text, "nodes Ready, with a fresh report: worker-0, worker-1, worker-2") {
		t.Errorf("the nodes are:\n%s", text)
	}
}
