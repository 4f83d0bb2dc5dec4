package explanation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

var advisor = advice.Advisor{Program: "ip-reconcile", Namespace: "kube-system"}

func on(pod, container string, hour int) carrier {
	return carrier{pod: pod, uid: "uid-" + container, node: "node-" + container, container: container, since: time.Date(2026, 11, 20, hour, 0, 0, 0, time.UTC)}
}

func phantom(pod, container string, hour int) carrier {
	c := on(pod, container, hour)
	c.phantom = true
	return c
}

func entry(podRef, container string, verdict judge.Verdict) *judge.Item {
	return &judge.Item{Judged: judge.Judged{Verdict: verdict}, Allocation: &ippool.Allocation{PodRef: podRef, ContainerID: container}}
}

func TestConflict_WhoKeepsTheAddress(t *testing.T) {
	const repairing, asking = "ip-reconcile run --repair --reason=Unrecorded,Misrecorded,MissingReservation --pool=kube-system/p", "ip-reconcile explain 10.0.0.7"
	deleting := func(name string) string { return "kubectl delete pod -n default " + name }
	ending := func(container string) string {
		return "node-" + container + ": crictl stopp " + container + " && crictl rmp " + container
	}
	for name, c := range map[string]struct {
		entry    *judge.Item
		carriers []carrier
		repair   string
		says     string
		want     []string
	}{
		"the pod that the entry names": {entry("default/a", "ca", judge.InUse), []carrier{on("default/a", "ca", 5), on("default/b", "cb", 1)}, "",
			"default/a on node-ca keeps 10.0.0.7", []string{deleting("b")}},
		"the pod that the entry names by its name alone": {entry("default/b", "older", judge.Held), []carrier{on("default/a", "ca", 1), on("default/b", "cb", 5)}, "",
			"default/b on node-cb keeps 10.0.0.7", []string{deleting("a")}},
		"the pod that the entry names, and not a phantom": {entry("default/a", "ca", judge.InUse), []carrier{on("default/a", "ca", 5), phantom("default/b", "cb", 1)}, "",
			"default/a on node-ca keeps 10.0.0.7", []string{ending("cb")}},
		"a successor, and not the phantom of its name": {entry("default/a", "new", judge.InUse), []carrier{phantom("default/a", "old", 1), on("default/a", "new", 5)}, "",
			"default/a on node-new keeps 10.0.0.7", []string{ending("old")}},
		"one of two sandboxes of a pod": {entry("default/a", "new", judge.InUse), []carrier{on("default/a", "old", 1), on("default/a", "new", 5)}, "",
			"default/a on node-new keeps 10.0.0.7", []string{ending("old")}},
		"the phantom that the entry names, until the pod has another": {entry("default/b_uid-cb", "cb", judge.Held), []carrier{on("default/a", "ca", 1), phantom("default/b", "cb", 5)}, "",
			"its DEL would free the entry", []string{deleting("a"), ending("cb")}},
		"nobody is named: the pod, when the phantom has ended": {nil, []carrier{phantom("default/a", "ca", 1), on("default/b", "cb", 5)}, "default/a_uid-ca",
			"default/b on node-cb keeps 10.0.0.7", []string{ending("ca"), repairing}},
		"nobody is named: the one for which an entry can be written": {nil, []carrier{on("default/a", "ca", 1), on("default/b", "cb", 5)}, "default/b",
			"writes it for default/b", []string{repairing, deleting("a")}},
		"nobody is named, and nothing can be written": {nil, []carrier{{pod: "default/a"}, {pod: "default/b"}}, "",
			"None of them keeps 10.0.0.7", []string{deleting("a"), deleting("b")}},
		"another is named and has it": {entry("default/c", "cc", judge.InUse), []carrier{on("default/a", "ca", 1), phantom("default/b", "cb", 5)}, "",
			"None of them keeps 10.0.0.7. It is recorded in kube-system/p for default/c", []string{ending("cb"), deleting("a")}},
		"another is named that does not run: the oldest": {entry("default/c", "cc", judge.Held), []carrier{on("default/a", "ca", 5), on("default/b", "cb", 1)}, "",
			"default/b on node-cb keeps 10.0.0.7, as the pod that has had it longest", []string{deleting("a"), repairing}},
		"another is named that does not run: the pod": {entry("default/c", "cc", judge.Held), []carrier{on("default/a", "ca", 5), phantom("default/b", "cb", 1)}, "",
			"default/a on node-ca keeps 10.0.0.7", []string{ending("cb"), repairing}},
		"another is named, and only phantoms carry it": {entry("default/c", "cc", judge.Held), []carrier{phantom("default/a", "ca", 5), phantom("default/b", "cb", 1)}, "",
			"None of them keeps 10.0.0.7", []string{ending("cb"), ending("ca")}},
		"one carrier alone: nothing is concluded": {nil, []carrier{on("default/a", "ca", 1)}, "", "see which of them keeps it", nil},
	} {
		t.Run(name, func(t *testing.T) {
			steps := conflict{ip: "10.0.0.7", pool: "kube-system/p", entry: c.entry, carriers: c.carriers, repair: c.repair}.advise(advisor)
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

func TestConflict_StepsStayInTheirOrderBesideOthers(t *testing.T) {
	repairFirst := conflict{ip: "10.0.0.7", pool: "kube-system/p", repair: "default/b", carriers: []carrier{on("default/a", "ca", 1), on("default/b", "cb", 5)}}.advise(advisor)
	repairLast := conflict{ip: "10.0.0.8", pool: "kube-system/p", carriers: []carrier{phantom("default/c", "cc", 1), on("default/a", "ca", 5)}}.advise(advisor)
	others := slices.Concat(advisor.Steps("findings", "Unrecorded", advice.Facts{Names: map[string]string{"pool": "kube-system/p"}}),
		advisor.Steps("reasons", "TerminalButRunning", advice.Facts{Names: map[string]string{"pod": "default/a", "container": "cc"}, Nodes: []string{"node-cc"}}))
	got := advice.Unique(slices.Concat(repairFirst, repairLast, others))
	if want := slices.Concat(repairFirst, repairLast); !slices.Equal(got[:len(want)], want) {
		t.Errorf("got\n%+v\nwant\n%+v", got[:len(want)], want)
	}
}

// The API's pod of the name of a sandbox is not known to be the sandbox's.
func TestAdviseFinding_PodIsDeletedOnlyWithoutASandbox(t *testing.T) {
	e := &answer{q: Question{Advisor: advisor}}
	f := judge.Finding{Kind: judge.Unrecorded, IP: "10.0.0.7", Pods: []string{"default/web-0"}}
	for _, ids := range [][]string{nil, {"box-1"}} {
		f.ContainerIDs = ids
		steps := e.adviseFinding(f)
		if deletes := slices.ContainsFunc(steps, func(s document.Advice) bool { return strings.Contains(s.Command, "delete pod") }); len(steps) == 0 || deletes != (ids == nil) {
			t.Errorf("of sandboxes %q: %+v", ids, steps)
		}
	}
}
