package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keepDroppingFilePages drops the pages of the program's own file now and twice a second: what is read of it to set up
// connections is not what is needed to judge. Those that are needed again are mapped from the page cache, which costs some
// hundred page faults each time. Where memory is limited no page is read because of its neighbors: they count, too.
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

// advise calls madvise(2) for every mapping of the program's own file that is not written.
func advise(advice uintptr) {
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
		_, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &rights)
		if err == nil && strings.HasSuffix(lines.Text(), self) && !strings.Contains(rights, "w") { // such a page is read from the file again
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, advice)
		}
	}
}
