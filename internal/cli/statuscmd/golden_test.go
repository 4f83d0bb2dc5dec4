package statuscmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

var update = flag.Bool("update", false, "write testdata/status.txt")

// A situation is a change of the facts of a sound cluster.
type situation struct {
	name   string
	change func(*facts)
}

// deployment and daemonSet are the workloads of sound.
func (f *facts) deployment() *workload { return &f.workloads.value.workloads[0] }
func (f *facts) daemonSet() *workload  { return &f.workloads.value.workloads[1] }

// cronJob has a CronJob in the place of the Deployment.
func (f *facts) cronJob(active int, last time.Duration) {
	w := f.deployment()
	w.Kind, w.Schedule, w.Active = "CronJob", "*/15 * * * *", active
	f.schedule = told(configured{expression: w.Schedule, source: w.String(), edit: "kubectl -n kube-system edit cronjob/ip-reconcile"})
	at := clock(Now.Add(-last))
	f.passes = told(passed(`{"at":"` + at + `","result":"Succeeded","took":"1s","succeeded":"` + at + `"}`))
}

// unread has nothing but the judgement known, for an error.
func (f *facts) unread(err error) {
	f.workloads, f.paused, f.leader, f.passes = refused[inventory](err), refused[bool](err), refused[*coordinationv1.Lease](err), refused[*coordinationv1.Lease](err)
	f.addLeases, f.schedule, f.policy = refused[[]coordinationv1.Lease](err), refused[configured](err), refused[bool](err)
	f.ownRights, f.accountRights = refused[[]right](err), refused[[]right](err)
	for _, n := range neededDefinitions {
		f.definitions[n.name()] = refused[*definition](err)
	}
}

// held is whereabouts' Lease with a holder.
func held(holder string, renewedAgo, heldFor time.Duration) *coordinationv1.Lease {
	l := leaseOf(holder, renewedAgo)
	l.Name, l.Spec.AcquireTime.Time = "whereabouts", l.Spec.RenewTime.Add(-heldFor)
	return l
}

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	bounded   = NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges": false`))
	bothFresh = All(Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	twoFull   = Pool("10.0.0.0-30", "10.0.0.0/30", Alloc("1", "default/web-0", "box-1", "net1"), Alloc("2", "default/web-1", "box-2", "net1"))
	boundedBy = NAD("wb", WhereaboutsConfig("10.0.0.0/30", "", `"enable_overlapping_ranges": false`))
	leaked    = Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/a", "box-1", "net1"), Alloc("6", "default/b", "box-2", "net1"), Alloc("7", "default/c", "box-3", "net1"))
	oneGone   = All(Pod("other"), Node("worker-1"), FreshReport("worker-1", Gone("box-1", "uid-1")))
)

func (f *facts) pass(record string) { f.passes = told(passed(record)) }
func (f *facts) breaker(text string) {
	f.leader.value.Annotations = map[string]string{kube.ReleasedAnnotation: text}
}
func (f *facts) lacking(n schema.GroupVersionResource, fields ...string) {
	f.definitions[n.GroupResource().String()].value.lacks = fields
}
func (f *facts) without(n schema.GroupVersionResource) {
	f.definitions[n.GroupResource().String()] = told[*definition](nil)
}
func (f *facts) running(kind, name, program string) {
	w := workload{kube.Workload{Kind: kind, Namespace: "kube-system", Name: name, Wanted: 3, Spec: running("example.com/whereabouts:v0.9.4")}}
	w.Spec.Containers[0].Command = []string{"/bin/sh", "-c", program}
	f.workloads.value.workloads = append(f.workloads.value.workloads, w)
}
func (f *facts) adds(leases ...*coordinationv1.Lease) {
	f.addLeases = told([]coordinationv1.Lease{})
	for _, l := range leases {
		f.addLeases.value = append(f.addLeases.value, *l)
	}
}

