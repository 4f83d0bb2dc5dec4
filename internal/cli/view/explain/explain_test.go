package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// ask explains a subject of an observation, with these gates against everything Stale.
func ask(t *testing.T, what string, gates []plan.Gate, parts ...Part) *view.ExplainReport {
	t.Helper()
	s, err := explain.ParseSubject(what)
	if err != nil {
		t.Fatal(err)
	}
	j := Judged(Observe(parts...), facts.Policy{})
	p := &plan.Plan{}
	for _, it := range j.StaleItems() {
		if len(gates) > 0 && it.SharesVerdictOf() == nil {
			p.Refused = append(p.Refused, plan.Refused{Item: it, Gate: gates[0], Also: gates[1:]})
		}
	}
	checked := &reconciler.Result{Assessment: j}
	return explain.NewReport(explain.Question{Subject: s, Result: view.PlannedResult(checked, p),
		Advisor: advice.Advisor{Program: "ip-reconcile", Namespace: "kube-system"}})
}

// answered explains a subject of a judgement.
func answered(t *testing.T, what string, j *findings.Assessment) *view.ExplainReport {
	t.Helper()
	s, err := explain.ParseSubject(what)
	if err != nil {
		t.Fatal(err)
	}
	checked := &reconciler.Result{Assessment: j}
	d := explain.NewReport(explain.Question{Subject: s, Result: view.PlannedResult(checked, &plan.Plan{}),
		Advisor: advice.Advisor{Program: "ip-reconcile", Namespace: "kube-system"}})
	return d
}

// said is the text of an explanation, with each fact on one line.
func said(d *view.ExplainReport) string {
	s := &screen.Screen{Width: 100}
	s.Explain(d)
	return strings.ReplaceAll(s.String(), "\n"+strings.Repeat(" ", 19), " ")
}

// The leak of the usual pool, with a reservation, of which the runtime has proof.
var leak = All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)), Reservation("10.0.0.5", "default/web-0", LongAgo))

func TestExplanation_NoRefusalPromisesARelease(t *testing.T) {
	opens := Now.Add(time.Hour)
	for _, why := range plan.Refusals() {
		for name, also := range map[string][]plan.Gate{"alone": nil,
			"with another": {{Why: plan.AwaitingConfirmation, At: opens, Detail: "is confirmed at some time"}}} {
			if why == plan.AwaitingConfirmation && len(also) > 0 {
				continue
			}
			gate := plan.Gate{Why: why, Detail: "the detail of " + string(why)}
			if why == plan.AwaitingConfirmation {
				gate.At = opens
			}
			d := ask(t, "10.0.0.5", append([]plan.Gate{gate}, also...), leak)
			text := said(d)
			for _, it := range d.Items {
				if len(it.Gates) != 1+len(also) {
					t.Errorf("%s %s: %+v", why, name, it)
				}
			}
			if want := "refusal " + string(why); len(d.Items) != 2 || !strings.Contains(text, want) {
				t.Errorf("%s %s: the allocation does not say %q:\n%s", why, name, want, text)
			}
			for _, wrong := range []string{"no gate stands against it", "Release the address. 'serve'"} {
				if strings.Contains(text, wrong) {
					t.Errorf("%s %s says %q:\n%s", why, name, wrong, text)
				}
			}
			if len(also) > 0 && strings.Contains(text, "it releases the address once the verdict is confirmed") {
				t.Errorf("%s %s: that it is confirmed is said to free it:\n%s", why, name, text)
			}
			if !strings.Contains(text, "\n"+string(why)+":") && why != plan.AwaitingConfirmation {
				t.Errorf("%s %s: nothing is advised about it:\n%s", why, name, text)
			}
		}
	}
}

