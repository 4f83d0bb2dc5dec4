package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	for _, c := range []struct{ expression, after, next string }{
		{"30 4 * * *", "2026-11-21T04:30:00Z", "2026-11-22T04:30:00Z"},
		{"30 4 * * *", "2026-11-21T04:00:00+02:00", "2026-11-21T04:30:00Z"},
		{" \t30  4 * * *\n", "2026-11-21T00:00:00Z", "2026-11-21T04:30:00Z"},
		{"10-50/20 8,20 * * MON-FRI", "2026-11-21T08:30:00Z", "2026-11-23T08:10:00Z"},
		{"0 0 29 2 *", "2026-11-21T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"@daily", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"@every 1h30m", "2026-11-21T00:00:00.9Z", "2026-11-21T01:30:00Z"},
		{"@every 10ms", "2026-11-21T00:00:00Z", "2026-11-21T00:00:01Z"},
		{"TZ=Asia/Tokyo 30 4 * * *", "2026-11-21T00:00:00Z", "2026-11-21T19:30:00Z"},
		{"CRON_TZ=America/New_York 30 4 * * *", "2026-11-21T00:00:00Z", "2026-11-21T09:30:00Z"},
		// Berlin's clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 back to 02:00 on 2026-10-25.
		{"TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
		{"TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"30 2 * * *", "2026-10-25T00:00:00Z", "2026-10-25T02:30:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		next, err := Next(c.expression, after)
		if got := next.Format(time.RFC3339Nano); err != nil || got != c.next {
			t.Errorf("%q after %s: got %s, %v, want %s", c.expression, c.after, got, err, c.next)
		}
	}
}

func TestNext_Invalid(t *testing.T) {
	for expression, why := range map[string]string{
		"":                           "found 0",
		"0 30 4 * * *":               "found 6",
		"30 4 * * *\n0 5 * * *":      "found 10",
		"60 4 * * *":                 "above maximum",
		"@reboot":                    "unrecognized descriptor",
		"@every five minutes":        "failed to parse duration",
		"0 0 30 2 *":                 "never due",
		"TZ=UTC":                     "nothing follows",
		"CRON_TZ=":                   "nothing follows",
		"TZ=Nowhere/Land 30 4 * * *": "Nowhere/Land",
		"TZ=../../etc/passwd @daily": "bad location",
		"\x00\xff":                   "found 1",
		// A ConfigMap has up to a megabyte, and the parser needs memory of seventy times the length.
		strings.Repeat("1,", 500_000) + "1 * * * *":          "longer than",
		"TZ=" + strings.Repeat("a/", 500_000) + " * * * * *": "longer than",
	} {
		_, err := Next(expression, time.Now())
		if err == nil || len(err.Error()) > 600 {
			t.Errorf("%.80q: %.600v", expression, err)
			continue
		}
		for _, want := range []string{why, "invalid cron expression", `"30 4 * * *"`, "@every 5m", "UTC"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%.80q: %v\nlacks %q", expression, err, want)
			}
		}
	}
}

func FuzzNext(f *testing.F) {
	for _, s := range []string{"30 4 * * *", "TZ=UTC", "CRON_TZ=Asia/Tokyo @daily", "@every -5m", "0 0 30 2 *"} {
		f.Add(s)
	}
	after := time.Now()
	f.Fuzz(func(t *testing.T, expression string) {
		if next, err := Next(expression, after); err == nil && !next.After(after) {
			t.Errorf("%q: due at %s after %s", expression, next, after)
		}
	})
}
