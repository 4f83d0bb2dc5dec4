package serve

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// subjects records the objects and types of Events.
type subjects struct {
	record.EventRecorder
	objects []*corev1.ObjectReference
	types   []string
}

func (s *subjects) Event(o runtime.Object, eventType, _, _ string) {
	s.objects, s.types = append(s.objects, o.(*corev1.ObjectReference)), append(s.types, eventType)
}

func (s *subjects) Eventf(o runtime.Object, _, _, _ string, _ ...any) { s.Event(o, "", "", "") }

// A finding on two pods is on the pool: readers of one pod's namespace may not know of the other pod.
func TestEvents_Objects(t *testing.T) {
	recorder := &subjects{}
	e := &Events{EventRecorder: recorder}
	ended := Judged(Observe(UsualPool, ReportingWorker(Gone("box-1", UsualUID)), UsualPod()), facts.Policy{})
	e.released(AllocationOf(t, ended, "10.0.0.5"))
	without := Judged(Observe(UsualSandboxGone), facts.Policy{})
	e.released(AllocationOf(t, without, "10.0.0.5"))
	conflict := FindingsOf(findings.Conflict, UsualPool, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Node("worker-1"),
		Node("worker-2"), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
		FreshReport("worker-2", Sandbox("box-2", "uid-2", OfPod("web-1"), WithAddress("10.0.0.5", ""))))
	if len(conflict) == 0 {
		t.Fatal("no conflict")
	}
	pool := aPool("10.0.0.0-24", "10.0.0.0/24")
	pool.UID = "uid-2" // kubectl describe finds Events by it
	e.finding(conflict[0], []*ippool.Pool{aPool("other", "10.0.1.0/24"), pool})
	var got []string
	for _, o := range recorder.objects {
		got = append(got, strings.TrimSpace(fmt.Sprint(o.Kind, " ", o.Namespace, "/", o.Name, " ", o.UID)))
	}
	want := "Pod default/web-0 uid-1, IPPool kube-system/10.0.0.0-24, IPPool kube-system/10.0.0.0-24 uid-2"
	restoretest.Equal(t, "Events on", strings.Join(got, ", "), want)
}

func TestEvents_TypesOfFindings(t *testing.T) {
	for _, kind := range findings.Kinds() {
		recorder := &subjects{}
		(&Events{EventRecorder: recorder, Self: &corev1.ObjectReference{}}).finding(findings.Finding{Kind: kind}, nil)
		isInformation := kind == findings.StatusMismatch || kind == findings.OutsideDefinition
		if isWarning := recorder.types[0] == corev1.EventTypeWarning; isWarning == isInformation {
			t.Errorf("an Event of %s has type %s", kind, recorder.types[0])
		}
	}
}
