package snapshot_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// podCopy is a copy of the pod default/a at a resourceVersion, with an address.
func podCopy(uid, version, address, phase, more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {namespace: default, name: a, uid: %s, resourceVersion: %q, %sannotations: {k8s.v1.cni.cncf.io/network-status: '[{"name":"default/wb","interface":"net1","ips":["%s"]}]'}}
spec: {nodeName: w1}
status: {phase: %s}
`, uid, version, more, address, phase)
}

// observeCopies observes files with copies of the pod default/a, beside onePool with both entries of it.
func observeCopies(t *testing.T, copies ...string) *judge.Observation {
	t.Helper()
	files := map[string]string{"pool.yaml": strings.Replace(onePool, "default/b", "default/a", 1)}
	for i, text := range copies {
		files[string(rune('a'+i))+".yaml"] = text
	}
	return observe(t, open(t, folder(t, files)))
}

// 'oc adm inspect' reads a running pod twice, one time after the other.
func TestOfTwoCopiesOfOnePodTheLaterCountsAndTheAddressesOfBoth(t *testing.T) {
	early, late := podCopy("u", "9", "10.0.0.5", "Pending", ""), podCopy("u", "10", "10.0.0.6", "Running", "")
	for _, copies := range [][2]string{{early, late}, {late, early}} {
		o := observeCopies(t, copies[0], copies[1])
		p := o.Pods[name("default", "a")]
		if len(o.Unreadable) > 0 || p.Disputed != "" || p.Phase != podstate.Live || p.ResourceVersion != "10" || len(p.Interfaces) != 2 {
			t.Errorf("unreadable %q, pod %+v", o.Unreadable, p)
		}
		for _, it := range judge.Judge(o, nil, judge.Policy{}).Allocations {
			equal(t, it.Text(), it.Verdict, judge.InUse)
		}
	}
}

func TestTwoCopiesThatDifferInTheirVersionAloneAreNoDispute(t *testing.T) {
	o := observeFile(t, podCopy("u", "x1", "10.0.0.5", "Running", "")+"---\n"+podCopy("u", "x2", "10.0.0.5", "Running", ""))
	if p := o.Pods[name("default", "a")]; len(o.Unreadable) > 0 || p.Disputed != "" {
		t.Errorf("unreadable %q, pod %+v", o.Unreadable, p)
	}
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: w1, resourceVersion: \"%d\"}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}\n---\n"
	if o := observeFile(t, fmt.Sprintf(node, 1)+fmt.Sprintf(node, 2)); len(o.Unreadable) > 0 || !o.Nodes["w1"].Ready {
		t.Errorf("unreadable %q, node %+v", o.Unreadable, o.Nodes["w1"])
	}
}

// After a restore of etcd the lower version may be the later one, and of another pod, or of
// versions that are no numbers, there is no order at all.
func TestCopiesWhoseOrderIsNotKnownAreDisputed(t *testing.T) {
	first := podCopy("u", "9", "10.0.0.5", "Running", "")
	deleted := podCopy("u", "9", "10.0.0.5", "Running", `deletionTimestamp: "2026-11-20T11:00:00Z", `)
	for title, copies := range map[string][2]string{
		"another UID":                  {first, podCopy("v", "10", "10.0.0.6", "Running", "")},
		"no UID":                       {podCopy("''", "9", "10.0.0.5", "Running", ""), podCopy("''", "10", "10.0.0.6", "Running", "")},
		"one version, two contents":    {first, podCopy("u", "9", "10.0.0.6", "Running", "")},
		"versions that are no numbers": {first, podCopy("u", "a", "10.0.0.6", "Running", "")},
		"a terminal phase is left":     {podCopy("u", "9", "10.0.0.5", "Failed", ""), podCopy("u", "10", "10.0.0.5", "Running", "")},
		"a deletion is taken back":     {deleted, podCopy("u", "10", "10.0.0.5", "Running", "")},
		"the node changes":             {first, strings.Replace(podCopy("u", "10", "10.0.0.5", "Running", ""), "w1", "w2", 1)},
	} {
		for _, order := range [][2]string{copies, {copies[1], copies[0]}} {
			o := observeCopies(t, order[0], order[1])
			if len(o.Unreadable) != 1 || !strings.Contains(o.Unreadable[0], "differ") {
				t.Errorf("%s: unreadable %q", title, o.Unreadable)
			}
			for _, it := range judge.Judge(o, nil, judge.Policy{}).Allocations {
				equal(t, title+": "+it.Text(), it.Verdict, judge.Held)
			}
		}
	}
	third := observeCopies(t, first, podCopy("u", "9", "10.0.0.6", "Running", ""), podCopy("u", "11", "10.0.0.6", "Running", ""))
	if third.Pods[name("default", "a")].Disputed == "" {
		t.Error("a third copy settles a dispute between two of one version")
	}
}

func TestCopiesOfAPoolAreOnePoolTheLaterOne(t *testing.T) {
	late := strings.ReplaceAll(strings.Replace(onePool, `"1234"`, `"1235"`, 1), "c5", "c7")
	for title, c := range map[string]struct {
		copies [2]string
		id     string
		notes  int
	}{
		"the same":         {[2]string{onePool, onePool}, "c5", 0},
		"a later one":      {[2]string{onePool, late}, "c7", 0},
		"an earlier one":   {[2]string{late, onePool}, "c7", 0},
		"one version":      {[2]string{onePool, strings.ReplaceAll(onePool, "c5", "c7")}, "c5", 1},
		"of another UID":   {[2]string{onePool, strings.Replace(late, "6f7d", "0000", 1)}, "c5", 1},
		"without versions": {[2]string{strings.Replace(onePool, "\"1234\"", "\"\"", 1), strings.Replace(late, "\"1235\"", "\"\"", 1)}, "c5", 1},
	} {
		dir := folder(t, map[string]string{"a.yaml": c.copies[0], "b.yaml": c.copies[1]})
		f := open(t, dir)
		o := observe(t, f)
		if len(o.Pools) != 1 || o.Pools[0].Find("5").ContainerID != c.id || len(o.Unreadable) != c.notes {
			t.Errorf("%s: %d pools, %+v, unreadable %q", title, len(o.Pools), o.Pools[0].Find("5"), o.Unreadable)
		}
	}
}

func TestCopiesOfAReservationAreOneReservation(t *testing.T) {
	const text = "apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: OverlappingRangeIPReservation\nmetadata: {namespace: kube-system, name: 10.0.0.5, uid: r5}\nspec: {podref: default/a}\n---\n"
	for second, notes := range map[string]int{text: 0, strings.Replace(text, "default/a", "default/b", 1): 1} {
		o := observeFile(t, text+second)
		if len(o.Reservations) != 1 || o.Reservations[0].PodRef != "default/a" || len(o.Unreadable) != notes {
			t.Errorf("%d reservations, unreadable %q", len(o.Reservations), o.Unreadable)
		}
	}
}

func TestAPauseInOneCopyOfTheNamespaceCounts(t *testing.T) {
	const plain, paused = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ip-reconcile, annotations: {a: b}}\n", "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ip-reconcile, annotations: {ip-reconcile.dev/paused: \"true\"}}\n"
	for _, c := range []struct {
		copies string
		want   bool
	}{
		{plain, false}, {plain + plain, false}, {paused + plain, true}, {plain + paused, true},
	} {
		if o := observeFile(t, c.copies); o.Paused != c.want {
			t.Errorf("paused: %v, by%s", o.Paused, c.copies)
		}
	}
}
