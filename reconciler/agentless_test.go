package reconciler

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"k8s.io/apimachinery/pkg/labels"
)

func TestNodesOnWhichNoAgentCanRunAreNamedWithTheFlagToSet(t *testing.T) {
	worker, report := aNode("worker-1"), freshReport("worker-1")
	virtual := aNode("virtual", label("type", "virtual-kubelet"))
	fargate := aNode("fargate-10", label("eks.amazonaws.com/compute-type", "fargate"))
	windows := aNode("win-1", label("kubernetes.io/os", "windows"))
	all := judge.Policy{AgentNodes: labels.Everything()}
	for name, c := range map[string]struct {
		policy judge.Policy
		parts  []part
		want   []string // nil for no note
	}{
		"a virtual kubelet": {judge.Policy{}, []part{worker, report, virtual}, []string{"virtual", `--agent-nodes, by adding "type!=virtual-kubelet"`}},
		"two kinds": {judge.Policy{AgentsRequired: true}, []part{worker, virtual, fargate},
			[]string{"fargate-10, virtual", `"eks.amazonaws.com/compute-type!=fargate,type!=virtual-kubelet"`}},
		"another OS that is selected":   {all, []part{worker, report, windows}, []string{"win-1", `"kubernetes.io/os=linux"`}},
		"another OS that is not":        {judge.Policy{}, []part{worker, report, windows}, nil},
		"one that has a report":         {judge.Policy{}, []part{virtual, freshReport("virtual")}, nil},
		"one whose agent is silent":     {judge.Policy{}, []part{worker, report, aNode("worker-2")}, nil},
		"where there are no agents":     {judge.Policy{}, []part{worker, virtual}, nil},
		"one that is proven to be dead": {judge.Policy{}, []part{worker, report, aNode("virtual", label("type", "virtual-kubelet"), notReadyFor(0), outOfService)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var notes []string
			for _, n := range judged(observe(c.parts...), c.policy).Notes() {
				if strings.Contains(n, "no node agent can run") {
					notes = append(notes, n)
				}
			}
			text := strings.Join(notes, "\n")
			if len(notes) > 1 || (text == "") != (c.want == nil) {
				t.Fatalf("notes %q, want %q", notes, c.want)
			}
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("%q is not in %q", w, text)
				}
			}
		})
	}
}
