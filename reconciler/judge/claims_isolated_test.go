package judge_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Two layer-2 networks, unnamed, of which the ranges overlap: each has assigned 10.0.0.5.
func twice(options string, more ...Part) []Part {
	return append([]Part{
		NAD("vlan1", WhereaboutsConfig("10.0.0.0/24", "", options)), NAD("vlan2", WhereaboutsConfig("10.0.0.0/16", "",
			options)),
		Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1")),
		Pool("10.0.0.0-16", "10.0.0.0/16", Alloc("5", "default/web-1", "box-2", "net1")),
	}, more...)
}

const (
	unchecked = `"enable_overlapping_ranges":false`
	checked   = `"enable_overlapping_ranges":true`
)

func TestIsolatedNetworksMayGiveAnAddressTwice(t *testing.T) {
	one := []Part{UsualPod(CarryingOn("default/vlan1", "net1", "10.0.0.5"))}
	other := []Part{Pod("web-1", UID("uid-2"), CarryingOn("default/vlan2", "net1", "10.0.0.5"))}
	reported := ReportingWorker(Sandbox("box-1", UsualUID, AddressIn("10.0.0.5", "net1", "10.0.0.0/24", "")),
		Sandbox("box-2", "uid-2", OfPod("web-1"), AddressIn("10.0.0.5", "net1", "10.0.0.0/16", "")))
	for options, want := range map[string]bool{unchecked: false, checked: true} {
		for says, parts := range map[string][]Part{
			"by reports":          append(append(twice(options, reported), one...), other...),
			"by their pods alone": append(append(twice(options), one...), other...),
		} {
			if found := FindingsOf(findings.Conflict, parts...); (len(found) > 0) != want {
				t.Errorf("%s %s: %v", options, says, found)
			}
		}
	}
}

func TestOfTwoOnOneNetworkThatIsNotCheckedOneHasNoEntry(t *testing.T) {
	found := FindingsOf(findings.Conflict, UsualPool, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", unchecked)),
		UsualPod(Carrying("10.0.0.5")), Pod("web-1", Carrying("10.0.0.5")))
	if len(found) != 1 {
		t.Errorf("%d findings", len(found))
	}
}

func TestWhoHasTheAddressInAnIsolatedNetworkIsNoClaimant(t *testing.T) {
	other := Pod("web-1", UID("uid-2"), CarryingOn("default/vlan2", "net1", "10.0.0.5"))
	otherBox := Sandbox("box-2", "uid-2", OfPod("web-1"), AddressIn("10.0.0.5", "net1", "10.0.0.0/16", ""))
	sameRange := Sandbox("box-2", "uid-2", OfPod("web-1"), AddressIn("10.0.0.5", "net1", "10.0.0.0/24", ""))
	sameNetwork := Pod("web-1", UID("uid-2"), CarryingOn("default/vlan1", "net1", "10.0.0.5"))
	for says, c := range map[string]struct {
		parts []Part
		want  judge.Verdict
	}{
		"a sandbox":                               {twice(unchecked, other, ReportingWorker(gone1, otherBox)), judge.Stale},
		"a pod that no report has":                {twice(unchecked, other, ReportingWorker(gone1)), judge.Stale},
		"a sandbox, and the check is on":          {twice(checked, other, ReportingWorker(gone1, otherBox)), judge.Held},
		"a pod, and the check is on":              {twice(checked, other, ReportingWorker(gone1)), judge.Held},
		"a sandbox with an address of this range": {twice(unchecked, other, ReportingWorker(gone1, sameRange)), judge.Held},
		"a pod of this network":                   {twice(unchecked, sameNetwork, ReportingWorker(gone1)), judge.Held},
		"another definition of it checks the same": {twice(unchecked, other, NAD("vlan3", WhereaboutsConfig("10.0.0.0/24", "",
			checked)), ReportingWorker(gone1, otherBox)), judge.Held},
	} {
		j := Judged(Observe(c.parts...), facts.Policy{})
		for _, it := range j.Allocations {
			if it.ContainerID() == "box-1" && it.Verdict != c.want {
				t.Errorf("%s: %s %s: %s", says, it.Verdict, it.Reason, it.Message())
			}
		}
	}
}

// A pod has the same address in two networks of one range, and one of its allocations was lost with its pool. The other
// one is not about this network.
func TestTheAllocationOfAnotherNetworkDoesNotSetACarrierApart(t *testing.T) {
	red := NAD("red", WhereaboutsConfig("10.0.0.0/24", "red", unchecked))
	for says, pods := range map[string]Part{
		"by a report": ReportingWorker(gone1, Sandbox("box-2", "uid-2", OfPod("web-1"),
			AddressIn("10.0.0.5", "net1", "10.0.0.0/24", ""), AddressIn("10.0.0.5", "net2", "10.0.0.0/24", "red"))),
		"by its pod": All(ReportingWorker(gone1), Pod("web-1", UID("uid-2"),
			NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]},`+
				`{"name":"default/red","interface":"net2","ips":["10.0.0.5"]}]`))),
	} {
		j := Judged(Observe(UsualPool, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", unchecked)), red,
			Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-1", "box-2", "net2")), pods), facts.Policy{})
		for _, it := range j.Allocations {
			if it.ContainerID() == "box-1" && it.Verdict != judge.Held {
				t.Errorf("%s: %s %s: %s", says, it.Verdict, it.Reason, it.Message())
			}
		}
	}
}
