package planfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
)

// A plan is refused by its size before it is decoded: a node of YAML takes a hundred times its text.
func TestReadFile_TooLarge(t *testing.T) {
	for what, text := range map[string]string{
		"arrays":              `{"items":[` + strings.Repeat("[],", 5_000_000) + "0]}",
		"objects":             `{"items":[` + strings.Repeat("{},", 5_000_000) + "{}]}",
		"a sequence":          "items:\n" + strings.Repeat("- \n", 5_000_000),
		"sequences in a line": "items:\n" + strings.Repeat("- - - - - - - - x\n", 500_000),
		"a long text":         `{"kind":"` + strings.Repeat("x", 40<<20) + `"}`,
	} {
		file := filepath.Join(t.TempDir(), "plan")
		check(t, os.WriteFile(file, []byte(text), 0o600))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := planfile.ReadFile(file)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "plan "+file+": it is too large to be read") {
			t.Errorf("%s: %v", what, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 { // most of it to read the file
			t.Errorf("%s: %d bytes took %d MiB", what, len(text), took>>20)
		}
	}
}
