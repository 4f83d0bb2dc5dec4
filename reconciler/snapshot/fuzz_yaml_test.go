package snapshot

import (
	"runtime"
	"strings"
	"testing"
)

// bombs are small texts that stand for much.
func bombs() map[string]string {
	long := strings.Repeat("x", 50_000)
	nested := "a: &a [" + strings.Repeat("x,", 9) + "x]\n"
	for _, c := range "bcdefgh" {
		nested += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "*" + string(c-1) + "]\n"
	}
	item := strings.ReplaceAll("- "+strings.TrimSuffix(nested[:200], "\n"), "\n", "\n  ")
	return map[string]string{
		"aliases of aliases":       nested,
		"aliases of a long text":   "a: &a " + long + "\nb: [" + strings.Repeat("*a,", 5000) + "*a]\n",
		"aliases of a long key":    "a: &a {" + long + ": 1}\nb: [" + strings.Repeat("*a,", 5000) + "*a]\n",
		"aliases in each document": strings.Repeat(nested+"---\n", 50),
		"aliases in each item":     "kind: List\nitems:\n" + strings.Repeat(item+"\n", 200),
		"nested deeply":            strings.Repeat("[", 100_000),
		"nested deeply in lines":   strings.Repeat("- ", 20_000),
	}
}

func allocatedBy(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Parsing takes a hundred bytes for one of YAML; what aliases stand for adds little to it.
func TestWhatAYAMLFileStandsForIsBoundByItsLength(t *testing.T) {
	for what, text := range bombs() {
		bytes := allocatedBy(func() { _, _ = asJSON("x.yaml", []byte(text)) })
		if most := uint64(16<<20 + 300*len(text)); bytes > most {
			t.Errorf("%s: %d bytes of text take %d", what, len(text), bytes)
		}
	}
}
