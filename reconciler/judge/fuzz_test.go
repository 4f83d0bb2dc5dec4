package judge_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// FuzzNoReportOfAnotherNodeFreesWhatRuns: worker-1 says that a sandbox runs, and the liar
// says anything of it, fresh or stale. The entry is never Stale, and amending an index by the
// report comes to the same as an index that was built with it.
func FuzzNoReportOfAnotherNodeFreesWhatRuns(f *testing.F) {
	for _, text := range []string{
		`{"gone":[{"id":"box-1","uid":"uid-1","since":"2026-11-20T09:00:00Z"}]}`,
		`{"sandboxes":[{"id":"box-1","namespace":"default","name":"web-0","uid":"uid-1","state":"NotReady","networkClosed":true}]}`,
		`{"sandboxes":[{"id":"box-1","uid":"uid-0","state":"Ready","addresses":[{"ip":"10.0.0.5"},{"ip":"::ffff:10.0.0.6"},{"ip":"x"}]},{"id":"box-1","state":"odd"}]}`,
		`{"attachments":[{"id":"box-1","since":"2026-11-20T09:00:00Z","networkClosed":true},{"id":"","addresses":[{"ip":"10.0.0.5","range":"10.0.0.0/8"}]}],"bootID":"boot-0"}`,
		`{"sandboxes":[{"id":"b","namespace":"default","name":"web-0","uid":"uid-1","state":"Ready","addressesUnread":true}],"observedAt":"2040-01-01T00:00:00Z"}`,
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
		lie := &podstate.Report{SandboxReport: said, Renewed: Now.Add(-10 * time.Second), LeaseRenewed: Now.Add(-10 * time.Second), Written: Now.Add(-time.Minute)}
		if !fresh {
			lie.Renewed, lie.LeaseRenewed = Now.Add(-time.Hour), Now.Add(-time.Hour)
		}
		for _, pod := range []Part{Nothing, UsualPod(), UsualPod(DeletedAgo(time.Hour)), UsualPod(UID(OtherUID), Phase("Pending"))} {
			parts := []Part{UsualPool, Reservation("10.0.0.5", "default/web-0", LongAgo), pod, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Node(liar),
				ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")))}
			o := Observe(append(parts, func(o *Observed) { o.Reports = append(o.Reports, lie) })...)
			whole := Judged(o, judge.Policy{})
			for _, it := range append(whole.Allocations, whole.Reservations...) {
				if it.Verdict == judge.Stale {
					t.Fatalf("%s is stale (%s) by what another node says: %s", it.Text(), it.Reason, text)
				}
			}
		}
	})
}
