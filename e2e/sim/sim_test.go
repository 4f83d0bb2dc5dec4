//go:build !slow && !cluster

package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

var (
	histories = flag.Uint64("histories", 300, "how many histories are played")
	seed      = flag.Uint64("seed", 1, "the first history's")
	workers   = flag.Int("workers", 2, "processes that play them")
	upstream  = flag.Bool("upstream", false, "whereabouts' own reconciler releases in place of the product")
	first     = flag.Bool("first", false, "stop at the first history that breaks an invariant, and do not shrink it")
	digests   = flag.String("digests", "", "a file that gets the digest of every history")
	restores  = flag.Bool("restores", false, "restore-heavy histories are played")
	edits     = flag.Bool("edits", false, "definitions are edited in every history")
)

// workerEnv makes this program a worker that plays some of the histories with one goroutine at a time, so that a seed
// gives the same history again.
const workerEnv = "IP_RECONCILE_SIMULATE"

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // one sleeps by the time of the last error, which another history had
	logging.SetLogStderr(false)
	logging.SetLogLevel("panic")
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(512 << 20) // a history leaves nothing behind, and frequent collections cost a tenth
	os.Exit(m.Run())
}

// share is what a worker played.
type share struct {
	Histories  int
	Counts     map[string]int
	Violations []string          // with their traces
	Digests    map[uint64]uint32 // by seed
}

// What a worker does beside playing.
const (
	shrinking = "shrinking"
	untilOne  = "until-one" // it stops at the first history that breaks an invariant
)

// maxViolations is how many a worker shrinks before it gives up.
const maxViolations = 3

func TestNoHistoryBreaksAnInvariant(t *testing.T) {
	total, mode := share{Counts: map[string]int{}, Digests: map[uint64]uint32{}}, shrinking
	if *first {
		mode = untilOne
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range *workers {
		wg.Go(func() {
			from, to := *histories*uint64(i)/uint64(*workers), *histories*uint64(i+1)/uint64(*workers)
			s, err := runWorker(t, *seed+from, to-from, mode)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
			total.add(s)
		})
	}
	wg.Wait()
	for _, v := range total.Violations {
		t.Error(v)
	}
	report(t, &total)
	if *digests != "" {
		if err := total.writeDigests(*digests); err != nil {
			t.Error(err)
		}
	}
	if *histories >= enoughForAll && !*restores && !*edits {
		for _, what := range expected() {
			if total.Counts[what] == 0 {
				t.Errorf("%q never happened", what)
			}
		}
	}
}

func (s *share) add(other *share) {
	if other == nil {
		return
	}
	s.Histories += other.Histories
	for k, n := range other.Counts {
		s.Counts[k] += n
	}
	s.Violations = append(s.Violations, other.Violations...)
	maps.Copy(s.Digests, other.Digests)
}

// writeDigests writes a line for each history: its seed, and the digest of all its requests and answers.
func (s *share) writeDigests(path string) error {
	var text strings.Builder
	for _, n := range slices.Sorted(maps.Keys(s.Digests)) {
		fmt.Fprintf(&text, "%d %08x\n", n, s.Digests[n])
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

func report(t *testing.T, s *share) {
	t.Logf("%d histories, %d invariants broken", s.Histories, len(s.Violations))
	group, line := "", ""
	for _, k := range slices.Sorted(maps.Keys(s.Counts)) {
		first, rest, grouped := strings.Cut(k, " ")
		if !grouped || !slices.Contains([]string{"row", "refusal", "fault", "step", "finding", "excused"}, first) {
			first, rest = "", k
		}
		if first != group && line != "" {
			t.Log(line)
			line = ""
		}
		if group = first; line == "" {
			line = strings.TrimSpace(first + ":")
		}
		line += fmt.Sprintf(" %s %d;", rest, s.Counts[k])
	}
	t.Log(line)
}

// runWorker plays histories in a process of its own.
func runWorker(t *testing.T, from, count uint64, mode string) (*share, error) {
	out, err := os.CreateTemp(t.TempDir(), "share")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorker$", "-test.timeout=0",
		fmt.Sprint("-upstream=", *upstream), fmt.Sprint("-restores=", *restores), fmt.Sprint("-edits=", *edits))
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d,%d,%s,%s", workerEnv, from, count, out.Name(), mode), "GOMAXPROCS=1")
	text, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(string(text)))
	}
	s := &share{}
	return s, json.NewDecoder(out).Decode(s)
}

// planOf draws the plan of a seed, of the kind that the flags ask for.
func planOf(seed uint64) *Plan {
	switch {
	case *restores:
		return NewRestorePlan(seed)
	case *edits:
		return NewEditPlan(seed)
	}
	return NewPlan(seed)
}

func tail(text string) string { return text[max(0, len(text)-20_000):] }

// TestWorker plays a worker's histories.
func TestWorker(t *testing.T) {
	text := os.Getenv(workerEnv)
	if text == "" {
		t.Skip("runs in a process of its own, which TestNoHistoryBreaksAnInvariant starts")
	}
	var from, count uint64
	var path, mode string
	if _, err := fmt.Sscanf(strings.ReplaceAll(text, ",", " "), "%d %d %s %s", &from, &count, &path, &mode); err != nil {
		t.Fatal(err)
	}
	s := share{Counts: map[string]int{}, Digests: map[uint64]uint32{}}
	var p Player
	for n := from; n < from+count && len(s.Violations) < maxViolations; n++ {
		plan := planOf(n)
		plan.Quiet, plan.Upstream = true, *upstream
		out := p.Play(t, plan)
		s.Histories++
		s.Digests[n] = out.Digest
		for k, v := range out.Counts {
			s.Counts[k] += v
		}
		if out.Violation == "" {
			continue
		}
		if mode == untilOne {
			s.Violations = []string{fmt.Sprintf("history %d: %s", n, out.Violation)}
			break
		}
		s.Violations = append(s.Violations, p.Shrink(t, plan, out.Violation))
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := json.NewEncoder(file).Encode(&s); err != nil {
		t.Fatal(err)
	}
}
