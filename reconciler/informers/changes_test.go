package informers

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// told are the names of what has changed.
func told(l *judge.Live) []string {
	if l == nil {
		return []string{"everything"}
	}
	all := []string{}
	add := func(kind string, name types.NamespacedName, there bool) {
		text := kind + " " + name.Name
		if !there {
			text += " is gone"
		}
		all = append(all, text)
	}
	for name, p := range l.Pods {
		add("pod", name, p != nil)
	}
	for name, p := range l.Pools {
		add("pool", name, p != nil)
	}
	for name, r := range l.Reservations {
		add("reservation", name, r != nil)
	}
	for name, r := range l.Reports {
		add("report", types.NamespacedName{Name: name}, r != nil)
	}
	slices.Sort(all)
	return all
}

func TestTheViewKnowsWhatHasChangedSinceAPass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.session.view
	equal(t, "before the first pass", fmt.Sprint(told(v.changesSince())), "[everything]")
	v.observe(&judge.Observation{})
	equal(t, "nothing", fmt.Sprint(told(v.changesSince())), "[]")
	web := b.watchEvent("pods", aPod("web", "21"))
	b.watchEvent("ippools", aPool("22", "web"))
	b.watchEvent("sandboxreports", aReport("23"))
	equal(t, "a pod, a pool, a report", fmt.Sprint(told(v.changesSince())), "[pod web pool 10.0.0.0-24 report worker-1]")
	equal(t, "the same is told once", fmt.Sprint(told(v.changesSince())), "[]")
	v.remove("pods", web)
	equal(t, "a pod that goes", fmt.Sprint(told(v.changesSince())), "[pod web is gone]")
	b.watchEvent("leases", aLease("24", "worker-1", "abc", 0))
	live := v.changesSince()
	equal(t, "a Lease", fmt.Sprint(told(live)), "[report worker-1]")
	if live.Reports["worker-1"].LeaseRenewed.IsZero() {
		t.Error("the report does not have its new Lease")
	}
	b.watchEvent("leases", aLease("25", "leader", "", 0))
	equal(t, "a Lease of no agent", fmt.Sprint(told(v.changesSince())), "[report leader is gone]")
}

func TestWhatChangesForAllIsNotToldByName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.session.view
	for what, change := range map[string]func(){
		"a Node that is not Ready": func() {
			b.watchEvent("nodes", aNode("31", corev1.ConditionTrue))
			v.observe(&judge.Observation{})
			b.watchEvent("nodes", aNode("32", corev1.ConditionFalse))
		},
		"a definition": func() {
			b.watchEvent("network-attachment-definitions", aNAD("33", `{"ipam":{"type":"whereabouts","range":"10.9.0.0/24"}}`))
		},
		"a pause": func() { b.watchEvent("namespaces", aNamespace("34", "true")) },
		"a report that is unreadable": func() {
			r := aReport("35")
			r.Object["sandboxes"] = "nonsense"
			b.watchEvent("sandboxreports", r)
		},
		"more than is worth telling": func() {
			for i := range maxChanges + 1 {
				b.watchEvent("pods", aPod(fmt.Sprint("many-", i), "36"))
			}
		},
	} {
		v.observe(&judge.Observation{})
		change()
		equal(t, what, fmt.Sprint(told(v.changesSince())), "[everything]")
		equal(t, what+", until the next pass", fmt.Sprint(told(v.changesSince())), "[everything]")
	}
	b.watchEvent("nodes", aNode("41", corev1.ConditionTrue))
	v.observe(&judge.Observation{})
	b.watchEvent("nodes", aNode("42", corev1.ConditionTrue))
	equal(t, "a Node that is the same again", fmt.Sprint(told(v.changesSince())), "[]")
}
