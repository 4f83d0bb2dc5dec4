package advice

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func carrier(pod, container string, hour int) Carrier {
	return Carrier{Pod: pod, UID: "uid-" + container, Node: "node-" + container, Container: container, Since: time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC)}
}

func phantom(pod, container string, hour int) Carrier {
	c := carrier(pod, container, hour)
	c.Phantom = true
	return c
}

func TestWhoKeepsAnAddressThatSeveralCarry(t *testing.T) {
	const repairing, asking = "ip-reconcile run --repair --reason=Unrecorded,Misrecorded,MissingReservation --pool=kube-system/p", "ip-reconcile explain 10.0.0.7"
	deleting := func(name string) string { return "kubectl delete pod -n default " + name }
	ending := func(container string) string {
		return "node-" + container + ": crictl stopp " + container + " && crictl rmp " + container
	}
	for name, c := range map[string]struct {
		entry    *Entry
		carriers []Carrier
		repair   string
		says     string
		want     []string
	}{
		"the pod that the entry names": {&Entry{PodRef: "default/a", Container: "ca", InUse: true}, []Carrier{carrier("default/a", "ca", 5), carrier("default/b", "cb", 1)}, "",
			"default/a on node-ca keeps 10.0.0.7", []string{deleting("b")}},
		"the pod that the entry names by its name alone": {&Entry{PodRef: "default/b", Container: "older"}, []Carrier{carrier("default/a", "ca", 1), carrier("default/b", "cb", 5)}, "",
			"default/b on node-cb keeps 10.0.0.7", []string{deleting("a")}},
		"the pod that the entry names, and not a phantom": {&Entry{PodRef: "default/a", Container: "ca", InUse: true}, []Carrier{carrier("default/a", "ca", 5), phantom("default/b", "cb", 1)}, "",
			"default/a on node-ca keeps 10.0.0.7", []string{ending("cb")}},
		"a successor, and not the phantom of its name": {&Entry{PodRef: "default/a", Container: "new", InUse: true}, []Carrier{phantom("default/a", "old", 1), carrier("default/a", "new", 5)}, "",
			"default/a on node-new keeps 10.0.0.7", []string{ending("old")}},
		"one of two sandboxes of a pod": {&Entry{PodRef: "default/a", Container: "new", InUse: true}, []Carrier{carrier("default/a", "old", 1), carrier("default/a", "new", 5)}, "",
			"default/a on node-new keeps 10.0.0.7", []string{ending("old")}},
		"the phantom that the entry names, until the pod has another": {&Entry{PodRef: "default/b_uid-cb", Container: "cb"}, []Carrier{carrier("default/a", "ca", 1), phantom("default/b", "cb", 5)}, "",
			"its DEL would free the entry", []string{deleting("a"), ending("cb")}},
		"nobody is named: the pod, when the phantom has ended": {nil, []Carrier{phantom("default/a", "ca", 1), carrier("default/b", "cb", 5)}, "default/a_uid-ca",
			"default/b on node-cb keeps 10.0.0.7", []string{ending("ca"), repairing}},
		"nobody is named: the one for which an entry can be written": {nil, []Carrier{carrier("default/a", "ca", 1), carrier("default/b", "cb", 5)}, "default/b",
			"writes it for default/b", []string{repairing, deleting("a")}},
		"nobody is named, and nothing can be written": {nil, []Carrier{{Pod: "default/a"}, {Pod: "default/b"}}, "",
			"none keeps it", []string{deleting("a"), deleting("b")}},
		"another is named and has it": {&Entry{PodRef: "default/c", Container: "cc", InUse: true}, []Carrier{carrier("default/a", "ca", 1), phantom("default/b", "cb", 5)}, "",
			"for default/c, which has it", []string{deleting("a"), ending("cb")}},
		"another is named that does not run: the oldest": {&Entry{PodRef: "default/c", Container: "cc"}, []Carrier{carrier("default/a", "ca", 5), carrier("default/b", "cb", 1)}, "",
			"default/b on node-cb keeps 10.0.0.7, as the pod that has had it longest", []string{deleting("a"), repairing}},
		"another is named that does not run: the pod": {&Entry{PodRef: "default/c", Container: "cc"}, []Carrier{carrier("default/a", "ca", 5), phantom("default/b", "cb", 1)}, "",
			"default/a on node-ca keeps 10.0.0.7", []string{ending("cb"), repairing}},
		"another is named, and only phantoms carry it": {&Entry{PodRef: "default/c", Container: "cc"}, []Carrier{phantom("default/a", "ca", 5), phantom("default/b", "cb", 1)}, "",
			"so none keeps it", []string{ending("cb"), ending("ca")}},
	} {
		t.Run(name, func(t *testing.T) {
			steps := advisor().OfConflict(Conflict{Address: "10.0.0.7", Pool: "kube-system/p", Entry: c.entry, Carriers: c.carriers, Repair: c.repair})
			var got []string
			for _, s := range steps {
				if s.Command != "" && s.OnNode != "" {
					got = append(got, s.OnNode+": "+s.Command)
				} else if s.Command != "" {
					got = append(got, s.Command)
				}
			}
			if want := append(c.want, asking); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			if !strings.Contains(steps[0].Why, c.says) {
				t.Errorf("%q does not say %q", steps[0].Why, c.says)
			}
		})
	}
}

// What nobody else can tell must not be concluded: two carriers are needed for a decision.
func TestAConflictOfWhichOneCarrierIsKnownDeletesNothing(t *testing.T) {
	for _, s := range advisor().OfConflict(Conflict{Address: "10.0.0.7", Carriers: []Carrier{carrier("default/a", "ca", 1)}}) {
		if s.Command != "ip-reconcile explain 10.0.0.7" {
			t.Errorf("%+v", s)
		}
	}
}

func TestTheStepsOnAConflictStayInTheirOrderBesideOthers(t *testing.T) {
	a := advisor()
	repairFirst := a.OfConflict(Conflict{Address: "10.0.0.7", Pool: "kube-system/p", Repair: "default/b", Carriers: []Carrier{carrier("default/a", "ca", 1), carrier("default/b", "cb", 5)}})
	repairLast := a.OfConflict(Conflict{Address: "10.0.0.8", Pool: "kube-system/p", Carriers: []Carrier{phantom("default/c", "cc", 1), carrier("default/a", "ca", 5)}})
	others := slices.Concat(a.OfFinding(judge.Unrecorded, true, Facts{Pool: "kube-system/p"}), a.OfReason(judge.Held, judge.TerminalButRunning, Facts{Pod: "default/a", Container: "cc", Nodes: []string{"node-cc"}}))
	got := Unique(slices.Concat(repairFirst, repairLast, others))
	if want := slices.Concat(repairFirst, repairLast); !slices.Equal(got[:len(want)], want) {
		t.Errorf("got\n%+v\nwant\n%+v", got[:len(want)], want)
	}
}
