package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Kubernetes has no upper limit for a grace period. One that no time.Duration can have, or only without another minute,
// shortens no wait.
func TestPlan_AnEndlessGracePeriodShortensNothing(t *testing.T) {
	for says, seconds := range map[string]int64{
		"the longest that is a duration": 9223372036,
		"longer than that":               18446744074,
	} {
		endless := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
		t.Run(says+", of a pod that is gone", func(t *testing.T) {
			p := newProcess(t, quarter)
			p.pass(-time.Minute, UsualPool, ReportingWorker(), UsualPod(Carrying("10.0.0.5"), endless))
			p.WantRefused("at the first pass without the pod", plan.AwaitingConfirmation, p.pass(0, unconfirmed))
			p.WantRefused("an hour later", plan.AwaitingConfirmation, p.pass(time.Hour, unconfirmed))
		})
		t.Run(says+", of a pod that is being deleted", func(t *testing.T) {
			p, deleted := newProcess(t, quarter), UsualPod(DeletedAgo(-200*365*24*time.Hour), endless)
			p.WantRefused("at the first pass", plan.AwaitingConfirmation, p.pass(0, unconfirmed, deleted))
			p.WantRefused("an hour later", plan.AwaitingConfirmation, p.pass(time.Hour, unconfirmed, deleted))
		})
	}
}
