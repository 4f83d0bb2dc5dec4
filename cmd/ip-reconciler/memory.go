package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory makes the garbage collector work harder near the container's limit
// (50Mi in whereabouts v0.9.4, doc/crds/reconciler-deployment.yaml), instead of
// the kernel ending the process there.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	// The files of cgroup v2 and v1 as a container sees its own.
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if limit := memoryLimit(file); limit > 0 {
			debug.SetMemoryLimit(limit)
			return
		}
	}
}

// ownFile is what of the program's own file must stay in memory while it works:
// it counts against the container's limit, too, and where it has no room the
// process does little but read it again and again.
const ownFile = 20 << 20

// memoryLimit is what the file says without ownFile, 0 where there is no limit.
func memoryLimit(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // v2 says max for none, v1 about 2^63
	if err != nil || limit > 1<<40 {
		return 0
	}
	return max(limit-ownFile, limit/2)
}
