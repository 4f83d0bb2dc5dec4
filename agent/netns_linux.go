package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// File systems of which a network namespace is a file (linux, include/uapi/linux/magic.h). Before 3.19 it was proc's.
const (
	nsfsMagic = 0x6e736673
	procMagic = 0x9fa0
)

// isNamespace reports whether a file is a namespace, and not the plain file on which one was mounted. It is
// taken for one where that cannot be found out.
func isNamespace(path string) bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return true
	}
	return int64(fs.Type) == nsfsMagic || int64(fs.Type) == procMagic
}

// seesMounts reports whether what is mounted in a folder of the node from now on is mounted for this process,
// too: the mount that has the folder is shared or a slave (proc_pid_mountinfo(5), optional fields).
func seesMounts(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	longest, sees := -1, false
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		if at := f[4]; len(at) >= longest && (at == "/" || dir == at || strings.HasPrefix(dir, at+"/")) {
			longest, sees = len(at), strings.HasPrefix(f[6], "shared:") || strings.HasPrefix(f[6], "master:")
		}
	}
	return sees
}
