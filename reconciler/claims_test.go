package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	corev1 "k8s.io/api/core/v1"
)

var (
	claimed = outcome{judge.Held, judge.ClaimedByOther, false, judge.Gone}
	freed   = outcome{judge.Stale, judge.PodGone, true, judge.Gone}
)

func TestAnotherPodCarriesTheAddress(t *testing.T) {
	other := func(edits ...podEdit) part { return aPod("web-1", append([]podEdit{uid("uid-9")}, edits...)...) }
	here := aNAD("wb", whereabouts("10.0.0.0/24", ""))
	for _, c := range []struct {
		says  string
		want  outcome
		parts []part
	}{
		{"nobody does", freed, []part{here, other()}},
		{"its definition is of the pool", claimed, []part{here, other(carrying("10.0.0.5"))}},
		{"its definition is of the pool, the address spelt otherwise", claimed, []part{here, other(carrying("::ffff:a00:5"))}},
		{"its definition is gone", claimed, []part{other(carrying("10.0.0.5"))}},
		{"its definition cannot be read", claimed, []part{aNAD("wb", "{"), other(carrying("10.0.0.5"))}},
		{"its definition is configured on the nodes", claimed, []part{aNAD("wb", ""), other(carrying("10.0.0.5"))}},
		{"its network is the default one", claimed, []part{other(status(`[{"name":"cbr0","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))}},
		{"its definition is of another network", freed, []part{aNAD("wb", whereabouts("10.0.0.0/24", "red")), other(carrying("10.0.0.5"))}},
		{"its definition uses another IPAM", freed, []part{aNAD("wb", `{"type":"macvlan","ipam":{"type":"static"}}`), other(carrying("10.0.0.5"))}},
		{"its definition is of the same network with another range", claimed, []part{aNAD("wb", whereabouts("10.0.0.0/16", "")), other(carrying("10.0.0.5"))}},
		{"a chained plugin of its definition is of the pool", claimed, []part{
			aNAD("wb", `{"plugins":[{"type":"tuning"},{"type":"macvlan","ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24"}]}}]}`), other(carrying("10.0.0.5"))}},
		{"it is Pending", claimed, []part{here, other(carrying("10.0.0.5"), phaseIs("Pending"))}},
		{"it is terminating, long overdue", claimed, []part{here, other(carrying("10.0.0.5"), deletedAgo(time.Hour))}},
		{"it is of phase Unknown", claimed, []part{here, other(carrying("10.0.0.5"), phaseIs("Unknown"))}},
		{"it is finished", freed, []part{here, other(carrying("10.0.0.5"), phaseIs("Succeeded"))}},
		{"only its podIPs have it", freed, []part{here, other(podIPs("10.0.0.5"))}},
		{"it is of the same name in another namespace", claimed, []part{here, web(inNamespace("blue"), carrying("10.0.0.5"))}},
		{"the rest of its status cannot be read", claimed, []part{here, other(status(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5","x"]}]`))}},
		{"it carries another address", freed, []part{here, other(carrying("10.0.0.6"))}},
	} {
		t.Run(c.says, func(t *testing.T) { expect(t, c.want, append([]part{goneBox}, c.parts...)...) })
	}
	t.Run("the entry's own pod is nobody else", func(t *testing.T) {
		expect(t, outcome{judge.Stale, judge.SandboxStopped, true, judge.Gone}, goneBox, here, web(carrying("10.0.0.5"), deletedAgo(0)))
	})
	t.Run("it says who", func(t *testing.T) {
		it := allocation(t, judged(observe(goneBox, here, other(carrying("10.0.0.5"))), judge.Policy{}), "10.0.0.5")
		if !strings.Contains(it.Message(), "default/web-1") {
			t.Errorf("it does not name the pod: %s", it.Message())
		}
	})
	t.Run("by any address that a key of a wide range stands for", func(t *testing.T) {
		o := observe(aPool("193---24", "193::/24", alloc{"2", "default/web-0", "box-1", "net1"}), onWorker(gone("box-1", its1)), other(carrying("193:21:4::2")))
		if got := outcomeOf(judged(o, judge.Policy{}).Allocations[0]); got != claimed {
			t.Errorf("got %v", got)
		}
	})
}

func inNamespace(ns string) podEdit { return func(p *corev1.Pod) { p.Namespace = ns } }

