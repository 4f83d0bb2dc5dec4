package memory

import (
	"math"
	"os"
	"path/filepath"
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
		root := t.TempDir()
		for file, text := range c.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := heapLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
