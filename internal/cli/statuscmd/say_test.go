package statuscmd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func TestNothingIsWrongWithASoundInstall(t *testing.T) {
	if wrong := faults(sound()); len(wrong) > 0 {
		t.Errorf("it says: %q", wrong)
	}
	for _, l := range say(sound()) {
		if l.Level != document.LevelOK || l.Next != "" {
			t.Errorf("%+v", l)
		}
	}
}

// deployment and daemonSet are the workloads of sound.
func (f *facts) deployment() *workload { return &f.workloads.value[0] }
func (f *facts) daemonSet() *workload  { return &f.workloads.value[1] }

func TestEachFaultIsOneLineWithWhatToTypeNext(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*facts)
		says   []string // of the only line
	}{
		"scaled to nothing":        {func(f *facts) { f.deployment().wanted, f.deployment().ready = 0, 0 }, []string{"✗", "scaled to 0 replicas", "scale deployment/ip-reconcile --replicas=2"}},
		"one of two replicas":      {func(f *facts) { f.deployment().ready = 1 }, []string{"! Deployment", "has 1 of 2 replicas ready"}},
		"another namespace":        {func(f *facts) { f.deployment().namespace = "addresses" }, []string{"! The reconciler is not in namespace kube-system", "get deployments,cronjobs -A"}},
		"nobody has led for long":  {func(f *facts) { f.leader = told(leaseOf("ip-reconcile-0_1", time.Hour)) }, []string{"✗ No replica leads: ip-reconcile-0_1 has not renewed", "for 60 min", "logs deployment/ip-reconcile"}},
		"nobody has ever led":      {func(f *facts) { f.leader = told[*coordinationv1.Lease](nil) }, []string{"✗ No replica leads (Lease kube-system/ip-reconcile has no holder)"}},
		"a pass is overdue":        {func(f *facts) { f.now = f.now.Add(24 * time.Hour); f.leader = told(leaseOf("x", -24*time.Hour)) }, []string{"✗ The last pass was 30 h ago", "overdue since 2026-11-21T04:30:00Z"}},
		"a pass was never made":    {func(f *facts) { f.passes = told[*coordinationv1.Lease](nil) }, []string{"! No pass is recorded, though a replica leads since 2026-11-20T09:00:00Z"}},
		"a record that is no JSON": {func(f *facts) { f.passes = told(passed("?")) }, []string{"! What is kept of the last pass cannot be read", "delete lease ip-reconcile-last-pass"}},
		"a pass that failed": {func(f *facts) {
			f.passes = told(passed(`{"at":"2026-11-20T09:30:00Z","result":"Failed","took":"1s","message":"on fire","succeeded":"2026-11-20T04:30:00Z"}`))
		}, []string{"✗ The pass at 2026-11-20T09:30:00Z failed (on fire); the last that succeeded was at 2026-11-20T04:30:00Z"}},
		"a breaker that has tripped": {func(f *facts) {
			f.leader.value.Annotations = map[string]string{kube.ReleasedAnnotation: `[{"at":"2026-11-20T09:50:00Z","count":30,"of":40}]`}
		}, []string{"✗ The breaker has tripped: 30 unconfirmed releases within an hour, of 40 allocations. No more are made before 2026-11-20T10:50:00Z"}},
		"two pods at one address": {func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Pod("web-1", Carrying("10.0.0.5"), UID("uid-2"), OnNode("worker-2")), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges": false`)),
				Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
				Node("worker-2"), FreshReport("worker-2", Sandbox("box-2", "uid-2", OfPod("web-1"), NotReady(nil))))
		}, []string{"✗ Addresses are, or may soon be, on two pods: 1 Conflict.", "ip-reconcile check --reason Conflict"}},
		"a pool that is nearly full": {func(f *facts) {
			f.observed(Pool("10.0.0.0-30", "10.0.0.0/30", Alloc("1", "default/web-0", "box-1", "net1"), Alloc("2", "default/web-1", "box-2", "net1")),
				UsualPod(Carrying("10.0.0.1")), Pod("web-1", Carrying("10.0.0.2")), NAD("wb", WhereaboutsConfig("10.0.0.0/30", "", `"enable_overlapping_ranges": false`)),
				Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), FreshReport("worker-2"))
		}, []string{"! 1 pool is nearly full: kube-system/10.0.0.0-30 (100 %).", "ip-reconcile pools"}},
		"agents that are newer": {func(f *facts) { f.daemonSet().spec = running("example.com/ip-reconcile:0.2.0") }, []string{"✗ The agents (0.2.0) are newer than the reconciler (0.1.0)", "set image deployment/ip-reconcile ip-reconcile=example.com/ip-reconcile:0.2.0"}},
		"a pass that was stopped by the breaker": {func(f *facts) {
			f.passes = told(passed(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1s","succeeded":"2026-11-20T04:30:00Z","refused":{"Breaker":25}}`))
		}, []string{"✗ The breaker tripped in the last pass: 25 unconfirmed", "run --dry-run"}},
		"a breaker that cannot be read": {func(f *facts) { f.leader.value.Annotations = map[string]string{kube.ReleasedAnnotation: "?"} }, []string{"✗ Nothing unconfirmed is freed", "annotate lease ip-reconcile ip-reconcile.dev/released-"}},
		"an agent that is silent": {func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), StaleReport("worker-2"))
		}, []string{"✗ 1 of 2 node agents have a fresh report; nothing is freed on worker-2 (", "spec.nodeName=worker-2"}},
		"agents that were never there": {func(f *facts) { f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1")) }, []string{"✗ No node agent reports", "get pods -A -l app.kubernetes.io/name=ip-reconcile,app.kubernetes.io/component=agent"}},
		"agents that are older":        {func(f *facts) { f.daemonSet().spec = running("example.com/ip-reconcile:0.0.9") }, []string{"! The agents (0.0.9) are older than the reconciler (0.1.0)", "set image daemonset/ip-reconcile-agent"}},
		"a command that is newer":      {func(f *facts) { f.version = "0.2.0" }, []string{"! This command is version 0.2.0, the reconciler 0.1.0"}},
		"a definition of pools that is old": {func(f *facts) {
			delete(f.definitions[ippool.PoolResource.GroupResource().String()].value.fields, "spec.allocations.ifname")
		},
			[]string{"! CustomResourceDefinition ippools.whereabouts.cni.cncf.io is older", "lacks spec.allocations.ifname"}},
		"a version that is not served": {func(f *facts) {
			f.definitions[v1alpha1.Resource().GroupResource().String()].value.served = []string{"v1"}
		}, []string{"✗ sandboxreports.ip-reconcile.dev is not served as v1alpha1", "served: v1"}},
		"no Multus": {func(f *facts) { f.definitions[ippool.NADResource.GroupResource().String()] = told[*definition](nil) }, []string{"! CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io, which Multus brings, is missing"}},
		"a right that little depends on": {func(f *facts) {
			f.accountRights = told([]missingRight{{verbs: "create, patch", resource: "events", without: "no events are written"}})
		}, []string{"! ServiceAccount kube-system/ip-reconcile may not create, patch events (no events are written)"}},
		"a right of this user": {func(f *facts) {
			f.ownRights = told([]missingRight{{verbs: "patch", resource: "ippools", without: "nothing is released", fatal: true}})
		}, []string{"! This user may not patch ippools (nothing is released)"}},
		"whereabouts' control loop": {func(f *facts) {
			w := workload{kind: "DaemonSet", namespace: "kube-system", name: "whereabouts", wanted: 3, spec: running("example.com/whereabouts:v0.9.4")}
			w.spec.Containers[0].Command = []string{"/bin/sh", "-c", "/install-cni.sh && /ip-control-loop"}
			f.workloads.value = append(f.workloads.value, w)
		}, []string{"✗ DaemonSet kube-system/whereabouts runs whereabouts' own /ip-control-loop", "patch daemonset whereabouts --type json"}},
		"a definition that cannot be read": {func(f *facts) {
			f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), NAD("broken", `{`))
		}, []string{"! What cannot be read is not judged: NetworkAttachmentDefinition default/broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			c.change(f)
			wrong := faults(f)
			if len(wrong) != 1 {
				t.Fatalf("there are %d faults: %q", len(wrong), wrong)
			}
			contains(t, "the line", wrong[0], c.says...)
		})
	}
}