func TestAnotherSandboxRecordsTheAddress(t *testing.T) {
	other := func(edits ...boxEdit) content {
		return box("box-2", "uid-9", append([]boxEdit{of("web-1"), holding("10.0.0.5", "")}, edits...)...)
	}
	hidden := func(age time.Duration, closed *bool, network string) content {
		return attachment("box-2", "uid-9", age, closed, address("10.0.0.5", network))
	}
	second := aNode("worker-2")
	for _, c := range []struct {
		says  string
		want  outcome
		parts []part
	}{
		{"READY", claimed, []part{second, freshReport("worker-2", other())}},
		{"READY in a stale report", claimed, []part{second, staleReport("worker-2", other())}},
		{"READY in a report that was never vouched for", claimed, []part{second, staleReport("worker-2", other(), unvouched)}},
		{"not ready, its network open", claimed, []part{second, freshReport("worker-2", other(notReady(open)))}},
		{"not ready, nothing known of its network", claimed, []part{second, freshReport("worker-2", other(notReady(nil)))}},
		{"not ready, its network closed", freed, []part{second, freshReport("worker-2", other(notReady(closed)))}},
		{"not ready, its network closed, in a stale report", freed, []part{second, staleReport("worker-2", other(notReady(closed)))}},
		{"attached, its network there", claimed, []part{second, freshReport("worker-2", hidden(time.Hour, open, ""))}},
		{"attached a minute ago, nothing known of its network", claimed, []part{second, freshReport("worker-2", hidden(time.Minute, nil, ""))}},
		{"attached a minute ago, in a stale report", claimed, []part{second, staleReport("worker-2", hidden(time.Minute, nil, ""))}},
		{"attached, its network closed", freed, []part{second, freshReport("worker-2", hidden(time.Minute, closed, ""))}},
		{"attached, too old to count", freed, []part{second, freshReport("worker-2", hidden(time.Hour, nil, ""))}},
		{"attached in another network", freed, []part{second, freshReport("worker-2", hidden(time.Minute, nil, "red"))}},
		{"in another network", freed, []part{second, freshReport("worker-2", box("box-2", "uid-9", holding("10.0.0.5", "red")))}},
		{"another address", freed, []part{second, freshReport("worker-2", box("box-2", "uid-9", holding("10.0.0.6", "")))}},
		{"in the same network by another range", claimed, []part{second, freshReport("worker-2", box("box-2", "uid-9", func(b *reportedBox) {
			a := address("10.0.0.5", "")
			a.Range = "10.0.0.0/16"
			b.Addresses = append(b.Addresses, a)
		}))}},
		{"spelt with a length", claimed, []part{second, freshReport("worker-2", box("box-2", "uid-9", holding("10.0.0.5/24", "")))}},
		{"of a dead node", freed, []part{aNode("worker-2", notReadyFor(time.Hour), outOfService), staleReport("worker-2", other())}},
		{"of a node that is out of service and Ready", claimed, []part{aNode("worker-2", outOfService), staleReport("worker-2", other())}},
		{"of a node that is out of service and heard all the same", claimed, []part{aNode("worker-2", notReadyFor(time.Hour), outOfService), freshReport("worker-2", other())}},
		{"of a node that was rebooted since", freed, []part{aNode("worker-2", booted("boot-2")), staleReport("worker-2", other())}},
		{"of a node that was rebooted and is heard with it", claimed, []part{aNode("worker-2", booted("boot-2")), freshReport("worker-2", other())}},
		{"of a node that is missing", claimed, []part{staleReport("worker-2", other())}},
		{"of a later sandbox of the same pod", claimed, []part{second, freshReport("worker-2", box("box-2", its1, holding("10.0.0.5", "")))}},
	} {
		t.Run(c.says, func(t *testing.T) { expect(t, c.want, append([]part{goneBox}, c.parts...)...) })
	}
	t.Run("the entry's own sandbox is nobody else", func(t *testing.T) {
		expect(t, outcome{judge.Stale, judge.NodeMissingReason, false, judge.NodeMissing}, usualPool, aNode("worker-2"), freshReport("worker-2"),
			staleReport("worker-1", box("box-1", its1, holding("10.0.0.5", ""))))
	})
	t.Run("it says which, and where", func(t *testing.T) {
		it := allocation(t, judged(observe(goneBox, second, freshReport("worker-2", other())), judge.Policy{}), "10.0.0.5")
		if !strings.Contains(it.Message(), "box-2") || !strings.Contains(it.Message(), "worker-2") {
			t.Errorf("it does not name the sandbox and its node: %s", it.Message())
		}
	})
}

