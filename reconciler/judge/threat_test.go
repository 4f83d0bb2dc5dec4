package judge_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// mayHold are the ways in which worker-1 reports that the usual sandbox may hold its address.
func mayHold() map[string]ReportEdit {
	return map[string]ReportEdit{
		"ready":                   Sandbox("box-1", UsualUID, with5),
		"ready, addresses unread": Sandbox("box-1", UsualUID, Unread),
		"not ready":               Sandbox("box-1", UsualUID, NotReady(nil)),
		"not ready and open":      Sandbox("box-1", UsualUID, NotReady(Open), with5),
		"being set up":            Attachment("box-1", UsualUID, time.Minute, nil),
		"attached and open":       Attachment("box-1", UsualUID, time.Hour, Open, Address("10.0.0.5", "")),
	}
}

// ownersPod is what the API may have by the owner's name, on the owner's own node.
func ownersPod() map[string]Part {
	return map[string]Part{
		"none":                 Nothing,
		"running":              UsualPod(Carrying("10.0.0.5")),
		"without its address":  UsualPod(),
		"pending":              UsualPod(Phase("Pending"), NoNetworkStatus),
		"terminating":          UsualPod(DeletedAgo(time.Hour), Carrying("10.0.0.5")),
		"failed":               UsualPod(Phase("Failed")),
		"a successor":          UsualPod(UID("uid-2"), Carrying("10.0.0.6")),
		"a pending successor":  UsualPod(UID("uid-2"), Phase("Pending"), NoNetworkStatus),
		"a mirror of somebody": UsualPod(UID("uid-2"), MirrorOf("uid-3")),
	}
}

// lie is any report that worker-2's agent may write: of the usual sandbox too, and of others.
func lie(t *rapid.T) Part {
	uid := rapid.SampledFrom([]string{UsualUID, OtherUID, NoUID, "uid-2"})
	networks := []*bool{nil, Open, Closed}
	address := rapid.SampledFrom([]string{"10.0.0.5", "10.0.0.6", "10.0.0.7", "not an address"})
	network := rapid.SampledFrom([]string{"", "red"})
	edit := func(r *podstate.Report) {
		for i := range rapid.IntRange(0, 4).Draw(t, "lies") {
			id := rapid.SampledFrom([]string{"box-1", fmt.Sprint("box-of-worker-2-", i)}).Draw(t, "of")
			closed := networks[rapid.IntRange(0, 2).Draw(t, "network")]
			at := WithAddress(address.Draw(t, "address"), network.Draw(t, "network name"))
			pod := OfPod(rapid.SampledFrom([]string{"web-0", "web-1"}).Draw(t, "pod"))
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				Sandbox(id, uid.Draw(t, "uid"), pod, at)(r)
			case 1:
				Sandbox(id, uid.Draw(t, "uid"), pod, NotReady(closed), at)(r)
			case 2:
				age := time.Duration(rapid.IntRange(-1, 600).Draw(t, "age")) * time.Minute
				Attachment(id, uid.Draw(t, "uid"), age, closed, Address(address.Draw(t, "address"), ""))(r)
			case 3:
				Gone(id, uid.Draw(t, "uid"))(r)
			}
		}
		if rapid.Bool().Draw(t, "another boot") {
			r.BootID = "boot-0"
		}
		if rapid.Bool().Draw(t, "another machine") {
			r.Machine = MachineOf("worker-1")
		}
		r.ObservedAt = metav1.NewTime(Now.Add(time.Duration(rapid.IntRange(-600, 600).Draw(t, "observed")) * time.Minute))
	}
	ago := rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Minute, 100 * time.Hour}).Draw(t, "renewed")
	return ReportRenewed("worker-2", ago, edit)
}

// worker2 is what root on worker-2 can make of its Node: labels, boot and readiness are the kubelet's
// to write, and its own object it may delete. The out-of-service taint is not.
func worker2(t *rapid.T) Part {
	var edits []NodeEdit
	if rapid.Bool().Draw(t, "deselected") {
		edits = append(edits, WithoutAgent)
	}
	if rapid.Bool().Draw(t, "booted") {
		edits = append(edits, Booted("boot-2"))
	}
	if rapid.Bool().Draw(t, "not ready") {
		edits = append(edits, NotReadyFor(time.Hour))
	}
	if rapid.Bool().Draw(t, "Node deleted") {
		return Nothing
	}
	return Node("worker-2", edits...)
}

// One agent's report releases nothing that another node reports, and has no entry rewritten.
func TestALyingAgentReleasesNothingThatAnotherNodeReports(t *testing.T) {
	for says, sandbox := range mayHold() {
		for with, report := range map[string]Part{"a fresh report": FreshReport("worker-1", sandbox),
			"an expired report": StaleReport("worker-1", sandbox)} {
			for phase, pod := range ownersPod() {
				t.Run(says+", on a node with "+with+", and its pod is "+phase, func(t *testing.T) {
					rapid.Check(t, func(rt *rapid.T) {
						expectUnharmed(t, rt, UsualPool, Node("worker-1"), report, pod, worker2(rt), lie(rt))
					})
				})
			}
		}
	}
}

