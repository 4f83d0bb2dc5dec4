package memory

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheLimitOfTheCgroupLeavesRoomForTheProgramItself(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no cgroup":               {nil, math.MaxInt64},
		"v2, a container's own":   {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "83886080\n"}, 60 << 20},
		"v2, no limit":            {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, math.MaxInt64},
		"v2, a service":           {map[string]string{"proc/self/cgroup": "0::/system.slice/x.service\n", "sys/fs/cgroup/system.slice/x.service/memory.max": "104857600\n", "sys/fs/cgroup/system.slice/memory.max": "max\n"}, 80 << 20},
		"v2, the one around it":   {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "104857600\n", "sys/fs/cgroup/a/memory.max": "62914560\n"}, 40 << 20},
		"v1, a container's own":   {map[string]string{"proc/self/cgroup": "5:memory:/kubepods/pod1\n4:cpu:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "52428800\n"}, 30 << 20},
		"v1, no limit":            {map[string]string{"proc/self/cgroup": "5:cpu,memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, math.MaxInt64},
		"v1, on the host":         {map[string]string{"proc/self/cgroup": "5:cpu,memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "52428800\n"}, 30 << 20},
		"a limit of next to none": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "20971520\n"}, 10 << 20},
	} {
		if got := heapLimit(disk(t, c.files)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// disk is a folder with files.
func disk(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for file, text := range files {
		file = filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAProgramsOwnBoundCountsWhereTheCgroupHasNone(t *testing.T) {
	machine := map[string]string{"proc/meminfo": "MemTotal:        8388608 kB\nMemFree:          524288 kB\n"}
	none, bare, odd := disk(t, nil), disk(t, machine), disk(t, map[string]string{"proc/meminfo": "MemTotal: ? kB\n"})
	large, small := disk(t, map[string]string{"sys/fs/cgroup/memory.max": "536870912"}), disk(t, map[string]string{"sys/fs/cgroup/memory.max": "41943040"})
	for _, c := range []struct {
		root       string
		most, want int64
	}{{none, 48 << 20, 48 << 20}, {none, 0, math.MaxInt64}, {odd, 0, math.MaxInt64}, {bare, 0, 6 << 30}, {bare, 48 << 20, 48 << 20}, {large, 48 << 20, 492 << 20}, {small, 48 << 20, 20 << 20}, {small, 0, 20 << 20}} {
		if got := bound(c.root, c.most); got != c.want {
			t.Errorf("of %d: %d MiB, want %d", c.most>>20, got>>20, c.want>>20)
		}
	}
}

// A container's limit counts from the start, in each of the programs in the image.
func TestEveryProgramIsBoundByItsCgroupFromTheStart(t *testing.T) {
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
