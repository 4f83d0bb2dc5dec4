package judge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A pass that is made only when something happened, or when Recheck has come, misses
// nothing.
func TestNothingChangesByTimeAloneBeforeItIsDue(t *testing.T) {
	dueSooner := 0
	rapid.Check(t, func(t *rapid.T) {
		parts, policy := drawCluster(t), judge.Policy{}
		if rapid.Bool().Draw(t, "unreachable nodes time out") {
			policy.UnreachableNodeTimeout = 30 * time.Minute
		}
		j := Judged(Observe(parts...), policy)
		until := j.Recheck
		if until.IsZero() {
			until = Now.Add(72 * time.Hour)
		} else {
			dueSooner++
		}
		if until.Before(Now) {
			t.Fatalf("due %s ago", Now.Sub(until))
		}
		// Times just before it are those at which something is missed.
		before := rapid.OneOf(rapid.Int64Range(1, 2e9), rapid.Int64Range(1, 72*3600e9)).Draw(t, "ns before it")
		then := until.Add(-time.Duration(before))
		if then.Before(Now) {
			then = Now
		}
		o := Observe(parts...)
		o.Now = then
		if was, is := decisionsOf(j), decisionsOf(Judged(o, policy)); !slices.Equal(was, is) {
			t.Fatalf("due in %s; after %s:\n%q\nbefore:\n%q", until.Sub(Now), then.Sub(Now), is, was)
		}
	})
	if dueSooner == 0 {
		t.Error("nothing was ever due: this shows nothing")
	}
}

// decisionsOf is what a judgement decides, without the sentences, which may have ages.
func decisionsOf(j *judge.Judgement) (all []string) {
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		all = append(all, fmt.Sprint(it.Object(), it.Address(), OutcomeOf(it)))
	}
	for _, f := range j.Findings {
		all = append(all, fmt.Sprint(f.Kind, f.Pool, f.IP, f.Node, f.Pods, f.ContainerIDs))
	}
	return all
}

// drawCluster draws what the usual entry may meet, with ages on both sides of every
// limit that the rules know.
func drawCluster(t *rapid.T) []Part {
	limits := []time.Duration{0, time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute}
	age := func(what string) time.Duration {
		return rapid.SampledFrom(limits).Draw(t, what) + time.Duration(rapid.IntRange(-30, 90).Draw(t, what+", and seconds"))*time.Second
	}
	is := func(what string) bool { return rapid.Bool().Draw(t, what) }
	closedOr := func(what string) *bool { return rapid.SampledFrom([]*bool{nil, Open, Closed}).Draw(t, what) }
	created := func(d time.Duration) PodEdit {
		return func(p *corev1.Pod) { p.CreationTimestamp.Time = Now.Add(-d) }
	}

	parts := []Part{UsualPool}
	if is("a definition") {
		parts = append(parts, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")))
	}
	if is("a pod") {
		edits := []PodEdit{
			UID(rapid.SampledFrom([]string{"uid-1", "uid-2"}).Draw(t, "its UID")), created(age("the pod's")),
			Phase(rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed}).Draw(t, "its phase")),
		}
		if is("it carries the address") {
			edits = append(edits, NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]}]`))
		}
		if is("it is being deleted") {
			edits = append(edits, DeletedAgo(age("its deletion's")))
		}
		if is("its containers have ended") {
			edits = append(edits, StoppedByKubelet(age("their end's")))
		}
		parts = append(parts, UsualPod(edits...))
	}
	if is("another pod carries the address") {
		parts = append(parts, Pod("other", created(age("the other pod's")), NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]}]`)))
	}
	if is("a reservation") {
		parts = append(parts, Reservation("10.0.0.5", "default/web-0", age("the reservation's")))
	}
	if is("one without an entry") {
		parts = append(parts, Reservation("10.0.0.6", "default/web-1", age("its")))
	}
	for _, node := range []string{"worker-1", "worker-2"} {
		if is(node) {
			var edits []NodeEdit
			if is("it is not Ready") {
				edits = append(edits, NotReadyFor(age("that")))
			}
			parts = append(parts, Node(node, edits...))
		}
		if !is("a report of " + node) {
			continue
		}
		var c []ReportEdit
		if is("with an observation of its own age") {
			c = append(c, ObservedAgo(age("the observation's")-time.Minute))
		}
		switch rapid.IntRange(0, 4).Draw(t, "that has the sandbox as") {
		case 1:
			c = append(c, Sandbox("box-1", "uid-1", CreatedAgo(age("the sandbox'")), WithAddress("10.0.0.5", "")))
		case 2:
			c = append(c, Sandbox("box-1", "uid-1", CreatedAgo(age("the sandbox'")), NotReady(closedOr("its network"))))
		case 3:
			c = append(c, Attachment("box-1", "uid-1", age("the attachment's"), closedOr("its network"), Address("10.0.0.5", "")))
		case 4:
			c = append(c, Gone("box-1", "uid-1"))
		}
		if is("with another sandbox") {
			c = append(c, Sandbox("box-9", "uid-9", OfPod("web-9"), CreatedAgo(age("the other sandbox'")), WithAddress("10.0.0.9", "")))
		}
		parts = append(parts, ReportRenewed(node, time.Duration(rapid.IntRange(-5, 90).Draw(t, "s since its renewal"))*time.Second, c...))
	}
	return parts
}
