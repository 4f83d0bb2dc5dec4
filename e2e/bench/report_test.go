//go:build !slow && !cluster

package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

func TestReport_KeepsHandwrittenText(t *testing.T) {
	before, err := os.ReadFile("../../docs/explain/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	page := filepath.Join(folder, "performance.md")
	if err := os.WriteFile(page, append(before, "The end, by hand.\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	runs := func(seconds ...float64) (all []*used.Used) {
		for _, s := range seconds {
			all = append(all, &used.Used{Seconds: s, CPU: s / 2, MiB: 50})
		}
		return all
	}
	b := &Book{}
	for _, size := range []string{"10000", "50000"} {
		b.Put(&Result{Work: "run-" + size, Who: Ours, Runs: runs(1, 9, 2)})
		b.Put(&Result{Work: "run-" + size, Who: Upstream, Runs: runs(5), Unreleased: 3,
			Requests: map[string]int{"DELETE x": 500, "LIST x": 2, "LIST pods": 1}})
		b.Put(&Result{Work: "check-" + size, Who: Ours, Runs: runs(1.2)})
		b.Put(&Result{Work: "check-" + size, Who: Lists, Runs: runs(1.1)})
		b.Put(&Result{Work: "check-" + size, Who: PlainLists, Runs: runs(1)})
	}
	killed := &used.Used{Code: -1, MiB: 50}
	b.Put(&Result{Work: "drop-in-2000", Who: DropIn, Runs: runs(1.5)})
	b.Put(&Result{Work: "drop-in-2000", Who: Upstream, Runs: []*used.Used{killed}, Unreleased: 200})
	for range 2 { // a report over a report
		if err := Report(b, folder, page); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Performance\n", "The end, by hand.\n", "How it is measured:",
		"| 500 of 10,500 (2 pools) | 2.0 s (3 runs) | 5.0 s; **3 not released** | 2.5× | 98 s, calculated |  | 503 |",
		"| 10,000, 10,500 | 1.2 s | 1.0 s | 1.2× |", "| 2,000 | 1.5 s | 50 MiB | killed; 200 not released | 50 MiB |",
	} {
		if n := strings.Count(string(text), want); n != 1 {
			t.Errorf("it has %q %d times:\n%s", want, n, text)
		}
	}
	if err := os.WriteFile(page, []byte("# Performance\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Report(b, folder, page); err == nil {
		t.Error("a page without markers is taken")
	}
}
