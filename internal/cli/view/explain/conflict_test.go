package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// commands are the commands of the steps, with the node that each runs on.
func commands(steps []view.Advice) (all []string) {
	for _, s := range steps {
		if s.Command != "" {
			all = append(all, strings.TrimSpace(s.Command+" @"+s.OnNode))
		}
	}
	return all
}

func ownedBy(kind, name string) PodEdit {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: new(true)}}
	}
}

func TestExplanation_StepsOfAConflict(t *testing.T) {
	const (
		web, twin = "kubectl delete pod -n default web-0 @", "kubectl delete pod -n default twin @"
		ghost     = "crictl stopp box-9 && crictl rmp box-9 @worker-2"
		write     = "ip-reconcile run --repair --reason=Unrecorded,Misrecorded,MissingReservation" +
			" --pool=kube-system/10.0.0.0-24 @"
	)
	wb := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	pool := func(allocs ...Allocation) Part { return All(wb, Pool("10.0.0.0-24", "10.0.0.0/24", allocs...)) }
	of := func(ref, id string) Allocation { return Alloc("5", "default/"+ref, id, "net1") }
	carrying := Carrying("10.0.0.5")
	web0 := UsualPod(carrying, CreatedLongAgo, ownedBy("ReplicaSet", "web"))
	alone := Pod("twin", UID(OtherUID), carrying, OnNode("worker-2"))
	phantom := Sandbox("box-9", "uid-ghost", OfPod("ghost"), WithAddress("10.0.0.5", ""))
	reported := All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1", Sandbox("box-1", UsualUID,
		WithAddress("10.0.0.5", ""))), FreshReport("worker-2", phantom))
	both := func(ago time.Duration) Part { // the sandbox of twin is an hour old
		return All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1", Sandbox("box-1", UsualUID,
			WithAddress("10.0.0.5", ""), CreatedAgo(ago))), FreshReport("worker-2", Sandbox("box-2", OtherUID, OfPod("twin"),
			WithAddress("10.0.0.5", ""), CreatedAgo(time.Hour))))
	}
	for name, c := range map[string]struct {
		parts Part
		want  []string
		text  []string
	}{
		"the recorded pod keeps it, without agents": {All(pool(of("web-0", "box-1")), web0, alone), []string{twin},
			[]string{"default/web-0 keeps 10.0.0.5, because the allocation names it", "owned by no controller",
				"It has no controller: nothing recreates it", "in the API yes, node worker-2, since 2026-11-20T09:00:00Z",
				"owned by ReplicaSet/web", "recorded pod default/web-0"}},
		"the recorded pod keeps it though it is younger": {All(pool(of("twin", "box-2")), web0, alone), []string{web},
			[]string{"ReplicaSet/web recreates it, with another address"}},
		"a phantom is ended beside the recorded pod": {All(pool(of("web-0", "box-1")), web0, reported), []string{ghost},
			[]string{"pod default/ghost, in the API no, node worker-2", "1. End the sandbox of default/ghost on worker-2"}},
		"a recorded phantom ends last": {All(pool(of("ghost_uid-ghost", "box-9")), web0, reported), []string{web, ghost},
			[]string{"Nobody keeps 10.0.0.5", "1. Delete default/web-0", "2. End the sandbox of default/ghost"}},
		"the allocation names neither": {All(pool(of("past", "box-7")), web0, alone, both(2*time.Hour)),
			[]string{twin, write}, []string{"of those that carry the address, it is the oldest pod",
				"2. Make the allocation of 10.0.0.5 name default/web-0"}},
		"the allocation names neither of two that are equally old": {All(pool(of("past", "box-7")), web0, alone,
			both(time.Hour)), []string{web, write},
			[]string{"default/twin keeps 10.0.0.5: the allocation names none of those", "they are equally old"}},
		"the allocation names neither, without agents": {All(pool(of("past", "box-7")), web0, alone), []string{web, twin},
			[]string{"Nobody keeps 10.0.0.5: the allocation names none of its pods"}},
		"the allocation is missing, and is written before anything ends": {All(pool(), web0, alone, both(2*time.Hour)),
			[]string{write, twin}, nil},
		"the allocation is missing, without agents": {All(pool(), web0, alone), []string{web, twin},
			[]string{"No allocation of 10.0.0.5 can be written now"}},
		"a pod that is being deleted": {All(pool(of("web-0", "box-1")), web0, Pod("twin", UID(OtherUID), carrying,
			DeletedAgo(time.Second))), []string{"kubectl wait pod -n default twin --for=delete --timeout=10m @"}, nil},
		"a node that is down": {All(pool(of("web-0", "box-1")), web0, alone, Node("worker-1"),
			Node("worker-2", NotReadyFor(time.Hour))), []string{twin},
			[]string{"worker-2 is not Ready: what runs there ends only once"}},
		"a static pod": {All(pool(of("web-0", "box-1")), web0, Pod("twin", UID(OtherUID), carrying, OnNode("worker-2"),
			ownedBy("Node", "worker-2"))), nil, []string{"a static pod of worker-2: move its manifest"}},
		"an id that no command can have": {All(pool(of("web-0", "box-1")), web0, Node("worker-1"), Node("worker-2"),
			FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
			FreshReport("worker-2", Sandbox("--all", "uid-ghost", OfPod("ghost"), WithAddress("10.0.0.5", "")))), nil,
			[]string{"1. End what default/ghost runs on worker-2 by hand"}},
	} {
		for _, what := range []string{"10.0.0.5", "default/web-0"} {
			d := ask(t, what, nil, c.parts)
			text := strings.Join(strings.Fields(said(d)), " ")
			if got := commands(d.Advice); !slices.Equal(got, c.want) {
				t.Errorf("explain %s: %s: the commands are %q, want %q\n%s", what, name, got, c.want, said(d))
			}
			for _, want := range c.text {
				if !strings.Contains(text, want) {
					t.Errorf("explain %s: %s: it does not say %q:\n%s", what, name, want, said(d))
				}
			}
			if strings.Contains(fmt.Sprint(d.Advice), "ip-reconcile explain") || strings.Contains(text, "https://") {
				t.Errorf("explain %s: %s: the reader is sent elsewhere:\n%s", what, name, said(d))
			}
		}
	}
}

