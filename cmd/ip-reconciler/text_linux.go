package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// sparseText lets the kernel keep only those pages of the program's own file that
// are used: they count against the container's limit too, and what is read around
// each of them by default is more than whereabouts' 50Mi leave beside the heap.
func sparseText() {
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
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_RANDOM)
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
	}
}