func situations() []situation {
	const recorded = `{"at":"2026-11-20T09:30:00Z","result":"Failed","took":"1s","message":"on fire"`
	return []situation{
		// the workload
		{"workloads that cannot be listed", func(f *facts) { f.workloads = refused[inventory](forbidden) }},
		{"scaled to nothing", func(f *facts) { f.deployment().Wanted, f.deployment().Ready = 0, 0 }},
		{"no replica is ready", func(f *facts) { f.deployment().Ready = 0 }},
		{"one of two replicas", func(f *facts) { f.deployment().Ready = 1 }},
		{"another namespace", func(f *facts) { f.deployment().Namespace = "addresses" }},
		{"no reconciler", func(f *facts) { f.workloads.value.workloads = f.workloads.value.workloads[1:] }},
		{"only one namespace may be listed", func(f *facts) { f.workloads.value.onlyIn = "kube-system" }},
		{"only one namespace may be listed, and has none", func(f *facts) { f.workloads.value = inventory{onlyIn: "kube-system"} }},
		{"a CronJob", func(f *facts) { f.cronJob(0, 5*time.Minute) }},
		{"a CronJob that is suspended", func(f *facts) { f.cronJob(0, 5*time.Minute); f.deployment().Suspended = true }},
		{"a CronJob without a pass, that never ran", func(f *facts) { f.cronJob(0, 0); f.passes = told[*coordinationv1.Lease](nil) }},
		{"a CronJob without a pass", func(f *facts) {
			f.cronJob(0, 0)
			f.passes, f.deployment().LastSchedule = told[*coordinationv1.Lease](nil), Now.Add(-time.Hour)
		}},
		{"a CronJob's pass is 30 minutes old", func(f *facts) { f.cronJob(0, 30*time.Minute) }},
		{"a CronJob's pass is 40 minutes old", func(f *facts) { f.cronJob(0, 40*time.Minute) }},
		{"a CronJob's pass is 40 minutes old, and a Job runs", func(f *facts) { f.cronJob(1, 40*time.Minute) }},
		{"a CronJob's pass is 90 minutes old, and a Job runs", func(f *facts) { f.cronJob(1, 90*time.Minute) }},
		{"a CronJob's pass is 100 minutes old, and a Job runs", func(f *facts) { f.cronJob(1, 100*time.Minute) }},
		{"the drop-in in the place of whereabouts' own", func(f *facts) { f.dropIn("example.com/ip-reconcile:0.1.0") }},
		{"whereabouts' own in that place", func(f *facts) { f.dropIn("example.com/whereabouts:v0.9.4") }},
		// its leader and its passes
		{"nobody has led for long", func(f *facts) { f.leader = told(leaseOf("ip-reconcile-0_1", time.Hour)) }},
		{"nobody has ever led", func(f *facts) { f.leader = told[*coordinationv1.Lease](nil) }},
		{"nobody is elected", func(f *facts) {
			f.leader = told[*coordinationv1.Lease](nil)
			f.deployment().Spec.Containers[0].Args = []string{"--leader-elect=false"}
		}},
		{"a pass is overdue", func(f *facts) { f.now = f.now.Add(24 * time.Hour); f.leader = told(leaseOf("x", -24*time.Hour)) }},
		{"a pass was never made", func(f *facts) { f.passes = told[*coordinationv1.Lease](nil) }},
		{"a pass was not made yet", func(f *facts) {
			f.passes, f.leader.value.Spec.AcquireTime = told[*coordinationv1.Lease](nil), ptr.To(metav1.NewMicroTime(Now.Add(-time.Minute)))
		}},
		{"a record that is no JSON", func(f *facts) { f.pass("?") }},
		{"a pass that failed", func(f *facts) { f.pass(recorded + `,"succeeded":"2026-11-20T04:30:00Z"}`) }},
		{"passes that always failed", func(f *facts) { f.pass(recorded + "}") }},
		{"a schedule that cannot be used", func(f *facts) { f.schedule.value.expression = "every day" }},
		{"a schedule that is not known", func(f *facts) { f.schedule = refused[configured](errOnNodes) }},
		// what stands against releases
		{"paused", func(f *facts) { f.paused = told(true) }},
		{"a paused pool", func(f *facts) { f.judged.value.Observation.Pools[0].Paused = true }},
		{"two paused pools", func(f *facts) {
			f.observed(UsualPool, Pool("10.9.0.0-24", "10.9.0.0/24"), UsualPod(Carrying("10.0.0.5")), bothFresh, func(o *Observed) { o.Pools[0].Paused, o.Pools[1].Paused = true, true })
		}},
		{"etcd was restored", func(f *facts) {
			f.judged.value.Restore = &judge.RestoreState{Restored: Now.Add(-time.Minute), Why: "a revision ran backwards", Awaiting: []string{"worker-2"}}
		}},
		{"what is kept of restores cannot be read", func(f *facts) {
			f.judged.value.plan.Standing = []reconciler.Gate{{Why: reconciler.EtcdRestored, Detail: "what is kept of restores of etcd could not be read: it is no JSON"}}
		}},
		{"a breaker that has tripped", func(f *facts) { f.breaker(`[{"at":"2026-11-20T09:50:00Z","count":30,"of":40}]`) }},
		{"a breaker that cannot be read", func(f *facts) { f.breaker("?") }},
		{"a pass that was stopped by the breaker", func(f *facts) {
			f.pass(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1s","succeeded":"2026-11-20T04:30:00Z","refused":{"Breaker":25}}`)
		}},
		// what was judged
		{"addresses cannot be judged", func(f *facts) { f.judged = refused[judged](errors.New("500")) }},
		{"stale items", func(f *facts) { f.observed(leaked, oneGone) }},
		{"stale items of a paused pool", func(f *facts) { f.observed(leaked, oneGone, func(o *Observed) { o.Pools[0].Paused = true }) }},
		{"two pods at one address", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Pod("web-1", Carrying("10.0.0.5"), UID("uid-2"), OnNode("worker-2")), bounded,
				Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
				Node("worker-2"), FreshReport("worker-2", Sandbox("box-2", "uid-2", OfPod("web-1"), NotReady(nil))))
		}},
		{"a reservation is missing", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")),
				Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))))
		}},
		{"a pool that is nearly full", func(f *facts) {
			f.observed(twoFull, UsualPod(Carrying("10.0.0.1")), Pod("web-1", Carrying("10.0.0.2")), boundedBy, bothFresh)
		}},
		{"a pod that waits for a pool", func(f *facts) {
			f.observed(twoFull, UsualPod(Carrying("10.0.0.1")), Pod("web-1", Carrying("10.0.0.2")), boundedBy, bothFresh, Pod("late", Phase("Pending"), func(p *corev1.Pod) {
				p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "default/wb"}
				p.CreationTimestamp = metav1.NewTime(Now.Add(-time.Hour))
			}))
		}},
		{"a definition that cannot be read", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), NAD("broken", `{`))
		}},
		{"more that cannot be read", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), NAD("broken", `{`), NAD("broken-2", `{`))
		}},
		// agents
		{"an agent that is silent", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), StaleReport("worker-2"))
		}},
		{"a node without an agent", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), Node("worker-3"))
		}},
		{"a node that is gone", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2", OutOfService, NotReadyFor(time.Hour)), StaleReport("worker-2"))
		}},
		{"agents that were never there", func(f *facts) { f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1")) }},
		{"no agents", func(f *facts) {
			f.workloads.value.workloads = f.workloads.value.workloads[:1]
			f.deployment().Spec.Containers[0].Args = nil
			f.without(v1alpha1.Resource())
			f.policy = told(false)
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"))
		}},
		{"reports that must not be read", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), func(o *Observed) { o.ReportsUnreadable = true })
		}},
		{"agents' Leases that must not be read", func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), StaleReport("worker-1"))
			f.ownRights = told([]right{{verbs: "list", resource: "leases", namespace: f.leaseNamespace}})
		}},
		{"no admission policy", func(f *facts) { f.policy = told(false) }},
		// versions
		{"agents that are newer", func(f *facts) { f.daemonSet().Spec = running("example.com/ip-reconcile:0.2.0") }},
		{"agents that are older", func(f *facts) { f.daemonSet().Spec = running("example.com/ip-reconcile:0.0.9") }},
		{"a command that is newer", func(f *facts) { f.version = "0.2.0" }},
		{"an image without a tag", func(f *facts) { f.deployment().Spec.Containers[0].Image = "registry:5000/ip-reconcile@sha256:00" }},
		// definitions
		{"a definition of pools that is old", func(f *facts) { f.lacking(ippool.PoolResource, "spec.allocations.ifname") }},
		{"a definition of reports that is old", func(f *facts) { f.lacking(v1alpha1.Resource(), "sandboxes.addresses.ip") }},
		{"a definition of reports that lacks much", func(f *facts) {
			f.lacking(v1alpha1.Resource(), neededDefinitions[3].fields...)
		}},
		{"a version that is not served", func(f *facts) {
			d := f.definitions[v1alpha1.Resource().GroupResource().String()].value
			d.served, d.lacks = []string{"v1"}, neededDefinitions[3].fields
		}},
		{"no definition of reports", func(f *facts) { f.without(v1alpha1.Resource()) }},
		{"no Multus", func(f *facts) { f.without(ippool.NADResource) }},
		{"no whereabouts", func(f *facts) {
			f.judged = refused[judged](errors.New("the API server does not serve ippools"))
			f.without(ippool.PoolResource)
			f.without(ippool.ReservationResource)
		}},
		// rights
		{"a right that little depends on", func(f *facts) {
			f.accountRights = told([]right{{verbs: "create, patch", resource: "events", without: "no events are written"}})
		}},
		{"rights that much depends on, of another ServiceAccount", func(f *facts) {
			f.deployment().Spec.ServiceAccountName = "custom"
			f.accountRights = told([]right{{verbs: "list", resource: "pods", without: "nothing is judged", fatal: true},
				{verbs: "get", resource: "leases", namespace: "kube-system", without: "nothing is released", fatal: true}, {verbs: "patch", resource: "ippools", without: "nothing is released", fatal: true}})
		}},
		{"a right of this user", func(f *facts) {
			f.ownRights = told([]right{{verbs: "patch", resource: "ippools", without: "nothing is released", fatal: true}})
		}},
		// what competes
		{"whereabouts' control loop", func(f *facts) { f.running("DaemonSet", "whereabouts", "/install-cni.sh && /ip-control-loop") }},
		{"whereabouts' CronJob", func(f *facts) { f.running("CronJob", "ip-reconciler", "/ip-reconciler") }},
		{"whereabouts' Deployment", func(f *facts) { f.running("Deployment", "whereabouts-reconciler", "/ip-reconciler") }},
		{"a second Deployment", func(f *facts) {
			second := *f.deployment()
			second.Namespace = "default"
			f.workloads.value.workloads = slices.Insert(f.workloads.value.workloads, 0, second)
		}},
		// whereabouts' Leases
		{"a holder that is dead", func(f *facts) { f.adds(held("worker-1/dead", time.Minute, time.Hour)) }},
		{"a holder that is alive by the API server's clock", func(f *facts) {
			l := held("worker-1/late", time.Minute, time.Hour)
			l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: Now}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)}}
			f.adds(l)
		}},
		{"a holder of long", func(f *facts) {
			f.adds(held("", 0, 0), held(kube.FenceHolder, 0, 0), held("worker-1/stuck", 0, 10*time.Minute))
		}},
		{"a holder of a moment", func(f *facts) { f.adds(held("worker-1/add", 0, time.Second)) }},
		{"the fence", func(f *facts) { f.adds(held(kube.FenceHolder, time.Second, time.Hour)) }},
		// nothing is concluded from what could not be read
		{"nothing could be read for want of a right", func(f *facts) { f.unread(forbidden) }},
		{"nothing was answered in time", func(f *facts) { f.unread(context.DeadlineExceeded) }},
		{"nothing could be read for an error", func(f *facts) { f.unread(errors.New("500")) }},
		{"nothing at all could be read", func(f *facts) { f.unread(forbidden); f.judged = refused[judged](forbidden) }},
	}
}

