package podstate_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// fields returns a managedFields entry.
func fields(manager, raw string, d time.Duration) metav1.ManagedFieldsEntry {
	f := &metav1.FieldsV1{}
	f.SetRawString(raw)
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: atPtr(d),
		FieldsType: "FieldsV1", FieldsV1: f}
}

const (
	reportFields = `{"f:bootID":{},"f:observedAt":{},"f:sandboxes":{}}`
	leaseFields  = `{"f:metadata":{"f:annotations":{"f:ip-reconcile.dev/report-hash":{}}},"f:spec":{"f:renewTime":{}}}`
)

// report returns a report that was written five minutes before noon by the server's clock. The node's clock is an
// hour ahead.
func report() *v1alpha1.SandboxReport {
	return &v1alpha1.SandboxReport{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ManagedFields: []metav1.ManagedFieldsEntry{fields("agent",
			reportFields, -5*time.Minute)}},
		BootID:     "boot-1",
		ObservedAt: at(55 * time.Minute),
		Sandboxes:  []v1alpha1.Sandbox{{ID: "c1", State: v1alpha1.SandboxReady}},
	}
}

// lease returns a Lease that confirms the report ten seconds before noon.
func lease(o *v1alpha1.SandboxReport) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:          o.Name,
			Annotations:   map[string]string{v1alpha1.HashAnnotation: podstate.Hash(o)},
			ManagedFields: []metav1.ManagedFieldsEntry{fields("agent", leaseFields, -10*time.Second)},
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: ptr(metav1.NewMicroTime(noon.Add(time.Hour)))},
	}
}

func TestReport_TimesOfTheAPIServer(t *testing.T) {
	o := report()
	r := podstate.ReadReport(o, lease(o))
	equal(t, "confirmed, by the server's clock", r.ConfirmedAt, noon.Add(-10*time.Second))
	equal(t, "Lease renewed", r.LeaseRenewedAt, noon.Add(-10*time.Second))
	equal(t, "written, by the server's clock", r.WrittenAt, noon.Add(-5*time.Minute))
	equal(t, "nonce", r.RestoreNonce, "")
	equal(t, "fresh", r.IsFresh(noon), true)
}

// The Lease confirms one content only. A changed report is not fresh, nor one whose Lease already confirms the next
// content.
func TestReport_LeaseForOtherContent(t *testing.T) {
	for name, hash := range map[string]string{"another hash": "0123", "an empty hash": "", "none": "-"} {
		o := report()
		l := lease(o)
		l.Annotations[v1alpha1.HashAnnotation] = hash
		if hash == "-" {
			l.Annotations = nil
		}
		r := podstate.ReadReport(o, l)
		equal(t, name+": renewed", r.ConfirmedAt, time.Time{})
		equal(t, name+": fresh", r.IsFresh(noon), false)
		equal(t, name+": Lease renewed", r.LeaseRenewedAt, noon.Add(-10*time.Second))
	}
	o := report()
	l := lease(o)
	o.Sandboxes = nil // somebody emptied the report
	equal(t, "a changed report is fresh", podstate.ReadReport(o, l).IsFresh(noon), false)
}

func TestReport_WithoutLease(t *testing.T) {
	r := podstate.ReadReport(report(), nil)
	equal(t, "renewed", r.ConfirmedAt, time.Time{})
	equal(t, "Lease renewed", r.LeaseRenewedAt, time.Time{})
	equal(t, "fresh", r.IsFresh(noon), false)
	equal(t, "written", r.WrittenAt, noon.Add(-5*time.Minute))
}

// A change of a Lease's labels is no renewal.
func TestReport_OnlyRenewTimeRenews(t *testing.T) {
	o := report()
	l := lease(o)
	l.ManagedFields = append(l.ManagedFields, fields("kubectl-label", `{"f:metadata":{"f:labels":{"f:x":{}}}}`, 0))
	equal(t, "renewed", podstate.ReadReport(o, l).ConfirmedAt, noon.Add(-10*time.Second))
	l.ManagedFields = append(l.ManagedFields, fields("agent-of-an-older-version", leaseFields, -time.Hour),
		fields("agent-2", leaseFields, -5*time.Second))
	equal(t, "renewed by the newest of several", podstate.ReadReport(o, l).ConfirmedAt, noon.Add(-5*time.Second))
	l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "no time", FieldsV1: fields("", leaseFields, 0).FieldsV1},
		{Manager: "no fields", Time: atPtr(0)}}
	equal(t, "an entry without a time or without fields", podstate.ReadReport(o, l).ConfirmedAt, time.Time{})
	l.ManagedFields = nil
	equal(t, "no managedFields", podstate.ReadReport(o, l).IsFresh(noon.Add(time.Hour)), false)
}

