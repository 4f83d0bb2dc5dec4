//go:build slow

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestServeFollowsItsScheduleWithoutARestart(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1").withRaceDetector()
	vol := newVolume(t)
	vol.file = "config"
	vol.swap(t, "0 0 1 1 *")
	v := s.serve(t, s.Kubeconfig(), "--cron=", "--cron-file", filepath.Join(vol.dir, vol.file))
	v.badSchedules(t, 0, 0)
	v.said(t, `msg="the schedule of passes is in force" expression="0 0 1 1 \*"`)

	vol.swap(t, "@every 1s\n")
	v.passes(t, 4)

	vol.swap(t, "every now and then")
	v.badSchedules(t, 1, 1)
	v.said(t, `level=ERROR msg="the schedule of passes cannot be used" expression="@every 1s" .*every now and then`)
	contains(t, "the event", s.event(t, "BadSchedule", "Namespace", "kube-system"), "every now and then", `"@every 1s" stays in force`)
	v.passes(t, v.metric(`ip_reconcile_passes_total`)+3)

	vol.swap(t, "@every 2s")
	v.badSchedules(t, 0, 1)
	v.passes(t, v.metric(`ip_reconcile_passes_total`)+2)

	// Without the file the default is in force: at night.
	vol.swap(t, "")
	v.said(t, `msg="the schedule of passes is in force" expression="30 4 \* \* \*" source=default`)
	at := v.metric(`ip_reconcile_passes_total`)
	vol.swap(t, "@every 1s")
	v.said(t, `(?s)source=default.*msg="the schedule of passes is in force" expression="@every 1s"`)
	v.passes(t, at+2)
	v.alternates(t)
	v.repeatsNothing(t)
}

// badSchedules waits until the schedule cannot be used now (1) or can (0), and for
// how often it could not so far. A series' name is the beginning of the other's.
func (v *server) badSchedules(t testing.TB, now, total float64) {
	t.Helper()
	v.is(t, `ip_reconcile_schedule_errors_total`, total)
	v.is(t, `ip_reconcile_schedule_error`, now+total)
}

// alternates checks that no pass began before the one before it had ended.
func (v *server) alternates(t testing.TB) {
	t.Helper()
	runs, passes := false, 0
	for line := range strings.Lines(v.stderr.String()) {
		switch {
		case strings.Contains(line, `msg="starting reconciler run"`):
			if runs {
				t.Errorf("a pass began while another ran: %s", line)
			}
			runs = true
		case strings.Contains(line, `msg="reconciler run succeeded"`), strings.Contains(line, `msg="reconciler run failed`):
			if !runs {
				t.Errorf("a pass ended that had not begun: %s", line)
			}
			runs = false
			passes++
		}
	}
	if passes < 3 {
		t.Errorf("only %d passes", passes)
	}
}