// dropIn has the Deployment be one of whereabouts' manifests, with this image.
func (f *facts) dropIn(image string) {
	w := f.deployment()
	w.Name, w.Labels = "whereabouts-reconciler", map[string]string{"app": "whereabouts-reconciler"}
	w.Spec = running(image)
	w.Spec.Containers[0].Command = []string{"/ip-reconciler"}
}

// texts are the lines about facts, as text.
func texts(f *facts) (all []string) {
	for _, l := range say(f) {
		text := fmt.Sprintf("%s %s: %s\n", markOf(l.Level), l.ID, l.Message)
		if l.Next != "" {
			text += "    " + l.Next + "\n"
		}
		all = append(all, text)
	}
	return all
}

// What is said of each situation is in testdata/status.txt, but for what is said of a sound cluster, too.
func TestStatus_Situations(t *testing.T) {
	var out strings.Builder
	usual := texts(sound())
	fmt.Fprintf(&out, "# a sound cluster\n%s", strings.Join(usual, ""))
	for _, s := range situations() {
		f := sound()
		s.change(f)
		said := texts(f)
		fmt.Fprintf(&out, "\n# %s\n", s.name)
		for _, text := range usual {
			if id, _, _ := strings.Cut(text, ":"); !slices.Contains(said, text) {
				fmt.Fprintf(&out, "not %s\n", id)
			}
		}
		for _, text := range said {
			if !slices.Contains(usual, text) {
				out.WriteString(text)
			}
		}
	}
	const golden = "testdata/status.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("it says (see with -update and git diff):\n%s", out.String())
	}
}

// A sound cluster has neither a fault nor anything to type, and nothing of it is unknown.
func TestStatus_SoundClusterIsOK(t *testing.T) {
	for _, l := range say(sound()) {
		if l.Level != document.LevelOK || l.Next != "" {
			t.Errorf("%+v", l)
		}
	}
}
