package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DropFilePages drops the pages of the program's own file that were touched so far. Those
// that are needed again are mapped from the page cache.
func DropFilePages() { advise(unix.MADV_DONTNEED) }

// KeepDroppingFilePages is DropFilePages now and twice a second from then on: what is read of
// a file to set up connections is not what is needed to judge. It costs some
// hundred page faults each time.
func KeepDroppingFilePages() {
	DropFilePages()
	go func() {
		for range time.Tick(time.Second / 2) {
			DropFilePages()
		}
	}()
}

// ReadFileSparsely is DropFilePages, and has each page that is needed from then on read
// without those around it.
func ReadFileSparsely() { advise(unix.MADV_RANDOM, unix.MADV_DONTNEED) }

// advise calls madvise(2) for every mapping of the program's own file that is not written.
func advise(advice ...uintptr) {
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
		for _, a := range advice {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, a)
		}
	}
}
