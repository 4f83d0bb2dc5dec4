package statuscmd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("no"))
	bounded   = NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges": false`))
	bothFresh = All(Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	twoFull   = Pool("10.0.0.0-30", "10.0.0.0/30", Alloc("1", "default/web-0", "box-1", "net1"),
		Alloc("2", "default/web-1", "box-2", "net1"))
	boundedBy = NAD("wb", WhereaboutsConfig("10.0.0.0/30", "", `"enable_overlapping_ranges": false`))
	leaked    = Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/a", "box-1", "net1"),
		Alloc("6", "default/b", "box-2", "net1"), Alloc("7", "default/c", "box-3", "net1"))
	oneGone = All(Pod("other"), Node("worker-1"), FreshReport("worker-1", Gone("box-1", "uid-1")))
)

// annotated is the answer of managedFields.
func annotated(_ context.Context, _ schema.GroupVersionResource, _ types.NamespacedName, annotation string) (
	string, time.Time, error,
) {
	if annotation != ippool.PausedAnnotation {
		return "", time.Time{}, errors.New(annotation)
	}
	return "kubectl-annotate", Now.Add(-time.Hour), nil
}

// noDefinitions makes definitions a source that RBAC forbids.
func noDefinitions(o *Observed) {
	o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](forbidden)
}

// A situation is a change of a sound cluster.
type situation struct {
	name   string
	change func(*Probe)
}

