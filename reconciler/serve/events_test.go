package serve

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// subjects are what events are about.
type subjects struct {
	record.EventRecorder
	about []*corev1.ObjectReference
	types []string
}

func (s *subjects) Event(o runtime.Object, eventType, _, _ string) {
	s.about, s.types = append(s.about, o.(*corev1.ObjectReference)), append(s.types, eventType)
}

func (s *subjects) Eventf(o runtime.Object, _, _, _ string, _ ...any) { s.Event(o, "", "", "") }

// Who may read the events of a namespace learns from those on its pods of these pods alone; what
// is about two of them is told on the pool, where that is.
func TestEventsAreAboutThePodElseThePool(t *testing.T) {
	told := &subjects{}
	e := &Events{EventRecorder: told}
	ended := Judged(Observe(UsualPool, ReportingWorker(Gone("box-1", UsualUID)), UsualPod()), judge.Policy{})
	e.released(AllocationOf(t, ended, "10.0.0.5"))
	without := Judged(Observe(UsualSandboxGone), judge.Policy{})
	e.released(AllocationOf(t, without, "10.0.0.5"))
	conflict := FindingsOf(judge.Conflict, UsualPool, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Node("worker-1"), Node("worker-2"),
		FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
		FreshReport("worker-2", Sandbox("box-2", "uid-2", OfPod("web-1"), WithAddress("10.0.0.5", ""))))
	if len(conflict) == 0 {
		t.Fatal("there is no conflict")
	}
	e.finding(conflict[0], "")
	var got []string
	for _, o := range told.about {
		got = append(got, o.Kind+" "+o.Namespace+"/"+o.Name)
	}
	want := "Pod default/web-0, IPPool kube-system/10.0.0.0-24, IPPool kube-system/10.0.0.0-24"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("the events are about %s, want %s", text, want)
	}
}

func TestEventsAboutFindingsAreWarningsButForInformation(t *testing.T) {
	for _, kind := range judge.Kinds() {
		told := &subjects{}
		(&Events{EventRecorder: told, Self: &corev1.ObjectReference{}}).finding(judge.Finding{Kind: kind}, "")
		if isWarning := told.types[0] == corev1.EventTypeWarning; isWarning == (kind == judge.StatusMismatch) {
			t.Errorf("an event about %s is of type %s", kind, told.types[0])
		}
	}
}
