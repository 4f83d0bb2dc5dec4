package agentcmd

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// small keeps the agent's memory small, since there is one on every node: the
// heap is collected early, and the pages of the program's own file that its start
// touched are given back to the page cache, from where those that are needed come
// again. Most of the program is for the other commands.
func small() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(80)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(48 << 20) // pods with huge annotations make huge answers
	}
	self, err := os.Executable()
	if err != nil {
		return // it is only larger then
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		var rights string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasSuffix(lines.Text(), self) || strings.Contains(rights, "w") {
			continue
		}
		// A page that cannot be written is the file's, and is read from it again.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
	}
}
