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

// FuzzAListIsReadItemByItemAsTheWholeParserReadsIt also bounds what any text may take.
func FuzzAListIsReadItemByItemAsTheWholeParserReadsIt(f *testing.F) {
	f.Add(kubectlList)
	for _, text := range bombs() {
		if len(text) < 10_000 {
			f.Add(text)
		}
	}
	for _, text := range []string{"kind: List\nitems:\n- kind: &k Pod\n- kind: *k\n", "items:\n- a: |\n  b\n- {}\n", "items:\n- ? [a]\n  : b\n", "items:\n- <<: {a: b}\n", "kind: !!binary aa\nitems:\n- 0x1f: .inf\n", "items:\n- a: 09\n- a: 2026-11-20\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 100_000 {
			return
		}
		bytes := allocatedBy(func() { _, _ = asJSON("x.yaml", []byte(text)) })
		if bytes > uint64(64<<20+2000*len(text)) {
			t.Fatalf("%d bytes of text take %d", len(text), bytes)
		}
		if _, ok := listAsJSON([]byte(text)); ok {
			likeTheWhole(t, text)
		}
	})
}