// A pool is of a network by its name; where that admits several, each counts.
func TestWhichNetworkAPoolIsOf(t *testing.T) {
	pool := func(name string) part { return aPool(name, "10.0.0.0/24", usual) }
	seen := func(network string) part {
		return all(aNode("worker-1"), aNode("worker-2"), freshReport("worker-1", gone("box-1", its1)), freshReport("worker-2", box("box-2", "uid-9", holding("10.0.0.5", network))))
	}
	for _, c := range []struct {
		pool, network string
		want          outcome
	}{
		{"10.0.0.0-24", "", claimed}, {"10.0.0.0-24", "red", freed},
		{"red-10.0.0.0-24", "red", claimed}, {"red-10.0.0.0-24", "", freed}, {"red-10.0.0.0-24", "blue", freed},
		{"a-b-c-10.0.0.0-24", "a-b-c", claimed}, {"a-b-c-10.0.0.0-24", "a-b", freed},
		{"worker-1-10.0.0.0-24", "", claimed}, {"worker-1-10.0.0.0-24", "worker-1", claimed}, {"worker-1-10.0.0.0-24", "red", freed},
		{"red-worker-1-10.0.0.0-24", "red", claimed}, {"red-worker-1-10.0.0.0-24", "red-worker-1", claimed}, {"red-worker-1-10.0.0.0-24", "", freed},
		{"a-name-of-its-own", "", claimed}, {"a-name-of-its-own", "red", claimed}, // the name tells nothing
	} {
		t.Run(c.pool+" and network "+c.network, func(t *testing.T) { expect(t, c.want, pool(c.pool), seen(c.network)) })
	}
}

// Only what would be freed is overruled; the reason of the rest says more.
func TestAClaimOverrulesOnlyStale(t *testing.T) {
	claimant := all(aNode("worker-2"), freshReport("worker-2", box("box-2", "uid-9", of("web-1"), holding("10.0.0.5", ""))))
	for _, r := range rows() {
		for _, p := range r.pods {
			for _, b := range r.boxes {
				if b.state == judge.NoSource { // with the claimant's report there would be agents
					continue
				}
				it := allocation(t, judged(observe(usualPool, p.pod, b.parts, claimant), judge.Policy{}), "10.0.0.5")
				if it.Verdict == judge.Stale {
					t.Errorf("%s whose sandbox %s: stale (%s) although another sandbox has the address", p.says, b.says, it.Reason)
				}
				if r.verdict != judge.Stale && r.reason != judge.ClaimedByOther && it.Reason == judge.ClaimedByOther && it.Evidence().Sandbox == b.state {
					t.Errorf("%s whose sandbox %s: its own reason is %s", p.says, b.says, r.reason)
				}
			}
		}
	}
}

// What a repair wrote for a phantom names no pod: the successor of that name is
// somebody else, and nothing that it is or does makes the entry its own.
func TestAnEntryWrittenForAPhantom(t *testing.T) {
	pool := aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-0_uid-0", "box-1", "net1"})
	for _, c := range []struct {
		says  string
		want  outcome
		parts []part
	}{
		{"its sandbox runs", outcome{judge.Held, judge.PhantomPod, false, judge.Ready}, []part{web(carrying("10.0.0.6")), onWorker(box("box-1", others))}},
		{"its sandbox runs, and a pod of that name and UID is there again", outcome{judge.Held, judge.PhantomPod, false, judge.Ready}, []part{web(uid(others)), onWorker(box("box-1", others))}},
		{"its sandbox has gone", freed, []part{web(carrying("10.0.0.6")), onWorker(gone("box-1", others))}},
		{"its sandbox has gone, and the successor is Pending", freed, []part{pending.pod, onWorker(gone("box-1", others))}},
		{"its sandbox has gone, and the successor carries the address", claimed, []part{web(carrying("10.0.0.5")), onWorker(gone("box-1", others))}},
		{"its node is not heard", outcome{judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport}, []part{aNode("worker-1"), staleReport("worker-1", box("box-1", others))}},
		{"no report has it", outcome{judge.Stale, judge.PodGone, false, judge.Absent}, []part{onWorker()}},
	} {
		t.Run(c.says, func(t *testing.T) { expect(t, c.want, append([]part{pool}, c.parts...)...) })
	}
}
