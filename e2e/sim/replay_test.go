//go:build !slow && !cluster

package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var twice = flag.Uint64("twice", 40, "how many histories are played a second time, by other workers")

// A history is a function of its seed: after other histories, beside them, and in another process. Each request and
// each answer is the same, byte for byte, at the same time.
func TestSim_SameSeedSameHistory(t *testing.T) {
	defer func(asked bool) { *restores = asked }(*restores)
	for _, *restores = range []bool{false, true} {
		t.Run(fmt.Sprintf("restores=%t", *restores), playsTwice)
	}
}

func playsTwice(t *testing.T) {
	one, err := runWorker(t, *seed, *twice, shrinking)
	if err != nil {
		t.Fatal(err)
	}
	parts := make([]*share, max(2, *workers))
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() {
			from, to := *twice*uint64(i)/uint64(len(parts)), *twice*uint64(i+1)/uint64(len(parts))
			s, err := runWorker(t, *seed+from, to-from, shrinking)
			if err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
			parts[i] = s
		})
	}
	wg.Wait()
	again := map[uint64]uint32{}
	for _, s := range parts {
		if s != nil {
			maps.Copy(again, s.Digests)
		}
	}
	for n, digest := range one.Digests {
		if again[n] != digest {
			t.Errorf("history %d went another way when it was played again (TestPlan with -requests shows it)", n)
		}
	}
	for _, v := range one.Violations {
		t.Error(v)
	}
	if len(one.Digests) != int(*twice) {
		t.Errorf("%d of %d histories were played", len(one.Digests), *twice)
	}
}

// Each file in testdata is a history that once ended wrongly, or that was taken for wrong: what happened, in comments,
// the cluster, the steps as a failure prints them, and lines that the trace must have.
func TestSim_Stories(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			plan, expected := readStory(t, file)
			out := (&Player{}).Play(t, plan)
			if out.Violation != "" {
				t.Error(out.Violation)
			}
			rest := out.Trace
			for _, text := range expected {
				i := slices.IndexFunc(rest, func(line string) bool { return strings.Contains(line, text) })
				if i < 0 {
					t.Fatalf("the history no longer has %q:\n%s", text, strings.Join(out.Trace, "\n"))
				}
				rest = rest[i+1:]
			}
		})
	}
}

var stepLine = regexp.MustCompile(`^(\S+) later(?:, ([^:]*))?: (.*) \((\d+), (\d+)\)$`)

// readStory reads a plan and what its trace must have, in that order.
func readStory(t *testing.T, file string) (plan *Plan, expected []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plan = &Plan{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		found, isExpected := strings.CutPrefix(line, "expect: ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "{"):
			if err := json.Unmarshal([]byte(line), plan); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		case isExpected:
			expected = append(expected, found)
		default:
			plan.Steps = append(plan.Steps, readStep(t, line))
		}
	}
	return plan, expected
}

// readStep is the reverse of Step.String.
func readStep(t *testing.T, line string) (x Step) {
	words := stepLine.FindStringSubmatch(line)
	if words == nil {
		t.Fatalf("%q is no step", line)
	}
	x.Gap, _ = time.ParseDuration(words[1])
	x.Kind = slices.IndexFunc(kinds(), func(k stepKind) bool { return k.name == words[3] })
	x.A, _ = strconv.Atoi(words[4])
	x.B, _ = strconv.Atoi(words[5])
	for x.OnWrite = 0; x.Kind >= 0 && x.OnWrite < 4; x.OnWrite++ {
		if x.String() == line {
			return x
		}
	}
	t.Fatalf("%q is no step", line)
	return x
}
