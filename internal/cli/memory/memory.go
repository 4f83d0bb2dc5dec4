// Package memory keeps a program small: the garbage collector works harder near the limit of its container, instead of
// the kernel ending the process there, and pages of the program's own file do not stay in memory.
package memory

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// heapRatio is the part of the container's limit that is for the heap. The rest is for the program's own file.
const heapRatio = 0.6

// KeepSmall runs the garbage collector when the heap has grown by so many per cent, and more often near the limit of the
// cgroup. GOGC and GOMEMLIMIT overrule it. Neither ends a heap that grows: whatever reads the input of others bounds that.
func KeepSmall(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	_, _ = memlimit.Set(memlimit.WithRatio(heapRatio)) // the error is for a limit that cannot be read
	_, err := memlimit.FromCgroup()
	keepDroppingFilePages(err == nil)
}