// An agent reads the id of a sandbox, and that it has ended, in another node's expired report. After a restore of etcd
// the address may be in use again on that node.
func TestALyingAgentEndsNoSandboxWhoseNodeIsSilent(t *testing.T) {
	for says, sandbox := range map[string]ReportEdit{
		"stopped": stopped1, "gone": gone1,
	} {
		t.Run(says, func(t *testing.T) {
			Expect(t, unreported, UsualPool, Node("worker-1"),
				StaleReport("worker-1", sandbox), Node("worker-2"), FreshReport("worker-2", gone1))
		})
	}
}

func expectUnharmed(t *testing.T, rt *rapid.T, parts ...Part) {
	j := Judged(Observe(parts...), facts.Policy{})
	if it := AllocationOf(t, j, "10.0.0.5"); it.Verdict == judge.Stale {
		rt.Fatal(Wrong(it, "in use or held"))
	}
	for _, f := range j.Findings {
		if f.Repair != nil && f.Repair.Previous != nil {
			rt.Fatalf("the allocation is rewritten: %s", f.Message)
		}
	}
}

// Whatever it reported before, an agent that reports nothing more releases only what others report.
func TestANodeThatDeselectsItselfReleasesNothingOfAnother(t *testing.T) {
	for says, node := range map[string]Part{
		"the other node deselects itself":    Node("worker-2", WithoutAgent),
		"the other node's object is deleted": Nothing,
	} {
		t.Run(says, func(t *testing.T) {
			Expect(t, unreported, UsualPool, Node("worker-1"), StaleReport("worker-1"), node, FreshReport("worker-2"))
		})
	}
	t.Run("a node that deselects itself must report while its expired report exists", func(t *testing.T) {
		Expect(t, unreported, UsualPool, Node("worker-1", WithoutAgent), StaleReport("worker-1"), Node("worker-2"),
			FreshReport("worker-2"))
	})
}

// An agent that lies can still claim an id that it cannot know. Reports are all that agents may
// read, so whatever they know of another node's sandbox comes from that node's report.
func TestTheEndOfAnIDThatNoOtherNodeReportsIsBelieved(t *testing.T) {
	word := All(UsualPool, Node("worker-1"), Node("worker-2"), FreshReport("worker-2", gone1))
	Expect(t, Want(judge.Stale, judge.PodGone, true, judge.Gone), word, StaleReport("worker-1"))
	Expect(t, unreported, word, StaleReport("worker-1"), UsualPod(DeletedAgo(0)))
	expectKept(t, word, StaleReport("worker-1", box1))
}

func keysOf[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// forged is what who may write pods and definitions in a namespace makes of their own pod, with
// permission on pods/status too, which the role edit does not have.
func forged() map[string]Part {
	elsewhere := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))
	return map[string]Part{
		"the pod is deleted by force":       Nothing,
		"its network-status has no address": UsualPod(),
		"its network-status has another":    UsualPod(Carrying("10.0.0.6")),
		"its network-status is no JSON":     UsualPod(NetworkStatus("{")),
		"its network-status is removed":     UsualPod(NoNetworkStatus),
		"its definition maps elsewhere":     All(elsewhere, UsualPod(Carrying("10.0.0.5"))),
		"its definition is of no whereabouts": All(NAD("wb", `{"type":"macvlan","ipam":{"type":"static"}}`),
			UsualPod(Carrying("10.0.0.5"))),
		"it is Failed":                          UsualPod(Phase("Failed")),
		"it is Succeeded, as kubelet writes it": UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Second)),
		"it is Terminating for days":            UsualPod(DeletedAgo(100 * time.Hour)),
		"it is Pending again":                   UsualPod(Phase("Pending")),
		"it calls itself a mirror":              UsualPod(MirrorOf(OtherUID)),
		"another pod has its name":              UsualPod(UID("uid-2"), Carrying("10.0.0.6")),
		"another of that name is elsewhere": UsualPod(UID("uid-2"), OnNode("worker-2"), Phase("Succeeded"),
			StoppedByKubelet(time.Second)),
		"another calls itself its mirror": UsualPod(UID("uid-2"), MirrorOf(UsualUID), OnNode("worker-2")),
	}
}

// With agents not even a pod's own user can release its address while it runs.
func TestWhatAUserWritesReleasesNothingThatAFreshReportHas(t *testing.T) {
	nodes := All(nodes, FreshReport("worker-2"))
	for how, sandbox := range mayHold() {
		for says, forgery := range forged() {
			t.Run(how+", and "+says, func(t *testing.T) {
				expectKept(t, UsualPool, nodes, FreshReport("worker-1", sandbox), forgery)
			})
		}
	}
}

// A report that is stale: the user's own address may be released by a forged end of its containers, as
// TestFinishedWithoutAFreshReport has it, and by nothing else.
func TestWhatAUserWritesReleasesNothingWithoutAFreshReport(t *testing.T) {
	nodes := All(nodes, FreshReport("worker-2"))
	for how, sandbox := range mayHold() {
		for says, forgery := range forged() {
			if says != "it is Succeeded, as kubelet writes it" {
				t.Run(how+", and "+says, func(t *testing.T) {
					expectKept(t, UsualPool, nodes, StaleReport("worker-1", sandbox), forgery)
				})
			}
		}
	}
}

