package memory

import (
	"os"
	"time"

	"github.com/prometheus/procfs"
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

// advise calls madvise(2) for every read-only mapping of the program's own file. After an error memory is only larger.
func advise(advice uintptr) {
	self, err := os.Executable()
	process, errProcess := procfs.Self()
	if err != nil || errProcess != nil {
		return
	}
	maps, _ := process.ProcMaps()
	for _, m := range maps {
		if m.Pathname == self && !m.Perms.Write {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, advice)
		}
	}
}
