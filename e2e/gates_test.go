//go:build !slow && !cluster

package e2e

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestGates_PausedIsJudgedAndNotReleased(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	red := simple("red", "10.2.0.0/24")
	leaks := func(t *testing.T) (inBlue, inRed *pod) {
		return s.up(t, "worker-1", "in-blue", blue).leak(t), s.up(t, "worker-1", "in-red", red).leak(t)
	}

	s.play(t, "in one pool while the others go on", func(t *testing.T) {
		inBlue, _ := leaks(t)
		s.reservation(t, "10.1.0.77", "default/nobody", time.Hour) // its address is the pool's
		before := s.contents(t)
		s.patch(t, harness.IPPools, "10.1.0.0-24", pausing("true"))
		for range 2 {
			out := s.run(t)
			out.exits(t, 1)
			out.expect(t, at(inBlue), "Stale PodGone", "reservation 10.1.0.77", "Stale PodGone")
			equal(t, "failed", places(out.Failed), at(inBlue)+", reservation 10.1.0.77")
			contains(t, "what is said", out.judged(at(inBlue)).Message, "kube-system/10.1.0.0-24", "paused",
				"ip-reconcile.dev/paused")
			s.checkReleased(t, before, "10.2.0.0-24 1", "reservation 10.2.0.1")
		}
		checked := s.product(t, "check")
		checked.exits(t, 1)
		equal(t, "what check says stands against the one", checked.judged(at(inBlue)).Refusal, "Paused")
		s.patch(t, harness.IPPools, "10.1.0.0-24", pausing(""))
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, append(stored(inBlue), "10.2.0.0-24 1", "reservation 10.2.0.1",
			"reservation 10.1.0.77")...)
	})

	s.play(t, "everywhere by the reconciler's namespace", func(t *testing.T) {
		inBlue, _ := leaks(t)
		before, leases := s.contents(t), s.leases(t)
		s.pauseAll(t, "true")
		defer s.pauseAll(t, "")
		out := s.run(t, "--allow-mass-release", "--without-lease")
		out.exits(t, 1)
		equal(t, "failed", places(out.Failed), at(inBlue)+", 10.2.0.0-24 10.2.0.1")
		contains(t, "what is said", out.judged(at(inBlue)).Message, "everything is paused", "ip-reconcile.dev/paused")
		text := product(t, "run", "--confirm-after", "0", "--kubeconfig", s.Kubeconfig())
		text.exits(t, 1)
		contains(t, "the table", text.stdout, "Paused: everything is paused")
		s.checkReleased(t, before)
		equal(t, "versions of Leases", s.leases(t), leases)

		// The annotation counts on the reconciler's own namespace only, with any value except those that mean no.
		s.run(t, "--reconciler-namespace", "default", "--dry-run").expect(t, at(inBlue), "Stale PodGone")
		s.pauseAll(t, "yes")
		s.run(t).exits(t, 1)
		s.pauseAll(t, "false")
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, append(stored(inBlue), "10.2.0.0-24 1", "reservation 10.2.0.1")...)
	})

	s.play(t, "by the namespace of the reconciler that is installed", func(t *testing.T) {
		inBlue, _ := leaks(t)
		before := s.contents(t)
		lab := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab",
			Annotations: map[string]string{"ip-reconcile.dev/paused": "true"}}}
		try(s.Client().CoreV1().Namespaces().Create(t.Context(), lab, metav1.CreateOptions{})).must(t)
		labels := map[string]string{"app.kubernetes.io/name": "ip-reconcile", "app.kubernetes.io/component": "reconciler"}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "ip-reconcile", Namespace: "lab", Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{
						{Name: "reconciler", Image: "example.com/ip-reconcile", Args: []string{"serve"}}}}}}}
		d = try(s.Client().AppsV1().Deployments("lab").Create(t.Context(), d, metav1.CreateOptions{})).must(t)
		s.run(t).exits(t, 1)
		equal(t, "what check says stands against it", s.product(t, "check").judged(at(inBlue)).Refusal, "Paused")
		d.Spec.Template.Spec.Containers[0].Args = []string{"serve", "--agents=required"}
		d = try(s.Client().AppsV1().Deployments("lab").Update(t.Context(), d, metav1.UpdateOptions{})).must(t)
		s.product(t, "check").expect(t, at(inBlue), "Held NoFreshReport")
		s.checkReleased(t, before)
		another := d.DeepCopy()
		another.Namespace, another.ResourceVersion = "default", ""
		try(s.Client().AppsV1().Deployments("default").Create(t.Context(), another, metav1.CreateOptions{})).must(t)
		several := s.product(t, "run")
		several.exits(t, 2)
		contains(t, "stderr", several.stderr, "lab/ip-reconcile", "default/ip-reconcile", "--reconciler-namespace")
		for _, in := range []string{"default", "lab"} {
			check(t, s.Client().AppsV1().Deployments(in).Delete(t.Context(), "ip-reconcile", metav1.DeleteOptions{}))
		}
		s.run(t).exits(t, 0)
	})

}
