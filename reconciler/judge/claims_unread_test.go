package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func mayCarry(networks ...v1alpha1.Network) SandboxEdit {
	return func(b *v1alpha1.Sandbox) { b.MayCarry = networks }
}

// The agent knows one of the addresses, and says that it does not know all.
func TestAPodsStatusCountsWhereItsSandboxesAddressesAreReadInPart(t *testing.T) {
	two := Pod("web-1", UID("uid-9"), NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.6"]},{`+
		`"name":"default/wb","interface":"net2","ips":["10.0.0.5"]}]`))
	Expect(t, claimed, UsualPool, Node("worker-1"), two, FreshReport("worker-1", gone1,
		Sandbox("box-9", "uid-9", OfPod("web-1"), with6, Unread)))
}

// Its status has the addresses of the sandbox that was not read, and the allocation still names the one before.
func TestASandboxThatWasNotReadMayCarryTheAddressesOfItsPod(t *testing.T) {
	expectKept(t, UsualPool, Node("worker-1"), UsualPod(DeletedAgo(-time.Minute), Carrying("10.0.0.5")),
		FreshReport("worker-1", gone1, Sandbox("box-2", UsualUID, Unread)))
}

// What may have been on a node that is gone ends with it, and is never proven: as with a
// sandbox of which the addresses are known.
func TestWhatLapsedWithAMissingNodeProvesNothingWhereItWasNotRead(t *testing.T) {
	lapsed := func(edits ...SandboxEdit) Part {
		return StaleReport("worker-2", Sandbox("box-9", "uid-9", append(edits, OfPod("web-1"))...),
			RenewedAt(Now.Add(-3*time.Hour)))
	}
	base := All(UsualPool, ReportingWorker(gone1))
	for says, report := range map[string]Part{"read": lapsed(with5), "not read": lapsed(Unread)} {
		t.Run(says, func(t *testing.T) {
			it := usualIn(t, base, report)
			if it.Proven || !it.Evidence().MissingNode {
				t.Errorf("%v, rests on a missing node: %v\nit says: %s", RulingOf(it), it.Evidence().MissingNode, it.Message())
			}
		})
	}
}

// unreadBeside are the allocations of three networks whose sandboxes have ended, beside a sandbox
// of which the addresses are not known.
func unreadBeside(edit SandboxEdit, parts ...Part) map[string]string {
	beside := append([]Part{
		Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/gone-1", "box-a", "net1")),
		Pool("10.9.0.0-24", "10.9.0.0/24", Alloc("5", "default/gone-2", "box-b", "net1")),
		Pool("red-fd00---64", "fd00::/64", Alloc("5", "default/gone-3", "box-c", "net1")),
		wb, NAD("red", WhereaboutsConfig("fd00::/64", "red")),
		ReportingWorker(Gone("box-a", "u1"), Gone("box-b", "u2"), Gone("box-c", "u3"), Sandbox("box-t", "uid-t",
			OfPod("tenant"), Unread, edit)),
	}, parts...)
	found := map[string]string{}
	for _, it := range Judged(Observe(beside...), facts.Policy{}).Allocations {
		found[it.Address().String()] = string(it.Reason)
		if it.Verdict == judge.Held && !strings.Contains(it.Message(),
			"sandbox box-t of default/tenant on node worker-1 may carry") {
			found[it.Address().String()] = it.Message()
		}
	}
	return found
}

