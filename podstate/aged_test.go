package podstate_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Ages count to observedAt, so an older report may prove less than a new inspection.
func TestReport_NeedsRewrite(t *testing.T) {
	const minute, quarter = time.Minute, 15 * time.Minute
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
		{"an attachment within 15 minutes", hook(nil), 0, quarter - time.Second, false},
		{"an attachment of 15 minutes", hook(nil), 0, quarter, true},
		{"an attachment observed before", hook(nil), quarter - time.Second, quarter, true},
		{"an attachment observed at 15 minutes", hook(nil), quarter, time.Hour, false},
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