func TestNothingIsConcludedFromWhatCouldNotBeRead(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	for name, err := range map[string]error{"a right": forbidden, "an answer in time": context.DeadlineExceeded, "a server that works": errors.New("500")} {
		t.Run("for want of "+name, func(t *testing.T) {
			f := sound()
			f.workloads, f.paused, f.leader, f.passes = refused[[]workload](err), refused[bool](err), refused[*coordinationv1.Lease](err), refused[*coordinationv1.Lease](err)
			f.addLeases, f.schedule, f.policy = refused[[]coordinationv1.Lease](err), refused[configured](err), refused[bool](err)
			f.ownRights, f.accountRights = refused[[]missingRight](err), refused[[]missingRight](err)
			for _, n := range neededDefinitions() {
				f.definitions[n.name()] = refused[*definition](err)
			}
			if wrong := faults(f); len(wrong) > 0 {
				t.Errorf("it says: %q", wrong)
			}
			for _, id := range []string{"reconciler", "paused", "breaker", "crd-ippools", "rights-cli", "whereabouts-lease"} {
				if l := lineOf(t, f, id); l.Level != document.LevelUnknown {
					t.Errorf("%s: %+v", id, l)
				}
			}
			f = sound()
			f.judged = refused[judged](err)
			if l := lineOf(t, f, "gates"); l.Message != "" {
				t.Errorf("without a judgement: %+v", l)
			}
			if wrong := faults(f); len(wrong) != 1 {
				t.Errorf("without a judgement it says: %q", wrong)
			}
		})
	}
}