// Whose addresses are not known claims what its CNI caches name; else what its pod asks for; and
// only where there are neither, anything.
func TestAnUnreadSandboxMayCarryWhatItsCachesOrItsPodName(t *testing.T) {
	nothing := mayCarry()
	const free, held = string(judge.PodGone), string(judge.ClaimedByOther)
	for name, tt := range map[string]struct {
		edit SandboxEdit
		pod  Part
		want [3]string
	}{
		"neither": {nothing, Nothing, [3]string{held, held, held}},
		"a range": {mayCarry(v1alpha1.Network{Range: "10.0.0.0/24"}), Nothing, [3]string{held, free, free}},
		"a range of another network": {mayCarry(v1alpha1.Network{Range: "10.0.0.0/24", NetworkName: "red"}), Nothing,
			[3]string{free, free, free}},
		"a network without a range": {mayCarry(v1alpha1.Network{NetworkName: "red"}), Nothing, [3]string{free, free, held}},
		"a pod without networks":    {nothing, Pod("tenant", UID("uid-t"), NoNetworkStatus), [3]string{free, free, free}},
		"a status that is garbage": {nothing, Pod("tenant", UID("uid-t"), NetworkStatus("garbage")),
			[3]string{free, free, free}},
		"a pod that asks for a network": {nothing, Pod("tenant", UID("uid-t"), NoNetworkStatus, Requesting("red")),
			[3]string{free, free, held}},
		"a range beside what it asks": {mayCarry(v1alpha1.Network{Range: "10.0.0.0/24"}), Pod("tenant", UID("uid-t"),
			NoNetworkStatus, Requesting("red")), [3]string{held, free, free}},
		"a definition that is gone": {nothing, Pod("tenant", UID("uid-t"), NoNetworkStatus, Requesting("gone")),
			[3]string{held, held, held}},
		"another pod of its name": {nothing, Pod("tenant", UID("uid-u"), NoNetworkStatus), [3]string{held, held, held}},
		"a pod that has finished": {nothing, Pod("tenant", UID("uid-t"), Phase("Succeeded"), StoppedByKubelet(0)),
			[3]string{free, free, free}},
	} {
		t.Run(name, func(t *testing.T) {
			got := unreadBeside(tt.edit, tt.pod)
			for i, ip := range []string{"10.0.0.5", "10.9.0.5", "fd00::5"} {
				if got[ip] != tt.want[i] {
					t.Errorf("%s: %s, want %s", ip, got[ip], tt.want[i])
				}
			}
		})
	}
}

