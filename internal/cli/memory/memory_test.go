package memory

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestBound_LimitOfTheHeap(t *testing.T) {
	none := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	machine := memlimit.Limit(8 << 30)
	for _, c := range []struct {
		name           string
		cgroup, system memlimit.Provider
		most, want     int64
	}{
		{"the cgroup leaves room for the program's file", memlimit.Limit(80 << 20), machine, 0, 60 << 20},
		{"the cgroup has next to no room", memlimit.Limit(20 << 20), machine, 0, 10 << 20},
		{"the cgroup has more room than the program asks for", memlimit.Limit(512 << 20), machine, 48 << 20, 492 << 20},
		{"the cgroup has less room than the program asks for", memlimit.Limit(40 << 20), machine, 48 << 20, 20 << 20},
		{"no cgroup", none, machine, 48 << 20, 48 << 20},
		{"no cgroup, and the program asks for nothing", none, machine, 0, 6 << 30},
		{"nothing is known", none, none, 0, math.MaxInt64},
	} {
		if got := limit(c.cgroup, c.system, c.most); got != c.want {
			t.Errorf("%s: %d MiB, want %d", c.name, got>>20, c.want>>20)
		}
	}
}

// A container's limit counts from the start, in each of the programs in the image.
func TestBound_EveryProgramBeginsWithIt(t *testing.T) {
	programs, err := filepath.Glob("../../../cmd/ip-*/main.go")
	if err != nil || len(programs) != 3 {
		t.Fatal(programs, err)
	}
	for _, file := range programs {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "func main() {")
		body, _, _ = strings.Cut(body, "\n}\n")
		if !strings.Contains(body, "memory.Bound(") {
			t.Errorf("%s does not begin with memory.Bound", file)
		}
	}
}
