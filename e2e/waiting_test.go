//go:build !slow && !cluster

package e2e

import (
	"regexp"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fullEvent waits until a pod's only Event that its pool is full matches a pattern, and returns that Event.
func (p *pod) fullEvent(t *testing.T, pattern string) (event corev1.Event) {
	t.Helper()
	re := regexp.MustCompile("^" + pattern + "$")
	eventually(t, "an Event "+pattern+" on "+p.Name, func() bool {
		list := try(p.s.Client().CoreV1().Events(p.Namespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: "reason=IPPoolFull,involvedObject.uid=" + string(p.UID)})).must(t).Items
		if len(list) > 1 {
			t.Fatalf("%d Events on %s", len(list), p.Name)
		}
		if len(list) == 1 {
			event = list[0]
		}
		return re.MatchString(event.Message)
	})
	return event
}

// TestServe_TellsThePodThatWaits has a pod whose ADD fails because its range is full, and one that merely starts.
func TestServe_TellsThePodThatWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	small, roomy := simple("small", "10.2.0.0/30"), simple("roomy", "10.3.0.0/30")
	check(t, s.CreateNAD(t.Context(), small))
	check(t, s.CreateNAD(t.Context(), roomy))
	kubeconfig := s.applied(t, overlay(t, "", []string{"deployment"}, nil, ""))

	s.up(t, "worker-1", "one", small)
	two := s.up(t, "worker-1", "two", small)
	s.up(t, "worker-1", "three", roomy)
	starting := s.pending(t, "worker-1", "starting").annotate(t, "k8s.v1.cni.cncf.io/networks", roomy.Name).
		age(t, time.Minute)
	waiting := s.waits(t, "waiting", small)

	v := s.serve(t, kubeconfig)
	first := waiting.fullEvent(t, `Pool 10\.2\.0\.0/30 is full: nothing is stale: widen the range`)
	equal(t, "its type and source", first.Type+" "+first.Source.Component, "Warning ip-reconcile")
	described := s.mustKubectl(t, "describe", "pod", "waiting")
	if !regexp.MustCompile(`Warning +IPPoolFull +\S+ +ip-reconcile +Pool 10\.2\.0\.0/30 is full: nothing`).
		MatchString(described) {
		t.Errorf("kubectl describe pod:\n%s", described)
	}
	v.stop(t)

	// Another process, as after a change of the leader, updates the same Event.
	two.leak(t)
	v = s.serve(t, kubeconfig)
	next := waiting.fullEvent(t,
		`Pool 10\.2\.0\.0/30 is full: 1 address is stale, the next is released at \d\d:\d\d:\d\d UTC if every pass agrees`)
	equal(t, "the Event", next.UID, first.UID)
	equal(t, "Events on a pod that merely starts", len(try(s.Client().CoreV1().Events("default").List(t.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(starting.UID)})).must(t).Items), 0)
	v.stop(t)

	// Without permission to write events a process works, and says once what is missing.
	roles := s.Client().RbacV1().ClusterRoles()
	role := try(roles.Get(t.Context(), "ip-reconcile-serve", metav1.GetOptions{})).must(t)
	role.Rules = without(role.Rules, "events", "create")
	try(roles.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
	may(t, kubeconfig, authorizationv1.ResourceAttributes{Resource: "events", Verb: "create"}, false)
	late := s.waits(t, "late", small)
	v = s.serve(t, kubeconfig)
	v.said(t, `msg="Cannot write Events on pods that wait for an address" error=".*forbidden`)
	waiting.fullEvent(t, `.*1 address is stale.*`) // an Event that exists is only patched
	equal(t, "Events on the pod that came late", len(try(s.Client().CoreV1().Events("default").List(t.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(late.UID)})).must(t).Items), 0)
	v.is(t, `ip_reconcile_pool_waiting_pods`, 2)
}