func TestReport_IsFresh(t *testing.T) {
	r := &podstate.Report{SandboxReport: report(), ConfirmedAt: noon}
	for after, want := range map[time.Duration]bool{
		0: true, 20 * time.Second: true, 60 * time.Second: true, 60*time.Second + 1: false, time.Hour: false,
		// The clock of the server was set back.
		-60 * time.Second: true, -61 * time.Second: false,
	} {
		equal(t, "fresh after "+after.String(), r.IsFresh(noon.Add(after)), want)
	}
	equal(t, "never renewed", (&podstate.Report{SandboxReport: report()}).IsFresh(time.Time{}), false)
}

// Ages count to the earlier of now and observedAt. So a sandbox that was young in an expired report stays young,
// and a fast clock makes nothing older.
func TestReport_AgesInExpiredReports(t *testing.T) {
	s := &v1alpha1.Sandbox{CreatedAt: at(-30 * time.Second)}
	expired := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObservedAt: at(0)}}
	equal(t, "a sandbox of an expired report", expired.IsSettled(s, noon.Add(240*time.Hour)), false)
	ahead := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObservedAt: at(time.Hour)}}
	equal(t, "a sandbox by a clock that is ahead", ahead.IsSettled(s, noon), false)
}

func TestReport_IsSettled(t *testing.T) {
	r := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObservedAt: at(0)}}
	for age, want := range map[time.Duration]bool{
		0: false, time.Minute: false, time.Minute + time.Second: true, time.Hour: true, -time.Hour: false,
	} {
		equal(t, "settled at "+age.String(), r.IsSettled(&v1alpha1.Sandbox{CreatedAt: at(-age)}, noon), want)
	}
}

// Otherwise findings about the sandboxes would be delayed by the error of the node's clock.
func TestReport_IsSettledWithClockAhead(t *testing.T) {
	s := v1alpha1.Sandbox{ID: "a", State: v1alpha1.SandboxReady, CreatedAt: at(time.Hour)}
	r := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObservedAt: at(time.Hour),
		Sandboxes: []v1alpha1.Sandbox{s}}, WrittenAt: noon}
	equal(t, "settled a minute after it was written", r.IsSettled(&s, noon.Add(time.Minute)), false)
	equal(t, "settled when it was written longer ago", r.IsSettled(&s, noon.Add(time.Minute+time.Second)), true)
	r.WrittenAt = time.Time{}
	equal(t, "settled where it is not known when it was written", r.IsSettled(&s, noon.Add(30*time.Minute)), false)
}

// Ages count to observedAt, so an older report may prove less than a new inspection.
func TestReport_NeedsRewrite(t *testing.T) {
	const minute = time.Minute
	sandbox := func(state v1alpha1.SandboxState) *v1alpha1.SandboxReport {
		return &v1alpha1.SandboxReport{Sandboxes: []v1alpha1.Sandbox{
			{ID: "old", State: v1alpha1.SandboxReady, CreatedAt: at(-time.Hour)}, {ID: "a", State: state, CreatedAt: at(0)}}}
	}
	hook := func(closed *bool) *v1alpha1.SandboxReport {
		return &v1alpha1.SandboxReport{Attachments: []v1alpha1.Attachment{
			{ID: "old", Since: at(-time.Hour)}, {ID: "a", Since: at(0), NetworkClosed: closed}}}
	}
	for _, c := range []struct {
		name          string
		report        *v1alpha1.SandboxReport
		observed, now time.Duration
		want          bool
	}{
		{"nothing in it", &v1alpha1.SandboxReport{}, 0, 24 * time.Hour, false},
		{"a sandbox within a minute", sandbox("Ready"), 0, minute, false},
		{"a sandbox past a minute", sandbox("Ready"), 0, minute + time.Second, true},
		{"a sandbox observed at a minute", sandbox("Ready"), minute, minute + time.Second, true},
		{"a sandbox observed past a minute", sandbox("Ready"), minute + time.Second, time.Hour, false},
		{"a sandbox that is not ready", sandbox("NotReady"), 0, time.Hour, false},
		{"an attachment whose network is unknown", hook(nil), 0, 24 * time.Hour, false},
		{"an attachment whose network is there", hook(ptr(false)), 0, time.Hour, false},
		{"an attachment whose network is closed", hook(ptr(true)), 0, time.Hour, false},
		{"a clock that stands still", sandbox("Ready"), 2 * minute, 2 * minute, false},
		{"a clock that went back", sandbox("Ready"), 2 * minute, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.report.ObservedAt = at(c.observed)
			equal(t, "aged", (&podstate.Report{SandboxReport: c.report}).NeedsRewrite(noon.Add(c.now)), c.want)
			equal(t, "observed at", c.report.ObservedAt, at(c.observed))
		})
	}
}