func TestStaleItemsAreCountedByWhyTheyAreThere(t *testing.T) {
	f := sound()
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/a", "box-1", "net1"), Alloc("6", "default/b", "box-2", "net1"), Alloc("7", "default/c", "box-3", "net1"))
	reports := All(Pod("other"), Node("worker-1"), FreshReport("worker-1", Gone("box-1", "uid-1")))
	f.observed(pool, reports)
	contains(t, "the line", lineOf(t, f, "stale").Message, "3 allocations in 1 pool, 3 of them stale: 1 may be freed at once, 2 wait for confirmation")
	if wrong := faults(f); len(wrong) > 0 {
		t.Errorf("that is no fault: %q", wrong)
	}
	f.observed(pool, reports, func(o *Observed) { o.Pools[0].Paused = true })
	contains(t, "the line of a paused pool", lineOf(t, f, "stale").Message, "3 of them stale: 3 are paused")
}

func TestANodeThatIsGoneIsNotAnAgentThatFails(t *testing.T) {
	f := sound()
	f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2", OutOfService, NotReadyFor(time.Hour)), StaleReport("worker-2"))
	contains(t, "the line", lineOf(t, f, "agents").Message, "1 of 1 node agents have a fresh report (not counted, dead or gone: worker-2)")
	if wrong := faults(f); len(wrong) > 0 {
		t.Errorf("it says: %q", wrong)
	}
}

func TestWithoutAgentsNothingIsSaidToBeMissing(t *testing.T) {
	f := sound()
	f.workloads.value = f.workloads.value[:1]
	f.deployment().spec.Containers[0].Args = nil
	f.definitions[v1alpha1.Resource().GroupResource().String()] = told[*definition](nil)
	f.policy = told(false)
	f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"))
	if wrong := faults(f); len(wrong) > 0 {
		t.Errorf("it says: %q", wrong)
	}
	if l := lineOf(t, f, "agents"); l.Level != document.LevelUnknown {
		t.Errorf("%+v", l)
	}
}

