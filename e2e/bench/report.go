package bench

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report writes the results into docs/explain/performance.md, each table between its own two markers. The text around
// them is written by hand.
func Report(b *Book, programs, page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("reading the page that the tables go into: %w", err)
	}
	for _, section := range []struct {
		name  string
		table func(*Book, string) string
	}{
		{"machine", machine}, {"release", releases}, {"look", looks}, {"memory", memory}, {"small", small},
		{"adds", addTable}, {"serve", serveTable}, {"traffic", trafficTable},
	} {
		table := section.table(b, programs)
		if strings.HasPrefix(table, "|") && strings.Count(table, "\n") == 2 {
			table = "Not measured on this commit.\n"
		}
		if text, err = between(text, section.name, table); err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
	}
	return os.WriteFile(page, text, 0o644)
}

// between puts a table between the markers of its name.
func between(text []byte, name, table string) ([]byte, error) {
	begin, end := []byte("<!-- bench: "+name+" -->\n"), []byte("<!-- bench: end -->")
	at := bytes.Index(text, begin)
	if at < 0 {
		return nil, fmt.Errorf("no marker %q", begin)
	}
	at += len(begin)
	length := bytes.Index(text[at:], end)
	if length < 0 {
		return nil, fmt.Errorf("no marker %q follows %q", end, begin)
	}
	return slices.Concat(text[:at], []byte(table), text[at+length:]), nil
}

// row is a line of a table.
func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

func head(cells ...string) string {
	return row(cells...) + strings.Repeat("|---", len(cells)) + "|\n"
}

// commit is the revision of the version control that a program was built from.
func commit(program string) string {
	if info, err := buildinfo.ReadFile(program); err == nil {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return "unknown"
}

func machine(b *Book, programs string) string {
	var first, last time.Time
	var low, high float64
	for i, r := range b.Results {
		if i == 0 || r.When.Before(first) {
			first = r.When
		}
		if r.When.After(last) {
			last = r.When
		}
		if i == 0 {
			low = r.Load
		}
		low, high = min(low, r.Load), max(high, r.Load)
	}
	info, _ := os.ReadFile("/proc/cpuinfo")
	model := "an unknown processor"
	if found := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(info); found != nil {
		model = string(found[1])
	}
	var kib float64
	if memory, err := os.ReadFile("/proc/meminfo"); err == nil {
		fmt.Sscanf(string(memory), "MemTotal: %f", &kib)
	}
	return fmt.Sprintf("Commit %s, measured %s to %s UTC by `make bench`, on %d cores of %s with %.0f GiB, %s.\n"+
		"The load average of the machine after a measurement, its own work included, was between %.1f and %.1f.\n",
		commit(filepath.Join(programs, "ip-reconcile")), first.Format("2006-01-02 15:04"), last.Format("2006-01-02 15:04"),
		runtime.NumCPU(), model, kib/1024/1024, runtime.Version(), low, high)
}

// timed is a result's median, with what the runs failed to release and released wrongly.
func timed(r *Result) string {
	if r == nil {
		return ""
	}
	text := short(r.Median(Seconds)) + " s"
	if len(r.Runs) > 1 {
		text += fmt.Sprintf(" (%d runs)", len(r.Runs))
	}
	if r.Unreleased > 0 {
		text += fmt.Sprintf("; **%d not released**", r.Unreleased)
	}
	if r.WronglyReleased > 0 {
		text += fmt.Sprintf("; **%d wrongly released**", r.WronglyReleased)
	}
	return text
}

// failed is the exit code of a release unless it is 0.
func failed(r *Result) string {
	if r == nil {
		return ""
	}
	for _, u := range r.Runs {
		if u.Code != 0 {
			return fmt.Sprintf("; exit %d", u.Code)
		}
	}
	return ""
}

func times(of, than *Result) string {
	if of == nil || than == nil || than.Median(Seconds) == 0 {
		return ""
	}
	return short(of.Median(Seconds)/than.Median(Seconds)) + "×"
}

func total(r *Result) string {
	if r == nil || r.Requests == nil {
		return ""
	}
	return grouped(float64(Counts{Requests: r.Requests}.Total()))
}

// sizes are numbers of pods.
var sizes = []int{10000, 50000, 100_000}

func releases(b *Book, _ string) string {
	s := head("what is released", "ours", "upstream, no limit on requests", "of ours", "upstream as it ships",
		"requests of ours", "of upstream")
	for _, w := range []struct{ name, work string }{
		{"500 of 10,500 (2 pools)", "run-10000"},
		{"the same, beside two busy processes a core", "run-10000-busy"},
		{"5,000 of 15,000 (3 pools)", "run-10000-5000"},
		{"2,500 of 52,500 (12 pools)", "run-50000"},
		{"5,000 of 105,000 (24 pools)", "run-100000"},
	} {
		ours, upstream := b.Get(w.work, Ours), b.Get(w.work, Upstream)
		if ours == nil && upstream == nil {
			continue
		}
		s += row(w.name, timed(ours)+failed(ours), timed(upstream)+failed(upstream), times(upstream, ours),
			shipped(upstream), total(ours), total(upstream))
	}
	return s
}

// shipped is upstream's time with client-go's limits, calculated from its requests. It has one client for pods, with
// one request, and one for the rest: ten at once, and then five a second.
func shipped(r *Result) string {
	if r == nil || r.Requests == nil {
		return ""
	}
	n := Counts{Requests: r.Requests}.Total()
	return fmt.Sprintf("%s s, calculated", short(max(float64(n-1-10)/5, r.Median(Seconds))))
}

func looks(b *Book, _ string) string {
	s := head("pods, entries", "`check`", "bare LISTs", "quotient", "upstream's check", "`check`: CPU", "upstream: CPU")
	for _, n := range sizes {
		work := fmt.Sprint("check-", n)
		ours, bare, upstream := b.Get(work, Ours), quicker(b.Get(work, Lists), b.Get(work, PlainLists)), b.Get(work, Upstream)
		if ours == nil {
			continue
		}
		s += row(fmt.Sprintf("%s, %s", grouped(float64(n)), grouped(float64(n+n/20))), timed(ours), timed(bare),
			times(ours, bare),
			timed(upstream), cpu(ours), cpu(upstream))
	}
	return s
}

// quicker is the smaller result: the LISTs with compressed answers, or without.
func quicker(one, other *Result) *Result {
	if one == nil || other != nil && other.Median(Seconds) < one.Median(Seconds) {
		return other
	}
	return one
}

func cpu(r *Result) string {
	if r == nil {
		return ""
	}
	return short(r.Median(CPU)) + " s"
}

func mib(r *Result) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%.0f MiB", r.Median(MiB))
}