// Of a node or pool, which may have many conflicts, the command says who keeps an address. Nothing ends out of order.
func TestExplanation_ConflictOfANodeOrPool(t *testing.T) {
	conflicting := All(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/ghost_uid-ghost", "box-9", "net1")),
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), UsualPod(Carrying("10.0.0.5")),
		ReportingWorker(Sandbox("box-9", "uid-ghost", OfPod("ghost"), WithAddress("10.0.0.5", "")),
			Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))))
	for _, what := range []string{"pool/10.0.0.0-24", "node/worker-1"} {
		d := ask(t, what, nil, conflicting)
		if got := commands(d.Advice); len(got) == 0 || got[0] != "ip-reconcile explain 10.0.0.5 @" {
			t.Errorf("explain %s: the commands are %q:\n%s", what, got, said(d))
		}
		if text := fmt.Sprint(d.Advice); strings.Contains(text, "crictl") || strings.Contains(text, "delete pod") {
			t.Errorf("explain %s ends one of them out of order:\n%s", what, text)
		}
		for _, it := range d.Items {
			if strings.Contains(fmt.Sprint(it.Advice), "crictl") {
				t.Errorf("explain %s ends the phantom by itself: %+v", what, it.Advice)
			}
		}
	}
}

// A conflict at two addresses of the same pods has its steps once.
func TestExplanation_ConflictAtTwoAddresses(t *testing.T) {
	both := NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5","10.0.0.6"]}]`)
	d := ask(t, "default/web-0", nil, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")),
		Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"),
			Alloc("6", "default/web-0", "box-1", "net2")), UsualPod(both),
		Pod("twin", UID(OtherUID), both, func(p *corev1.Pod) { p.Spec.NodeName = "worker-2" }))
	text := fmt.Sprint(d.Advice)
	if got := commands(d.Advice); len(got) != 1 || !strings.Contains(text, "The same steps end the conflict at 10.0.0.6") {
		t.Errorf("the commands are %q: %s", got, text)
	}
}
