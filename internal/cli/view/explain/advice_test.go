package explain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Nothing holds the address of a phantom that no pool records: its allocation is written first, if that is possible.
func TestExplanation_PhantomThatNoPoolRecords(t *testing.T) {
	phantom := ReportingWorker(Sandbox("box-9", "uid-ghost", OfPod("ghost"), WithAddress("10.0.0.5", "")))
	wb := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	for name, c := range map[string]struct {
		parts Part
		first string
		want  []string
	}{
		"it can be written": {All(wb, Pool("10.0.0.0-24", "10.0.0.0/24"), phantom), "ip-reconcile run --repair",
			[]string{"Once the allocation is written, the address is held", "crictl stopp box-9"}},
		"it cannot be written": {All(Pool("10.0.0.0-24", "10.0.0.0"), phantom), "crictl inspectp box-9",
			[]string{"No pool records 10.0.0.5", "nothing uses the address any more", "crictl stopp box-9"}},
	} {
		d := ask(t, "10.0.0.5", nil, c.parts)
		text := fmt.Sprint(d.Advice)
		if got := commands(d.Advice); len(got) == 0 || !strings.HasPrefix(got[0], c.first) {
			t.Errorf("%s: the first command is not %q:\n%s", name, c.first, said(d))
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: it lacks %q:\n%s", name, want, said(d))
			}
		}
		if strings.Contains(text, "is held while the phantom pod runs") {
			t.Errorf("%s: it says that the address is held:\n%s", name, said(d))
		}
	}
}

// --repair is advised where it corrects the allocation. Elsewhere the pod that carries the address ends.
func TestExplanation_AllocationOfAnAddressThatAnotherCarries(t *testing.T) {
	wb := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	pool := All(wb, Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/past", "box-7", "net1")))
	twin := Pod("twin", UID(OtherUID), OnNode("worker-2"), CreatedLongAgo, Carrying("10.0.0.5"))
	for name, c := range map[string]struct {
		parts      Part
		want, lack string
	}{
		"without agents": {All(pool, twin), "kubectl delete pod -n default twin", "--repair --"},
		"with a report": {All(pool, twin, Node("worker-1"), Node("worker-2"), FreshReport("worker-1"),
			FreshReport("worker-2", Sandbox("box-2", OtherUID, OfPod("twin"), WithAddress("10.0.0.5", "")))),
			"--repair --", "delete pod"},
	} {
		d := ask(t, "10.0.0.5", nil, c.parts)
		if text := strings.Join(commands(d.Items[0].Advice), "\n"); !strings.Contains(text, c.want) ||
			strings.Contains(text, c.lack) {
			t.Errorf("%s: want %q and not %q:\n%s", name, c.want, c.lack, said(d))
		}
	}
}

// What a snapshot lacks is exported; nothing is said of Nodes that are unknown, and nothing is overridden for them.
func TestExplanation_NodesThatWereNotExported(t *testing.T) {
	s, _ := explain.ParseSubject("10.0.0.5")
	o := Observe(UsualPool, Pod("other"))
	o.Nodes = facts.Unknown[map[string]*podstate.Node](errors.New("the snapshot contains no Node"))
	d := explain.NewReport(explain.Question{Subject: s, Snapshot: true,
		Result: &reconciler.Result{Assessment: Judged(o, facts.Policy{})}, Advisor: advice.Advisor{Program: "ip-reconcile"}})
	text := said(d)
	if got := commands(d.Advice); len(got) != 1 || got[0] != "kubectl get nodes -o yaml > nodes.yaml @" {
		t.Errorf("the commands are %q:\n%s", got, text)
	}
	if strings.Contains(text, "ready ") || !strings.Contains(text, "in the API       unknown: no Nodes could be read") {
		t.Errorf("an unknown Node is said to be known:\n%s", text)
	}
}

// Steps of several items are one line only if they are the same but for the names of the item.
func TestExplanation_StepsThatAreTheSame(t *testing.T) {
	wb := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	d := ask(t, "pool/10.0.0.0-24", nil, wb, Pool("10.0.0.0-24", "10.0.0.0/24",
		Alloc("5", "default/past", "box-7", "net1"), Alloc("6", "default/past", "box-7", "net2")),
		Pod("twin", UID(OtherUID), CreatedLongAgo, Carrying("10.0.0.5")),
		Pod("other", UID("uid-o"), CreatedLongAgo, Carrying("10.0.0.6")))
	text := strings.Join(commands(d.Advice), "\n")
	if !strings.Contains(text, "delete pod -n default twin") || !strings.Contains(text, "delete pod -n default other") {
		t.Errorf("the steps for another carrier are not printed:\n%s", said(d))
	}
	breaker := []plan.Gate{{Why: plan.Breaker, Detail: "too many"}}
	d = ask(t, "pool/10.0.0.0-24", breaker, wb, Pool("10.0.0.0-24", "10.0.0.0/24",
		Alloc("5", "default/web-0", "box-1", "net1"), Alloc("6", "default/web-1", "box-2", "net1")),
		ReportingWorker(Gone("box-1", "uid-1"), Gone("box-2", "uid-2")))
	if text := fmt.Sprint(d.Advice); !strings.Contains(text, "--allow-mass-release") || strings.Contains(text, "more:") {
		t.Errorf("a command for the pool is repeated for each address:\n%s", said(d))
	}
}

// Stale addresses of a node have the step of a release once, whatever their reasons are.
func TestExplanation_ReleasesOfANodeAreOneStep(t *testing.T) {
	d := ask(t, "node/worker-1", nil, Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"),
		Alloc("6", "default/web-1", "box-2", "net1")), UsualPod(Phase("Succeeded")),
		ReportingWorker(Gone("box-1", UsualUID), Gone("box-2", "uid-2")))
	if text := fmt.Sprint(d.Advice); strings.Count(text, "Release the address") != 1 ||
		!strings.Contains(text, "The same for 1 more: 10.0.0.6.") {
		t.Errorf("it is not one step:\n%s", said(d))
	}
}
