package audit

import (
	"runtime"
	"strings"
	"testing"
)

// Somebody else may have written what is packed as a record. Its values are counted before it is decoded.
func TestNewLine_TooLarge(t *testing.T) {
	for _, text := range []string{
		`{"items":[` + strings.Repeat("{},", 300_000) + "{}]}", `{"items":[` + strings.Repeat("[],", 300_000) + "0]}",
		`{"by":"` + strings.Repeat("x", 2<<20) + `"}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l := newLine("a:1", []byte(text))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; l.Err == nil || took > 16<<20 {
			t.Errorf("%.20s: %v, %d MiB", text, l.Err, took>>20)
		}
	}
}
