package schedule

import (
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestEveryFormOfARobfigExpressionIsDueWhenItSays(t *testing.T) {
	for _, c := range []struct{ expression, after, next string }{
		{"30 4 * * *", "2026-11-21T04:29:59Z", "2026-11-21T04:30:00Z"},
		{"30 4 * * *", "2026-11-21T04:30:00Z", "2026-11-22T04:30:00Z"},
		{"30 4 * * *", "2026-11-21T04:00:00+02:00", "2026-11-21T04:30:00Z"},
		{" \t30  4 * * *\n", "2026-11-21T00:00:00Z", "2026-11-21T04:30:00Z"},
		{"30\t4\t*\t*\t*", "2026-11-21T00:00:00Z", "2026-11-21T04:30:00Z"},
		{"*/5 * * * *", "2026-11-21T00:01:00Z", "2026-11-21T00:05:00Z"},
		{"*/15 * * * *", "2026-11-21T23:46:00Z", "2026-11-22T00:00:00Z"},
		{"10-50/20 8,20 * * *", "2026-11-21T08:30:00Z", "2026-11-21T08:50:00Z"},
		{"0 0 29 2 *", "2026-11-21T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 6 ? * MON-FRI", "2026-11-21T00:00:00Z", "2026-11-23T06:00:00Z"},
		{"0 6 * jan,Jul sun", "2026-11-21T00:00:00Z", "2027-01-03T06:00:00Z"},
		// Day of month or day of week: one is enough when both are given.
		{"0 0 13 * 5", "2026-11-14T00:00:00Z", "2026-11-20T00:00:00Z"},
		{"@yearly", "2026-11-21T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@annually", "2026-11-21T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@monthly", "2026-11-21T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"@weekly", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"@daily", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"@midnight", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"@hourly", "2026-11-21T00:10:00Z", "2026-11-21T01:00:00Z"},
		{"@every 5m", "2026-11-21T00:00:07Z", "2026-11-21T00:05:07Z"},
		{"@every 1h30m", "2026-11-21T00:00:00.9Z", "2026-11-21T01:30:00Z"},
		{"@every 10ms", "2026-11-21T00:00:00Z", "2026-11-21T00:00:01Z"},
		{"TZ=Asia/Tokyo 30 4 * * *", "2026-11-21T00:00:00Z", "2026-11-21T19:30:00Z"},
		{"CRON_TZ=America/New_York 30 4 * * *", "2026-11-21T00:00:00Z", "2026-11-21T09:30:00Z"},
		{"TZ=Asia/Tokyo @daily", "2026-11-21T00:00:00Z", "2026-11-21T15:00:00Z"},
		{"CRON_TZ=UTC @every 5m", "2026-11-21T00:00:00Z", "2026-11-21T00:05:00Z"},
		// Berlin's clocks go from 02:00 to 03:00 on 2026-03-29 …
		{"TZ=Europe/Berlin 30 4 * * *", "2026-03-28T12:00:00Z", "2026-03-29T02:30:00Z"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
		// … and from 03:00 back to 02:00 on 2026-10-25; UTC's never do.
		{"TZ=Europe/Berlin 30 4 * * *", "2026-10-24T12:00:00Z", "2026-10-25T03:30:00Z"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"30 2 * * *", "2026-10-25T00:00:00Z", "2026-10-25T02:30:00Z"},
	} {
		next, err := Next(c.expression, at(t, c.after))
		if err != nil {
			t.Errorf("%q: %v", c.expression, err)
			continue
		}
		if got := next.Format(time.RFC3339Nano); got != c.next {
			t.Errorf("%q after %s: got %s, want %s", c.expression, c.after, got, c.next)
		}
	}
}

func TestWhatIsNoExpressionIsRefusedWithWhatItIsAndWhatToWrite(t *testing.T) {
	for expression, why := range map[string]string{
		"":                              "found 0",
		" \n":                           "found 0",
		"every 5 minutes":               "found 3",
		"30 4 * *":                      "found 4",
		"0 30 4 * * *":                  "found 6",
		"30 4 * * * # nightly":          "found 7",
		"30 4 * * *\n0 5 * * *":         "found 10",
		"60 4 * * *":                    "above maximum",
		"30 24 * * *":                   "above maximum",
		"30 4 0 * *":                    "below minimum",
		"30 4 * 13 *":                   "above maximum",
		"30 4 * * 7":                    "above maximum",
		"-1 4 * * *":                    "failed to parse",
		"*/0 4 * * *":                   "positive",
		"50-10 4 * * *":                 "beyond end",
		"x 4 * * *":                     "failed to parse",
		"30 4 * * MONDAY":               "failed to parse",
		"@nightly":                      "unrecognized descriptor",
		"@reboot":                       "unrecognized descriptor",
		"@every":                        "unrecognized descriptor",
		"@every 5":                      "failed to parse duration",
		"@every five minutes":           "failed to parse duration",
		"0 0 30 2 *":                    "never due",
		"0 0 31 4,6,9,11 *":             "never due",
		"TZ=UTC":                        "nothing follows",
		"CRON_TZ=":                      "nothing follows",
		"TZ=UTC ":                       "nothing follows",
		"TZ=Nowhere/Land 30 4 * * *":    "Nowhere/Land",
		"TZ=../../etc/passwd @daily":    "bad location",
		"TZ=UTC TZ=UTC 30 4 * * *":      "found 6",
		"\x00\xff":                      "found 1",
		strings.Repeat("30 4 * * ", 99): "…",
	} {
		_, err := Next(expression, time.Now())
		if err == nil {
			t.Errorf("%q: no error", expression)
			continue
		}
		for _, want := range []string{why, "no cron expression", `"30 4 * * *"`, "@every 5m", "UTC"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v\ndoes not say %q", expression, err, want)
			}
		}
	}
}

// A ConfigMap has up to a megabyte, and the parser takes seventy times the length.
func TestNext_LongExpression(t *testing.T) {
	for what, expression := range map[string]string{
		"a list of minutes": strings.Repeat("1,", 500_000) + "1 * * * *",
		"a time zone":       "TZ=" + strings.Repeat("a/", 500_000) + " * * * * *",
	} {
		if _, err := Next(expression, time.Now()); err == nil || !strings.Contains(err.Error(), "longer than") || len(err.Error()) > 600 {
			t.Errorf("%s: %.600v", what, err)
		}
	}
}

func FuzzAnExpressionIsDueLaterOrRefused(f *testing.F) {
	for _, s := range []string{"30 4 * * *", "@every 5m", "TZ=UTC", "CRON_TZ=Asia/Tokyo @daily", "@every -5m", "0 0 30 2 *"} {
		f.Add(s)
	}
	after := time.Now()
	f.Fuzz(func(t *testing.T, expression string) {
		if next, err := Next(expression, after); err == nil && !next.After(after) {
			t.Errorf("%q: due at %s after %s", expression, next, after)
		}
	})
}