// Without agents whoever may edit a pod, as the role edit may, cannot have its address released by what they write
// while the pod runs. What remains is the deletion by force, after which another pod may have the name, and a forged
// end, which takes permission on pods/status.
func TestWithoutAgentsWhatAUserWritesIntoItsPodReleasesNothing(t *testing.T) {
	released := []string{"the pod is deleted by force", "it is Succeeded, as kubelet writes it",
		"another of that name is elsewhere", "another calls itself its mirror"}
	for says, forgery := range forged() {
		if slices.Contains(released, says) {
			continue
		}
		for _, nodes := range []sandboxCase{noSource, noSourceDown} {
			t.Run(says+", and "+nodes.says, func(t *testing.T) { expectKept(t, UsualPool, nodes.parts, forgery) })
		}
	}
}

// --trust-network-status releases such allocations as whereabouts' own reconciler does. It decides nothing where there
// are agents, and nothing else.
func TestTrustNetworkStatus(t *testing.T) {
	trust := facts.Policy{TrustNetworkStatus: true}
	notOnPod := Want(judge.Stale, judge.AddressNotOnPod, false, judge.NoSource)
	ExpectUnder(t, trust, notOnPod, UsualPool, noSource.parts, UsualPod())
	ExpectUnder(t, trust, notOnPod, UsualPool, noSource.parts, UsualPod(Carrying("10.0.0.6")))
	for _, r := range tableRows() {
		for _, p := range r.pods {
			for _, b := range r.sandboxes {
				it := AllocationOf(t, Judged(Observe(UsualPool, p.pod, b.parts), trust), "10.0.0.5")
				is := decision{it.Verdict, it.Reason, it.Proven}
				if want := (decision{r.verdict, r.reason, r.proven}); is != want && (b.state != judge.NoSource ||
					r.reason != judge.AddressNotOnPod) {
					t.Errorf("%s whose sandbox %s: %v, and without the flag %v", p.says, b.says, is, want)
				}
			}
		}
	}
}

// FuzzNoReportOfAnotherNodeReleasesWhatRuns: worker-1 says that a sandbox runs, and the liar
// says anything of it, fresh or stale. The entry is never Stale, and amending an index by the
// report comes to the same as an index that was built with it.
func FuzzNoReportOfAnotherNodeReleasesWhatRuns(f *testing.F) {
	for _, text := range []string{
		`{"gone":[{"id":"box-1","uid":"uid-1","since":"2026-11-20T09:00:00Z"}]}`,
		`{"sandboxes":[{"id":"box-1","namespace":"default","name":"web-0","uid":"uid-1","state":"NotReady",` +
			`"networkClosed":true}]}`,
		`{"sandboxes":[{"id":"box-1","uid":"uid-0","state":"Ready","addresses":[{"ip":"10.0.0.5"},{` +
			`"ip":"::ffff:10.0.0.6"},{"ip":"x"}]},{"id":"box-1","state":"odd"}]}`,
		`{"attachments":[{"id":"box-1","since":"2026-11-20T09:00:00Z","networkClosed":true},{"id":"","addresses":[{` +
			`"ip":"10.0.0.5","range":"10.0.0.0/8"}]}],"bootID":"boot-0"}`,
		`{"sandboxes":[{"id":"b","namespace":"default","name":"web-0","uid":"uid-1","state":"Ready",` +
			`"addressesUnread":true}],"observedAt":"2040-01-01T00:00:00Z"}`,
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, fresh bool) {
		said := &v1alpha1.SandboxReport{}
		if kjson.UnmarshalCaseSensitivePreserveInts(text, said) != nil {
			return
		}
		said.ObjectMeta = metav1.ObjectMeta{Name: liar}
		lie := &podstate.Report{SandboxReport: said, ConfirmedAt: Now.Add(-10 * time.Second),
			LeaseRenewedAt: Now.Add(-10 * time.Second), WrittenAt: Now.Add(-time.Minute)}
		if !fresh {
			lie.ConfirmedAt, lie.LeaseRenewedAt = Now.Add(-time.Hour), Now.Add(-time.Hour)
		}
		for _, pod := range []Part{Nothing, UsualPod(), UsualPod(DeletedAgo(time.Hour)), UsualPod(UID(OtherUID),
			Phase("Pending"))} {
			parts := []Part{UsualPool, reserved, pod, wb, Node(liar), ReportingWorker(Sandbox("box-1", UsualUID, with5))}
			o := Observe(append(parts, func(o *Observed) { o.AddReports(lie) })...)
			whole := Judged(o, facts.Policy{})
			for _, it := range append(whole.Allocations, whole.Reservations...) {
				if it.Verdict == judge.Stale {
					t.Fatalf("%s is stale (%s) by what another node says: %s", it.Text(), it.Reason, text)
				}
			}
		}
	})
}