// situations are changes of a sound cluster.
func situations() []situation {
	const recorded = `{"at":"2026-11-20T09:30:00Z","result":"Failed","took":"1s","message":"on fire"`
	return []situation{
		// the workload
		{"scaled to nothing", func(p *Probe) { p.deployment().Wanted, p.deployment().Ready = 0, 0 }},
		{"no replica is ready", func(p *Probe) { p.deployment().Ready = 0 }},
		{"one of two replicas", func(p *Probe) { p.deployment().Ready = 1 }},
		{"another namespace", func(p *Probe) { p.deployment().Namespace = "addresses" }},
		{"no reconciler", func(p *Probe) { p.workloads = p.workloads[1:] }},
		{"only one namespace may be listed", func(p *Probe) { p.unlisted = forbidden }},
		{"only one namespace may be listed, and has none", func(p *Probe) { p.workloads, p.unlisted = nil, forbidden }},
		{"a CronJob that is suspended", func(p *Probe) { p.cronJob(5 * time.Minute); p.deployment().Suspended = true }},
		{"a CronJob's pass is 90 minutes old", func(p *Probe) { p.cronJob(90 * time.Minute) }},
		{"a CronJob's pass is 100 minutes old", func(p *Probe) { p.cronJob(100 * time.Minute) }},
		{"the drop-in in the place of whereabouts' own", func(p *Probe) { p.dropIn("example.com/ip-reconcile:0.1.0") }},
		{"whereabouts' own in that place", func(p *Probe) { p.dropIn("example.com/whereabouts:v0.9.4") }},
		// its leader and its passes
		{"nobody has led for long", func(p *Probe) { p.put(leads(time.Hour)) }},
		{"nobody has ever led", func(p *Probe) { p.without(leases, kube.OwnLease) }},
		{"nobody is elected", func(p *Probe) {
			p.without(leases, kube.OwnLease)
			p.deployment().Spec.Containers[0].Args = []string{"--leader-elect=false"}
		}},
		{"a pass is overdue", func(p *Probe) {
			p.Now = p.Now.Add(24 * time.Hour)
			p.put(leads(-24 * time.Hour))
		}},
		{"no pass is recorded", func(p *Probe) { p.without(leases, kube.PassLease) }},
		{"a record that is no JSON", func(p *Probe) { p.pass("?") }},
		{"a pass that failed", func(p *Probe) { p.pass(recorded + `,"succeeded":"2026-11-20T04:30:00Z"}`) }},
		{"passes that always failed", func(p *Probe) { p.pass(recorded + "}") }},
		{"a pass of an older version, without its schedule", func(p *Probe) {
			p.pass(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1s","succeeded":"2026-11-20T04:30:00Z"}`)
		}},
		// what stands against releases
		{"paused", func(p *Probe) { p.Observation.Paused = true }},
		{"paused by a program that managedFields name", func(p *Probe) {
			p.Observation.Paused, p.Observation.Pools[0].Paused = true, true
			p.annotated = annotated
		}},
		{"a pool that is paused by a program that managedFields name", func(p *Probe) {
			p.Observation.Pools[0].Paused, p.annotated = true, annotated
		}},
		{"a paused pool", func(p *Probe) { p.Observation.Pools[0].Paused = true }},
		{"two paused pools", func(p *Probe) {
			p.observed(UsualPool, Pool("10.9.0.0-24", "10.9.0.0/24"), UsualPod(Carrying("10.0.0.5")), bothFresh,
				func(o *Observed) { o.Pools[0].Paused, o.Pools[1].Paused = true, true })
		}},
		{"etcd was restored", func(p *Probe) {
			r := &restore.Status{ID: "k3f7q2m9xa", Restored: Now.Add(-time.Minute), Why: "a revision ran backwards",
				Awaiting: []string{"worker-2"}}
			p.Plan.CommonGates = []plan.Gate{{Why: plan.EtcdRestored, Detail: r.Text()}}
		}},
		{"what is kept of restores cannot be read", func(p *Probe) {
			p.Plan.CommonGates = []plan.Gate{{Why: plan.EtcdRestored,
				Detail: "cannot read the etcd restore state: it is no JSON"}}
		}},
		{"a breaker that has tripped", func(p *Probe) { p.breakerHas(`[{"at":"2026-11-20T09:50:00Z","count":30,"of":40}]`) }},
		{"a breaker that cannot be read", func(p *Probe) { p.breakerHas("?") }},
		{"a pass that was stopped by the breaker", func(p *Probe) {
			p.pass(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1s","succeeded":"2026-11-20T04:30:00Z",` +
				`"refused":{"Breaker":25}}`)
		}},
		{"a pass whose writes failed", func(p *Probe) {
			p.pass(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1s","succeeded":"2026-11-20T04:30:00Z",` +
				`"refused":{"WriteFailed":3}}`)
		}},
		// what was judged
		{"addresses cannot be judged", func(p *Probe) { p.Unjudged = errors.New("500") }},
		{"stale items", func(p *Probe) { p.observed(leaked, oneGone) }},
		{"stale items of a paused pool", func(p *Probe) {
			p.observed(leaked, oneGone, func(o *Observed) { o.Pools[0].Paused = true })
		}},
		{"two pods at one address", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")),
				Pod("web-1", Carrying("10.0.0.5"), UID("uid-2"), OnNode("worker-2")), bounded,
				Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
				Node("worker-2"), FreshReport("worker-2", Sandbox("box-2", "uid-2", OfPod("web-1"), NotReady(nil))))
		}},
		{"a reservation is missing", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")),
				Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))))
		}},
		{"a pool that is nearly full", func(p *Probe) {
			p.observed(twoFull, UsualPod(Carrying("10.0.0.1")), Pod("web-1", Carrying("10.0.0.2")), boundedBy, bothFresh)
		}},
		{"a pod that waits for a pool", func(p *Probe) {
			p.observed(twoFull, UsualPod(Carrying("10.0.0.1")), Pod("web-1", Carrying("10.0.0.2")), boundedBy, bothFresh,
				Pod("late", Phase("Pending"), func(p *corev1.Pod) {
					p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "default/wb"}
					p.CreationTimestamp = metav1.NewTime(Now.Add(-time.Hour))
				}))
		}},
		{"an allocation that cannot be read", func(p *Probe) {
			p.observed(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("x", "default/web-0", "box-1", "net1")), UsualPod(), bothFresh)
		}},
		// agents
		{"an agent without a fresh report", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2"),
				StaleReport("worker-2"))
		}},
		{"a node without an agent", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2"),
				Node("worker-3"))
		}},
		{"a node that is gone", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"),
				Node("worker-2", OutOfService, NotReadyFor(time.Hour)), StaleReport("worker-2"))
		}},
		{"agents that were never there", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"))
		}},
		{"no agents", func(p *Probe) {
			p.workloads = p.workloads[:1]
			p.deployment().Spec.Containers[0].Args = nil
			p.lacking(v1alpha1.Resource())
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"))
		}},
		{"no agents, and a node that is not Ready", func(p *Probe) {
			p.observed(UsualPool, Node("worker-1"), Node("worker-2", NotReadyFor(time.Hour)), Node("worker-3"))
		}},
		{"no agents, and two nodes that are not Ready", func(p *Probe) {
			p.observed(UsualPool, Node("worker-1", func(n *corev1.Node) { n.Status.Conditions = nil }),
				Node("worker-2", NotReadyFor(time.Hour)))
		}},
		{"reports that must not be read", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"),
				func(o *Observed) { o.Reports = facts.Unknown[[]*podstate.Report](forbidden) })
		}},
		{"reports that cannot be listed", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), func(o *Observed) {
				o.Reports = facts.Unknown[[]*podstate.Report](
					errors.New("conversion webhook failed: Post https://gone: no such host"))
			})
		}},
		{"agents' Leases that must not be read", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), StaleReport("worker-1"))
			p.Core.(*fake.Clientset).PrependReactor("list", "leases", func(a k8stesting.Action) (bool, runtime.Object, error) {
				return a.GetNamespace() == p.leaseNamespace, nil, forbidden
			})
		}},
		// sources
		{"definitions that must not be read", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), bothFresh, noDefinitions)
			p.own = p.deployment()
		}},
		{"definitions that the reconciler must not read either", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), bothFresh, noDefinitions)
			p.forbid("network-attachment-definitions", "list")
		}},
		{"definitions that must not be read, and no reconciler", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), bothFresh, noDefinitions)
			p.workloads = p.workloads[1:]
		}},
		{"nodes that cannot be listed", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), FreshReport("worker-1"), NodesUnknown)
		}},
		{"a finding, and reservations that cannot be listed", func(p *Probe) {
			p.observed(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("x", "default/web-0", "box-1", "net1")), UsualPod(), bothFresh,
				func(o *Observed) {
					o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("list reservations: 500"))
				})
		}},
		{"a pod that may have any address", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), Node("worker-2"), FreshReport("worker-1",
				Sandbox("box-1", UsualUID), Sandbox("box-9", "uid-9", OfPod("tenant"), func(b *v1alpha1.Sandbox) {
					b.AddressesUnread = true
				})), FreshReport("worker-2"))
		}},
		{"a node that the selector of agents does not select", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1", WithoutAgent), Node("worker-2"),
				FreshReport("worker-2"))
		}},
		{"no node that the selector of agents selects", func(p *Probe) {
			p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1", WithoutAgent), StaleReport("worker-1"))
		}},
		{"no admission policy", func(p *Probe) { p.withoutPolicy("validatingadmissionpolicies") }},
		{"no admission policy, and agents in a namespace of their own", func(p *Probe) {
			p.withoutPolicy("validatingadmissionpolicies")
			p.daemonSet().Namespace = "addresses"
		}},
		{"no binding of an admission policy", func(p *Probe) { p.withoutPolicy("validatingadmissionpolicybindings") }},
		{"an admission policy that only audits", func(p *Probe) {
			p.withoutPolicy("validatingadmissionpolicybindings")
			p.put(&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "ip-reconcile-reports"},
				Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
					ValidationActions: []admissionv1.ValidationAction{admissionv1.Audit}}})
		}},
		{"an admission policy without the rule on Leases", func(p *Probe) {
			p.weaken("ip-reconcile-agent", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.MatchConstraints.ResourceRules = s.MatchConstraints.ResourceRules[:1]
			})
		}},
		{"an admission policy that excludes a namespace", func(p *Probe) {
			p.weaken("ip-reconcile-reports", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.MatchConstraints.NamespaceSelector.MatchExpressions[0].Values = []string{"other"}
			})
		}},
		{"an admission policy that fails open", func(p *Probe) {
			p.weaken("ip-reconcile-agent", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.FailurePolicy = ptr.To(admissionv1.Ignore)
			})
		}},
		{"an admission policy with a condition that is never met", func(p *Probe) {
			p.weaken("ip-reconcile-agent", func(s *admissionv1.ValidatingAdmissionPolicySpec) {
				s.MatchConditions[0].Expression = "false"
			})
		}},
		{"an API server that accepts the Lease of another node", func(p *Probe) {
			refuses := p.as
			p.as = func(ctx context.Context, account, path string, object any) error {
				if strings.HasSuffix(path, "/leases") {
					return nil
				}
				return refuses(ctx, account, path, object)
			}
		}},
		{"a caller who may not impersonate", func(p *Probe) {
			p.as = func(context.Context, string, string, any) error { return forbidden }
		}},
		{"Leases of agents in the reconciler's namespace", func(p *Probe) { p.leaseNamespace = p.namespace }},
		{"Leases of agents in that of kubelets' Leases", func(p *Probe) { p.leaseNamespace = "kube-node-lease" }},
		// versions
		{"agents that are newer", func(p *Probe) { p.daemonSet().Spec = running("example.com/ip-reconcile:0.2.0") }},
		{"a command without a version", func(p *Probe) { p.Version = "devel" }},
		{"a release candidate", func(p *Probe) { p.Version = "0.1.0-rc.1" }},
		{"an update of which one pod does not start", func(p *Probe) {
			p.put(p.replica("a", "0.1.0", corev1.PodRunning), p.replica("b", "0.2.0", corev1.PodPending))
		}},
		{"an update", func(p *Probe) {
			p.put(p.replica("a", "0.1.0", corev1.PodRunning), p.replica("b", "0.2.0", corev1.PodRunning))
		}},
		{"an image with a tag of no release",
			func(p *Probe) { p.deployment().Spec.Containers[0].Image = "example.com/ip-reconcile:latest" }},
		{"an image without a tag",
			func(p *Probe) { p.deployment().Spec.Containers[0].Image = "registry:5000/ip-reconcile@sha256:00" }},
		// definitions
		{"no definition of reports", func(p *Probe) { p.lacking(v1alpha1.Resource()) }},
		{"no whereabouts", func(p *Probe) {
			p.Unjudged = errors.New("the API server does not serve ippools")
			p.lacking(ippool.PoolResource, ippool.ReservationResource)
		}},
		// rights
		{"rights that little depends on", func(p *Probe) { p.forbid("events", "create", "patch") }},
		{"a right that everything depends on", func(p *Probe) { p.forbid("pods", "list", "watch") }},
		{"rights of another ServiceAccount", func(p *Probe) {
			p.deployment().Spec.ServiceAccountName = "custom"
			p.forbid("leases", "create", "list")
		}},
		{"rights that cannot be known", func(p *Probe) {
			p.may = func(context.Context, string, authorizationv1.ResourceAttributes) (bool, error) {
				return false, forbidden
			}
		}},
		// what competes
		{"whereabouts' control loop", func(p *Probe) {
			p.runs("DaemonSet", "whereabouts", "/install-cni.sh && /ip-control-loop")
		}},
		{"whereabouts' CronJob", func(p *Probe) { p.runs("CronJob", "ip-reconciler", "/ip-reconciler") }},
		{"whereabouts' Deployment", func(p *Probe) { p.runs("Deployment", "whereabouts-reconciler", "/ip-reconciler") }},
		{"a second Deployment", func(p *Probe) {
			second := *p.deployment()
			second.Namespace = "default"
			p.workloads = slices.Insert(p.workloads, 0, &second)
		}},
		// nothing is concluded from what could not be read
		{"Leases cannot be read", func(p *Probe) { p.everythingFails(forbidden) }},
		{"nothing could be read", func(p *Probe) { p.unread(forbidden); p.Unjudged = forbidden }},
		{"nothing was answered in time", func(p *Probe) { p.unread(context.DeadlineExceeded) }},
	}
}