func memory(b *Book, _ string) string {
	s := head("pods", "`check`", "`run`", "`serve` at rest", "`serve` at most", "upstream's check", "upstream's run")
	for _, n := range append([]int{0}, sizes...) {
		look, run, serve := fmt.Sprint("check-", n), fmt.Sprint("run-", n), fmt.Sprint("serve-", n)
		if b.Get(look, Ours) != nil {
			s += row(grouped(float64(n)), mib(b.Get(look, Ours)), mib(b.Get(run, Ours)), mib(b.Get(serve, Ours)),
				peak(b.Get(serve, Ours)), mib(b.Get(look, Upstream)), mib(b.Get(run, Upstream)))
		}
	}
	few, many := b.Get("serve-10000", Ours), b.Get("serve-50000", Ours)
	if few != nil && many != nil {
		s += fmt.Sprintf("\nFrom 10,000 to 50,000 pods `serve` at rest grows by %.1f KiB for each pod, with its allocation "+
			"and its reservation.\n", (many.Median(MiB)-few.Median(MiB))*1024/float64(many.Pods-few.Pods))
	}
	return s
}

func peak(r *Result) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%.0f MiB", r.Runs[0].Peak)
}

// small is the pass of the drop-in with the memory that whereabouts' manifests give it.
func small(b *Book, _ string) string {
	s := head("pods", "drop-in", "its most memory", "upstream", "its most memory")
	for _, n := range smallSizes {
		if ours, upstream := b.Get(smallWork(n), DropIn), b.Get(smallWork(n), Upstream); ours != nil {
			s += row(grouped(float64(n)), survived(ours), mib(ours), survived(upstream), mib(upstream))
		}
	}
	return s
}

// survived is how long a pass took, or that the kernel ended it.
func survived(r *Result) string {
	if r == nil || r.Runs[0].Code >= 0 {
		return timed(r)
	}
	return fmt.Sprintf("killed; %d not released", r.Unreleased)
}

// spread is the count, the median and the 99th percentile of the times.
func spread(r *Result) []string {
	if r == nil {
		return []string{"", "", "", "", ""}
	}
	var all []float64
	failed := 0
	for _, u := range r.Runs {
		all = append(all, u.Seconds)
		if u.Code != 0 {
			failed++
		}
	}
	slices.Sort(all)
	at := func(of float64) string { return short(all[min(len(all)-1, int(of*float64(len(all))))]) + " s" }
	return []string{fmt.Sprint(len(all)), fmt.Sprint(failed), at(0.5), at(0.99), short(all[len(all)-1]) + " s"}
}

func addTable(b *Book, _ string) string {
	s := head("ADDs", "number", "failed", "p50", "p99", "longest", "not released by all runs")
	for _, w := range []struct{ name, work string }{
		{"alone", AddsAlone}, {"beside `run` releasing 5,000", AddsBesideOurs}, {"beside upstream's run releasing 5,000",
			AddsBesideUpstream},
	} {
		if r := b.Get(w.work, "whereabouts"); r != nil {
			left := ""
			if w.work != AddsAlone {
				left = fmt.Sprintf("%s of %s", grouped(float64(r.Unreleased)), grouped(float64(r.Stale)))
			}
			s += row(append(append([]string{w.name}, spread(r)...), left)...)
		}
	}
	return s
}

func serveTable(b *Book, _ string) string {
	s := head("from … to the release", "number", "not within a minute", "p50", "p99", "longest")
	for _, w := range []struct{ name, work string }{
		{"a pod's deletion, idle", "serve-pod-deleted-idle"},
		{"a pod's deletion, busy", "serve-pod-deleted-busy"},
		{"a report, idle", "serve-reported-gone-idle"},
		{"a report, busy", "serve-reported-gone-busy"},
	} {
		if r := b.Get(w.work, Ours); r != nil {
			s += row(append([]string{w.name}, spread(r)...)...)
		}
	}
	return s
}

// grouped writes 50000 as 50,000.
func grouped(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%g", math.Round(v*1000)/1000)
	}
	text := fmt.Sprintf("%.0f", v)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// short writes a number with two digits, or as many as it has before the point.
func short(v float64) string {
	switch {
	case v >= 10:
		return grouped(math.Round(v))
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