// The addresses that are left out of an attachment are of the networks that it names, whatever its state is.
func TestAnAttachmentMayCarryWhatIsLeftOutOfIt(t *testing.T) {
	closed, open := true, false
	const free, held = judge.PodGone, judge.ClaimedByOther
	for name, tt := range map[string]struct {
		closed   *bool
		isUnread bool
		mayCarry []v1alpha1.Network
		want     judge.Reason
	}{
		"nothing is left out":     {&open, false, nil, free},
		"of its range":            {&open, true, []v1alpha1.Network{{Range: "10.0.0.0/24"}}, held},
		"of another range":        {&open, true, []v1alpha1.Network{{Range: "10.9.0.0/24"}}, free},
		"of any":                  {nil, true, nil, held},
		"its network has closed":  {&closed, true, []v1alpha1.Network{{Range: "10.0.0.0/24"}}, free},
		"its network is unknown":  {nil, true, []v1alpha1.Network{{Range: "10.0.0.0/24"}}, held},
		"of the network's ranges": {&open, true, []v1alpha1.Network{{}}, held},
	} {
		t.Run(name, func(t *testing.T) {
			report := ReportingWorker(Gone("box-a", "u1"), Attachment("box-t", "uid-t", time.Hour, tt.closed),
				func(r *podstate.Report) {
					r.Attachments[0].AddressesUnread, r.Attachments[0].MayCarry = tt.isUnread, tt.mayCarry
				})
			o := Observe(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/gone-1", "box-a", "net1")), wb, report)
			if it := Judged(o, facts.Policy{}).Allocations[0]; it.Reason != tt.want {
				t.Errorf("%s, want %s: %s", it.Reason, tt.want, it.Message())
			}
		})
	}
}

// A pod of 70 dual-stack interfaces: more addresses than a report and a network-status are read for.
func TestUnread_PodWithManyAddresses(t *testing.T) {
	status := `[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true}`
	for i := range 70 {
		status += fmt.Sprintf(`,{"name":"default/wb","interface":"net%d","ips":["10.0.0.%d","fd09::%d"]}`, i+1, i+10, i+1)
	}
	ranges := mayCarry(v1alpha1.Network{Range: "10.0.0.0/24"}, v1alpha1.Network{Range: "fd09::/64"})
	got := unreadBeside(ranges, Pod("tenant", UID("uid-t"), NetworkStatus(status+"]")))
	if got["10.0.0.5"] != string(judge.ClaimedByOther) || got["10.9.0.5"] != string(judge.PodGone) {
		t.Errorf("got %v", got)
	}
}

// A pod that holds stale addresses of networks that are not its own is a finding that names it.
func TestFindings_UnreadOfOtherNetworks(t *testing.T) {
	stale := Alloc("5", "default/gone-1", "box-a", "net1")
	own := Alloc("6", "default/tenant", "box-t", "net1")
	sandbox := func(edit SandboxEdit) Part {
		return ReportingWorker(Gone("box-a", "u1"), Sandbox("box-t", "uid-t", OfPod("tenant"), Unread, edit))
	}
	nothing := mayCarry()
	pod := func(edits ...PodEdit) Part { return Pod("tenant", append(edits, UID("uid-t"), CreatedLongAgo)...) }
	for name, tt := range map[string]struct {
		parts []Part
		says  string // "" for no finding
	}{
		"a definition that is missing": {[]Part{sandbox(nothing), pod(NoNetworkStatus, Requesting("none"))},
			"default/none, which its pod names, is missing"},
		"a status with one that is missing": {[]Part{sandbox(nothing),
			pod(NetworkStatus(`[{"name":"default/none","interface":"net1"}]`))},
			"default/none, which its pod names, is missing"},
		"one that cannot be read": {[]Part{sandbox(nothing), NAD("mine", "{"), pod(NoNetworkStatus, Requesting("mine"))},
			"default/mine, which its pod names, is missing or cannot be read"},
		"a range around those of others": {[]Part{sandbox(mayCarry(v1alpha1.Network{Range: "10.0.0.0/8"})), pod()},
			"1 stale addresses of pools that have no allocation of its pod"},
		"an unknown range": {[]Part{sandbox(mayCarry(v1alpha1.Network{})), pod()}, "such as kube-system/10.0.0.0-24"},
		"its definition's network, with other ranges": {[]Part{sandbox(nothing), NAD("mine",
			WhereaboutsConfig("10.7.0.0/24", "")), pod(NoNetworkStatus, Requesting("mine"))}, "such as kube-system/10.0.0.0-24"},
		"a range of its caches": {[]Part{sandbox(mayCarry(v1alpha1.Network{Range: "10.0.0.0/24"})), pod()}, ""},
		"a pool beside the one of its pod": {[]Part{sandbox(mayCarry(v1alpha1.Network{})), pod(),
			Pool("10.9.0.0-24", "10.9.0.0/24", own)}, "such as kube-system/10.0.0.0-24"},
		"another network": {[]Part{sandbox(mayCarry(v1alpha1.Network{Range: "10.7.0.0/24"})), pod()}, ""},
		"a pod without its report": {[]Part{Node("worker-1"), Node("worker-2"), FreshReport("worker-2", Gone("box-a", "u1")),
			NAD("mine", "{"), pod(NoNetworkStatus, Requesting("mine"))}, "pod default/tenant may carry any address"},
	} {
		t.Run(name, func(t *testing.T) {
			parts := append([]Part{Pool("10.0.0.0-24", "10.0.0.0/24", stale)}, tt.parts...)
			found := FindingsOf(findings.UnreadSandbox, parts...)
			if tt.says == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || tt.says == "" || !strings.Contains(found[0].Message, tt.says) ||
				found[0].Pods[0] != "default/tenant" || found[0].Node != "worker-1" {
				t.Errorf("want %q: %+v", tt.says, found)
			}
		})
	}
}

// What may carry any address is a finding that names node and sandbox; what names a network is none.
func TestFindings_UnreadSandbox(t *testing.T) {
	runs := func(networks ...v1alpha1.Network) Part {
		return ReportingWorker(Sandbox("box-t", "uid-t", OfPod("tenant"), Unread, mayCarry(networks...)))
	}
	found := FindingsOf(findings.UnreadSandbox, UsualPool, runs())
	if len(found) != 1 || found[0].Node != "worker-1" || found[0].ContainerIDs[0] != "box-t" ||
		!strings.Contains(found[0].Message, "default/tenant") {
		t.Errorf("%+v", found)
	}
	if found := FindingsOf(findings.UnreadSandbox, UsualPool,
		runs(v1alpha1.Network{Range: "10.0.0.0/24"})); len(found) > 0 {
		t.Errorf("with a range: %+v", found)
	}
	if found := FindingsOf(findings.UnreadSandbox, UsualPool, runs(), Pod("tenant", UID("uid-t"),
		NoNetworkStatus)); len(found) > 0 {
		t.Errorf("with a pod: %+v", found)
	}
}
