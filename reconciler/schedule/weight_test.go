package schedule

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// A ConfigMap has up to a megabyte.
func TestALongExpressionTakesLittleAndItsErrorLess(t *testing.T) {
	for what, expression := range map[string]string{
		"a list of minutes": strings.Repeat("1,", 500_000) + "1 * * * *",
		"fields":            strings.Repeat("* ", 500_000),
		"a time zone":       "TZ=" + strings.Repeat("a/", 500_000) + " * * * * *",
		"a duration":        "@every " + strings.Repeat("1h", 500_000),
		"a descriptor":      "@" + strings.Repeat("a", 1_000_000),
		"a step":            "*/" + strings.Repeat("9", 1_000_000) + " * * * *",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Next(expression, time.Now())
		runtime.ReadMemStats(&after)
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%s: %d bytes say what is wrong", what, len(err.Error()))
		}
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 64*uint64(len(expression)) {
			t.Errorf("%s: %d bytes are allocated for %d", what, bytes, len(expression))
		}
	}
}
