// Package memory keeps a program small: the garbage collector works harder near
// the limit of its container, instead of the kernel ending the process there; pages of
// the program's own file, which are resident once they were touched, are dropped.
package memory

import (
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// ownFile is what of the program's own file must stay in memory while it works:
// it counts against the container's limit, too, and where it has no room the
// process does little but read it again and again.
const ownFile = 20 << 20

// Bound makes the garbage collector run when the heap has grown by so many per
// cent, and more often where it comes near the limit of the cgroup or, without one,
// near most (bytes; 0 for three quarters of the machine's memory). GOGC and GOMEMLIMIT overrule
// it. No such limit ends a heap that grows: whatever reads the input of others bounds that.
func Bound(percent int, most int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(bound("/", most))
}

// bound is the limit of the heap. Whoever gave the container room beyond most meant
// it: a limit below what is in use makes the collector run all the time.
func bound(root string, most int64) int64 {
	limit := heapLimit(root)
	if limit == math.MaxInt64 && most == 0 {
		text, _ := os.ReadFile(filepath.Join(root, "proc/meminfo"))
		_, _ = fmt.Sscanf(string(text), "MemTotal: %d kB", &most) // 0 where it says none
		most = most << 10 / 4 * 3
	}
	if limit == math.MaxInt64 && most > 0 {
		return most
	}
	return limit
}

// heapLimit is what the cgroup of this process leaves for all but ownFile;
// math.MaxInt64 where there is no limit.
func heapLimit(root string) int64 {
	limit := int64(math.MaxInt64)
	for _, file := range limitFiles(root) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// v2 says max for none, v1 about 2^63.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n < 1<<50 {
			limit = min(limit, max(n-ownFile, n/2))
		}
	}
	return limit
}

// limitFiles are where a limit may stand: in the cgroup of this process and in
// those around it. A container sees its own as the root, be it that
// /proc/self/cgroup names the path on the host.
func limitFiles(root string) []string {
	v1, v2 := "/", "/"
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(text)) {
		// <id>:<controllers>:<path>; v2 has no controllers.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[1] == "":
			v2 = path.Join("/", parts[2])
		case strings.Contains(","+parts[1]+",", ",memory,"):
			v1 = path.Join("/", parts[2])
		}
	}
	var files []string
	for _, at := range []struct{ path, mount, file string }{
		{v2, "sys/fs/cgroup", "memory.max"},
		{v1, "sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		for dir := at.path; ; dir = path.Dir(dir) {
			files = append(files, filepath.Join(root, at.mount, dir, at.file))
			if dir == "/" {
				break
			}
		}
	}
	return files
}