func TestOfNamespacesThatMustNotBeListedNothingIsSaid(t *testing.T) {
	f := sound()
	f.onlyIn = "kube-system"
	if l := lineOf(t, f, "competing"); l.Level != document.LevelUnknown {
		t.Errorf("%+v", l)
	}
	f.workloads.value = nil
	if l := lineOf(t, f, "reconciler"); l.Level != document.LevelUnknown {
		t.Errorf("%+v", l)
	}
}

// Those of others are not known to be missing.
func TestAgentsWhoseReportsOrLeasesMustNotBeReadAreNotBlamed(t *testing.T) {
	f := sound()
	f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), func(o *Observed) { o.ReportsUnreadable = true })
	if l := lineOf(t, f, "agents"); l.Level != document.LevelUnknown {
		t.Errorf("without reports: %+v", l)
	}
	f = sound()
	f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), StaleReport("worker-1"))
	f.ownRights = told([]missingRight{{verbs: "list", resource: "leases", namespace: f.leaseNamespace}})
	if l := lineOf(t, f, "agents"); l.Level != document.LevelUnknown {
		t.Errorf("without Leases: %+v", l)
	}
}

func TestWhatIsKeptOfRestoresAndCannotBeReadIsNamed(t *testing.T) {
	f := sound()
	f.judged.value.plan.Standing = []reconciler.Gate{{Why: reconciler.EtcdRestored, Detail: "what is kept of restores of etcd could not be read: it is no JSON"}}
	contains(t, "the line", fmt.Sprint(faults(f)), "✗ Nothing is freed: what is kept of restores", "get lease ip-reconcile-restore")
}

// The drop-in has the name of whereabouts' own program.
func TestADropInOfOursIsTheReconcilerAndDoesNotCompete(t *testing.T) {
	f := sound()
	w := f.deployment()
	w.name, w.labels = "whereabouts-reconciler", map[string]string{"app": "whereabouts-reconciler"}
	w.spec = running("example.com/ip-reconcile:0.1.0")
	w.spec.Containers[0].Command = []string{"/ip-reconciler"}
	if wrong := faults(f); len(wrong) > 0 {
		t.Errorf("it says: %q", wrong)
	}
	w.spec.Containers[0].Image = "example.com/whereabouts:v0.9.4"
	if l := lineOf(t, f, "competing"); l.Level != document.LevelError {
		t.Errorf("of whereabouts' own: %+v", l)
	}
}

// A CronJob's pass waits for confirmations, and its Job may take an hour.
func TestACronJobsPassIsOverdueOnlyWhenNoJobCanRunAnyMore(t *testing.T) {
	for _, c := range []struct {
		since   time.Duration
		active  int
		overdue bool
	}{{30 * time.Minute, 0, false}, {40 * time.Minute, 0, true}, {40 * time.Minute, 1, false}, {90 * time.Minute, 1, false}, {100 * time.Minute, 1, true}} {
		f := sound()
		w := f.deployment()
		w.kind, w.schedule, w.active = "CronJob", "*/15 * * * *", c.active
		f.schedule = told(configured{expression: w.schedule})
		last := clock(Now.Add(-c.since))
		f.passes = told(passed(`{"at":"` + last + `","result":"Succeeded","took":"1s","succeeded":"` + last + `"}`))
		if l := lineOf(t, f, "last-pass"); (l.Level == document.LevelError) != c.overdue {
			t.Errorf("%s after the last pass, with %d active Jobs: %+v", c.since, c.active, l)
		}
	}
}

func TestAHolderThatIsDeadKeepsNobodyWaiting(t *testing.T) {
	f := sound()
	l := leaseOf("worker-1/dead", time.Minute)
	l.Name, l.Spec.AcquireTime.Time = "whereabouts", Now.Add(-time.Hour)
	f.addLeases = told([]coordinationv1.Lease{*l})
	if wrong := faults(f); len(wrong) > 0 {
		t.Errorf("it says: %q", wrong)
	}
	l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: Now}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)}}
	f.addLeases = told([]coordinationv1.Lease{*l})
	if wrong := faults(f); len(wrong) != 1 {
		t.Errorf("by the API server's clock it is renewed: %q", wrong)
	}
}
