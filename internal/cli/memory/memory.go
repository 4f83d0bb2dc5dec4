// Package memory keeps a program's memory small. Near the limit of its container the garbage collector works harder, so
// that the kernel does not end the process. Pages of the program's own file do not stay in memory.
package memory

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// KeepSmall runs the garbage collector when the heap has grown by so many per cent, and more often near the limit of
// the cgroup. GOGC and GOMEMLIMIT override it.
func KeepSmall(percent int) {
	collectAt(percent)
	_, _ = memlimit.Set(memlimit.WithRatio(0.6)) // the error is for a limit that cannot be read
	_, err := memlimit.FromCgroup()
	keepDroppingFilePages(err == nil)
}

// Spend runs the garbage collector more rarely, after KeepSmall: a command that ends soon rather saves time, as long as
// it stays below 100 MiB with 10,000 pods.
func Spend() { collectAt(70) }

func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
