package statuscmd

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func told[T any](v T) answer[T] { return answer[T]{value: v} }

func refused[T any](err error) answer[T] { return answer[T]{err: err} }

// sound are the facts of a cluster in which everything is as it should be.
func sound() *facts {
	ours := map[string]string{kube.NameLabel: kube.Product, kube.ComponentLabel: "reconciler"}
	agents := map[string]string{kube.NameLabel: kube.Product, kube.ComponentLabel: "agent"}
	f := &facts{
		now: Now, version: "0.1.0", namespace: "kube-system", leaseNamespace: "ip-reconcile-node-lease",
		workloads: told(inventory{workloads: []workload{
			{kube.Workload{Kind: "Deployment", Namespace: "kube-system", Name: "ip-reconcile", Labels: ours, Wanted: 2, Ready: 2, Spec: running("example.com/ip-reconcile:0.1.0", "--agents=required")}},
			{kube.Workload{Kind: "DaemonSet", Namespace: "kube-system", Name: "ip-reconcile-agent", Labels: agents, Wanted: 2, Ready: 2, Spec: running("example.com/ip-reconcile:0.1.0")}},
		}}),
		paused:    told(false),
		leader:    told(leaseOf("ip-reconcile-0_1", 10*time.Second)),
		passes:    told(passed(`{"at":"2026-11-20T04:30:00Z","result":"Succeeded","took":"1.5s","succeeded":"2026-11-20T04:30:00Z","released":3}`)),
		addLeases: told([]coordinationv1.Lease{}),
		schedule:  told(configured{"30 4 * * *", "the default", "kubectl edit"}),
		policy:    told(true),
		ownRights: told([]right{}), accountRights: told([]right{}),
		definitions: map[string]answer[*definition]{},
	}
	for _, n := range neededDefinitions {
		f.definitions[n.name()] = told(&definition{served: []string{n.resource.Version}})
	}
	f.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	return f
}

// observed replaces what was judged.
func (f *facts) observed(parts ...Part) {
	r := &reconciler.Reconciler{History: reconciler.NewHistory(), Options: reconciler.Options{ConfirmAfter: 15 * time.Minute}}
	o := Observe(parts...)
	o.Past = r.History
	j := Judged(o, judge.Policy{})
	r.History.Remember(j)
	pools := usage.Of(j)
	pools.AddWaiting()
	f.judged = told(judged{j, r.Plan(nil, j), pools}) //nolint:staticcheck // nothing is asked for
}

func running(image string, args ...string) *corev1.PodSpec {
	return &corev1.PodSpec{ServiceAccountName: "ip-reconcile", Containers: []corev1.Container{{Name: "ip-reconcile", Image: image, Args: args}}}
}

func leaseOf(holder string, renewedAgo time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(Now.Add(-renewedAgo))
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: kube.OwnLease},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, AcquireTime: ptr.To(metav1.NewMicroTime(Now.Add(-time.Hour)))}}
}

func passed(record string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: kube.PassLease, Annotations: map[string]string{kube.PassAnnotation: record}}}
}

func markOf(level document.Level) string {
	for _, l := range levels {
		if l.Level == level {
			return l.mark
		}
	}
	return "?"
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s does not say %q:\n%s", what, p, text)
		}
	}
}
