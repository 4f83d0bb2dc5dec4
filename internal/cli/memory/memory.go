// Package memory keeps a program small: the garbage collector works harder near
// the limit of its container, instead of the kernel ending the process there; pages of
// the program's own file, which are resident once they were touched, are dropped.
package memory

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
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
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit(memlimit.FromCgroup, memlimit.FromSystem, most))
	}
}

// limit is the limit of the heap; math.MaxInt64 where nothing limits it. Whoever gave the container room beyond most
// meant it: a limit below what is in use makes the collector run all the time.
func limit(cgroup, system memlimit.Provider, most int64) int64 {
	if n, err := cgroup(); err == nil {
		return max(int64(n)-ownFile, int64(n)/2)
	}
	if most > 0 {
		return most
	}
	if n, err := system(); err == nil {
		return int64(n) / 4 * 3
	}
	return math.MaxInt64
}