// Files usually have no managedFields, so the Lease counts by its renewTime.
func TestSnapshotReport_RenewTime(t *testing.T) {
	o := report()
	l := lease(o)
	l.ManagedFields = nil // not read
	r := podstate.ReadSnapshotReport(o, l)
	equal(t, "renewed", r.ConfirmedAt, noon.Add(time.Hour))
	equal(t, "Lease renewed", r.LeaseRenewedAt, noon.Add(time.Hour))
	equal(t, "written", r.WrittenAt, o.ObservedAt.Time)
}

// A report that its Lease does not confirm is never fresh: a part of it may be missing.
func TestSnapshotReport_NotConfirmed(t *testing.T) {
	o := report()
	for name, edit := range map[string]func(*coordinationv1.Lease){
		"another hash": func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.HashAnnotation] = "x" },
		"an empty one": func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.HashAnnotation] = "" },
		"none, and observed since": func(l *coordinationv1.Lease) {
			l.Annotations = nil
			o.ObservedAt = metav1.NewTime(noon.Add(2 * time.Hour))
		},
	} {
		l := lease(o)
		edit(l)
		r := podstate.ReadSnapshotReport(o, l)
		equal(t, name, r.ConfirmedAt, time.Time{})
		equal(t, name+": Lease renewed", r.LeaseRenewedAt, noon.Add(time.Hour))
	}
	o = report()
	stripped := lease(o)
	stripped.Annotations = nil // by the export
	equal(t, "no annotations", podstate.ReadSnapshotReport(o, stripped).ConfirmedAt, noon.Add(time.Hour))
	r := podstate.ReadSnapshotReport(o, nil)
	equal(t, "no Lease", r.ConfirmedAt, time.Time{})
	equal(t, "no Lease: Lease renewed", r.LeaseRenewedAt, time.Time{})
	l := lease(o)
	l.Spec.RenewTime = nil
	equal(t, "a Lease that was never renewed", podstate.ReadSnapshotReport(o, l).ConfirmedAt, time.Time{})
	cut := report()
	cut.Sandboxes = nil
	equal(t, "a report without its sandboxes", podstate.ReadSnapshotReport(cut, lease(o)).ConfirmedAt, time.Time{})
}

// A restore pauses releases until every node has reported, so no note of it may be missed. Whatever is noted counts: it
// is a nonce, and a date of an earlier agent is one, too.
func TestReport_RestoreNonce(t *testing.T) {
	for _, c := range []struct{ name, onReport, onLease, want string }{
		{"nowhere", "", "", ""},
		{"on the Lease", "", "k3f7q2m9xa", "k3f7q2m9xa"},
		{"on the report, by an earlier agent that is about to write the Lease", "2026-11-20T12:00:00Z", "",
			"2026-11-20T12:00:00Z"},
		{"on both, which the Lease decides", "2026-11-20T12:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"},
		{"whatever it is", "", "yesterday", "yesterday"},
	} {
		o := report()
		l := lease(o)
		if c.onReport != "" {
			o.Annotations = map[string]string{v1alpha1.RestoreAnnotation: c.onReport}
		}
		if c.onLease != "" {
			l.Annotations[v1alpha1.RestoreAnnotation] = c.onLease
		}
		equal(t, c.name+": live", podstate.ReadReport(o, l).RestoreNonce, c.want)
		equal(t, c.name+": in a snapshot", podstate.ReadSnapshotReport(o, l).RestoreNonce, c.want)
		equal(t, c.name+": with another Lease", podstate.ReadReport(o, nil).WithLease(l).RestoreNonce, c.want)
	}
}