func TestExplanation_GatesOfOtherItemsAreNotShown(t *testing.T) {
	s, _ := explain.ParseSubject("10.0.0.5")
	j := Judged(Observe(leak, Pool("10.1.0.0-24", "10.1.0.0/24", Alloc("5", "default/other", "box-9", "net1"))),
		facts.Policy{})
	paused := plan.Gate{Why: plan.Paused, Pool: "kube-system/10.1.0.0-24", Detail: "its pool is paused"}
	p := &plan.Plan{CommonGates: []plan.Gate{paused}}
	for _, it := range j.StaleItems() {
		if it.Allocation != nil && it.Object() == paused.Pool {
			p.Refused = append(p.Refused, plan.Refused{Item: it, Gate: paused})
		}
	}
	if len(p.Refused) != 1 {
		t.Fatalf("%d are refused", len(p.Refused))
	}
	d := explain.NewReport(explain.Question{Subject: s, Result: view.PlannedResult(&reconciler.Result{Assessment: j}, p)})
	if len(d.Gates) != 0 || len(d.Items[0].Gates) != 0 {
		t.Errorf("the gates are %+v and %+v", d.Gates, d.Items[0].Gates)
	}
}

func TestExplanation_OfSubjects(t *testing.T) {
	asking := func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "wb"}
	}
	wb := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	full := All(Pool("10.0.0.0-30", "10.0.0.0/30", Alloc("1", "default/a", "box-1", "net1"),
		Alloc("2", "default/b", "box-2", "net1")), NAD("wb", WhereaboutsConfig("10.0.0.0/30", "")), ReportingWorker())
	names := All(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"),
		Alloc("6", "default/web-0_uid-old", "box-2", "net1"), Alloc("7", "default/other", "box-3", "net1"),
		Alloc("8", "default/web-01", "box-4", "net1")), UsualPod(Carrying("10.0.0.7")), ReportingWorker())
	// A pool that was deleted, or that a restore has lost, is not one that nobody needs yet.
	lost := All(Pool("red-10.1.0.0-24", "10.1.0.0/24"), wb, Node("worker-1"), UsualPod(), Pod("other", UID(OtherUID)),
		FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")),
			Sandbox("box-2", OtherUID, OfPod("other"), WithAddress("10.0.0.5", ""))))
	edited := All(Pool("10.0.1.0-24", "10.0.1.0/24"), NAD("wb", WhereaboutsConfig("10.0.1.0/24", "")))
	k3s := func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.33.1+k3s1" }
	for name, c := range map[string]struct {
		ask        string
		parts      Part
		want, lack string
	}{
		"a pod by its name":                   {"default/web-0", names, "10.0.0.5 in kube-system/10.0.0.0-24", "10.0.0.8"},
		"a pod by its name as a phantom":      {"default/web-0", names, "10.0.0.6 in kube-system/10.0.0.0-24", ""},
		"a pod by an address that it carries": {"default/web-0", names, "10.0.0.7 in kube-system/10.0.0.0-24", ""},
		"a pod waits: the pool is full": {"default/web-0", All(full, UsualPod(asking, CreatedLongAgo)),
			"has no free address in kube-system/10.0.0.0-30", ""},
		"a pod waits: what fills the pool": {"default/web-0", All(full, UsualPod(asking, CreatedLongAgo)),
			"\n      ip-reconcile explain pool/kube-system/10.0.0.0-30\n", ""},
		"a pod waits: an address is left": {"default/web-0",
			All(UsualPool, wb, UsualPod(asking, CreatedLongAgo), ReportingWorker()), "its ADD is in progress or fails", ""},
		"a pod waits: it is not scheduled": {"default/web-0", All(full, UsualPod(asking, CreatedLongAgo, OnNode(""))),
			"it is not scheduled to a node yet", ""},
		"a pod waits: it has its address": {"default/web-0", All(full, UsualPod(asking),
			ReportingWorker(Sandbox("box-9", UsualUID, WithAddress("10.0.0.1", "")))), "it does not wait for its network", ""},
		"a sandbox on a node of k3s": {"10.0.0.5", All(UsualPool, Node("worker-1", k3s),
			FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")))),
			"      k3s crictl stopp box-1 && k3s crictl rmp box-1\n", ""},
		"a pod does not wait": {"default/web-0", All(full, UsualPod(CreatedLongAgo)), "", "waits"},
		"a pool with the definitions that use it": {"10.0.0.0/24", All(UsualPool, wb,
			NAD("named", WhereaboutsConfig("10.0.0.0/24", "blue")), NAD("else", WhereaboutsConfig("10.9.0.0/24", ""))),
			"0%    1      0     0        default/wb\n", ""},
		"an address outside of every range of today: a pod": {"10.0.0.5", All(edited, UsualPod(Carrying("10.0.0.5"))),
			"carried by default/web-0\n", "nothing"},
		"an address outside of every range of today: a sandbox": {"10.0.0.5", All(edited, ReportingWorker(Sandbox("box-1",
			UsualUID, WithAddress("10.0.0.5", "")))), "carried by default/web-0\n", ""},
		"a pod that names an address, which a report denies": {"10.0.0.5", All(UsualPool, wb, Node("worker-1"),
			UsualPod(CreatedLongAgo, Carrying("10.0.0.5")), Pod("copycat", UID(OtherUID), CreatedLongAgo, Carrying("10.0.0.5")),
			FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")))),
			"the network-status of default/copycat names 10.0.0.5", ""},
		"a pod that started when its definition had another IPAM": {"10.0.0.9", All(UsualPool, wb, Node("worker-1"),
			Pod("static", UID(OtherUID), CreatedLongAgo, Carrying("10.0.0.9")),
			FreshReport("worker-1")), "  doubt            its node's SandboxReport", "Free"},
		"a pod that names an address on a node without a report": {"10.0.0.5", All(UsualPool, wb,
			Pod("copycat", UID(OtherUID), CreatedLongAgo, Carrying("10.0.0.5"))), "carried by default/copycat\n", ""},
		"a pod with the address from another IPAM": {"10.0.0.5", All(edited, NAD("wb", `{"ipam":{"type":"static"}}`),
			UsualPod(Carrying("10.0.0.5"))), "", "carries it"},
		"a missing pool by its name": {"pool/10.0.0.0-24", lost,
			"default/web-0 carries 10.0.0.5, but pool kube-system/10.0.0.0-24 does not exist", ""},
		"a missing pool by its range": {"10.0.0.0/24", lost,
			"default/web-0 carries 10.0.0.5, but pool kube-system/10.0.0.0-24 does not exist", ""},
		"another missing pool":         {"pool/10.7.0.0-24", lost, "does not exist", "10.0.0.5"},
		"a conflict in a missing pool": {"10.0.0.5", lost, "", "nothing can be written back"},
	} {
		text := said(ask(t, c.ask, nil, c.parts))
		if !strings.Contains(text, c.want) || c.lack != "" && strings.Contains(text, c.lack) {
			t.Errorf("%s: want %q and not %q in\n%s", name, c.want, c.lack, text)
		}
	}
}

// Without agents, of many nodes the one that holds an address is named first, and the others are one line.
func TestExplanation_NodeThatIsNotReady(t *testing.T) {
	cluster := []Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/gone-1", "box-1", "net1"),
		Alloc("6", "default/gone-2", "box-2", "net1"))}
	for i := range 40 {
		cluster = append(cluster, Node(fmt.Sprint("worker-", i)))
	}
	d := ask(t, "10.0.0.5", nil, append(cluster, Node("worker-9", NotReadyFor(4*time.Hour)))...)
	text := said(d)
	for _, want := range []string{"it may still run on worker-9: not Ready", "not Ready worker-9, nodes worker-0",
		"and 30 more", "node worker-9\n", "worker-9 has not been Ready since 2026-11-20T06:00:00Z, so the allocations",
		"taint nodes worker-9 node.kubernetes.io/out-of-service", "delete node worker-9", "--unreachable-node-timeout"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.TrimSpace(want)) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "node worker-1\n") || len(d.Nodes) != 1 {
		t.Errorf("healthy nodes are explained:\n%s", text)
	}
	d = ask(t, "10.0.0.5", nil, cluster...)
	if text := said(d); strings.Contains(text, "node worker-1\n") ||
		!strings.Contains(text, "40 nodes Ready: worker-0, worker-1") {
		t.Errorf("nodes that are Ready are not one line:\n%s", text)
	}
}
