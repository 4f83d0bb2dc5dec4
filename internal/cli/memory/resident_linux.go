package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keepDroppingFilePages drops the pages of the program's own file now and twice a second. Setting up connections needs
// other pages than judging. Reading a dropped page again costs a page fault, some hundred each time. In a container
// with a memory limit the kernel does not read ahead, since those pages count, too.
func keepDroppingFilePages(isLimited bool) {
	if isLimited {
		advise(unix.MADV_RANDOM)
	}
	advise(unix.MADV_DONTNEED)
	go func() {
		for range time.Tick(time.Second / 2) {
			advise(unix.MADV_DONTNEED)
		}
	}()
}

// advise calls madvise(2) for every read-only mapping of the program's own file.
func advise(advice uintptr) {
	self, err := os.Executable()
	if err != nil {
		return // memory is only larger then
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		var rights string
		_, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &rights)
		if err == nil && strings.HasSuffix(lines.Text(), self) && !strings.Contains(rights, "w") {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, advice)
		}
	}
}
