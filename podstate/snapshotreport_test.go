package podstate_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Files usually have no managedFields, so the Lease counts by its renewTime.
func TestSnapshotReport_RenewTime(t *testing.T) {
	o := report()
	l := lease(o)
	l.ManagedFields, l.Annotations = nil, nil // neither is read
	r := podstate.ReadSnapshotReport(o, l, true)
	equal(t, "renewed", r.ConfirmedAt, noon.Add(time.Hour))
	equal(t, "Lease renewed", r.LeaseRenewedAt, noon.Add(time.Hour))
	equal(t, "written", r.WrittenAt, o.ObservedAt.Time)
}

func TestSnapshotReport_WithoutLease(t *testing.T) {
	o := report()
	r := podstate.ReadSnapshotReport(o, nil, false)
	equal(t, "no Leases at all: its observedAt", r.ConfirmedAt, o.ObservedAt.Time)
	r = podstate.ReadSnapshotReport(o, nil, true)
	equal(t, "others have Leases", r.ConfirmedAt, time.Time{})
	equal(t, "others have Leases: Lease renewed", r.LeaseRenewedAt, time.Time{})
	l := lease(o)
	l.Spec.RenewTime = nil
	equal(t, "a Lease that was never renewed", podstate.ReadSnapshotReport(o, l, true).ConfirmedAt, time.Time{})
}

// A restore pauses releases until every node has reported, so no note of it may be missed.
func TestReport_RestoreNote(t *testing.T) {
	early, late := noon.Add(-2*time.Hour), noon.Add(-time.Hour)
	for _, c := range []struct {
		name              string
		onReport, onLease string
		want              time.Time
	}{
		{"nowhere", "", "", time.Time{}},
		{"on the report", early.Format(time.RFC3339), "", early},
		{"on the Lease", "", late.Format(time.RFC3339), late},
		{"later on the Lease", early.Format(time.RFC3339), late.Format(time.RFC3339), late},
		{"later on the report", late.Format(time.RFC3339), early.Format(time.RFC3339), late},
		{"in another time zone", "2026-11-20T12:00:00+02:00", "", early},
	} {
		o := report()
		l := lease(o)
		if c.onReport != "" {
			o.Annotations = map[string]string{v1alpha1.RestoreAnnotation: c.onReport}
		}
		if c.onLease != "" {
			l.Annotations[v1alpha1.RestoreAnnotation] = c.onLease
		}
		if r := podstate.ReadReport(o, l); !r.RestoreDetectedAt.Equal(c.want) {
			t.Errorf("%s: live: %v; want %v", c.name, r.RestoreDetectedAt, c.want)
		}
		if r := podstate.ReadSnapshotReport(o, l, true); !r.RestoreDetectedAt.Equal(c.want) {
			t.Errorf("%s: in a snapshot: %v; want %v", c.name, r.RestoreDetectedAt, c.want)
		}
	}
}

func TestReport_RestoreNoteUnparsable(t *testing.T) {
	o := report()
	o.Annotations = map[string]string{v1alpha1.RestoreAnnotation: "yesterday"}
	equal(t, "on the report", podstate.ReadReport(o, nil).RestoreDetectedAt, noon.Add(-5*time.Minute))
	equal(t, "on a snapshot's report", podstate.ReadSnapshotReport(o, nil, false).RestoreDetectedAt, o.ObservedAt.Time)

	o = report()
	l := lease(o)
	l.Annotations[v1alpha1.RestoreAnnotation] = ""
	equal(t, "on the Lease", podstate.ReadReport(o, l).RestoreDetectedAt, noon.Add(-10*time.Second))
	equal(t, "on a snapshot's Lease", podstate.ReadSnapshotReport(o, l, true).RestoreDetectedAt, noon.Add(time.Hour))
}

// The writer of one report must not pause all releases for any time.
func TestReport_RestoreNoteInTheFuture(t *testing.T) {
	note := func(m *metav1.ObjectMeta) {
		m.Annotations = map[string]string{v1alpha1.RestoreAnnotation: "2099-01-01T00:00:00Z"}
	}
	byHand := fields("kubectl", `{"f:metadata":{"f:annotations":{"f:ip-reconcile.dev/etcd-restored":{}}}}`, -time.Minute)
	o, l := report(), lease(report())
	note(&o.ObjectMeta)
	equal(t, "on the report", podstate.ReadReport(o, nil).RestoreDetectedAt, noon.Add(-5*time.Minute))
	o.ManagedFields = append(o.ManagedFields, byHand)
	equal(t, "by somebody else's hand", podstate.ReadReport(o, nil).RestoreDetectedAt, noon.Add(-time.Minute))
	equal(t, "the text of the note", podstate.ReadReport(o, nil).RestoreNote, "2099-01-01T00:00:00Z")
	note(&l.ObjectMeta)
	equal(t, "on the Lease", podstate.ReadReport(report(), l).RestoreDetectedAt, noon.Add(-10*time.Second))
}
